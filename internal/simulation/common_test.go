package simulation_test

import (
	"remit/internal/payment"
	"remit/internal/token"
)

func unit(n uint64) token.Amount { return token.Units(n) }

// codeOf is why a payment failed, if it did.
func codeOf(p payment.Payment) payment.FailureCode {
	if p.Failure == nil {
		return ""
	}
	return p.Failure.Code
}
