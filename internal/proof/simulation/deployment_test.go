package simulation_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// A network is a chain that a deployment can run on: the fake one, or a real EVM.
type network struct {
	id          uint64
	coin        token.Token
	node        chain.Node
	keys        wallet.Keys
	wallets     []token.Address
	mine        func()
	mineExactly func(raw ...[]byte)
	reorg       func(depth int) // the transactions of the old blocks are pending again
	forget      func()
	feesUp      func() // eightfold
	feesDown    func()
	blacklist   func(token.Address)
	returnFalse func(token.Address)
}

// fakeChain returns a network of so many rich wallets on a fake chain.
func fakeChain(depth uint64, wallets int) (network, *fakechain.Chain) {
	c := fakechain.New(7, token.Address{0xc0}, depth, 1)
	keys := &fakechain.Keys{}
	for i := range wallets {
		keys.Add(fakechain.Wallet(i))
		c.Fund(fakechain.Wallet(i), unit(1e15), unit(1e18))
	}
	return network{
		id: 7, coin: token.Token{Symbol: "USDC", Decimals: 6, Contract: c.Token}, node: c.Nodes[0], keys: keys, wallets: keys.All(),
		mine:        func() { c.Mine(c.Nodes[0]) },
		mineExactly: c.MineExactly,
		reorg:       func(depth int) { c.Abandon(uint64(depth)) },
		forget:      c.Nodes[0].Forget,
		feesUp:      func() { c.BaseFee = spike },
		feesDown:    func() { c.BaseFee = quiet },
		blacklist:   func(a token.Address) { c.Recipients[a] = fakechain.Reverts },
		returnFalse: func(a token.Address) { c.Recipients[a] = fakechain.ReturnsFalse },
	}, c
}

// A deployment is one dispatcher and one settler on a network, without faults
// and without a scheduler. It records the operations of their calls.
type deployment struct {
	network
	t       *testing.T
	store   *memory.Payments
	pay     *dispatch.Dispatcher
	settler *settlement.Settler
	now     time.Time
	calls   calls // of the store
	rpc     calls // requests to the node
}

// newDeployment deploys on a network with confirmation after depth blocks.
func newDeployment(t *testing.T, on network, depth uint64) *deployment {
	d := &deployment{network: on, t: t, store: memory.NewPayments(), now: time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)}
	now := func() time.Time { return d.now }
	log := slog.New(slog.DiscardHandler)
	config := stack.Config{ChainID: on.id, Token: on.coin, Network: "n", Own: stack.Own{Window: 10_000},
		BlockTime: 12 * time.Second, ConfirmationRule: chain.ConfirmationRule{Depth: depth},
		ReservationAge: time.Minute, BumpAfter: time.Hour}
	store := &interpose.Store{Store: d.store, Around: d.calls.around}
	nodes := chain.Nodes{interpose.Node{Node: on.node, Around: d.rpc.around}}
	unlimited := settings.Default(settings.Rail{ChainID: on.id, Token: on.coin, Network: "n"})
	unlimited.MerchantCap = 100
	_ = d.store.SetSettings(t.Context(), unlimited)
	for _, a := range on.wallets {
		_ = d.store.Register(t.Context(), wallet.Registration{ID: wallet.ID{ChainID: on.id, Address: a}, Token: on.coin.Contract,
			State: wallet.Active, Key: wallet.InSecret})
	}
	d.pay = dispatch.New(config, dispatch.Parts{Store: store, Keys: on.keys, Nodes: nodes, Hints: silent{}, Log: log,
		Now: now, Draw: rand.New(rand.NewPCG(1, 1)).IntN})
	d.settler = settlement.New(config, settlement.Parts{Store: store, Keys: on.keys, Nodes: nodes, Events: silent{}, Log: log, Now: now})
	return d
}

// send pays an order and returns the payment as stored.
func (d *deployment) send(o oracle.Order) payment.Payment {
	d.t.Helper()
	result := must.Get(d.pay.Send(d.t.Context(), o.Request()))(d.t)
	return result.Payment
}

// round lets one round of check-receipts run.
func (d *deployment) round() settlement.Report {
	d.t.Helper()
	return must.Get(d.settler.Round(d.t.Context(), "run", true))(d.t)
}

// silent drops hints and events.
type silent struct{}

// Hint implements dispatch.Hinter.
func (silent) Hint(context.Context) error { return nil }

// Named implements settlement.Events.
func (silent) Named(context.Context, webhook.Owner, string) (bool, error) { return false, nil }

// Publish implements settlement.Events.
func (silent) Publish(context.Context, webhook.Event) error { return nil }

// calls records the calls of a port, in the order they began.
type calls struct {
	mu  sync.Mutex
	all []interpose.Call
}

func (c *calls) around(ctx context.Context, call interpose.Call, apply func(context.Context)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
	apply(ctx)
	return nil
}

// take returns the operations of the calls since it was last called.
func (c *calls) take() []string {
	ops := make([]string, len(c.all))
	for i, call := range c.all {
		ops[i] = call.Op
	}
	c.all = nil
	return ops
}
