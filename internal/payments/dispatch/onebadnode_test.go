package dispatch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A badNode gives the answers of a process's node, but for an account's.
type badNode struct {
	chain.Node
	more  uint64 // that it counts as mined
	pool  uint64 // that its pool holds besides
	rich  bool   // it calls every wallet rich
	alone bool   // the others give no account
	shown bool   // it shows a signed transaction at every nonce
}

func (b badNode) Account(ctx context.Context, w, c token.Address, h chain.Head) (chain.Account, error) {
	a, err := b.Node.Account(ctx, w, c, h)
	a.Mined += b.more
	a.Pending += b.more + b.pool
	if b.rich {
		a.Balance = token.MaxAmount()
	}
	return a, err
}

func (b badNode) TxAtNonce(_ context.Context, w token.Address, nonce, _ uint64) (chain.Hash, error) {
	return chain.Hash{0: w[0], 31: byte(nonce)}, nil
}

func (b badNode) Transactions(_ context.Context, hashes []chain.Hash) ([]chain.MinedTx, error) {
	return []chain.MinedTx{{From: token.Address{hashes[0][0]}, Nonce: uint64(hashes[0][31]), Signed: b.shown}}, nil
}

// TestOneNodeCountsMore: its word alone neither stops a new stack, nor a process that starts, nor
// raises a ceiling. A transaction that it shows does stop them.
func TestOneNodeCountsMore(t *testing.T) {
	for name, b := range map[string]badNode{"mined": {more: 3}, "pool": {pool: 3}, "shown": {more: 3, shown: true}} {
		for _, begun := range []bool{false, true} {
			p := newProcess(t, script{})
			if begun {
				must.Get(p.send("earlier"))(t)
				p = start(t, p.Tables, script{})
			}
			p.keys, p.bad = p.keys[:1], b
			p.bad.Node = p
			_, err := p.pay()
			if stopped := errors.Is(err, dispatch.ErrUnavailable); stopped != b.shown || !stopped && err != nil {
				t.Errorf("%s, begun: %t: %v", name, begun, err)
			}
		}
	}
	p := newProcess(t, script{})
	p.keys, p.bad = p.keys[:1], badNode{Node: p, more: 3}
	for _, key := range []string{"a", "b", "c", "d"} { // as many as the window has
		must.Get(p.send(key))(t)
	}
	for _, p.bad.alone = range []bool{false, true} {
		_, err := p.pay()
		if w := must.Get(p.Tables.Wallet(t.Context(), walletOf(first)))(t); !errors.Is(err, dispatch.ErrUnavailable) || w.Ceiling != 4 {
			t.Errorf("beyond the ceiling, alone: %t: %v, %d", p.bad.alone, err, w.Ceiling)
		}
	}
}

// A mute node gives no account.
type mute struct{ chain.Node }

func (mute) Account(context.Context, token.Address, token.Address, chain.Head) (chain.Account, error) {
	return chain.Account{}, chain.ErrRejected
}

// TestOneNodeAnswersAlone: the only one of three nodes that answers opens no wallet: it could promise coins.
func TestOneNodeAnswersAlone(t *testing.T) {
	p := newProcess(t, script{})
	p.bad = badNode{Node: p, rich: true, alone: true}
	if _, err := p.pay(); !errors.Is(err, dispatch.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if w, err := p.Tables.Wallet(t.Context(), walletOf(first)); !errors.Is(err, wallet.ErrUnknown) {
		t.Errorf("%+v, %v", w, err)
	}
}
