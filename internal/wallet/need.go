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
