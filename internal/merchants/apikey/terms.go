package apikey

import (
	"encoding/json"
	"errors"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Terms are an operator's decisions about a merchant. With the zero Terms the merchant is active, under the stack's
// limits. Amounts are in the token's smallest unit.
type Terms struct {
	Suspended string       `json:"suspended,omitempty"`   // why all but reads is refused; empty: the merchant is active
	Maximum   token.Amount `json:"max_amount,omitzero"`   // of one payment, in place of the stack's; zero: the stack's
	Daily     token.Amount `json:"daily_amount,omitzero"` // in a UTC day, in place of the stack's; zero: the stack's
}

// ErrSuspended reports a request of a merchant that is suspended.
var ErrSuspended = errors.New("the merchant is suspended")

// ErrTerms reports terms that have changed since they were read.
var ErrTerms = errors.New("another operator has changed the merchant's terms; read them with remit merchants show")

// Text writes t as one line of JSON, for stores and for the authorizer's context. The zero Terms are "".
func (t Terms) Text() string {
	if t == (Terms{}) {
		return ""
	}
	text, _ := json.Marshal(t) // strings and amounts always become JSON
	return string(text)
}

// ParseTerms reads the result of Text.
func ParseTerms(text string) (t Terms, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &t)
	}
	return t, err
}
