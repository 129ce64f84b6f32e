package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"remit/internal/strictjson"
)

// FuzzParse compares the inputs that Parse accepts with those of an oracle, and the
// values with those that encoding/json reads. Its seeds are the shapes that matter:
// every test run holds them.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{"amount":1e6,"to":"0x00"}`, `{"a":1,"\u0061":2}`, `"\ud83d\ude00"`, `"\ud83d"`, `"\\ud83d"`, `"\\\ud83d"`, `"\ud83dx\n"`,
		`1e999`,
		`[[[[[[[[1]]]]]]]]`, `[[[[[[[[[1]]]]]]]]]`, `{"a":{"a":[{}]}}`, ` [1, -0.5e+7 ,"x"] `, "\ufeff1", "\"\xff\"", `[1]]`, `{}{}`,
		" \t\r\n true \n", `false`, `-1.50E+07`, `1e999999999`, `"\"\\\/\b\f\n\r\t\u00e9"`, `"\u0000"`, `"é😀"`, `"\ufffd"`,
		"\"\x7f\u0085\"",                                                 // DEL and C1 need no escape in JSON
		`[ ]`, `{ }`, `[1, "1"]`, `{"b":1,"B":2,"a":3}`, `{"a":{"a":0}}`, // names in other case, or of another object, are other names
		"\"caf\xe9\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\xff\xfe{\x00}\x00",
		"]\xff", // Latin-1, overlong, a surrogate, beyond U+10FFFF, UTF-16, behind what is no JSON anyway
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := strictjson.Parse(data)
		if want := acceptable(data); want != (err == nil) {
			t.Fatalf("Parse(%q) = %v, the oracle accepts: %v", data, err, want)
		}
		if errors.Is(err, strictjson.ErrNotUTF8) == utf8.Valid(data) {
			t.Fatalf("Parse(%q) = %v", data, err)
		}
		if syntax, ok := errors.AsType[*strictjson.SyntaxError](err); ok && (syntax.Offset < 0 || syntax.Offset > len(data)) {
			t.Fatalf("Parse(%q): offset %d", data, syntax.Offset)
		}
		if err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if !same(v, want) {
			t.Fatalf("Parse(%q) = %+v, want %+v", data, v, want)
		}
	})
}

// acceptable is the oracle: one value of jsontext, which also refuses bad UTF-8,
// half a surrogate pair and a name given twice.
func acceptable(data []byte) bool {
	values := 0
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		_, err := d.ReadToken()
		if err != nil {
			return err == io.EOF && values == 1
		}
		if d.StackDepth() > strictjson.MaxDepth {
			return false
		}
		if d.StackDepth() == 0 {
			values++
		}
	}
}

func same(v strictjson.Value, want any) bool {
	switch want := want.(type) {
	case nil:
		return v.Kind == strictjson.Null
	case bool:
		return v.Kind == strictjson.Bool && v.Bool == want
	case json.Number:
		return v.Kind == strictjson.Number && v.Text == want.String()
	case string:
		return v.Kind == strictjson.String && v.Text == want
	case []any:
		ok := v.Kind == strictjson.Array && len(v.Items) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = same(v.Items[i], want[i])
		}
		return ok
	case map[string]any:
		ok := v.Kind == strictjson.Object && len(v.Members) == len(want)
		for _, m := range v.Members {
			member, there := want[m.Name]
			ok = ok && there && same(m.Value, member)
		}
		return ok
	}
	return false
}
