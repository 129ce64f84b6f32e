package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/api/strictjson"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// FuzzParse compares the inputs that Parse accepts with an oracle's, and the values with
// encoding/json's. Its seeds are the shapes that matter: every test run checks them.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{"amount":1e6,"to":"0x00"}`, `{"a":1,"\u0061":2}`, `"\ud83d\ude00"`, `"\ud83d"`, `"\\ud83d"`, `"\\\ud83d"`, `"\ud83dx\n"`,
		`1e999`,
		`[[[[[[[[1]]]]]]]]`, `[[[[[[[[[1]]]]]]]]]`, `{"a":{"a":[{}]}}`, ` [1, -0.5e+7 ,"x"] `, "\ufeff1", "\"\xff\"", `[1]]`, `{}{}`,
		" \t\r\n true \n", `false`, `-1.5E+7`, `1e99999999`, `"\"\\\/\b\f\n\r\t\u00e9"`, `"\u0000"`, `"é😀"`, `"\ufffd"`,
		"\"\x7f\u0085\"",                                                 // DEL and C1 need no escape in JSON
		`[ ]`, `{ }`, `[1, "1"]`, `{"b":1,"B":2,"a":3}`, `{"a":{"a":0}}`, // names in other case, or of another object, are other names
		"\"caf\xe9\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\xff\xfe{\x00}\x00",
		"]\xff", // Latin-1, overlong, a surrogate, beyond U+10FFFF, UTF-16, behind text that is no JSON
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
		if bad, ok := errors.AsType[*strictjson.SyntaxError](err); ok && (bad.Offset < 0 || bad.Offset > len(data)) {
			t.Fatalf("Parse(%q): offset %d", data, bad.Offset)
		}
		if err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var want any
		must.OK(t, d.Decode(&want))
		if !same(v, want) {
			t.Fatalf("Parse(%q) = %+v, want %+v", data, v, want)
		}
	})
}

// escape matches an escape of JSON, and replacement is its escape of U+FFFD.
var escape, replacement = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`), regexp.MustCompile(`^\\u[fF]{3}[dD]$`)

// acceptable is the oracle: one value of encoding/json in UTF-8, without a name given twice
// in an object. Half a surrogate pair shows as a U+FFFD that was not there.
func acceptable(data []byte) bool {
	if !utf8.Valid(data) || !json.Valid(data) {
		return false
	}
	data = bytes.ReplaceAll(data, []byte("\ufffd"), []byte("\u00e9"))
	data = escape.ReplaceAllFunc(data, func(e []byte) []byte {
		if replacement.Match(e) {
			return []byte(`\u00e9`)
		}
		return e
	})
	return plain(json.NewDecoder(bytes.NewReader(data)), 0)
}

// plain reads a value, depth deep in others.
func plain(d *json.Decoder, depth int) bool {
	read, _ := d.Token() // the input is valid
	switch read := read.(type) {
	case string:
		return !strings.ContainsRune(read, utf8.RuneError)
	case json.Delim:
		names := map[string]bool{}
		for d.More() {
			if read == '{' {
				name, _ := d.Token()
				text := name.(string)
				if names[text] || strings.ContainsRune(text, utf8.RuneError) {
					return false
				}
				names[text] = true
			}
			if !plain(d, depth+1) {
				return false
			}
		}
		_, _ = d.Token()
		return depth < strictjson.MaxDepth
	}
	return true
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
