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
	p := parser{data: data}
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

// A parser reads values out of data, whose syntax is known to be right: it only looks for where each token ends.
// encoding/json's tokens would allocate six times a value, and take three times as long for 64 KiB of zeros.
type parser struct {
	data []byte
	at   int // the first byte that has not been read
}

func (p *parser) next() byte {
	for bytes.IndexByte([]byte(" \t\r\n,:"), p.data[p.at]) >= 0 {
		p.at++
	}
	return p.data[p.at]
}

func (p *parser) value(depth int) (Value, error) {
	first := p.next()
	start := p.at
	switch first {
	case '"':
		text, err := p.text()
		return Value{Kind: String, Text: text}, err
	case '{', '[':
		if depth > MaxDepth {
			return Value{}, &SyntaxError{p.at, tooDeep}
		}
		return p.inside(first == '{', depth)
	}
	for p.at < len(p.data) && bytes.IndexByte([]byte(" \t\r\n,]}"), p.data[p.at]) < 0 {
		p.at++
	}
	switch first {
	case 'n':
		return Value{}, nil
	case 't', 'f':
		return Value{Kind: Bool, Bool: first == 't'}, nil
	}
	return Value{Kind: Number, Text: string(p.data[start:p.at])}, nil
}

func (p *parser) text() (string, error) {
	start, escaped := p.at, false
	for p.at++; p.data[p.at] != '"'; p.at++ {
		if p.data[p.at] == '\\' {
			escaped = true
			p.at++
		}
	}
	p.at++
	if !escaped {
		return string(p.data[start+1 : p.at-1]), nil
	}
	var s string
	_ = json.Unmarshal(p.data[start:p.at], &s)
	if strings.ContainsRune(s, utf8.RuneError) { // which json makes of a half
		return s, halves(p.data[:p.at], start)
	}
	return s, nil
}

func (p *parser) inside(object bool, depth int) (Value, error) {
	v, names := Value{Kind: Array}, map[string]bool(nil)
	if object {
		v.Kind, names = Object, map[string]bool{}
	}
	for p.at++; p.next() != ']' && p.data[p.at] != '}'; {
		if !object {
			item, err := p.value(depth + 1)
			if err != nil {
				return Value{}, err
			}
			if len(v.Items) == cap(v.Items) { // append grows long slices by a quarter, which copies more
				v.Items = slices.Grow(v.Items, len(v.Items)+1)
			}
			v.Items = append(v.Items, item)
			continue
		}
		start := p.at
		name, err := p.text()
		if err == nil && names[name] {
			err = &SyntaxError{start, "Name given twice"}
		}
		if err != nil {
			return Value{}, err
		}
		names[name] = true
		value, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		v.Members = append(v.Members, Member{name, value})
	}
	p.at++
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
