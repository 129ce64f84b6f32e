package httpapi

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/api/strictjson"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A form is the body of a request, or its query. Its methods read one field each and note its faults, so that a caller
// gets all faults at once. The values they return are valid only if err is nil after the last of them. An optional
// field that is null counts as absent.
type form struct {
	object strictjson.Value
	bad    invalids
	at     []any              // where the object is
	spoilt map[string]invalid // faults of a query's parameters, which are noted when these are read
}

func (f *form) err() error { return f.bad.orNil() }

func (f *form) refuse(field, kind, msg string) {
	f.bad.add(kind, msg, append(slices.Clip(f.at), field)...)
}

func (f *form) missing(field string) { f.refuse(field, "missing", "Field required") }

func (f *form) given(field string) (strictjson.Value, bool) {
	if fault, found := f.spoilt[field]; found {
		f.refuse(field, fault.Type, fault.Msg)
		return strictjson.Value{}, false
	}
	v, ok := f.object.Member(field)
	return v, ok && v.Kind != strictjson.Null
}

// required notes a string that is missing or null.
func (f *form) required(field string) {
	if v, ok := f.object.Member(field); !ok {
		f.missing(field)
	} else if v.Kind == strictjson.Null {
		f.refuse(field, "string_type", "Must be a string")
	}
}

// text reads an optional string of least (0 or 1) to most code points.
func (f *form) text(field string, least, most int) (s string, ok bool) {
	v, ok := f.given(field)
	n := utf8.RuneCountInString(v.Text)
	switch {
	case !ok:
	case v.Kind != strictjson.String:
		f.refuse(field, "string_type", "Must be a string")
	case n < least:
		f.refuse(field, "string_too_short", "Must not be empty")
	case n > most:
		f.refuse(field, "string_too_long", fmt.Sprintf("Must have at most %d characters", most))
	default:
		return v.Text, true
	}
	return v.Text, false
}

// word reads an optional string, one of several words.
func (f *form) word(field string, words ...string) string {
	v, ok := f.given(field)
	if ok && (v.Kind != strictjson.String || !slices.Contains(words, v.Text)) {
		f.refuse(field, "enum", "Must be one of "+strings.Join(words, ", "))
	}
	return v.Text
}

func (f *form) amount(field string) token.Amount {
	v, ok := f.object.Member(field)
	if !ok {
		f.missing(field)
		return token.Amount{}
	}
	return f.positive(field, v)
}

// positive reads an amount above zero: a number, or a string of digits, for clients whose numbers are not exact.
func (f *form) positive(field string, v strictjson.Value) token.Amount {
	if v.Kind == strictjson.String && digits.MatchString(v.Text) {
		v.Kind = strictjson.Number
	}
	n, ok := f.whole(field, v)
	if ok && n.IsZero() {
		f.refuse(field, "not_positive", "Must be greater than 0")
	}
	return n
}

// digits is the form of a whole number above zero as a string; 2^256-1 has 78 digits.
var digits = regexp.MustCompile(`^[1-9][0-9]{0,77}$`)

// seconds reads an optional whole number of seconds from least to most.
func (f *form) seconds(field string, otherwise, least, most time.Duration) time.Duration {
	v, ok := f.given(field)
	if !ok {
		return otherwise
	}
	whole, ok := f.whole(field, v)
	n, fits := whole.Uint64()
	from, to := uint64(least/time.Second), uint64(most/time.Second)
	switch {
	case !ok:
	case !fits || n > to:
		f.refuse(field, "too_large", fmt.Sprintf("Must be at most %d", to))
	case n == 0 && from > 0:
		f.refuse(field, "not_positive", "Must be greater than 0")
	case n < from:
		f.refuse(field, "integer_range", fmt.Sprintf("Must be a whole number from %d to %d", from, to))
	}
	return time.Duration(min(n, to)) * time.Second
}

// instant reads an optional RFC 3339 time of any offset, in the years 1970 to 9999 of UTC.
func (f *form) instant(field string) time.Time {
	s, ok := f.text(field, 0, math.MaxInt)
	if !ok {
		return time.Time{}
	}
	s = strings.ToUpper(s)
	t, err := time.Parse(time.RFC3339, s)
	// time.Parse also takes a comma before the fraction, hours of one digit, and zones of 24 hours or 60 minutes.
	if err != nil || s[len("2006-01-02T15")] != ':' || strings.Contains(s, ",") || t.Unix() < 0 || t.UTC().Year() > 9999 ||
		!strings.HasSuffix(s, "Z") && (s[len(s)-len("24:00"):] >= "24:00" || s[len(s)-len("60"):] >= "60") {
		f.refuse(field, "datetime_invalid", "Must be an RFC 3339 time such as 2026-01-02T15:04:05Z")
		return time.Time{}
	}
	return t.UTC()
}

// whole reads v as a whole number, and reports whether it is one.
func (f *form) whole(field string, v strictjson.Value) (n token.Amount, ok bool) {
	if v.Kind != strictjson.Number {
		f.refuse(field, "number_type", "Must be a whole number; an amount may also be a string of 1 to 78 digits")
		return n, false
	}
	n, fault := wholeNumber(v.Text)
	if fault.Type != "" {
		f.refuse(field, fault.Type, fault.Msg)
	}
	return n, fault.Type == ""
}
