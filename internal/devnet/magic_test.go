package devnet_test

import (
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"remit/internal/devnet"
)

func TestRevertingPaymentPassesEstimation(t *testing.T) {
	p := open(t, devnet.Config{})
	contract := common.Address(p.Token().Contract)
	gas, err := p.client.EstimateGas(t.Context(), ethereum.CallMsg{
		From: common.Address(p.Wallets()[0].Address),
		To:   &contract,
		Data: transferData(devnet.RevertRecipient, 5),
	})
	if err != nil || gas < 21_000 || gas > 150_000 {
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

func TestStuckPaymentInABatchOfOthers(t *testing.T) {
	p := open(t, devnet.Config{})
	hashes := []common.Hash{
		common.Hash(p.pay(friend, 1)),
		common.Hash(p.pay(devnet.StuckRecipient, 2)),
		common.Hash(p.pay(friend, 3)),
		{}, // no such transaction
	}
	p.mine()
	p.mine()
	p.mine()
	head := p.Head().Number
	var got []uint64
	for _, r := range p.receipts(hashes) {
		if r == nil {
			got = append(got, 0)
			continue
		}
		got = append(got, r.BlockNumber.Uint64())
	}
	if diff := cmp.Diff([]uint64{head - 2, head, head - 2, 0}, got); diff != "" {
		t.Errorf("blocks of the receipts at block %d (-want +got):\n%s", head, diff)
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
		t.Errorf("block %d is still the one that was replaced, %v", first.BlockNumber, err)
	}

	for range 8 {
		p.mine()
	}
	second := p.receipt(tx)
	if second == nil || second.BlockNumber.Cmp(first.BlockNumber) <= 0 {
		t.Fatalf("mined again: %+v; want in a later block than %d", second, first.BlockNumber)
	}
	if got, want := second.BlockNumber.Uint64(), first.BlockNumber.Uint64()+2; got != want {
		t.Errorf("mined again in block %d; want %d, the first after the reorg", got, want)
	}
	if got := p.tokens(devnet.ReorgRecipient); got != 5 {
		t.Errorf("%d units arrived; want 5", got)
	}
}
