package devnet_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// A payer sends transfers from the first wallets over JSON-RPC, as Remit does.
type payer struct {
	*devnet.Chain
	t      testing.TB
	client *ethclient.Client
	nonces map[int]uint64
}

// open starts a chain that mines on demand and a client of it.
func open(t testing.TB, cfg devnet.Config) *payer {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return time.Unix(1_800_000_000, 0) } // timestamps follow from the number of blocks
	}
	c := must.Get(devnet.Start(t.Context(), cfg))(t)
	client := must.Get(ethclient.DialContext(t.Context(), c.URL()))(t)
	t.Cleanup(func() {
		client.Close()
		must.OK(t, c.Close())
	})
	return &payer{Chain: c, t: t, client: client, nonces: make(map[int]uint64)}
}

// signed is a transfer from wallet n at its next nonce.
func (p *payer) signed(n int, to token.Address, units uint64) chain.Signed {
	p.t.Helper()
	return p.sign(n, p.Token().Contract, chain.TransferData(to, token.Units(units)))
}

// sign signs a call by wallet n at its next nonce.
func (p *payer) sign(n int, to token.Address, data []byte) chain.Signed {
	p.t.Helper()
	key := must.Get(keyring.ParseKey(p.Wallets()[n].PrivateKey()))(p.t)
	signed := must.Get(key.Sign(context.Background(), chain.Tx{
		ChainID: p.ID(), To: to, Data: data, Gas: 150_000,
		Fees: chain.Fees{Tip: token.Units(1e9), Cap: token.Units(100e9)},
	}, p.nonces[n]))(p.t)
	p.nonces[n]++
	return signed
}

// pay sends a transfer from wallet 0 and returns its hash.
func (p *payer) pay(to token.Address, units uint64) chain.Hash {
	p.t.Helper()
	tx := p.signed(0, to, units)
	must.OK(p.t, p.client.Client().CallContext(p.t.Context(), nil, "eth_sendRawTransaction", hexutil.Bytes(tx.Raw)))
	return tx.Hash
}

func (p *payer) mine() {
	p.t.Helper()
	must.OK(p.t, p.Mine())
}

// receipt returns the receipt of a transaction, nil if it is not mined.
func (p *payer) receipt(tx chain.Hash) *types.Receipt {
	p.t.Helper()
	r, err := p.client.TransactionReceipt(p.t.Context(), common.Hash(tx))
	if err != nil && err.Error() != "not found" {
		p.t.Fatal(err)
	}
	return r
}

func (p *payer) status(tx chain.Hash) string {
	p.t.Helper()
	switch r := p.receipt(tx); {
	case r == nil:
		return "pending"
	case r.Status == types.ReceiptStatusSuccessful:
		return "succeeded"
	default:
		return "reverted"
	}
}

func (p *payer) tokens(a token.Address) uint64 {
	p.t.Helper()
	units, _ := must.Get(p.Account(p.t.Context(), a))(p.t).Balance.Uint64()
	return units
}

// friend is an ordinary recipient.
var friend = token.Address{0: 0xf0, 19: 0x0d}

func TestStartFindsEverythingInPlace(t *testing.T) {
	p := open(t, devnet.Config{Wallets: 3, ChainID: 84532})
	id, err := p.client.ChainID(t.Context())
	if err != nil || id.Uint64() != 84532 {
		t.Errorf("eth_chainId = %d, %v; want 84532", id, err)
	}
	for n, w := range p.Wallets() {
		if got := p.tokens(w.Address); got != 1_000_000_000_000 {
			t.Errorf("wallet %d holds %d units; want 1,000,000 USDC", n, got)
		}
		if key, err := keyring.ParseKey(w.PrivateKey()); err != nil || key.Address() != w.Address {
			t.Errorf("wallet %d: the key is %s's, not %s's, %v", n, key.Address(), w.Address, err)
		}
	}
	// The seed is published: another tool that imports it must find the same wallet.
	if got, want := p.Wallets()[0].Address.String(), "0xC85186Ecd6f3a98d768F1f61F45d850a67817e4e"; got != want {
		t.Errorf("wallet 0 is %s; want %s", got, want)
	}
	if q := open(t, devnet.Config{Seed: "another"}); p.Wallets()[0] == q.Wallets()[0] {
		t.Error("two seeds give the same key")
	}
}

