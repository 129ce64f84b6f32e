package simulation_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
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

func fakeChain(depth uint64, wallets int) (network, *fakechain.Chain) {
	c := fakechain.New(7, token.Address{0xc0}, depth, 1)
	keys := &fakechain.Keys{}
	for i := range wallets {
		keys.Add(fakechain.Wallet(i))
		c.Fund(fakechain.Wallet(i), unit(1e15), unit(1e18))
	}
	return network{
		id: 7, coin: token.Token{Symbol: "USDC", Decimals: 6, Contract: c.Token}, node: c.Nodes[0], keys: keys,
		wallets: keys.All(), mine: func() { c.Mine(c.Nodes[0]) },
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
		_ = d.store.Register(t.Context(), wallet.Registration{ID: wallet.ID{ChainID: on.id, Address: a},
			Token: on.coin.Contract, State: wallet.Active, Key: wallet.InSecret})
	}
	d.pay = dispatch.New(config, dispatch.Parts{Store: store, Keys: on.keys, Nodes: nodes, Hints: porttest.Unheard{}, Log: log,
		Now: now, Draw: rand.New(rand.NewPCG(1, 1)).IntN})
	d.settler = settlement.New(config, settlement.Parts{Store: store, Keys: on.keys, Nodes: nodes,
		Events: porttest.Unheard{}, Log: log, Now: now})
	return d
}

func (d *deployment) send(o oracle.Order) payment.Payment {
	d.t.Helper()
	return must.Get(d.pay.Send(d.t.Context(), o.Request()))(d.t).Payment
}

func (d *deployment) round() settlement.Report {
	d.t.Helper()
	return must.Get(d.settler.Round(d.t.Context(), "run", true))(d.t)
}

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

const costWallets = 16

func newCostDeployment(t *testing.T) (*deployment, *fakechain.Chain) {
	on, fake := fakeChain(1, costWallets)
	return newDeployment(t, on, 1), fake
}

// counted returns how many operations there are, and how many of them only read.
func counted(ops []string) (all, reads int) {
	for _, op := range ops {
		if slices.Contains([]string{"Wallets", "Wallet", "PendingTxs", "PendingTx", "Payment", "PaymentByHash", "Compared"}, op) {
			reads++
		}
	}
	return len(ops), reads
}

// TestCostOfSettling: the requests and reads of a round grow with the number of mined payments, not of pending ones.
func TestCostOfSettling(t *testing.T) {
	const each = 7 // mined per wallet, 112 in all
	for _, pending := range []int{1_000, 10_000} {
		t.Run(fmt.Sprintf("%d pending", pending), func(t *testing.T) {
			d, fake := newCostDeployment(t)
			for n := range pending {
				d.send(order(n))
			}
			d.round() // stores the spendable balances
			d.calls.take()
			d.rpc.take()
			report := d.round()
			is(t, "pending", report.Pending, pending)
			is(t, "requests with nothing mined", len(d.rpc.take()), 2+costWallets)
			_, reads := counted(d.calls.take())
			is(t, "reads with nothing mined", reads, 2+2*costWallets)

			fake.PerSender = each
			fake.Mine(fake.Nodes[0])
			fake.PerSender = 0
			fake.Abandon(0) // one empty block makes it final
			report = d.round()
			is(t, "confirmed", report.Confirmed, each*costWallets)
			is(t, "receipts asked for", d.receipts(), each*costWallets)
			// An account, a count and receipts of each wallet, and at most one check behind them, of two; blocks once.
			if n := len(d.rpc.take()); n > 3+5*costWallets {
				t.Errorf("%d requests with 112 mined", n)
			}
			all, reads := counted(d.calls.take())
			is(t, "reads with 112 mined", reads, 2+2*costWallets+each*costWallets)
			// Claim, RaiseCeiling and Reconcile of each wallet, Finish and DeletePendingTx of each payment.
			is(t, "writes with 112 mined", all-reads, 3*costWallets+2*each*costWallets)
		})
	}
}

type untelling struct{ chain.Node }

func (untelling) Count(context.Context, token.Address, uint64) (uint64, error) {
	return 0, fakechain.ErrDown
}

