package wallet

import (
	"errors"
	"time"

	"remit/internal/payment"
	"remit/internal/token"
)

// Refusals of a reservation. Each means that nothing was reserved.
var (
	ErrUnknown = errors.New("wallet has no record yet")
	ErrPaused  = errors.New("wallet is paused")
	ErrCeiling = errors.New("wallet has no nonce left")
	ErrToken   = errors.New("wallet has too little of the token")
	ErrGas     = errors.New("wallet has too little ether for gas")
)

// A Need is a payment's need of a wallet: its next nonce, and an amount and gas
// that are tied up until the payment is mined.
type Need struct {
	Wallet  ID
	Payment payment.ID
	Amount  token.Amount // in the token's smallest unit
	Gas     token.Amount // wei
	At      time.Time    // when the reservation is asked for
}

// Spendable returns a, held to 10^38-1, the largest whole number that a DynamoDB
// number holds exactly (Amazon DynamoDB Developer Guide, "Numbers can have up to
// 38 digits of precision"): a store keeps no more as spendable, so that it can
// subtract in one conditional write. A wallet with more pays from the kept amount
// until it is reconciled.
func Spendable(a token.Amount) token.Amount {
	most, err := token.Units(1e19).Times(1e19)
	if err != nil {
		panic(err) // 10^38 is less than 2^127
	}
	if most = most.Sub(token.Units(1)); most.Less(a) {
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
