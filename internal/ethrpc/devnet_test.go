package ethrpc_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/ethrpc"
	"remit/internal/keyring"
	"remit/internal/token"
)

// A rig is a real geth in this process, and one of its wallets.
type rig struct {
	*testing.T
	chain *devnet.Chain
	node  *ethrpc.Node
	key   keyring.Key
	fees  chain.Fees
}

func startRig(t *testing.T) *rig {
	t.Helper()
	c, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 2, Now: time.Now})
	must(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	node, err := ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID()})
	must(t, err)
	key, err := keyring.ParseKey(c.Wallets()[0].PrivateKey())
	must(t, err)
	r := &rig{T: t, chain: c, node: node, key: key}
	market, err := node.Fees(t.Context())
	must(t, err)
	r.fees = chain.QuoteFees(market.BaseFee, market.Tip, token.Amount{})
	if r.fees.Tip.IsZero() || r.fees.Cap.IsZero() {
		t.Fatalf("geth quotes %+v", market)
	}
	return r
}

// pay signs a transfer of units at nonce.
func (r *rig) pay(nonce uint64, to token.Address, units uint64) chain.Signed {
	r.Helper()
	return r.sign(nonce, chain.Tx{
		ChainID: r.chain.ID(), To: r.chain.Token().Contract, Data: chain.TransferData(to, token.Units(units)), Gas: 100_000, Fees: r.fees,
	})
}

func (r *rig) sign(nonce uint64, tx chain.Tx) chain.Signed {
	r.Helper()
	signed, err := r.key.Sign(tx, nonce)
	must(r, err)
	return signed
}

func (r *rig) send(signed chain.Signed, want chain.Class) {
	r.Helper()
	if reply := r.node.Send(r.Context(), signed.Raw); reply.Class != want {
		r.Errorf("geth says %q: %s, want %s", reply.Detail, reply.Class, want)
	}
}

func (r *rig) mine() {
	r.Helper()
	must(r, r.chain.Mine())
}

func (r *rig) account(rule chain.ConfirmationRule) chain.Account {
	r.Helper()
	head, err := r.node.Head(r.Context(), rule)
	must(r, err)
	account, err := r.node.Account(r.Context(), r.key.Address(), r.chain.Token().Contract, head)
	must(r, err)
	return account
}

func TestPaysOnARealNode(t *testing.T) {
	r := startRig(t)
	before := r.account(chain.ConfirmationRule{})
	for _, tag := range []string{"safe", "finalized"} {
		if got := r.account(chain.ConfirmationRule{Tag: tag}); got.Final > got.Number {
			t.Errorf("%s: %+v", tag, got)
		}
	}
	to := token.Address{1, 2, 3}
	call := chain.Call{From: r.key.Address(), To: r.chain.Token().Contract, Data: chain.TransferData(to, token.Units(5))}
	gas, err := r.node.Estimate(t.Context(), call)
	if err != nil || gas < chain.NoopGas || gas > 100_000 {
		t.Fatalf("Estimate = %d, %v", gas, err)
	}
	payments := []chain.Signed{r.pay(before.Mined, to, 5), r.pay(before.Mined+1, to, 6)}
	for _, p := range payments {
		r.send(p, chain.Accepted)
	}
	// geth's pool counts a transaction a moment after it has accepted it.
	for pending := before; pending.Pending != before.Mined+2; {
		if pending = r.account(chain.ConfirmationRule{}); pending.Mined != before.Mined || pending.Pending > before.Mined+2 {
			t.Fatalf("before the block: %+v", pending)
		}
	}
	r.mine()
	block := r.chain.Head()
	r.mine()
	r.mine()

	after := r.account(chain.ConfirmationRule{Depth: 2})
	if after.Mined != before.Mined+2 || after.Final != block.Number || after.Number != block.Number+2 ||
		after.Balance != before.Balance.Sub(token.Units(11)) || !after.Gas.Less(before.Gas) {
		t.Errorf("after the block: %+v, before it: %+v", after, before)
	}
	receipts, err := r.node.Receipts(t.Context(), []chain.Hash{payments[0].Hash, {0xff}, payments[1].Hash})
	if err != nil || len(receipts) != 2 {
		t.Fatalf("%d receipts, %v, want 2", len(receipts), err)
	}
	fees, _ := receipts[0].Fee.Add(*receipts[1].Fee)
	if before.Gas.Sub(after.Gas) != fees {
		t.Errorf("%v wei have left the wallet, the receipts tell of %v", before.Gas.Sub(after.Gas), fees)
	}
	for i, receipt := range receipts {
		transfer := chain.Transfer{Contract: r.chain.Token().Contract, From: r.key.Address(), To: to, Amount: token.Units(uint64(5 + i))}
		if verdict := transfer.Judge(receipt); verdict != chain.Transferred || receipt.Block != block.Number || receipt.BlockHash != block.Hash {
			t.Errorf("receipt %+v: %s", receipt, verdict)
		}
	}
	wallets := []token.Address{r.key.Address()}
	moved, err := r.node.Transfers(t.Context(), r.chain.Token().Contract, wallets, 0, block.Number)
	if err != nil || len(moved) != 2 || moved[0].Tx != payments[0].Hash || moved[1].Amount != token.Units(6) || moved[1].To != to || moved[1].BlockHash != block.Hash {
		t.Errorf("Transfers = %+v, %v, want the two", moved, err)
	}
	txs, err := r.node.Transactions(t.Context(), []chain.Hash{payments[1].Hash})
	if err != nil || len(txs) != 1 || txs[0].From != wallets[0] || txs[0].To != r.chain.Token().Contract || txs[0].Nonce != before.Mined+1 || txs[0].Data != string(chain.TransferData(to, token.Units(6))) {
		t.Errorf("Transactions = %+v, %v, want the second", txs, err)
	}
	hashes, err := r.node.BlockHashes(t.Context(), []uint64{block.Number, block.Number + 100})
	if diff := cmp.Diff([]chain.Hash{block.Hash, {}}, hashes); err != nil || diff != "" {
		t.Errorf("block hashes, %v (-want +got):\n%s", err, diff)
	}
	for i, p := range payments {
		got, err := r.node.TxAtNonce(t.Context(), r.key.Address(), before.Mined+uint64(i), after.Final)
		if err != nil || got != p.Hash {
			t.Errorf("TxAtNonce = %v, %v, want %v", got, err, p.Hash)
		}
	}
	if got, err := r.node.TxAtNonce(t.Context(), r.key.Address(), before.Mined, block.Number-1); err != nil || !got.IsZero() {
		t.Errorf("TxAtNonce of the block before = %v, %v, want none", got, err)
	}
}

