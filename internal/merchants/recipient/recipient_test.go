package recipient_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

var (
	noon    = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	errLost = errors.New("connection reset")
)

// A store whose reads fail, if it has a failure.
type store struct {
	recipient.Store
	failure error
}

func (s store) Entry(ctx context.Context, merchant, mode string, a token.Address) (recipient.Entry, error) {
	e, err := s.Store.Entry(ctx, merchant, mode, a)
	return e, cmp.Or(s.failure, err)
}

// TestBook: an entry may be paid when its hold is over, and whatever fails is an error and no entry.
func TestBook(t *testing.T) {
	entries := new(memory.APIKeys)
	e := recipient.Entry{Merchant: "mer_1", Mode: "test", Address: token.Address{1}}
	told, deaf := func(context.Context, recipient.Entry) error { return nil }, func(context.Context, recipient.Entry) error { return errLost }
	now := func() time.Time { return noon.Add(1) }
	for _, test := range []struct {
		name     string
		failure  error // of reads
		announce func(context.Context, recipient.Entry) error
		added    bool
		want     error
	}{
		{"it is not announced", nil, deaf, false, errLost},
		{"the store is down", errLost, told, false, errLost},
		{"it is new", nil, told, true, nil},
		{"it is there", nil, deaf, false, nil},
	} {
		book := &recipient.AddressBook{Store: store{entries, test.failure}, Hold: time.Hour, Now: now}
		got, added, err := book.Add(t.Context(), e, test.announce)
		if added != test.added || !errors.Is(err, test.want) || err == nil && !got.ActiveAt.Equal(noon.Add(time.Hour)) {
			t.Errorf("%s: Add = %+v, %v, %v", test.name, got, added, err)
		}
	}
	for _, test := range []struct {
		to      token.Address
		at      time.Duration // since noon
		failure error
		want    bool
	}{
		{e.Address, time.Hour - 1, nil, false}, {e.Address, time.Hour, nil, true},
		{e.Address, time.Hour, errLost, false}, {token.Address{2}, time.Hour, nil, false},
	} {
		book := &recipient.AddressBook{Store: store{entries, test.failure}}
		active, err := book.Active(t.Context(), "mer_1", "test", test.to, noon.Add(test.at))
		if active != test.want || !errors.Is(err, test.failure) {
			t.Errorf("Active(%v, %v) = %v, %v", test.to, test.at, active, err)
		}
	}
}
