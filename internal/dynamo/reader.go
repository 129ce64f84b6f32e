package dynamo

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/chain"
	"remit/internal/token"
)

// errMissing reports an attribute that an item must have, or one that does not
// agree with the rest of it.
var errMissing = errors.New("missing or inconsistent")

// A reader turns attributes into values and collects what does not fit, so
// that one look at the log tells all that is wrong with an item.
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

// hash reads a hash; absent is the zero one.
func (r *reader) hash(name, s string) chain.Hash {
	if s == "" {
		return chain.Hash{}
	}
	h, err := chain.ParseHash(s)
	r.note(name, err)
	return h
}

// instant reads a time; absent is the zero one.
func (r *reader) instant(name, s string) time.Time {
	t, err := parseInstant(s)
	r.note(name, err)
	return t
}

// units writes an amount of at most 38 digits as a number, which conditions
// can compare and updates subtract from.
func units(a token.Amount) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: a.String()}
}

func binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

// texts writes a list of hashes.
func texts(hashes []chain.Hash) types.AttributeValue {
	list := make([]types.AttributeValue, len(hashes))
	for i, h := range hashes {
		list[i] = text(h.String())
	}
	return &types.AttributeValueMemberL{Value: list}
}

// refused returns the item that made a conditional write fail, nil if there
// is none, and whether that is what err reports.
func refused(err error) (item map[string]types.AttributeValue, ok bool) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return nil, false
	}
	return failed.Item, true
}
