package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// prepared is a payment that a nonce was reserved for.
func prepared() payment.Payment {
	tx := chain.Tx{ChainID: 1, Gas: 100, Fees: chain.Fees{Cap: token.Units(2)}}
	return payment.New("pay_1", payment.Request{Amount: token.Units(9)}, token.Token{}, "n", now).AssignedTo(token.Address{1}, tx)
}

// A desk is a key, and a store that takes no payment.
type desk struct{ *testing.T }

func (desk) Ready(context.Context) error { return nil }

func (desk) Sign(_ context.Context, _ chain.Tx, nonce uint64) (chain.Signed, error) {
	return chain.Signed{Nonce: nonce, Hash: chain.Hash{1}, Raw: []byte{1}}, nil
}

func (d desk) Commit(_ context.Context, p payment.Payment) error {
	d.Errorf("%+v is written", p)
	return nil
}

// TestCommit: a payment that is committed already is not written again.
func TestCommit(t *testing.T) {
	committed := must.Get(prepared().Commit(chain.Signed{Nonce: 4, Hash: chain.Hash{1}, Raw: []byte{1}}, now))(t)
	if p, err := store.Commit(t.Context(), desk{t}, desk{t}, committed, 4, now); err == nil || p.ID != "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestPendingTxOf: a payment's pending transaction has the newest bytes, at their own price and gas limit.
func TestPendingTxOf(t *testing.T) {
	p := must.Get(prepared().Commit(chain.Signed{Nonce: 4, Hash: chain.Hash{1}, Raw: []byte{1}}, now))(t)
	p = must.Get(p.Bump(chain.Signed{Nonce: 4, Hash: chain.Hash{2}, Raw: []byte{2}},
		chain.Tx{Gas: 120, Fees: chain.Fees{Cap: token.Units(3)}}, now.Add(time.Minute)))(t)
	tx := store.PendingTxOf(p)
	if tx.Noop() || tx.Nonce != 4 || tx.Payment != "pay_1" || !slices.Equal(tx.Hashes, []chain.Hash{{1}, {2}}) || string(tx.Raw) != "\x02" ||
		tx.Amount != token.Units(9) || tx.Gas != token.Units(360) || !tx.At.Equal(now.Add(time.Minute)) || !tx.Since.Equal(now) {
		t.Errorf("pending transaction of a bumped payment: %+v", tx)
	}
}

// TestBounds: a payment at each bound fits, and one more does not.
func TestBounds(t *testing.T) {
	most := disburser.MaxAmount()
	above := must.Get(most.Add(token.Units(1)))(t)
	pays := func(amounts ...token.Amount) (p payment.Payment) {
		for _, a := range amounts {
			p.Entries = append(p.Entries, payment.Entry{Amount: a})
		}
		return p
	}
	signed := func(n int) payment.Payment {
		return payment.Payment{Attempts: []payment.Attempt{{Raw: make([]byte, n)}, {}}}
	}
	told := func(n int) payment.Payment { return payment.Payment{Event: &payment.Event{Body: make([]byte, n)}} }
	for what, pair := range map[string][2]payment.Payment{
		"bytes signed": {signed(store.MaxRaw), signed(store.MaxRaw + 1)}, "bytes of an event": {told(store.MaxEvent), told(store.MaxEvent + 1)},
		"an entry": {pays(most, most), pays(most, above)},
	} {
		if fits, not := store.FitsPayment(pair[0]), store.FitsPayment(pair[1]); fits != nil || !errors.Is(not, store.ErrTooLarge) {
			t.Errorf("%s: %v and %v", what, fits, not)
		}
	}
	if err := errors.Join(store.FitsPayment(pays(above)), store.FitsProgress(nil)); err != nil {
		t.Errorf("one entry, which a transfer pays, and no progress: %v", err)
	}
}
