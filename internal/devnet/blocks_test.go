package devnet_test

import (
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/devnet"
)

// receipts asks for many receipts in one batch; nil where there is none.
func (p *payer) receipts(hashes []common.Hash) []*types.Receipt {
	p.t.Helper()
	receipts := make([]*types.Receipt, len(hashes))
	batch := make([]rpc.BatchElem, len(hashes))
	for i, hash := range hashes {
		batch[i] = rpc.BatchElem{Method: "eth_getTransactionReceipt", Args: []any{hash}, Result: &receipts[i]}
	}
	if err := p.client.Client().BatchCallContext(p.t.Context(), batch); err != nil {
		p.t.Fatal(err)
	}
	for i := range batch {
		if batch[i].Error != nil {
			p.t.Fatalf("receipt %d: %v", i, batch[i].Error)
		}
	}
	return receipts
}

func TestBurstLeavesNoHole(t *testing.T) {
	p := open(t, devnet.Config{})
	const burst = 500
	var hashes []common.Hash
	batch := make([]rpc.BatchElem, burst)
	for i := range burst {
		tx := p.signed(0, friend, uint64(i)+1)
		raw, err := tx.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, tx.Hash())
		// Last nonce first: the pool must keep transactions after a gap.
		batch[burst-1-i] = rpc.BatchElem{Method: "eth_sendRawTransaction", Args: []any{"0x" + common.Bytes2Hex(raw)}, Result: new(common.Hash)}
	}
	if err := p.client.Client().BatchCallContext(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	p.mine()
	for i, r := range p.receipts(hashes) {
		if r == nil || r.Status != types.ReceiptStatusSuccessful {
			t.Fatalf("payment %d: %+v; want mined in the next block", i, r)
		}
	}
	transfers, err := p.TransferLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[chain.Hash]uint64)
	for _, transfer := range transfers {
		units, _ := transfer.Amount.Uint64()
		seen[transfer.Tx] += units
	}
	for i, hash := range hashes {
		if got := seen[chain.Hash(hash)]; got != uint64(i)+1 {
			t.Errorf("payment %d logged %d units; want %d", i, got, i+1)
		}
	}
	if len(transfers) != burst {
		t.Errorf("%d transfers; want %d", len(transfers), burst)
	}
}

func TestAGapHoldsUpWhatFollows(t *testing.T) {
	p := open(t, devnet.Config{})
	first, second := p.signed(0, friend, 1), p.signed(0, friend, 2)
	hash := p.send(second)
	p.mine()
	if got := p.status(hash); got != "pending" {
		t.Errorf("with a nonce missing before it, it has %s; want pending", got)
	}
	p.send(first)
	p.mine()
	if got := p.status(hash); got != "succeeded" {
		t.Errorf("after the gap is filled it has %s; want succeeded", got)
	}
}

func TestPaymentsSentWhileBlocksAreMade(t *testing.T) {
	p := open(t, devnet.Config{BlockTime: 10 * time.Millisecond, Now: time.Now})
	const wallets, each = 4, 100
	var txs [wallets][]*types.Transaction
	var hashes []common.Hash
	for n := range wallets {
		for range each {
			tx := p.signed(n, friend, 1)
			txs[n], hashes = append(txs[n], tx), append(hashes, tx.Hash())
		}
	}
	var sending sync.WaitGroup
	for _, queue := range txs {
		sending.Go(func() {
			for _, tx := range queue {
				if err := p.client.SendTransaction(t.Context(), tx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	// Two more blocks hold every payment that is not mined yet.
	p.mine()
	p.mine()
	for i, r := range p.receipts(hashes) {
		if r == nil || r.Status != types.ReceiptStatusSuccessful {
			t.Fatalf("payment %d: %+v; want mined", i, r)
		}
	}
	if got := p.tokens(friend); got != wallets*each {
		t.Errorf("%d units arrived; want %d", got, wallets*each)
	}
}

func TestReorgMakesPaymentsPendingAgain(t *testing.T) {
	p := open(t, devnet.Config{})
	a := p.pay(friend, 1)
	p.mine()
	b := p.pay(friend, 2)
	p.mine()
	p.mine()
	p.must(p.Reorg(2)) // b's block and the empty one
	if a, b := p.status(a), p.status(b); a != "succeeded" || b != "pending" {
		t.Errorf("after a reorg of 2 the payments have %s and %s; want the second pending", a, b)
	}
	p.mine()
	if got := p.status(b); got != "succeeded" {
		t.Errorf("a block later it has %s; want mined again", got)
	}
	p.must(p.Reorg(1))
	p.DropPending()
	p.mine()
	if got := p.status(b); got != "pending" {
		t.Errorf("after being dropped it has %s; want unknown", got)
	}
	if _, _, err := p.client.TransactionByHash(t.Context(), common.Hash(b)); err == nil {
		t.Error("a dropped payment is still known")
	}
	if err := p.Reorg(devnet.MaxReorg + 1); err == nil {
		t.Error("a reorg deeper than MaxReorg was made")
	}
	if err := p.Reorg(int(p.Head().Number)); err == nil {
		t.Error("a reorg took the token away")
	}
}

func TestTagsLieBehindTheHead(t *testing.T) {
	p := open(t, devnet.Config{})
	for range 9 {
		p.mine()
	}
	number := func(tag rpc.BlockNumber) uint64 {
		h, err := p.client.HeaderByNumber(t.Context(), big.NewInt(tag.Int64()))
		if err != nil {
			t.Fatal(err)
		}
		return h.Number.Uint64()
	}
	got := []uint64{number(rpc.LatestBlockNumber), number(rpc.SafeBlockNumber), number(rpc.FinalizedBlockNumber)}
	if diff := cmp.Diff([]uint64{10, 8, 6}, got); diff != "" {
		t.Errorf("latest, safe, finalized (-want +got):\n%s", diff)
	}
}

func TestBaseFeeRises(t *testing.T) {
	p := open(t, devnet.Config{})
	before, err := p.BaseFee()
	if err != nil {
		t.Fatal(err)
	}
	target := before.ScaleUp(8, 1)
	tx := p.pay(friend, 5)
	start := p.Head()
	p.must(p.RaiseBaseFee(target))
	if after, err := p.BaseFee(); err != nil || after.Less(target) {
		t.Errorf("the base fee is %s, %v; want at least %s", after, err, target)
	}
	if blocks := p.Head().Number - start.Number; blocks > 20 {
		t.Errorf("eightfold took %d blocks; want 18", blocks)
	}
	if got := p.status(tx); got != "pending" {
		t.Errorf("the pending payment has %s", got)
	}
}
