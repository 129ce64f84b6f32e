// Package token describes stablecoins: exact amounts of them, the addresses that hold them, and the contract they
// live in. It knows nothing of chains, payments or wallets.
package token

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/holiman/uint256"
)

// ErrAmount reports text that is not a whole number from 0 to 2^256-1.
var ErrAmount = errors.New("invalid amount")

// ErrOverflow reports a sum or product that does not fit in 256 bits.
var ErrOverflow = errors.New("an amount or a sum is over 2^256-1; lower it")

// An Amount is a quantity of a token in its smallest unit: for USDC, 1 is 0.000001 USDC; for ether, 1 is one wei.
// Amounts are immutable and comparable with ==; the zero Amount is zero.
type Amount struct{ units uint256.Int }

// Units returns the amount of n smallest units.
func Units(n uint64) Amount {
	var a Amount
	a.units.SetUint64(n)
	return a
}

// MaxAmount returns 2^256-1, the largest amount an ERC-20 contract can hold.
func MaxAmount() Amount {
	var a Amount
	a.units.SetAllOne()
	return a
}

// ParseAmount reads decimal digits. Signs, blanks, points, exponents, leading zeros and over 2^256-1 match ErrAmount.
func ParseAmount(s string) (Amount, error) {
	if s == "" || len(s) > 78 || (s[0] == '0' && s != "0") {
		return Amount{}, fmt.Errorf("%w: use 1 to 78 digits, and no 0 before others", ErrAmount)
	}
	if strings.Trim(s, "0123456789") != "" {
		return Amount{}, fmt.Errorf("%w: use digits only: no sign, blank, letter or currency", ErrAmount)
	}
	var a Amount
	if err := a.units.SetFromDecimal(s); err != nil {
		return Amount{}, fmt.Errorf("%w: use at most 2^256-1", ErrAmount)
	}
	return a, nil
}

// ParseTokens reads whole tokens with at most so many decimals, as people write them: "12.5".
// Signs, blanks, exponents, separators of thousands, a comma for a point, a missing digit on either
// side of the point and texts that ParseAmount refuses match ErrAmount.
func ParseTokens(s string, decimals int) (Amount, error) {
	whole, fraction, pointed := strings.Cut(s, ".")
	switch {
	case strings.Contains(s, ","):
		return Amount{}, fmt.Errorf("%w: has a comma; write it with a point, and no other mark", ErrAmount)
	case pointed && (whole == "" || fraction == ""):
		return Amount{}, fmt.Errorf("%w: write digits on both sides of the point", ErrAmount)
	case len(fraction) > decimals:
		return Amount{}, fmt.Errorf("%w: round it: %s is the smallest unit", ErrAmount, Units(1).Tokens(decimals))
	case len(whole) > 1 && whole[0] == '0':
		return Amount{}, fmt.Errorf("%w: begins with 0; remove that 0", ErrAmount)
	}
	digits := strings.TrimLeft(whole+fraction+strings.Repeat("0", decimals-len(fraction)), "0")
	if s != "" && digits == "" {
		digits = "0"
	}
	return ParseAmount(digits)
}

// Tokens writes the amount in whole tokens, with as many decimals as it needs: the form that ParseTokens reads.
func (a Amount) Tokens(decimals int) string {
	digits := a.String()
	digits = strings.Repeat("0", max(0, decimals+1-len(digits))) + digits
	point := len(digits) - decimals
	return strings.TrimSuffix(digits[:point]+"."+strings.TrimRight(digits[point:], "0"), ".")
}

// AmountFromBytes reads a big-endian number of at most 32 bytes. Longer input matches ErrAmount.
func AmountFromBytes(b []byte) (Amount, error) {
	if len(b) > 32 {
		return Amount{}, fmt.Errorf("%w: more than 32 bytes", ErrAmount)
	}
	var a Amount
	a.units.SetBytes(b)
	return a, nil
}

// String returns the amount in decimal digits, the form ParseAmount reads.
func (a Amount) String() string { return a.units.Dec() }

// Text returns the digits of a, nil for nil.
func Text(a *Amount) *string {
	if a == nil {
		return nil
	}
	return new(a.String())
}

// Bytes32 returns the amount as an ABI word: 32 bytes, big-endian.
func (a Amount) Bytes32() [32]byte { return a.units.Bytes32() }

// Big returns the amount as RLP and JSON-RPC take it.
func (a Amount) Big() *big.Int { return a.units.ToBig() }

// Uint64 returns the amount and whether it fits in 64 bits.
func (a Amount) Uint64() (uint64, bool) {
	n, overflow := a.units.Uint64WithOverflow()
	return n, !overflow
}

// IsZero reports whether a is zero.
func (a Amount) IsZero() bool { return a.units.IsZero() }

// Cmp returns -1, 0 or 1 as a is less than, equal to or more than b.
func (a Amount) Cmp(b Amount) int { return a.units.Cmp(&b.units) }

// Less reports whether a < b.
func (a Amount) Less(b Amount) bool { return a.units.Lt(&b.units) }

// Add returns a+b, or ErrOverflow.
func (a Amount) Add(b Amount) (Amount, error) {
	var sum Amount
	if _, overflow := sum.units.AddOverflow(&a.units, &b.units); overflow {
		return Amount{}, ErrOverflow
	}
	return sum, nil
}

// Sub returns a-b, or zero when b is larger: an amount is never negative.
func (a Amount) Sub(b Amount) Amount {
	if a.Less(b) {
		return Amount{}
	}
	var diff Amount
	diff.units.Sub(&a.units, &b.units)
	return diff
}

// Times returns a*n, or ErrOverflow.
func (a Amount) Times(n uint64) (Amount, error) {
	var product Amount
	if _, overflow := product.units.MulOverflow(&a.units, uint256.NewInt(n)); overflow {
		return Amount{}, ErrOverflow
	}
	return product, nil
}

// ScaleUp returns a*num/den rounded up, saturating at MaxAmount. It panics when den is zero.
func (a Amount) ScaleUp(num, den uint64) Amount {
	if den == 0 {
		panic("token: scaling by a zero denominator")
	}
	product, err := a.Times(num)
	if err != nil {
		return MaxAmount()
	}
	var quotient, remainder uint256.Int
	quotient.DivMod(&product.units, uint256.NewInt(den), &remainder)
	if !remainder.IsZero() {
		quotient.AddUint64(&quotient, 1)
	}
	return Amount{quotient}
}

// Over returns a/n rounded down. It panics when n is zero.
func (a Amount) Over(n uint64) Amount {
	if n == 0 {
		panic("token: dividing by zero")
	}
	var quotient Amount
	quotient.units.Div(&a.units, uint256.NewInt(n))
	return quotient
}

// MarshalJSON writes a as an integer literal, exact to 2^256-1.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads an integer literal. A string, a fraction or an exponent
// matches ErrAmount: this is the form MarshalJSON writes, not merchants' input.
func (a *Amount) UnmarshalJSON(b []byte) error {
	read, err := ParseAmount(string(b))
	if err == nil {
		*a = read
	}
	return err
}
