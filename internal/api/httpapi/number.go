package httpapi

import (
	"errors"
	"math/big"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// maxLiteral is the longest number that is parsed; 2^256-1 has 78 digits.
const maxLiteral = 100

var (
	errLiteral  = errors.New("literal too long")
	errFraction = errors.New("not integral")
	errNegative = errors.New("negative")
	errTooBig   = errors.New("more than 2^256-1")
)

// wholeNumber returns the value of a JSON number literal, which must be integral: 1000000, 1.0 and 1e6 are. The
// number is never built before its exponent is known to be small, so that 1e999999999 costs nothing.
func wholeNumber(literal string) (token.Amount, error) {
	_, power, _ := strings.Cut(strings.ToLower(literal), "e")
	if len(literal) > maxLiteral || len(strings.TrimLeft(power, "+-0")) > 3 { // no literal so short can need it
		return token.Amount{}, errLiteral
	}
	n, _ := new(big.Rat).SetString(literal) // which takes every literal of JSON
	switch {
	case n.Sign() < 0:
		return token.Amount{}, errNegative
	case !n.IsInt():
		return token.Amount{}, errFraction
	case n.Num().BitLen() > 256:
		return token.Amount{}, errTooBig
	}
	return token.AmountFromBytes(n.Num().Bytes())
}
