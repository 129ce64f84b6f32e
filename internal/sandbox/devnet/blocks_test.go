package devnet_test

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

func TestReorgMakesPaymentsPendingAgain(t *testing.T) {
	p := open(t, devnet.Config{})
	a := p.pay(friend, 1)
	p.mine()
	b := p.pay(friend, 2)
	p.mine()
	p.mine()
	must.OK(p.t, p.Reorg(2)) // b's block and the empty one
	if a, b := p.status(a), p.status(b); a != "succeeded" || b != "pending" {
		t.Errorf("after a reorg of 2 the payments have %s and %s; want the second pending", a, b)
	}
	p.mine()
	if got := p.status(b); got != "succeeded" {
		t.Errorf("a block later it has %s; want mined again", got)
	}
	must.OK(p.t, p.Reorg(1))
	p.DropPending()
	p.mine()
	if got := p.status(b); got != "pending" {
		t.Errorf("after being dropped it has %s; want unknown", got)
	}
	if _, _, err := p.client.TransactionByHash(t.Context(), common.Hash(b)); err == nil {
		t.Error("a dropped payment is still known")
	}
	if err := p.Reorg(65); err == nil {
		t.Error("a reorg was made that the pool does not follow")
	}
	if err := p.Reorg(int(p.Head().Number)); err == nil {
		t.Error("a reorg took the token away")
	}
}

func TestMineExactlyLeavesOtherPaymentsPending(t *testing.T) {
	p := open(t, devnet.Config{})
	first := p.signed(0, friend, 5)
	for _, tx := range []chain.Signed{first, p.signed(0, friend, 7), p.signed(1, friend, 9)} {
		p.send(tx)
	}
	for _, step := range []struct {
		mine func() error
		want uint64
	}{
		{func() error { return p.MineExactly(first.Raw) }, 5},
		{func() error { return p.MineExactly() }, 5},
		{p.Mine, 5 + 7 + 9}, // the payments that were pending are mined next
	} {
		must.OK(p.t, step.mine())
		if got := p.tokens(friend); got != step.want {
			t.Errorf("%d units arrived; want %d", got, step.want)
		}
	}
	head := p.Head()
	if err := p.MineExactly([]byte("no")); err == nil || p.Head() != head {
		t.Errorf("bytes that are no transaction: %v, head %v; want an error and no block after %v", err, p.Head(), head)
	}
}
