package token

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/crypto/keccak"
)

// ErrAddress reports text that is not an address.
var ErrAddress = errors.New("invalid address")

// ErrChecksum is the ErrAddress of 40 hex digits whose mixed case does not follow EIP-55: probably a mistyped one.
var ErrChecksum = fmt.Errorf("%w: it does not match its EIP-55 checksum", ErrAddress)

// An Address is an account or contract of an EVM chain. The zero Address is the burn address and never a recipient.
type Address [20]byte

// ParseAddress reads "0x" and 40 hex digits. All lower and all upper case pass; mixed case must match EIP-55, else
// ErrChecksum. Everything else, "0X" and surrounding blanks included, matches ErrAddress.
func ParseAddress(s string) (Address, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) != 40 {
		return Address{}, ErrAddress
	}
	var a Address
	if _, err := hex.Decode(a[:], []byte(digits)); err != nil {
		return Address{}, ErrAddress
	}
	mixed := strings.ToLower(digits) != digits && strings.ToUpper(digits) != digits
	if mixed && a.String() != s {
		return Address{}, ErrChecksum
	}
	return a, nil
}

// Resembles reports whether b is another address with the same first and last four digits, all that most wallets show.
func (a Address) Resembles(b Address) bool {
	return a != b && [2]byte(a[:]) == [2]byte(b[:]) && [2]byte(a[18:]) == [2]byte(b[18:])
}

// String returns the address with the checksum of EIP-55: a hex letter is in
// upper case when the same digit of keccak256(lower-case hex) is 8 or more.
func (a Address) String() string {
	var text [42]byte
	text[0], text[1] = '0', 'x'
	digits := text[2:]
	hex.Encode(digits, a[:])
	var sum [32]byte
	k := keccak.NewLegacyKeccak256()
	k.Write(digits)
	k.Sum(sum[:0])
	for i, c := range digits {
		nibble := sum[i/2] >> 4
		if i%2 == 1 {
			nibble = sum[i/2] & 0xf
		}
		if c >= 'a' && nibble >= 8 {
			digits[i] = c - ('a' - 'A')
		}
	}
	return string(text[:])
}

// Selector returns the first four bytes of the hash of a method's or an error's signature (ABI specification).
func Selector(signature string) []byte {
	h := keccak.NewLegacyKeccak256()
	h.Write([]byte(signature))
	return h.Sum(nil)[:4]
}

// IsZero reports whether a is the zero address.
func (a Address) IsZero() bool { return a == Address{} }

// IsPrecompile reports whether a is 0x01 to 0xff, where EVM chains keep their precompiled contracts (EIP-1352
// reserves 0xffff; live chains use 0x01–0xff and beyond for predeploys of their own, which are ordinary contracts).
func (a Address) IsPrecompile() bool {
	return [19]byte(a[:19]) == [19]byte{} && a[19] != 0
}

// MarshalText writes the EIP-55 form.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads text as ParseAddress does.
func (a *Address) UnmarshalText(b []byte) error {
	read, err := ParseAddress(string(b))
	if err == nil {
		*a = read
	}
	return err
}
