package token_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"remit/internal/token"
)

// TestChecksum holds EIP-55's own test cases.
func TestChecksum(t *testing.T) {
	for _, want := range []string{
		"0x52908400098527886E0F7030069857D2E4169EE7",
		"0x8617E340B3D01FA5F11F306F4090FD50E238070D",
		"0xde709f2102306220921060314715629080e2fb77",
		"0x27b1fdb04752bbc536007a920d24acb045561c26",
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
		"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
		"0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
	} {
		for _, form := range []string{want, strings.ToLower(want), "0x" + strings.ToUpper(want[2:])} {
			a, err := token.ParseAddress(form)
			if err != nil || a.String() != want {
				t.Errorf("ParseAddress(%q) = %v, %v; want %s", form, a, err, want)
			}
		}
	}
}

func TestParseAddressRefuses(t *testing.T) {
	const good = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	for _, test := range []struct {
		in, why  string
		checksum bool
	}{
		{"", "nothing", false},
		{good[2:], "no prefix", false},
		{"0X" + good[2:], "upper-case prefix", false},
		{good[:41], "39 digits", false},
		{good + "0", "41 digits", false},
		{good[:41] + "g", "a letter that is no digit", false},
		{" " + good, "a blank before", false},
		{good + " ", "a blank after", false},
		{"vitalik.eth", "a name", false},
		{"0x" + strings.Repeat("é", 20), "40 bytes that are no digits", false},
		{"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "one letter in the wrong case", true},
		{"0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAEd", "one small letter only", true},
	} {
		_, err := token.ParseAddress(test.in)
		if !errors.Is(err, token.ErrAddress) || errors.Is(err, token.ErrChecksum) != test.checksum {
			t.Errorf("ParseAddress(%q) = %v (%s)", test.in, err, test.why)
		}
	}
}

func TestAddressForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a token.Address
		copy(a[:], rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "bytes"))
		text, err := a.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back token.Address
		if err := back.UnmarshalText(text); err != nil || back != a {
			t.Fatalf("UnmarshalText(%s) = %v, %v", text, back, err)
		}
		// Any one letter in the other case is a mistyped address.
		i := rapid.IntRange(2, 41).Draw(t, "at")
		flipped := []byte(text)
		flipped[i] ^= 0x20
		lower, upper := strings.ToLower(string(text[2:])), strings.ToUpper(string(text[2:]))
		if text[i] <= '9' || string(flipped[2:]) == lower || string(flipped[2:]) == upper {
			return
		}
		if _, err := token.ParseAddress(string(flipped)); !errors.Is(err, token.ErrChecksum) {
			t.Fatalf("ParseAddress(%s) = %v, want ErrChecksum", flipped, err)
		}
	})
}

func TestAddressKinds(t *testing.T) {
	last := func(b byte) (a token.Address) { a[19] = b; return a }
	for _, test := range []struct {
		a                token.Address
		zero, precompile bool
	}{
		{token.Address{}, true, false},
		{last(0x01), false, true},
		{last(0xff), false, true},
		{token.Address{18: 1}, false, false}, // 0x0100
		{token.Address{0: 1, 19: 1}, false, false},
	} {
		if test.a.IsZero() != test.zero || test.a.IsPrecompile() != test.precompile {
			t.Errorf("%v: zero %v, precompile %v", test.a, test.a.IsZero(), test.a.IsPrecompile())
		}
	}
}