func TestServiceRefusesForeignHostNames(t *testing.T) {
	p := open(t, devnet.Config{})
	for host, want := range map[string]int{
		"127.0.0.1:8545": http.StatusOK, "localhost": http.StatusOK, "[::1]:8545": http.StatusOK,
		"evil.example": http.StatusForbidden, // its DNS may say 127.0.0.1
	} {
		body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`)
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL(), body))(p.t)
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		answer := must.Get(http.DefaultClient.Do(r))(p.t)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("Host %s: %d; want %d", host, answer.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
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
		if len(r.Logs) != 1 || r.Logs[0].BlockNumber != head.Number || r.Logs[0].BlockHash != common.Hash(head.Hash) {
			t.Errorf("at block %d it has the logs %+v; want the transfer's", head.Number, r.Logs)
		}
	}
	if r := p.receipt(after); r == nil || r.BlockNumber.Uint64() != mined {
		t.Errorf("the wallet's next payment was not mined beside it: %+v", r)
	}
	if mined := must.Get(p.Account(t.Context(), p.Wallets()[0].Address))(t).Mined; mined != 2 {
		t.Errorf("the wallet's mined count is %d; want 2", mined)
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
	if got, neighbour := p.status(tx), p.status(beside); got != "pending" || neighbour != "pending" {
		t.Fatalf("after the reorg the payment has %s, and its neighbour %s; want pending", got, neighbour)
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
	for depth, why := range map[int]string{65: "that the pool does not follow", int(p.Head().Number): "that takes the token away"} {
		if p.Reorg(depth) == nil {
			t.Errorf("a reorg of %d was made, %s", depth, why)
		}
	}
}

// TestOneBalance: the balance in 18 decimals falls by amounts and fees, to the wei, balanceOf is its whole units, and a
// block is final at once. Blocks that are replaced give all of it back.
func TestOneBalance(t *testing.T) {
	c := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 1, TokenGas: true, Now: time.Now}))(t)
	defer func() { must.OK(t, c.Close()) }()
	rule := devnet.GasRule(c.Token().Contract)
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
	want := first.Gas
	for nonce := range uint64(3) {
		market := must.Get(node.Fees(t.Context()))(t)
		to := token.Address{0: 9, 19: byte(nonce)}
		signed := must.Get(key.Sign(t.Context(), chain.Tx{ChainID: c.ID(), To: c.Token().Contract, Gas: 100_000,
			Data: chain.TransferData(to, token.Units(5)), Fees: chain.QuoteFees(market.BaseFee, market.Tip, token.Amount{})}, nonce))(t)
		if reply := node.Send(t.Context(), signed.Raw); !reply.Class.Held() {
			t.Fatal(reply)
		}
		must.OK(t, c.Mine())
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
}

// start runs a chain until the test ends.
func start(t *testing.T, config devnet.Config) *devnet.Chain {
	t.Helper()
	config.Listen, config.BlockTime, config.Now = "127.0.0.1:0", 50*time.Millisecond, time.Now
	chain := must.Get(devnet.Start(t.Context(), config))(t)
	t.Cleanup(func() { _ = chain.Close() })
	return chain
}

// TestGive: the balances of an empty account are the sum of its gifts.
func TestGive(t *testing.T) {
	to := token.Address{19: 0x77}
	for _, config := range []devnet.Config{{}, devnet.Config{}.EURC()} {
		chain := start(t, config)
		for n := range uint64(2) {
			must.OK(t, devnet.Give(t.Context(), chain.URL(), to, token.Units(5), token.Units(7)))
			if has := must.Get(chain.Account(t.Context(), to))(t); has.Balance != token.Units(5*(n+1)) || has.Gas != token.Units(7*(n+1)) {
				t.Errorf("%+v: after %d gifts: %v tokens, %v wei", config, n+1, has.Balance, has.Gas)
			}
		}
	}
}

// TestOtherChains: one with another id and one with other keys are refused.
func TestOtherChains(t *testing.T) {
	for _, config := range []devnet.Config{{ChainID: 1}, {Seed: "another"}} {
		chain := start(t, config)
		if err := devnet.Give(t.Context(), chain.URL(), token.Address{19: 0x77}, token.Units(1),
			token.Units(1)); !errors.Is(err, devnet.ErrForeign) {
			t.Errorf("%+v: %v", config, err)
		}
	}
}
