package httpapi

import (
	"math/big"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// maxLiteral is the longest number that is parsed; 2^256-1 has 78 digits.
const maxLiteral = 100

// wholeNumber returns the value of a JSON number literal, which must be integral (1000000, 1.0 and 1e6 are), or its
// fault. The number is never built before its exponent is known to be small, so that 1e999999999 costs nothing.
func wholeNumber(literal string) (whole token.Amount, fault invalid) {
	_, power, _ := strings.Cut(strings.ToLower(literal), "e")
	if len(literal) > maxLiteral || len(strings.TrimLeft(power, "+-0")) > 3 { // no literal so short can need it
		return whole, invalid{Type: "number_too_long", Msg: "Number literals may have at most 100 characters and small exponents"}
	}
	n, _ := new(big.Rat).SetString(literal) // which takes every literal of JSON
	switch {
	case n.Sign() < 0:
		return whole, invalid{Type: "not_positive", Msg: "Must not be negative"}
	case !n.IsInt():
		return whole, invalid{Type: "not_integral", Msg: "Must be a whole number"}
	}
	whole, err := token.AmountFromBytes(n.Num().Bytes())
	if err != nil {
		fault = invalid{Type: "too_large", Msg: "Must be at most 2^256-1"}
	}
	return whole, fault
}
