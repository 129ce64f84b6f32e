package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"testing"
	"unicode/utf8"

	"remit/internal/strictjson"
)

// FuzzParse compares the inputs that Parse accepts with those of a naive oracle,
// and the values with those that encoding/json reads.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{"amount":1e6,"to":"0x00"}`, `{"a":1,"\u0061":2}`, `"\ud83d\ude00"`, `"\ud83d"`, `"\\ud83d"`, `"\\\ud83d"`, `"\ud83dx\n"`, `1e999`,
		`[[[[[[[[1]]]]]]]]`, `[[[[[[[[[1]]]]]]]]]`, `{"a":{"a":[{}]}}`, ` [1, -0.5e+7 ,"x"] `, "\ufeff1", "\"\xff\"", `[1]]`, `{}{}`,
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

// acceptable is the oracle: slow, and built on encoding/json.
func acceptable(data []byte) bool {
	return utf8.Valid(data) && json.Valid(data) && !halfPair(data) && wellNested(data)
}

var escapes = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

// halfPair reports whether valid JSON has an escaped surrogate without its other half.
func halfPair(data []byte) bool {
	high := -1 // where a first half ended
	for _, at := range escapes.FindAllIndex(data, -1) {
		unit, kind := uint64(0), data[at[0]+1]
		if kind == 'u' {
			unit, _ = strconv.ParseUint(string(data[at[0]+2:at[1]]), 16, 32)
		}
		isHigh, isLow := unit>>10 == 0xd800>>10, unit>>10 == 0xdc00>>10
		paired := isLow && high == at[0]
		if (isLow || high >= 0) && !paired {
			return true
		}
		high = -1
		if isHigh {
			high = at[1]
		}
	}
	return high >= 0
}

// wellNested walks the tokens of valid JSON for depth and for names given twice.
func wellNested(data []byte) bool {
	type level struct {
		names map[string]bool // nil in an array
		value bool            // the next token of an object is a value
	}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err == io.EOF {
			return true
		}
		if err != nil {
			return false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if n := len(levels); n > 0 && levels[n-1].names != nil {
			top := &levels[n-1]
			if !top.value {
				name := token.(string)
				if top.names[name] {
					return false
				}
				top.names[name], top.value = true, true
				continue
			}
			top.value = false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
		if len(levels) > strictjson.MaxDepth {
			return false
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
