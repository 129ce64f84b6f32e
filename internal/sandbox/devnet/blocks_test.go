package devnet_test

import (
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

func TestBurstLeavesNoHole(t *testing.T) {
	p := open(t, devnet.Config{})
	const burst = 500
	var txs []chain.Signed
	for i := range uint64(burst) {
		txs = append(txs, p.signed(0, friend, i+1))
	}
	// Last nonce first: the pool must keep transactions after a gap.
	for _, tx := range slices.Backward(txs) {
		p.send(tx)
	}
	p.mine()
	transfers := must.Get(p.TransferLogs(t.Context()))(p.t)
	seen := make(map[chain.Hash]token.Amount)
	for _, transfer := range transfers {
		seen[transfer.Tx] = transfer.Amount
	}
	for i, tx := range txs {
		if r := p.receipt(tx.Hash); r == nil || r.Status != types.ReceiptStatusSuccessful || chain.Hash(r.TxHash) != tx.Hash {
			t.Fatalf("payment %d: %+v; want mined in the next block", i, r)
		}
		if got := seen[tx.Hash]; got != token.Units(uint64(i)+1) {
			t.Errorf("payment %d logged %s units; want %d", i, got, i+1)
		}
	}
	if len(transfers) != burst {
		t.Errorf("%d transfers; want %d", len(transfers), burst)
	}
}

func TestPaymentsSentWhileBlocksAreMade(t *testing.T) {
	p := open(t, devnet.Config{BlockTime: 10 * time.Millisecond, Now: time.Now})
	const wallets, each = 4, 100
	var txs [wallets][]chain.Signed
	for n := range wallets {
		for range each {
			txs[n] = append(txs[n], p.signed(n, friend, 1))
		}
	}
	var sending sync.WaitGroup
	for _, queue := range txs {
		sending.Go(func() {
			for _, tx := range queue {
				if err := p.client.Client().CallContext(t.Context(), nil, "eth_sendRawTransaction", hexutil.Bytes(tx.Raw)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	// Two more blocks hold every payment that is not mined yet.
	p.mine()
	p.mine()
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

func TestTagsLieBehindTheHead(t *testing.T) {
	p := open(t, devnet.Config{})
	for range 9 {
		p.mine()
	}
	for tag, want := range map[rpc.BlockNumber]uint64{rpc.LatestBlockNumber: 10, rpc.SafeBlockNumber: 8, rpc.FinalizedBlockNumber: 6} {
		if h, err := p.client.HeaderByNumber(t.Context(), big.NewInt(tag.Int64())); err != nil || h.Number.Uint64() != want {
			t.Errorf("%s is %v, %v; want block %d", tag, h, err, want)
		}
	}
}

func TestBaseFeeRises(t *testing.T) {
	p := open(t, devnet.Config{})
	before := must.Get(p.BaseFee())(p.t)
	target := before.ScaleUp(8, 1)
	tx := p.pay(friend, 5)
	start := p.Head()
	must.OK(p.t, p.RaiseBaseFee(target))
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
