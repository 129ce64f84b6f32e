package dynamo

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// errMissing reports a required attribute that an item lacks, or an attribute that contradicts the
// item's others.
var errMissing = errors.New("missing or inconsistent")

// A reader turns attributes into values and collects the errors, so that one
// line of the log names every damaged attribute of an item.
type reader struct{ errs []error }

// read decodes an item's attributes into it, a pointer to a struct: all that can be.
func read(item attributes, it any) *reader {
	r := &reader{}
	if attributevalue.UnmarshalMap(item, it) == nil {
		return r
	}
	for name, value := range item {
		r.note(name, attributevalue.UnmarshalMap(attributes{name: value}, it))
	}
	return r
}

// readable is decoded with errors that are store.ErrUnreadable too.
func readable[T any](r *reader, v T, name string) (T, error) {
	v, err := decoded(r, v, name)
	if err != nil {
		err = fmt.Errorf("%w: %w", store.ErrUnreadable, err)
	}
	return v, err
}

// decoded returns v, which r has read, or r's errors about the item that name
// names.
func decoded[T any](r *reader, v T, name string) (T, error) {
	if err := errors.Join(r.errs...); err != nil {
		var none T
		return none, fmt.Errorf("decoding %s: %w", name, err)
	}
	return v, nil
}

func (r *reader) note(name string, err error) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
	}
}

func (r *reader) require(name string, ok bool) {
	if !ok {
		r.note(name, errMissing)
	}
}

func (r *reader) amount(name, s string) token.Amount {
	a, err := token.ParseAmount(s)
	r.note(name, err)
	return a
}

func (r *reader) address(name, s string) token.Address {
	a, err := token.ParseAddress(s)
	r.note(name, err)
	return a
}

// hash reads a hash; an absent one is zero.
func (r *reader) hash(name, s string) chain.Hash {
	if s == "" {
		return chain.Hash{}
	}
	h, err := chain.ParseHash(s)
	r.note(name, err)
	return h
}

// instant reads a time; an absent one is zero.
func (r *reader) instant(name, s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	r.note(name, err)
	return t
}

func (r *reader) secret(name, text string) webhook.Secret {
	s, err := webhook.ParseStored(text)
	r.note(name, err)
	return s
}
