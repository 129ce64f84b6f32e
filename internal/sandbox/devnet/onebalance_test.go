package devnet_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestOneBalance: the balance in 18 decimals falls by amounts and fees, to the wei, balanceOf is its whole units, and a
// block is final at once. Blocks that are replaced give all of it back, and their transactions pay once in another one.
func TestOneBalance(t *testing.T) {
	c := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 1, TokenGas: true, Now: time.Now}))(t)
	defer func() { must.OK(t, c.Close()) }()
	rule := devnet.GasRule(c.Token().Contract, false)
	node := must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID(), Gas: rule}))(t)
	w := c.Wallets()[0]
	key := must.Get(keyring.ParseKey(w.PrivateKey()))(t)
	head := func() chain.Head {
		return must.Get(node.Head(t.Context(), chain.ConfirmationRule{Tag: "finalized"}))(t)
	}
	account := func() chain.Account {
		return must.Get(node.Account(t.Context(), w.Address, c.Token().Contract, head()))(t)
	}
	unit := uint64(rule.Unit(c.Token()))
	first := account()
	if wei, _ := first.Balance.Times(unit); first.Gas != wei {
		t.Fatalf("at the start %+v", first)
	}
	want, hashes := first.Gas, []chain.Hash{}
	for nonce := range uint64(3) {
		market := must.Get(node.Fees(t.Context()))(t)
		to := token.Address{0: 9, 19: byte(nonce)}
		signed := must.Get(key.Sign(t.Context(), chain.Tx{ChainID: c.ID(), To: c.Token().Contract, Gas: 100_000,
			Data: chain.TransferData(to, token.Units(5)), Fees: chain.QuoteFees(market.BaseFee, market.Tip, token.Amount{})}, nonce))(t)
		if reply := node.Send(t.Context(), signed.Raw); !reply.Class.Held() {
			t.Fatal(reply)
		}
		must.OK(t, c.Mine())
		hashes = append(hashes, signed.Hash)
		receipt := must.Get(node.Receipts(t.Context(), []chain.Hash{signed.Hash}))(t)[0]
		want = want.Sub(token.Units(5 * unit)).Sub(*receipt.Fee)
		got := account()
		if got.Gas != want || got.Balance != want.Over(unit) || got.Mined != nonce+1 || head().Final != receipt.Block {
			t.Errorf("after %d: %+v, want %s wei; block %d, final %d", nonce+1, got, want, receipt.Block, head().Final)
		}
	}
	if moved := must.Get(node.Transfers(t.Context(), c.Token().Contract, []token.Address{w.Address}, 1, head().Number))(t); len(moved) != 3 {
		t.Errorf("%d transfers, fees among them: %v", len(moved), moved)
	}
	must.OK(t, c.Reorg(3))
	if got := account(); got.Gas != first.Gas || got.Balance != first.Balance {
		t.Errorf("after a reorg %+v, want %+v", got, first)
	}
	must.OK(t, c.Mine())
	want = first.Gas
	for _, receipt := range must.Get(node.Receipts(t.Context(), hashes))(t) {
		want = want.Sub(token.Units(5 * unit)).Sub(*receipt.Fee)
	}
	if got := account(); got.Mined != 3 || got.Gas != want || got.Balance != want.Over(unit) {
		t.Errorf("mined again %+v, want %s wei", got, want)
	}
}
