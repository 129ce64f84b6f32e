package devnet_test

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

func TestRevertingPaymentPassesEstimation(t *testing.T) {
	p := open(t, devnet.Config{})
	if gas, err := p.estimate(devnet.RevertRecipient, 5); err != nil || gas < 21_000 || gas > 150_000 {
		t.Fatalf("eth_estimateGas = %d, %v; want a transfer's gas", gas, err)
	}
	tx := p.pay(devnet.RevertRecipient, 5)
	after := p.pay(friend, 7)
	p.mine()
	if got := p.status(tx); got != "reverted" {
		t.Errorf("the payment has %s; want reverted", got)
	}
	if got := p.status(after); got != "succeeded" {
		t.Errorf("the wallet's next payment has %s; want succeeded", got)
	}
	if got := p.tokens(devnet.RevertRecipient); got != 0 {
		t.Errorf("%d units arrived", got)
	}
}

func TestStuckPaymentIsAlwaysInTheLatestBlock(t *testing.T) {
	p := open(t, devnet.Config{})
	stuck := p.pay(devnet.StuckRecipient, 5)
	after := p.pay(friend, 7)
	p.mine()
	mined := p.Head().Number
	for range 10 {
		p.mine()
		head := p.Head()
		r := p.receipt(stuck)
		if r == nil || r.Status != types.ReceiptStatusSuccessful {
			t.Fatalf("at block %d the receipt is %+v; want a success", head.Number, r)
		}
		if r.BlockNumber.Uint64() != head.Number || r.BlockHash != common.Hash(head.Hash) {
			t.Errorf("at block %d the receipt says block %d, %s", head.Number, r.BlockNumber, r.BlockHash)
		}
		for _, log := range r.Logs {
			if log.BlockNumber != head.Number || log.BlockHash != common.Hash(head.Hash) {
				t.Errorf("at block %d a log says block %d, %s", head.Number, log.BlockNumber, log.BlockHash)
			}
		}
		if len(r.Logs) != 1 {
			t.Errorf("%d logs; want the transfer's", len(r.Logs))
		}
	}
	if r := p.receipt(after); r == nil || r.BlockNumber.Uint64() != mined {
		t.Errorf("the wallet's next payment was not mined beside it: %+v", r)
	}
	nonce, err := p.NonceOf(t.Context(), p.Wallets()[0].Address)
	if err != nil || nonce != 2 {
		t.Errorf("the wallet's mined count is %d, %v; want 2", nonce, err)
	}
}

func TestReorgPaymentIsMinedTwiceAndThenStays(t *testing.T) {
	p := open(t, devnet.Config{})
	tx := p.pay(devnet.ReorgRecipient, 5)
	beside := p.pay(friend, 7)
	p.mine()
	first := p.receipt(tx)
	if first == nil {
		t.Fatal("not mined in the first block")
	}

	p.mine() // the reorg
	if got := p.status(tx); got != "pending" {
		t.Fatalf("after the reorg the payment has %s; want pending", got)
	}
	if got := p.status(beside); got != "pending" {
		t.Errorf("after the reorg its neighbour has %s; want pending", got)
	}
	if got, want := p.Head().Number, first.BlockNumber.Uint64()+1; got != want {
		t.Errorf("after the reorg the head is %d; want %d: it must overtake the old one", got, want)
	}
	old, err := p.client.HeaderByNumber(t.Context(), first.BlockNumber)
	if err != nil || old.Hash() == first.BlockHash {
		t.Errorf("the replaced block %d is still there, %v", first.BlockNumber, err)
	}

	for range 8 {
		p.mine()
	}
	second := p.receipt(tx)
	if want := first.BlockNumber.Uint64() + 2; second == nil || second.BlockNumber.Uint64() != want {
		t.Fatalf("mined again: %+v; want in block %d, the first after the reorg", second, want)
	}
	if got := p.tokens(devnet.ReorgRecipient); got != 5 {
		t.Errorf("%d units arrived; want 5", got)
	}
}
