package strictjson

import (
	"errors"
	"strconv"
	"unicode/utf16"
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

// Parse reads data as exactly one JSON value (RFC 8259) with blanks around it.
// It first checks the encoding, and returns ErrNotUTF8 for bytes that are not
// UTF-8; every other error is a *SyntaxError. Its memory is bounded by a small
// multiple of len(data), its stack by MaxDepth.
func Parse(data []byte) (Value, error) {
	if !utf8.Valid(data) {
		return Value{}, ErrNotUTF8
	}
	p := parser{data: data}
	p.blanks()
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.blanks()
	if p.at < len(p.data) {
		return Value{}, p.fail("Only one JSON value is allowed")
	}
	return v, nil
}

type parser struct {
	data []byte
	at   int
}

func (p *parser) fail(reason string) *SyntaxError {
	if p.at >= len(p.data) {
		return &SyntaxError{len(p.data), "JSON ends too early"}
	}
	return &SyntaxError{p.at, reason}
}

func (p *parser) blanks() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// take consumes c if it is next.
func (p *parser) take(c byte) bool {
	if p.at < len(p.data) && p.data[p.at] == c {
		p.at++
		return true
	}
	return false
}

// value reads one value that lies inside depth arrays and objects.
func (p *parser) value(depth int) (Value, error) {
	if p.at >= len(p.data) {
		return Value{}, p.fail("")
	}
	switch c := p.data[p.at]; {
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return Value{}, p.fail("JSON is nested too deeply")
		}
		p.at++
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case c == '"':
		p.at++
		s, err := p.text()
		return Value{Kind: String, Text: s}, err
	case c == '-' || isDigit(c):
		return p.number()
	case c == 't':
		return Value{Kind: Bool, Bool: true}, p.word("true")
	case c == 'f':
		return Value{Kind: Bool}, p.word("false")
	case c == 'n':
		return Value{}, p.word("null")
	}
	return Value{}, p.fail("JSON value expected")
}

func (p *parser) word(w string) error {
	for i := range len(w) {
		if !p.take(w[i]) {
			return p.fail("JSON value expected")
		}
	}
	return nil
}

func (p *parser) array(depth int) (Value, error) {
	v := Value{Kind: Array}
	for p.blanks(); !p.take(']'); p.blanks() {
		if len(v.Items) > 0 {
			if !p.take(',') {
				return Value{}, p.fail("Comma or closing bracket expected")
			}
			p.blanks()
		}
		item, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		v.Items = append(v.Items, item)
	}
	return v, nil
}

func (p *parser) object(depth int) (Value, error) {
	v := Value{Kind: Object}
	var seen map[string]bool
	for p.blanks(); !p.take('}'); p.blanks() {
		if len(v.Members) > 0 {
			if !p.take(',') {
				return Value{}, p.fail("Comma or closing brace expected")
			}
			p.blanks()
		}
		start := p.at
		if !p.take('"') {
			return Value{}, p.fail("Name in double quotes expected")
		}
		name, err := p.text()
		if err != nil {
			return Value{}, err
		}
		if seen[name] {
			return Value{}, &SyntaxError{start, "Name given twice"}
		}
		if seen == nil {
			seen = make(map[string]bool)
		}
		seen[name] = true
		p.blanks()
		if !p.take(':') {
			return Value{}, p.fail("Colon expected")
		}
		p.blanks()
		member, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		v.Members = append(v.Members, Member{name, member})
	}
	return v, nil
}

func (p *parser) number() (Value, error) {
	start := p.at
	p.take('-')
	if !p.take('0') && !p.digits() {
		return Value{}, p.fail("Digit expected")
	}
	if p.take('.') && !p.digits() {
		return Value{}, p.fail("Digit expected")
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if !p.digits() {
			return Value{}, p.fail("Digit expected")
		}
	}
	return Value{Kind: Number, Text: string(p.data[start:p.at])}, nil
}

// digits consumes digits and reports whether there was one.
func (p *parser) digits() bool {
	start := p.at
	for p.at < len(p.data) && isDigit(p.data[p.at]) {
		p.at++
	}
	return p.at > start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// text reads a string whose opening quote is behind.
func (p *parser) text() (string, error) {
	start := p.at
	for p.at < len(p.data) && p.data[p.at] != '"' && p.data[p.at] != '\\' && p.data[p.at] >= ' ' {
		p.at++
	}
	if p.take('"') {
		return string(p.data[start : p.at-1]), nil
	}
	b := append([]byte(nil), p.data[start:p.at]...)
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			return string(b), nil
		case c == '\\':
			var err error
			if b, err = p.escape(b); err != nil {
				return "", err
			}
		case c < ' ':
			return "", p.fail("Control characters must be escaped")
		default:
			b = append(b, c)
			p.at++
		}
	}
	return "", p.fail("")
}

// escape reads one escape sequence and appends its character.
func (p *parser) escape(b []byte) ([]byte, error) {
	start := p.at
	p.at++
	if p.take('u') {
		return p.unicode(b, start)
	}
	for i, c := range []byte(`"\/bfnrt`) {
		if p.take(c) {
			return append(b, "\"\\/\b\f\n\r\t"[i]), nil
		}
	}
	return nil, p.fail("Unknown escape")
}

// unicode reads the four digits of a \u escape that began at start, and the
// second half of the pair when they are the first half of one.
func (p *parser) unicode(b []byte, start int) ([]byte, error) {
	r, err := p.hex4()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(r) {
		if !p.take('\\') || !p.take('u') {
			return nil, &SyntaxError{start, "Half a surrogate pair"}
		}
		low, err := p.hex4()
		if err != nil {
			return nil, err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return nil, &SyntaxError{start, "Half a surrogate pair"}
		}
	}
	return utf8.AppendRune(b, r), nil
}

func (p *parser) hex4() (rune, error) {
	var r rune
	for range 4 {
		if p.at >= len(p.data) {
			return 0, p.fail("")
		}
		switch c := p.data[p.at]; {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, p.fail("Hexadecimal digit expected")
		}
		p.at++
	}
	return r, nil
}
