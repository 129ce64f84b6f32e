package httpapi

import (
	"errors"
	"strconv"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// maxLiteral is the longest number that is parsed; 2^256-1 has 78 digits.
const maxLiteral = 100

// The errors of wholeNumber.
var (
	errLiteral  = errors.New("literal too long")
	errFraction = errors.New("not integral")
	errNegative = errors.New("negative")
	errTooBig   = errors.New("more than 2^256-1")
)

// wholeNumber returns the value of a JSON number literal, which must be
// integral: 1000000, 1.0 and 1e6 are. The number is never built before its
// size is known, so that 1e999999999 costs nothing.
func wholeNumber(literal string) (token.Amount, error) {
	if len(literal) > maxLiteral {
		return token.Amount{}, errLiteral
	}
	unsigned, negative := strings.CutPrefix(literal, "-")
	mantissa, power := unsigned, ""
	if i := strings.IndexAny(unsigned, "eE"); i >= 0 {
		mantissa, power = unsigned[:i], unsigned[i+1:]
	}
	shift, err := exponent(power)
	if err != nil {
		return token.Amount{}, err
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return token.Amount{}, nil
	}
	significant := strings.TrimRight(digits, "0")
	shift += len(digits) - len(significant) - len(fraction)
	switch {
	case negative:
		return token.Amount{}, errNegative
	case shift < 0:
		return token.Amount{}, errFraction
	case len(significant)+shift > 78:
		return token.Amount{}, errTooBig
	}
	amount, err := token.ParseAmount(significant + strings.Repeat("0", shift))
	if err != nil {
		return token.Amount{}, errTooBig
	}
	return amount, nil
}

// exponent reads the digits behind the "e" of a literal; none are 0. An exponent
// that no literal of maxLiteral characters can need is errLiteral.
func exponent(power string) (int, error) {
	digits := strings.TrimLeft(strings.TrimLeft(power, "+-"), "0")
	if len(digits) > 3 {
		return 0, errLiteral
	}
	n, _ := strconv.Atoi("0" + digits)
	if strings.HasPrefix(power, "-") {
		n = -n
	}
	return n, nil
}