// TestCostOfWaitingForFinality: a payment costs one receipt, when it is final; only nonce 0 costs one in
// each round before. Where a node does not tell how many are final, every receipt is asked for, and the
// payments end alike. Progress costs no write: a round that finds nothing new claims each wallet, as ever.
func TestCostOfWaitingForFinality(t *testing.T) {
	const wallets, mined, depth = 2, 40, 50
	for _, row := range []struct {
		telling bool
		asked   int
	}{{true, wallets}, {false, mined * wallets}} {
		on, fake := fakeChain(depth, wallets)
		if !row.telling {
			on.node = untelling{on.node}
		}
		d := newDeployment(t, on, depth)
		for n := range mined * wallets {
			d.send(order(n))
		}
		d.round() // stores the spendable balances
		fake.PerSender = mined / 2
		fake.Mine(fake.Nodes[0])
		fake.PerSender = 0
		fake.Mine(fake.Nodes[0])
		d.calls.take()
		d.round()
		all, reads := counted(d.calls.take())
		is(t, "writes of the round that sees them mined", all-reads, 3*wallets) // claim, ceiling and balances
		for n := range uint64(wallets) {
			w, err := d.store.Wallet(t.Context(), wallet.ID{ChainID: on.id, Address: fakechain.Wallet(int(n))})
			if err != nil || w.Progress.Mined != mined {
				t.Errorf("%+v, %v", w.Progress, err)
			}
		}
		d.rpc.take()
		is(t, "confirmed before they are final", d.round().Confirmed, 0)
		is(t, "receipts asked for", d.receipts(), row.asked)
		all, reads = counted(d.calls.take())
		is(t, "writes of a round that sees nothing new", all-reads, wallets)
		for range depth {
			fake.Mine(fake.Nodes[0])
		}
		d.rpc.take()
		is(t, "confirmed", d.round().Confirmed, mined*wallets)
		is(t, "receipts asked for once they are final", d.receipts(), mined*wallets)
	}
}

// receipts returns how many receipts were asked for since the requests were last taken.
func (d *deployment) receipts() (all int) {
	for _, call := range d.rpc.all {
		if n := 0; call.Op == "Receipts" {
			must.Get(fmt.Sscanf(call.Args, "node0 of %d", &n))(d.t)
			all += n
		}
	}
	return all
}

// TestCostOfAPayment: creation, reservation and commit, one after the other, then the release beside the broadcast; one
// request to a node before the reservation and one after it. The list of whom nobody pays is asked in the first of
// them, and the operator's own is read beside it, once in a while.
func TestCostOfAPayment(t *testing.T) {
	d, _ := newCostDeployment(t)
	d.send(order(0)) // the first asks for fees and the deny list, and looks at every wallet
	d.calls.take()
	d.rpc.take()
	for _, payment := range []struct {
		name       string
		n          int
		later      time.Duration
		calls, rpc []string
	}{
		{"a payment", 1, 0, []string{"Create", "Reserve", "Commit", "Release"}, []string{"Estimate", "Send"}},
		{"a replay", 1, 0, []string{"Create"}, []string{"Estimate"}},
		{"a payment with an old quote and deny list", 2, time.Minute,
			[]string{"Rules", "Create", "Reserve", "Commit", "Release"}, []string{"Estimate", "Fees", "Send"}},
		{"a payment by a registry that is read again", 3, time.Hour, []string{"Rules", "Wallets", "Create", "Reserve", "Commit", "Release"},
			[]string{"Estimate", "Fees", "Send"}},
	} {
		d.now = d.now.Add(payment.later)
		d.send(order(payment.n))
		if calls := d.calls.take(); !slices.Equal(calls, payment.calls) {
			t.Errorf("%s: store calls %v, want %v", payment.name, calls, payment.calls)
		}
		rpc := d.rpc.take()
		slices.Sort(rpc) // Estimate and Fees go at once
		if !slices.Equal(rpc, payment.rpc) {
			t.Errorf("%s: requests %v, want %v", payment.name, rpc, payment.rpc)
		}
	}
}

// run lets a minute elapse, and a round of check-receipts run.
func (d *deployment) run() {
	d.t.Helper()
	d.now = d.now.Add(61 * time.Second)
	d.round()
}

func (d *deployment) final() {
	d.t.Helper()
	for range 3 {
		d.mine()
	}
	d.run()
}

func (d *deployment) stored(n int) payment.Payment {
	d.t.Helper()
	return must.Get(d.store.Payment(context.Background(), order(n).ID()))(d.t)
}

// An ending is all that the two networks must agree on.
type ending struct {
	state    payment.State
	code     payment.FailureCode
	original bool // the first attempt was mined
	bumped   bool
	next     uint64
	paused   bool
}

func (d *deployment) ending() ending {
	d.t.Helper()
	stored := d.stored(0)
	w := must.Get(d.store.Wallet(context.Background(), wallet.ID{ChainID: d.id, Address: stored.Wallet}))(d.t)
	return ending{stored.State, codeOf(stored), stored.Onchain == stored.TxHash, len(stored.Attempts) > 1, w.NextNonce, w.Paused != ""}
}