func TestUnderstandsARealNodesRefusals(t *testing.T) {
	r := startRig(t)
	nonce := r.account(chain.ConfirmationRule{}).Mined
	first := r.pay(nonce, token.Address{1}, 1)
	r.send(first, chain.Accepted)
	r.send(first, chain.Known)
	r.send(r.pay(nonce, token.Address{2}, 1), chain.Replacement)
	r.send(r.pay(nonce+5, token.Address{1}, 1), chain.Accepted) // geth queues a gap in silence
	r.mine()
	r.send(first, chain.NonceTooLow)
	r.send(r.pay(nonce, token.Address{2}, 1), chain.NonceTooLow)

	noop := chain.Noop(r.chain.ID(), r.key.Address(), r.fees)
	dear, large, cheap, foreign, long := noop, noop, noop, noop, noop
	dear.Fees.Cap = token.MaxAmount().Sub(token.Units(1<<40)).ScaleUp(1, 1<<63)
	large.Gas = 1 << 40
	cheap.Fees = chain.Fees{}
	foreign.ChainID++
	long.Data = make([]byte, 200_000)
	for _, row := range []struct {
		name string
		tx   chain.Tx
		want chain.Class
	}{
		{"more than the wallet has", dear, chain.Funds},
		{"more gas than a transaction may have, since Osaka", large, chain.Ambiguous},
		{"no tip", cheap, chain.FeeTooLow},
		{"another chain", foreign, chain.Wrong},
		{"too long", long, chain.Wrong},
		{"too little gas for its data", func() chain.Tx { tx := noop; tx.Data = make([]byte, 100); return tx }(), chain.GasTooLow},
	} {
		t.Run(row.name, func(t *testing.T) { r.send(r.sign(nonce+1, row.tx), row.want) })
	}
	if reply := r.node.Send(t.Context(), []byte{2, 1, 2, 3}); reply.Class != chain.Ambiguous {
		t.Errorf("no transaction at all: %+v", reply)
	}
}

func TestKnowsARealNodesReverts(t *testing.T) {
	r := startRig(t)
	to := token.Address{1, 2, 3}
	call := chain.Call{From: r.key.Address(), To: r.chain.Token().Contract, Data: chain.TransferData(to, token.Units(5))}
	dear := call
	dear.Data = chain.TransferData(to, token.MaxAmount())
	if _, err := r.node.Estimate(t.Context(), dear); !errors.Is(err, chain.ErrReverted) {
		t.Errorf("more than the wallet has: %v, want ErrReverted", err)
	}
	must(t, r.chain.Blacklist(to))
	if _, err := r.node.Estimate(t.Context(), call); !errors.Is(err, chain.ErrReverted) {
		t.Errorf("a blacklisted recipient: %v, want ErrReverted", err)
	}
}

func TestDiscoversATokenOnARealNode(t *testing.T) {
	r := startRig(t)
	id, asset, err := ethrpc.Discover(t.Context(), r.chain.URL(), r.chain.Token().Contract)
	if err != nil || id != r.chain.ID() || asset != r.chain.Token() {
		t.Errorf("Discover = %d, %+v, %v, want %d, %+v", id, asset, err, r.chain.ID(), r.chain.Token())
	}
	if _, asset, err := ethrpc.Discover(t.Context(), r.chain.URL(), r.key.Address()); !errors.Is(err, ethrpc.ErrToken) {
		t.Errorf("Discover of an account = %+v, %v, want ErrToken", asset, err)
	}
	wrong, err := ethrpc.Open(r.chain.URL(), ethrpc.Config{ChainID: id + 1})
	must(t, err)
	if _, err := wrong.Fees(t.Context()); !errors.Is(err, chain.ErrWrongChain) {
		t.Errorf("Fees of another chain: %v, want ErrWrongChain", err)
	}
}
