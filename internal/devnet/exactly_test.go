package devnet_test

import (
	"testing"

	"github.com/ethereum/go-ethereum/core/types"

	"remit/internal/devnet"
)

func TestMineExactlyLeavesOtherPaymentsPending(t *testing.T) {
	p := open(t, devnet.Config{})
	first, second := p.signed(0, friend, 5), p.signed(0, friend, 7)
	other := p.signed(1, friend, 9)
	for _, tx := range []*types.Transaction{first, second, other} {
		p.send(tx)
	}
	raw, err := first.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.MineExactly(raw); err != nil {
		t.Fatal(err)
	}
	if got := p.tokens(friend); got != 5 {
		t.Errorf("%d units arrived; want 5, of the one payment", got)
	}
	if err := p.MineExactly(); err != nil {
		t.Fatal(err)
	}
	if got := p.tokens(friend); got != 5 {
		t.Errorf("%d units arrived after an empty block; want 5", got)
	}
	p.mine()
	if got := p.tokens(friend); got != 5+7+9 {
		t.Errorf("%d units arrived in the end; want 21: what was pending is mined next", got)
	}
}

func TestMineExactlyRefusesWhatIsNoTransaction(t *testing.T) {
	p := open(t, devnet.Config{})
	head := p.Head()
	if err := p.MineExactly([]byte("no")); err == nil {
		t.Error("no error")
	}
	if p.Head() != head {
		t.Error("a block was made")
	}
}
