package apikey

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
	"strings"
)

// form is the shape of a key: scheme, mode, "_", id, "_", random, checksum.
var form = regexp.MustCompile("^(remit_(?:test|live)_[0-9A-Za-z]{12}_[0-9A-Za-z]{43})([0-9A-Za-z]{6})$")

const (
	scheme      = "remit_"
	idLen       = 12 // 71 bits: must differ only from the merchant's other keys
	randomLen   = 43 // 43 · log2(62) = 256 bits, so that a plain hash is enough
	sumLen      = 6  // 62^6 > 2^32
	modeLen     = 4  // of "test" and "live"
	prefixLen   = len(scheme) + modeLen + 1 + idLen
	lastLen     = 4
	alphabet    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	merchantLen = 16 // 95 bits
)

// A Secret is a well-formed key's text. It prints and logs as its prefix; Reveal returns it. The zero Secret is none.
type Secret struct{ text string }

// A Hash is the SHA-256 of a whole key.
type Hash [sha256.Size]byte

// Mint makes a key of a mode from random, which must be cryptographic and never fail: then Mint panics.
func Mint(random io.Reader, mode Mode) Secret {
	text := scheme + string(mode) + "_" + draw(random, idLen) + "_" + draw(random, randomLen)
	return Secret{text + checksum(text)}
}

// Parse reads a presented key. It returns ErrInvalid for text that Mint cannot have made. A single mistyped character
// always fails the checksum, so that a mistyped key costs no read of the store.
func Parse(presented string) (Secret, error) {
	found := form.FindStringSubmatch(presented)
	if found == nil || checksum(found[1]) != found[2] {
		return Secret{}, ErrInvalid
	}
	return Secret{presented}, nil
}

// Mode returns the mode the key was minted for.
func (s Secret) Mode() Mode { return Mode(s.text[len(scheme) : len(scheme)+modeLen]) }

// ID returns the key's id, "key_…".
func (s Secret) ID() string { return "key_" + s.text[prefixLen-idLen:prefixLen] }

// Prefix returns the key's characters through its id, which may be shown.
func (s Secret) Prefix() string { return s.text[:prefixLen] }

// Last4 returns the key's last four characters, which may be shown: they are digits of the checksum.
func (s Secret) Last4() string { return s.text[len(s.text)-lastLen:] }

// Hash returns the hash by which stores find the key.
func (s Secret) Hash() Hash { return sha256.Sum256([]byte(s.text)) }

// Reveal returns the key's text, which its merchant is shown once.
func (s Secret) Reveal() string { return s.text }

// Format implements fmt.Formatter. It prints the prefix for every verb, so that
// no log line, error or %#v of a struct that holds the key can show it.
func (s Secret) Format(f fmt.State, _ rune) {
	if s.text == "" {
		_, _ = io.WriteString(f, "(no key)")
		return
	}
	_, _ = io.WriteString(f, s.Prefix()+"_…")
}

// MarshalText implements encoding.TextMarshaler, as Format does for printing.
func (s Secret) MarshalText() ([]byte, error) { return []byte(fmt.Sprint(s)), nil }

// checksum returns the CRC-32 (IEEE) of text as six digits of base 62.
func checksum(text string) string {
	n := crc32.ChecksumIEEE([]byte(text))
	var digits [sumLen]byte
	for i := range digits {
		digits[sumLen-1-i] = alphabet[n%62]
		n /= 62
	}
	return string(digits[:])
}

// draw returns n characters of the alphabet, each equally likely. It panics if random fails, which crypto/rand.Reader
// never does.
func draw(random io.Reader, n int) string {
	const even = 256 / len(alphabet) * len(alphabet) // bytes from here on would favour the first digits
	var out strings.Builder
	var buf [1]byte
	for out.Len() < n {
		if _, err := io.ReadFull(random, buf[:]); err != nil {
			panic(fmt.Errorf("drawing random bytes: %w", err))
		}
		if int(buf[0]) < even {
			out.WriteByte(alphabet[int(buf[0])%len(alphabet)])
		}
	}
	return out.String()
}