// TestConformance runs the same cases on the fake chain and on a real EVM, and wants the same ending, because a
// simulation on the fake chain shows nothing about behaviour that a real chain does not share.
func TestConformance(t *testing.T) {
	confirmed := ending{state: payment.Confirmed, original: true, next: 1}
	for name, c := range map[string]struct {
		run  func(*deployment)
		want ending
	}{
		"a payment is final after two more blocks": {func(d *deployment) {
			d.send(order(0))
			d.mine()
			d.mine()
			d.run()
			is(d.t, "one block too early", d.stored(0).State, payment.Committed)
			d.mine()
			d.run()
		}, confirmed},
		"the pool is forgotten": {func(d *deployment) {
			d.send(order(0))
			d.forget()
			d.run()
			d.final()
		}, confirmed},
		"a reorg before finality": {func(d *deployment) {
			d.send(order(0))
			d.mine()
			d.run()
			d.reorg(1)
			d.run()
			is(d.t, "after the reorg", d.stored(0).State, payment.Committed)
			d.final()
		}, confirmed},
		"re-mined as reverted": {func(d *deployment) {
			d.send(order(0))
			d.mine()
			d.reorg(1)
			d.forget()
			d.blacklist(order(0).To)
			d.run()
			d.final()
		}, ending{state: payment.Failed, code: payment.ExecutionReverted, original: true, next: 1}},
		"the token returns false": {func(d *deployment) {
			d.returnFalse(order(0).To)
			d.send(order(0))
			d.final()
		}, ending{state: payment.Failed, code: payment.TransferMissing, original: true, next: 1}},
		"the price rises eightfold and stays": {func(d *deployment) {
			d.send(order(0))
			d.feesUp()
			d.now = d.now.Add(time.Hour) // a bump waits no longer
			d.run()                      // bumps to the fees of the market
			d.final()
		}, ending{state: payment.Confirmed, bumped: true, next: 1}},
		"the bump is sent and the original mined": {func(d *deployment) {
			sent := d.send(order(0))
			d.feesUp()
			d.now = d.now.Add(time.Hour) // a bump waits no longer
			d.run()
			d.feesDown()
			d.mineExactly(sent.Attempts[0].Raw)
			d.final()
		}, ending{state: payment.Confirmed, original: true, bumped: true, next: 1}},
		"a thief uses the nonce": {func(d *deployment) {
			sent := d.send(order(0))
			known := wallet.Registration{ID: wallet.ID{Address: sent.Wallet}, Key: wallet.InSecret}
			signer := must.Get(d.keys.Signer(d.t.Context(), known))(d.t)
			tx := sent.Tx
			tx.Data = chain.TransferData(order(1).To, unit(5))
			foreign := must.Get(signer.Sign(context.Background(), tx, sent.Nonce))(d.t)
			d.forget()
			d.mineExactly(foreign.Raw)
			d.final()
		}, ending{state: payment.Failed, code: payment.NonceConsumed, next: 1, paused: true}},
	} {
		for kind, network := range map[string]func(*testing.T) network{"fake": fakeNetwork, "real": realNetwork} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				d := newDeployment(t, network(t), 2)
				c.run(d)
				if got := d.ending(); got != c.want {
					t.Errorf("ends as %+v, want %+v", got, c.want)
				}
			})
		}
	}
}

func fakeNetwork(*testing.T) network {
	on, _ := fakeChain(2, 1)
	return on
}

func realNetwork(t *testing.T) network {
	t.Helper()
	burner := token.Address{0: 0x7e, 1: 0x57, 19: 0xff} // a call uses up all of its gas
	c := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 2, Now: time.Now,
		Contracts: map[token.Address][]byte{burner: {0xfe}}}))(t) // INVALID
	t.Cleanup(func() { must.OK(t, c.Close()) })
	node := must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID()}))(t)
	key, rich := must.Get(keyring.ParseKey(c.Wallets()[0].PrivateKey()))(t), must.Get(keyring.ParseKey(c.Wallets()[1].PrivateKey()))(t)
	burn := chain.Tx{ChainID: c.ID(), To: burner, Gas: 1 << 24, Fees: chain.Fees{Tip: token.Units(1), Cap: token.Units(1e12)}}
	burnt := uint64(0)
	before := must.Get(c.BaseFee())(t)
	return network{
		id: c.ID(), coin: c.Token(), node: node,
		wallets: []token.Address{key.Address()},
		keys: keyring.New(func(token.Address) keyring.Read {
			return func(context.Context) (keyring.Key, error) { return key, nil }
		}),
		mine:        func() { must.OK(t, c.Mine()) },
		mineExactly: func(raw ...[]byte) { must.OK(t, c.MineExactly(raw...)) },
		reorg:       func(depth int) { must.OK(t, c.Reorg(depth)) },
		forget:      c.DropPending,
		feesUp: func() {
			for high := must.Get(must.Get(c.BaseFee())(t).Times(8))(t); must.Get(c.BaseFee())(t).Less(high); {
				var raw [][]byte // fills a block of 300 million gas nearly; EIP-1559 then allows 12.5 % more
				for range 17 {
					raw = append(raw, must.Get(rich.Sign(t.Context(), burn, burnt))(t).Raw)
					burnt++
				}
				must.OK(t, c.MineExactly(raw...))
			}
			time.Sleep(time.Second) // while calls share a fee
		},
		feesDown: func() {
			for now := token.MaxAmount(); before.Less(now); {
				must.OK(t, c.MineExactly())
				now = must.Get(c.BaseFee())(t)
			}
		},
		blacklist:   func(a token.Address) { must.OK(t, c.Own("blacklist", a)) },
		returnFalse: func(a token.Address) { must.OK(t, c.Own("setBehaviour", a, devnet.ReturnFalse)) },
	}
}
