package strictjson_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"remit/internal/strictjson"
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
	for _, test := range []struct {
		name, in string
		offset   int
	}{
		{"nothing", ``, 0},
		{"only blanks", `  `, 2},
		{"a byte order mark", "\ufeff{}", 0},
		{"a blank JSON does not know", "\u00a0{}", 0},
		{"a second value", `{} {}`, 3},
		{"anything after the value", `{}x`, 2},
		{"a comma after the last item", `[1,]`, 3},
		{"a comma after the last member", `{"a":1,}`, 7},
		{"a comma before the first item", `[,1]`, 1},
		{"items without a comma", `[1 2]`, 3},
		{"a name without quotes", `{a:1}`, 1},
		{"a name in single quotes", `{'a':1}`, 1},
		{"a name without a value", `{"a"}`, 4},
		{"a name given twice", `{"a":1,"a":1}`, 7},
		{"a name given twice in different spellings", `{"a":1,"\u0061":1}`, 7},
		{"a name given twice deep inside", `{"x":[{"a":1,"a":2}]}`, 13},
		{"a comment", `{}//`, 2},
		{"NaN", `NaN`, 0},
		{"Infinity", `Infinity`, 0},
		{"a word in another case", `True`, 0},
		{"half a word", `tru`, 3},
		{"a plus sign", `+1`, 0},
		{"a leading zero", `01`, 1},
		{"a lone minus", `-`, 1},
		{"a point without digits after it", `1.`, 2},
		{"a point without digits before it", `.5`, 0},
		{"an exponent without digits", `1e+`, 3},
		{"a hexadecimal number", `0x10`, 1},
		{"digits of another script", `١`, 0},
		{"an unfinished string", `"abc`, 4},
		{"an unfinished escape", `"\`, 2},
		{"an unknown escape", `"\x41"`, 2},
		{"an escape with three digits", `"\u00e"`, 6},
		{"a raw line feed in a string", "\"a\nb\"", 2},
		{"a raw NUL in a string", "\"\x00\"", 1},
		{"the first half of a surrogate pair alone", `"\ud83d"`, 1},
		{"the first half before another character", `"\ud83d\n"`, 1},
		{"the first half twice", `"\ud83d\ud83d"`, 1},
		{"the second half alone", `"\ude00"`, 1},
		{"half a pair in a name", `{"\ud83d":1}`, 2},
		{"nine levels of arrays", `[[[[[[[[[]]]]]]]]]`, 8},
		{"nine levels in turn", `{"a":[{"a":[{"a":[{"a":[{}]}]}]}]}`, 24},
		{"a body of opening brackets", strings.Repeat("[", 64<<10), 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := strictjson.Parse([]byte(test.in))
			syntax, ok := errors.AsType[*strictjson.SyntaxError](err)
			if !ok {
				t.Fatalf("error = %v, want a SyntaxError", err)
			}
			if syntax.Offset != test.offset || syntax.Reason == "" {
				t.Errorf("error = %v, want offset %d", err, test.offset)
			}
		})
	}
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
