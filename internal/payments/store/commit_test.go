package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var (
	now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// prepared is a payment that a nonce was reserved for.
func prepared() payment.Payment {
	tx := chain.Tx{ChainID: 1, Gas: 100, Fees: chain.Fees{Cap: token.Units(2)}}
	return payment.New("pay_1", payment.Request{Amount: token.Units(9)}, token.Token{}, "n", now).AssignedTo(token.Address{1}, tx)
}

// A desk is a key, and a store of payments, either of which may fail.
type desk struct {
	noSignature, noWrite error
	written              []payment.Payment
}

func (d *desk) Ready(context.Context) error { return nil }

func (d *desk) Sign(_ context.Context, _ chain.Tx, nonce uint64) (chain.Signed, error) {
	return chain.Signed{Nonce: nonce, Hash: chain.Hash{1}, Raw: []byte{1}}, d.noSignature
}

func (d *desk) Commit(_ context.Context, p payment.Payment) error {
	d.written = append(d.written, p)
	return d.noWrite
}

// TestCommit: an error without a payment means that nothing was written, and
// one with it that the write may have been done.
func TestCommit(t *testing.T) {
	errBroken := errors.New("broken")
	committed := must.Get(prepared().Commit(chain.Signed{Nonce: 4, Hash: chain.Hash{1}, Raw: []byte{1}}, now))(t)
	for name, test := range map[string]struct {
		desk    desk
		payment payment.Payment
		written int
		fails   bool
	}{
		"all is well":               {desk{}, prepared(), 1, false},
		"no signature":              {desk{noSignature: errBroken}, prepared(), 0, true},
		"a payment that cannot be":  {desk{}, committed, 0, true},
		"a write that may be there": {desk{noWrite: errBroken}, prepared(), 1, true},
	} {
		p, err := store.Commit(t.Context(), &test.desk, &test.desk, test.payment, 4, now)
		if (err != nil) != test.fails || (p.ID != "") != (test.written == 1) || len(test.desk.written) != test.written ||
			test.written == 1 && (p.State != payment.Committed || p.Nonce != 4 || test.desk.written[0].TxHash != p.TxHash) {
			t.Errorf("%s: %+v, %v, written is %v", name, p, err, test.desk.written)
		}
	}
}

// A dear is a node on a chain with fees for layer 1, or a node that knows no price.
type dear struct {
	chain.Node
	err error
}

func (d dear) String() string { return "node" }

func (d dear) Fees(context.Context) (chain.Market, error) {
	return chain.Market{BaseFee: token.Units(1), L1Fee: token.Units(1000)}, d.err
}

func (d dear) Estimate(context.Context, chain.Call) (uint64, error) { return chain.NoopGas, nil }

// PutNoop implements the store of UseUp.
func (d *desk) PutNoop(context.Context, wallet.PendingTx) error { return nil }

// TestUseUp: a no-op ties up its L1 fee, and none is made without a price.
func TestUseUp(t *testing.T) {
	for _, broken := range []error{nil, errors.New("broken")} {
		noop, err := store.UseUp(t.Context(), &desk{}, &desk{}, chain.Nodes{dear{err: broken}}, wallet.ID{ChainID: 1}, 4, token.Amount{}, 0, now)
		gas, _ := noop.Fees.Cap.Times(chain.GasLimit(chain.NoopGas))
		if !errors.Is(err, broken) || gas.Less(noop.Gas) != (broken == nil) {
			t.Errorf("%+v, %v", noop, err)
		}
	}
}

// TestPendingTxOf: a payment's pending transaction has the newest bytes, at their own price and gas limit.
func TestPendingTxOf(t *testing.T) {
	p := must.Get(prepared().Commit(chain.Signed{Nonce: 4, Hash: chain.Hash{1}, Raw: []byte{1}}, now))(t)
	p, err := p.Bump(chain.Signed{Nonce: 4, Hash: chain.Hash{2}, Raw: []byte{2}},
		chain.Tx{Gas: 120, Fees: chain.Fees{Cap: token.Units(3)}}, now.Add(time.Minute))
	must.OK(t, err)
	tx := store.PendingTxOf(p)
	if tx.Noop() || tx.Nonce != 4 || tx.Payment != "pay_1" || !slices.Equal(tx.Hashes, []chain.Hash{{1}, {2}}) || string(tx.Raw) != "\x02" ||
		tx.Amount != token.Units(9) || tx.Gas != token.Units(360) || !tx.At.Equal(now.Add(time.Minute)) || !tx.Since.Equal(now) {
		t.Errorf("pending transaction of a bumped payment: %+v", tx)
	}
}
