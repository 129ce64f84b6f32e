package wallet

import "remit/internal/token"

// maxSpendable returns 10^38-1, the largest whole number that a DynamoDB number
// holds exactly (Amazon DynamoDB Developer Guide, "Numbers can have up to 38
// digits of precision").
func maxSpendable() token.Amount {
	most, err := token.Units(1e19).Times(1e19)
	if err != nil {
		panic(err) // 10^38 is less than 2^127
	}
	return most.Sub(token.Units(1))
}

// Spendable returns a, held to 10^38-1: a store keeps no more than that as
// spendable, so that it can subtract in one conditional write. A wallet with
// more pays from the kept amount until it is reconciled.
func Spendable(a token.Amount) token.Amount {
	if most := maxSpendable(); most.Less(a) {
		return most
	}
	return a
}

// Refusal returns why w gives no new reservation for n, or nil when it gives one. It
// is the order every store judges in. A reservation that n.Payment holds already is
// not looked at.
func (w Wallet) Refusal(n Need) error {
	switch {
	case w.Paused != "":
		return ErrPaused
	case w.NextNonce >= w.Ceiling:
		return ErrCeiling
	case w.Balance.Less(n.Amount):
		return ErrToken
	case w.Gas.Less(n.Gas):
		return ErrGas
	default:
		return nil
	}
}
