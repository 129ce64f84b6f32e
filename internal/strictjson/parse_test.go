package strictjson_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"remit/internal/strictjson"
	"remit/internal/tabletest"
)

func TestParse(t *testing.T) {
	type object = []strictjson.Member
	text := func(s string) strictjson.Value { return strictjson.Value{Kind: strictjson.String, Text: s} }
	number := func(s string) strictjson.Value { return strictjson.Value{Kind: strictjson.Number, Text: s} }
	for _, test := range []struct {
		name, in string
		want     strictjson.Value
	}{
		{"null", `null`, strictjson.Value{}},
		{"blanks around the value are allowed", " \t\r\n true \n", strictjson.Value{Kind: strictjson.Bool, Bool: true}},
		{"false is not true", `false`, strictjson.Value{Kind: strictjson.Bool}},
		{"a number keeps its literal", `-1.50E+07`, number("-1.50E+07")},
		{"a number beyond any machine type keeps its literal", `1e999999999`, number("1e999999999")},
		{"escapes are decoded", `"\"\\\/\b\f\n\r\t\u00e9"`, text("\"\\/\b\f\n\r\té")},
		{"a surrogate pair is one character", `"\ud83d\ude00"`, text("😀")},
		{"an escaped NUL is a character", `"\u0000"`, text("\x00")},
		{"raw characters above ASCII pass", `"é😀"`, text("é😀")},
		{"U+FFFD itself is an ordinary character", `"\ufffd"`, text("\ufffd")},
		{"DEL and C1 need no escape in JSON", "\"\x7f\u0085\"", text("\x7f\u0085")},
		{"an empty array", `[ ]`, strictjson.Value{Kind: strictjson.Array}},
		{"an empty object", `{ }`, strictjson.Value{Kind: strictjson.Object}},
		{"items keep their order", `[1, "1"]`, strictjson.Value{Kind: strictjson.Array, Items: []strictjson.Value{number("1"), text("1")}}},
		{"names in other case are other names", `{"a":1,"A":2}`,
			strictjson.Value{Kind: strictjson.Object, Members: object{{"a", number("1")}, {"A", number("2")}}}},
		{"the same name in another object is no duplicate", `{"a":{"a":0}}`,
			strictjson.Value{Kind: strictjson.Object, Members: object{
				{"a", strictjson.Value{Kind: strictjson.Object, Members: object{{"a", number("0")}}}}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := strictjson.Parse([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		_, err := strictjson.Parse([]byte(c.In[0]))
		syntax, ok := errors.AsType[*strictjson.SyntaxError](err)
		if !ok {
			t.Fatalf("error = %v, want a SyntaxError", err)
		}
		if fmt.Sprint(syntax.Offset) != c.Want || syntax.Reason == "" {
			t.Errorf("error = %v, want offset %s", err, c.Want)
		}
	})
}

func TestParseDepth(t *testing.T) {
	if _, err := strictjson.Parse([]byte(`[[[[[[[[1]]]]]]]]`)); err != nil {
		t.Errorf("eight levels: %v", err)
	}
}

func TestParseNotUTF8(t *testing.T) {
	for name, in := range map[string]string{
		"a byte that is never UTF-8":             "\"\xff\"",
		"Latin-1":                                "\"caf\xe9\"",
		"an overlong slash":                      "\"\xc0\xaf\"",
		"an encoded surrogate":                   "\"\xed\xa0\x80\"",
		"a character beyond U+10FFFF":            "\"\xf4\x90\x80\x80\"",
		"UTF-16":                                 "\xff\xfe{\x00}\x00",
		"bad text behind what is no JSON anyway": "]\xff",
	} {
		if _, err := strictjson.Parse([]byte(in)); !errors.Is(err, strictjson.ErrNotUTF8) {
			t.Errorf("%s: error = %v, want ErrNotUTF8", name, err)
		}
	}
}

// TestParseMemory holds the promise that a full body of the costliest shape
// takes a bounded multiple of its size.
func TestParseMemory(t *testing.T) {
	body := []byte("[" + strings.Repeat("0,", 32<<10-2) + "0]")
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := strictjson.Parse(body); err != nil {
				b.Fatal(err)
			}
		}
	})
	if perByte := result.AllocedBytesPerOp() / int64(len(body)); perByte > 250 {
		t.Errorf("%d bytes allocated for each byte of the body", perByte)
	}
}

func TestMember(t *testing.T) {
	v, err := strictjson.Parse([]byte(`{"a":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := v.Member("a"); !ok {
		t.Error("a member that is null is there")
	}
	if _, ok := v.Member("A"); ok {
		t.Error("names match exactly")
	}
}
