package devnet_test

import (
	"context"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// fixed is a clock that stands still, so that timestamps follow from the number of blocks alone.
func fixed() time.Time { return time.Unix(1_800_000_000, 0) }

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
		cfg.Now = fixed
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

func (p *payer) send(tx chain.Signed) chain.Hash {
	p.t.Helper()
	must.OK(p.t, p.client.Client().CallContext(p.t.Context(), nil, "eth_sendRawTransaction", hexutil.Bytes(tx.Raw)))
	return tx.Hash
}

// pay sends a transfer from wallet 0 and returns its hash.
func (p *payer) pay(to token.Address, units uint64) chain.Hash {
	p.t.Helper()
	return p.send(p.signed(0, to, units))
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
	amount := must.Get(p.TokenBalance(p.t.Context(), a))(p.t)
	units, _ := amount.Uint64()
	return units
}

// friend is an ordinary recipient.
var friend, stranger = token.Address{0: 0xf0, 19: 0x0d}, token.Address{0: 0x57, 19: 0x0d}

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

// estimate returns the gas of a transfer from wallet 0.
func (p *payer) estimate(to token.Address, units uint64) (uint64, error) {
	contract := common.Address(p.Token().Contract)
	return p.client.EstimateGas(p.t.Context(), ethereum.CallMsg{
		From: common.Address(p.Wallets()[0].Address), To: &contract, Data: chain.TransferData(to, token.Units(units)),
	})
}
