package apikey

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the most code points a merchant's name may have.
const MaxName = 100

// The errors of CheckName.
var (
	ErrNameEncoding = errors.New("the name is not valid UTF-8")
	ErrNameControl  = errors.New("the name contains a control character, or one that is not drawn")
	ErrNameBlank    = errors.New("the name is blank")
	ErrNameTooLong  = errors.New("the name is longer than 100 characters")
)

// CheckName returns nil for a name a merchant may have: 1 to MaxName code points of valid UTF-8, at least one of them
// visible and none a control character (C0, DEL, C1) or a format character (Cf), which would let a name pass for
// another one in a list. A joiner may not stand behind Latin. The name is never trimmed or repaired.
func CheckName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return ErrNameEncoding
	case strings.ContainsFunc(name, unicode.IsControl):
		return ErrNameControl
	case !strings.ContainsFunc(name, visible):
		return ErrNameBlank
	case hides(name):
		return ErrNameControl
	case utf8.RuneCountInString(name) > MaxName:
		return ErrNameTooLong
	}
	return nil
}

func hides(name string) bool {
	var before rune
	for _, r := range name {
		joins := r >= '\u200c' && r <= '\u200f' // joiners, and marks of direction in Hebrew and Arabic
		if unicode.Is(unicode.Cf, r) && (!joins || before <= unicode.MaxLatin1) {
			return true
		}
		before = r
	}
	return false
}

// fillers are letters and symbols that are drawn as nothing.
const fillers = "\u115f\u1160\u2800\u3164\uffa0"

// visible is false for white space, format characters such as the zero-width ones, fillers, and marks, which are only
// drawn on another character. A code point that Unicode has not assigned yet is visible: it may be a new emoji.
func visible(r rune) bool {
	return !unicode.IsSpace(r) && !unicode.In(r, unicode.Z, unicode.Cf, unicode.M) && !strings.ContainsRune(fillers, r)
}
