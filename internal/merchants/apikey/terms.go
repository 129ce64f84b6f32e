package apikey

import (
	"encoding/json"
	"errors"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Terms are what operators have decided about a merchant. The zero Terms are those of
// a merchant about which none has: it is active, under the stack's limits. Amounts
// are in the token's smallest unit.
type Terms struct {
	Suspended string       `json:"suspended,omitempty"`   // why every request is refused; empty: the merchant is active
	Maximum   token.Amount `json:"max_amount,omitzero"`   // of one payment, in place of the stack's; zero: the stack's
	Daily     token.Amount `json:"daily_amount,omitzero"` // in a UTC day, in place of the stack's; zero: the stack's
}

// ErrSuspended reports a request of a merchant that is suspended.
var ErrSuspended = errors.New("the merchant is suspended")

// ErrTerms reports terms that are not as they were read.
var ErrTerms = errors.New("another operator has changed the merchant's terms: look at them again")

// Text writes t as one line of JSON, for stores and for the authorizer's context.
// The zero Terms are "".
func (t Terms) Text() string {
	if t == (Terms{}) {
		return ""
	}
	text, _ := json.Marshal(t) // strings and amounts always become JSON
	return string(text)
}

// ParseTerms reads what Text wrote.
func ParseTerms(text string) (t Terms, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &t)
	}
	return t, err
}
