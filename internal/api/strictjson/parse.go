package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrNotUTF8 reports bytes that are not UTF-8 text, anywhere in the input.
var ErrNotUTF8 = errors.New("not UTF-8")

// A SyntaxError reports text that is not one JSON value. Reason is one of a fixed
// set of sentences and never quotes the text.
type SyntaxError struct {
	Offset int // of the first byte that no JSON value has there
	Reason string
}

func (e *SyntaxError) Error() string {
	return e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

// Parse reads data as exactly one JSON value (RFC 8259) with blanks around it. It first checks the encoding, and
// returns ErrNotUTF8 for bytes that are not UTF-8; every other error is a *SyntaxError. Its memory is bounded by a
// small multiple of len(data), its stack by MaxDepth.
func Parse(data []byte) (Value, error) {
	if !utf8.Valid(data) {
		return Value{}, ErrNotUTF8
	}
	if !json.Valid(data) {
		return Value{}, wrong(data)
	}
	p := parser{json.NewDecoder(bytes.NewReader(data)), data}
	p.UseNumber()
	return p.value(1)
}

// wrong returns why data is not one JSON value. No value has the NUL that it appends: an
// error before that is of data, one at it is of a value that ends too early.
func wrong(data []byte) error {
	err := json.Unmarshal(append(slices.Clip(data), 0), new(json.RawMessage))
	syntax, _ := errors.AsType[*json.SyntaxError](err)
	text, at := syntax.Error(), int(syntax.Offset)-1
	switch {
	case at == len(data):
		return &SyntaxError{at, "JSON ends too early"}
	case strings.HasSuffix(text, "exceeded max depth"):
		return &SyntaxError{at, tooDeep}
	}
	context := strings.LastIndex(text, "' ") + 1 // behind the character, which is not repeated
	return &SyntaxError{at, "Unexpected character" + text[context:]}
}

const tooDeep = "JSON is nested too deeply"

// A parser reads values out of data, whose syntax is known to be right.
type parser struct {
	*json.Decoder
	data []byte
}

// value reads one value at a level.
func (p parser) value(depth int) (Value, error) {
	start := p.InputOffset()
	token, _ := p.Token()
	switch token := token.(type) {
	case bool:
		return Value{Kind: Bool, Bool: token}, nil
	case json.Number:
		return Value{Kind: Number, Text: token.String()}, nil
	case string:
		return Value{Kind: String, Text: token}, halves(p.data[:p.InputOffset()], int(start))
	case json.Delim:
		if depth > MaxDepth {
			return Value{}, &SyntaxError{int(p.InputOffset()) - 1, tooDeep}
		}
		return p.inside(token == '{', depth)
	}
	return Value{}, nil
}

// inside reads the rest of an object or array.
func (p parser) inside(object bool, depth int) (Value, error) {
	v, names := Value{Kind: Array}, map[string]bool{}
	if object {
		v.Kind = Object
	}
	for p.More() {
		var name Value
		var err error
		if object {
			start := int(p.InputOffset())
			if name, err = p.value(depth); err == nil && names[name.Text] {
				err = &SyntaxError{start + bytes.IndexByte(p.data[start:], '"'), "Name given twice"}
			}
			names[name.Text] = true
		}
		if err != nil {
			return Value{}, err
		}
		item, err := p.value(depth + 1)
		switch {
		case err != nil:
			return Value{}, err
		case object:
			v.Members = append(v.Members, Member{name.Text, item})
		default:
			if len(v.Items) == cap(v.Items) { // append grows long slices by a quarter, which copies more
				v.Items = slices.Grow(v.Items, len(v.Items)+1)
			}
			v.Items = append(v.Items, item)
		}
	}
	_, _ = p.Token() // the closing one
	return v, nil
}

// escapes matches a string's escapes, both halves of a surrogate pair at once.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|.)`)

// halves finds half a surrogate pair in a string that is in text from start on.
func halves(text []byte, start int) error {
	for _, at := range escapes.FindAllIndex(text[start:], -1) {
		escape := strings.ToLower(string(text[start+at[0] : start+at[1]]))
		if len(escape) == len(`\ud800`) && escape >= `\ud800` && escape <= `\udfff` {
			return &SyntaxError{start + at[0], "Half a surrogate pair"}
		}
	}
	return nil
}
