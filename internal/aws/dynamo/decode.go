package dynamo

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// errMissing reports a required attribute that an item lacks, or an attribute that contradicts the item's others.
var errMissing = errors.New("missing or inconsistent")

// textOf returns the text of an attribute, empty if the item has none of that name.
func textOf(item attributes, name string) string {
	if s, ok := item[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// A reader turns attributes into values and collects errors: one log line names every damaged attribute of an item.
type reader struct{ errs []error }

// read decodes an item's attributes into it, a pointer to a struct: all that can be.
func read(item attributes, it any) *reader {
	r := &reader{}
	times := func(o *attributevalue.DecoderOptions) { o.DecodeTime.S = parseInstant }
	if attributevalue.UnmarshalMapWithOptions(item, it, times) == nil {
		return r
	}
	for name, value := range item {
		r.note(name, attributevalue.UnmarshalMapWithOptions(attributes{name: value}, it, times))
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

// decoded returns v, which r has read, or r's errors about the item that name names.
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

func parsed[T any](r *reader, name, s string, parse func(string) (T, error)) T {
	v, err := parse(s)
	r.note(name, err)
	return v
}

// optional reads the text of an attribute that may be absent, and is zero then.
func optional[T any](r *reader, name, s string, parse func(string) (T, error)) (v T) {
	if s != "" {
		v = parsed(r, name, s, parse)
	}
	return v
}

func (r *reader) amount(name, s string) token.Amount { return parsed(r, name, s, token.ParseAmount) }

func (r *reader) address(name, s string) token.Address { return parsed(r, name, s, token.ParseAddress) }

// hash reads a hash; an absent one is zero.
func (r *reader) hash(name, s string) chain.Hash { return optional(r, name, s, chain.ParseHash) }

// instant reads a time; an absent one is zero.
func (r *reader) instant(name, s string) time.Time { return parsed(r, name, s, parseInstant) }

func parseInstant(s string) (at time.Time, err error) {
	if s != "" {
		at, err = time.Parse(time.RFC3339Nano, s)
	}
	return at, err
}
