package apikey_test

import (
	"errors"
	"strings"
	"testing"

	"remit/internal/apikey"
)

func TestCheckName(t *testing.T) {
	for _, test := range []struct {
		why, name string
		want      error
	}{
		{"a letter is enough", "A", nil},
		{"any script", "Ünïted 株式会社 ООО", nil},
		{"an emoji with joiners", "👩🏽‍🍳", nil},
		{"blanks around are kept", " Shop ", nil},
		{"a combining mark on a letter", "e\u0301", nil},
		{"100 code points of four bytes", strings.Repeat("🧁", 100), nil},
		{"a code point too many", strings.Repeat("a", 101), apikey.ErrNameTooLong},
		{"a code point of four bytes too many", strings.Repeat("🧁", 101), apikey.ErrNameTooLong},
		{"nothing", "", apikey.ErrNameBlank},
		{"a blank", " ", apikey.ErrNameBlank},
		{"no-break space", "\u00a0", apikey.ErrNameBlank},
		{"ideographic space", "\u3000", apikey.ErrNameBlank},
		{"zero-width space", "\u200b", apikey.ErrNameBlank},
		{"byte order mark", "\ufeff", apikey.ErrNameBlank},
		{"line separator", "\u2028", apikey.ErrNameBlank},
		{"right-to-left override", "\u202e", apikey.ErrNameBlank},
		{"Hangul filler", "\u3164", apikey.ErrNameBlank},
		{"blank Braille", "\u2800", apikey.ErrNameBlank},
		{"a mark on nothing", "\u0301", apikey.ErrNameBlank},
		{"a hundred and one blanks", strings.Repeat(" ", 101), apikey.ErrNameBlank},
		{"NUL", "a\x00b", apikey.ErrNameControl},
		{"tab", "a\tb", apikey.ErrNameControl},
		{"line feed", "a\n", apikey.ErrNameControl},
		{"delete", "a\x7f", apikey.ErrNameControl},
		{"next line, of C1", "a\u0085", apikey.ErrNameControl},
		{"the last of C1", "a\u009f", apikey.ErrNameControl},
		{"broken UTF-8", "a\xff", apikey.ErrNameEncoding},
		{"half a surrogate pair", "\xed\xa0\x80", apikey.ErrNameEncoding},
	} {
		if err := apikey.CheckName(test.name); !errors.Is(err, test.want) {
			t.Errorf("%s: CheckName(%q) = %v, want %v", test.why, test.name, err, test.want)
		}
	}
}
