package dynamo

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/chain"
	"remit/internal/token"
)

// errMissing reports an attribute that an item must have and has not, or one
// that contradicts the item's other attributes.
var errMissing = errors.New("missing or inconsistent")

// A reader turns attributes into values and collects the errors, so that one
// line of the log names every damaged attribute of an item.
type reader struct{ errs []error }

func (r *reader) err() error { return errors.Join(r.errs...) }

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
	t, err := parseInstant(s)
	r.note(name, err)
	return t
}

// units encodes an amount of at most 38 digits as a number, which a condition
// can compare and an update can subtract from.
func units(a token.Amount) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: a.String()}
}

func binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

// texts encodes a list of hashes.
func texts(hashes []chain.Hash) types.AttributeValue {
	list := make([]types.AttributeValue, len(hashes))
	for i, h := range hashes {
		list[i] = text(h.String())
	}
	return &types.AttributeValueMemberL{Value: list}
}

// refused reports whether err is the failed condition of a write of one item.
// It returns the stored item if the write asked for it, nil if there is none.
func refused(err error) (item attributes, ok bool) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return nil, false
	}
	return failed.Item, true
}
