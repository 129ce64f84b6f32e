package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/recovery"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

var coin = token.Token{Contract: token.Address{0xc0}, Symbol: "USDC", Decimals: 6}

// Of the payment that is lost: its request, its ID, its wallet and its transaction.
var (
	order    = payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "1", To: fakechain.Payee(0), Amount: token.Units(7)}
	lost     = payment.KeyID("mer_1", "test", "1")
	first    = wallet.ID{ChainID: 1, Address: fakechain.Wallet(0)}
	transfer = chain.Tx{ChainID: 1, To: coin.Contract, Data: append(chain.TransferData(order.To, order.Amount), lost.Memo()...),
		Gas: 100_000, Fees: chain.Fees{Tip: token.Units(1), Cap: token.Units(1000)}}
)

// world is a chain, two funded wallets, empty tables, and a recovery whose waits make blocks, and dry runs no write.
func world(t *testing.T, wei uint64) (c *fakechain.Chain, tables *memory.Payments, r *recovery.Recovery,
	mine func(blocks int)) {
	keys := &fakechain.Keys{}
	c, tables = fakechain.New(1, coin.Contract, 1, 3), memory.NewPayments()
	for n := range 2 {
		keys.Add(fakechain.Wallet(n))
		c.Fund(fakechain.Wallet(n), token.Units(100), token.Units(wei))
	}
	must.OK(t, tables.SetSettings(t.Context(), settings.Default(settings.Rail{ChainID: 1, Token: coin, Network: "test"})))
	var turn sync.Mutex // the chain is for one caller at a time
	mine = func(blocks int) {
		turn.Lock()
		defer turn.Unlock()
		for range blocks {
			c.Mine(c.Nodes[0])
			c.Each((*fakechain.Node).Follow)
		}
	}
	around := func(ctx context.Context, _ interpose.Call, apply func(context.Context)) error {
		turn.Lock()
		defer turn.Unlock()
		apply(ctx)
		return nil
	}
	config := stack.Config{ChainID: 1, Token: coin, Network: "test", ConfirmationRule: chain.ConfirmationRule{Depth: 1},
		BlockTime: time.Second, Own: stack.Own{Window: 2, FeeLimit: token.Units(1000)}}
	var nodes chain.Nodes
	for _, n := range c.Nodes {
		nodes = append(nodes, interpose.Node{Node: n, Around: around})
	}
	settler := sync.OnceValue(func() *settlement.Settler {
		return settlement.New(r.Config, settlement.Parts{Store: tables, Keys: keys, Nodes: r.Nodes, Now: time.Now,
			Events: porttest.Unheard{}, Log: slog.New(slog.DiscardHandler), Wait: func(context.Context, time.Duration) {}})
	})
	reads := []string{"Rules", "Compared", "Wallets", "Wallet", "PendingTxs", "Payment"}
	checked := func(ctx context.Context, call interpose.Call, apply func(context.Context)) error {
		if r.DryRun && !slices.Contains(reads, call.Op) {
			t.Errorf("a dry run calls %s", call.Op)
		}
		apply(ctx)
		return nil
	}
	r = &recovery.Recovery{Config: config, Store: &interpose.Store{Store: tables, Around: checked}, Keys: keys,
		Nodes: nodes, Now: time.Now, Keyed: keys.All(), Window: 2, Say: func(string, ...any) {},
		Settle: func(ctx context.Context) error { return must.Err(settler().Round(ctx, "recover", true)) },
		Wait: func(_ context.Context, d time.Duration) {
			time.Sleep(d)
			mine(1)
		}}
	return c, tables, r, mine
}

// TestFund: the price of gas changes, and a wallet cannot pay for the next attempt at its no-ops. The recovery says how
// much it lacks for those that are not mined, and goes on once that is there. One dearer than the market counts as
// one at its price: settlement sends that instead.
func TestFund(t *testing.T) {
	const has, used, gas = 12_000_000, chain.NoopGas, chain.NoopGas * 6 / 5 // more than two no-ops take at 210
	for name, test := range map[string]struct {
		base, tip, then, mined uint64 // the base fee and the tip until so many are mined, the base fee then
		has, l1, unit          uint64
		want                   string
	}{
		"none is mined":          {100, 10, 800, 0, has, 0, 0, "ether " + token.Units(1210*gas-has).Tokens(18)},
		"one is mined":           {100, 10, 800, 1, has, 0, 0, "ether " + token.Units(1e3*gas-has+110*used).Tokens(18)},
		"the other can be":       {100, 10, 100, 1, 7_700_000, 0, 0, ""},
		"they are dear":          {440, 5, 100, 0, 8_000_000, 0, 0, ""},
		"they are dear, on L1":   {440, 5, 100, 0, 5_000_000, 7, 0, "ether " + token.Units(420*gas+28-5e6).Tokens(18)},
		"the token pays the gas": {100, 10, 800, 0, has, 0, 1000, "USDC " + token.Units((1210*gas-has)/1000).Tokens(6)},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _, r, mine := world(t, test.has)
			r.Keyed, r.GasUnit, c.Unit = r.Keyed[:1], chain.GasUnit(test.unit), test.unit
			c.Fund(first.Address, token.Amount{}, token.Amount{}) // where the token is the gas, its ether is that
			c.BaseFee, c.L1Fee, c.PerSender = token.Units(test.base), token.Units(test.l1), max(1, test.mined)
			tip, said, rounds := test.tip, "", 0
			quotes := func(m chain.Market) chain.Market { m.Tip = token.Units(tip); return m }
			c.Each(func(n *fakechain.Node) { n.Quotes = quotes })
			r.Say = func(format string, args ...any) {
				if strings.HasPrefix(format, "waiting for") && rounds == 1 {
					said = fmt.Sprint(args[0], " ", args[1])
				}
			}
			r.Wait = func(_ context.Context, d time.Duration) {
				time.Sleep(d)
				if rounds > 0 || c.MostMined(first.Address) == test.mined {
					rounds++
				}
				switch rounds {
				case 1:
					c.BaseFee, tip = token.Units(test.then), 10
					return
				case 3:
					c.Fund(first.Address, token.Units(1e6), token.Units(1e9))
				}
				mine(1)
			}
			must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t)
			if said != test.want {
				t.Errorf("%s: it says %q, want %q", name, said, test.want)
			}
		})
	}
}

// lose mines the transfer, which no tables have.
func lose(c *fakechain.Chain) chain.Signed {
	signed := fakechain.Tx{Tx: transfer, From: first.Address}.Sign()
	c.MineExactly(signed.Raw)
	return signed
}

// prepare stores the payment of order as prepared by a wallet.
func prepare(t *testing.T, tables *memory.Payments, by token.Address, tx chain.Tx) payment.Payment {
	p := payment.New(lost, order, coin, "test", time.Now()).AssignedTo(by, tx)
	_, _, err := tables.Create(t.Context(), p)
	must.OK(t, err)
	return p
}

// commit stores the payment of order as committed by its wallet.
func commit(t *testing.T, tables *memory.Payments, signed chain.Signed) {
	p := prepare(t, tables, first.Address, transfer)
	p.WalletOf = order.Merchant
	must.OK(t, tables.Commit(t.Context(), must.Get(p.Commit(signed, time.Now()))(t)))
}

// A forgetful is a node that hides blocks, or lacks the states of old ones.
type forgetful struct {
	chain.Node
	final  uint64 // if not 0, it calls no later block final
	counts func(head uint64) uint64
	lacks  error  // of TxAtNonce
	lags   uint64 // so many blocks
	more   uint64 // it counts so many transactions more
}

func (n forgetful) Head(ctx context.Context, rule chain.ConfirmationRule) (chain.Head, error) {
	h, err := n.Node.Head(ctx, rule)
	h.Number, h.Final = h.Number-n.lags, h.Final-n.lags
	if n.final > 0 {
		h.Final = n.final
	}
	return h, err
}

func (n forgetful) Account(ctx context.Context, w, c token.Address, h chain.Head) (chain.Account, error) {
	a, err := n.Node.Account(ctx, w, c, h)
	a.Head, a.Mined = h, a.Mined+n.more
	return a, err
}

func (n forgetful) Count(ctx context.Context, w token.Address, block uint64) (uint64, error) {
	if n.counts == nil {
		return n.Node.Count(ctx, w, block)
	}
	h, _ := n.Node.Head(ctx, chain.ConfirmationRule{Depth: 1})
	head, err := n.Node.Count(ctx, w, h.Final)
	return n.counts(head), err
}

func (n forgetful) TxAtNonce(ctx context.Context, w token.Address, nonce, final uint64) (chain.Hash, error) {
	at, err := n.Node.TxAtNonce(ctx, w, nonce, final)
	return at, errors.Join(err, n.lacks)
}

// second replaces the second node of a recovery.
func second(t *testing.T, r *recovery.Recovery, is forgetful) {
	nodes := must.Get(r.Nodes.Nodes(t.Context()))(t)
	is.Node = nodes[1]
	r.Nodes = chain.Nodes{nodes[0], is, nodes[2]}
}

// TestNodeThatCallsNothingFinal: a recovery makes no no-op at each nonce of a wallet's life, but begins if the window's
// are not final alone. Nor does it wait for a node that counts more than the others.
func TestNodeThatCallsNothingFinal(t *testing.T) {
	for name, test := range map[string]struct {
		is    forgetful
		noops int
		want  string
	}{
		"none of four":      {forgetful{counts: func(uint64) uint64 { return 0 }}, 0, "context canceled"},
		"two of four":       {forgetful{counts: func(uint64) uint64 { return 2 }}, 4, "context canceled"},
		"a thousand more":   {forgetful{more: 1000}, 0, "they must agree"},
		"the window's more": {forgetful{more: 2}, 4, "context canceled"},
	} {
		c, _, r, mine := world(t, 1e12)
		lose(c)
		for n := range uint64(3) {
			c.Steal(first.Address, n+1, token.Units(2))
			mine(1)
		}
		mine(1)
		r.Keyed = r.Keyed[:1]
		second(t, r, test.is)
		ctx, stop := context.WithCancel(t.Context())
		r.Wait = func(context.Context, time.Duration) { stop() }
		done, err := r.Run(ctx, must.Get(r.Hold(ctx))(t))
		if err == nil || !strings.Contains(err.Error(), test.want) || done.Noops != test.noops {
			t.Errorf("%s: %d no-ops, %v, want %d and %s", name, done.Noops, err, test.noops, test.want)
		}
	}
}

// TestOneNodeLags, or calls another block final than the others: the recovery waits until every node has the newest of
// these blocks, and reads all up to there.
func TestOneNodeLags(t *testing.T) {
	for name, test := range map[string]struct {
		is    forgetful
		waits int
	}{
		"it lacks that block":              {forgetful{lags: 3}, 3},
		"it has no newer one":              {forgetful{lags: 1}, 0},
		"it alone calls a later one final": {forgetful{final: 1000}, 3},
		"it calls an old one final":        {forgetful{final: 1, counts: func(last uint64) uint64 { return last }}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, tables, r, mine := world(t, 1e12)
			mine(4)
			lose(c)
			mine(6)
			second(t, r, test.is)
			waited := 0
			r.Say = func(format string, args ...any) {
				if strings.Contains(fmt.Sprintf(format, args...), "lacks block") {
					if waited++; waited == 3 { // it mends
						nodes := r.Nodes.(chain.Nodes)
						nodes[1] = nodes[1].(forgetful).Node
					}
				}
			}
			must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t)
			must.Get(tables.Payment(t.Context(), lost))(t)
			if waited != test.waits {
				t.Errorf("%s: it waited %d times", name, waited)
			}
		})
	}
}

// TestNodesWithoutOldStates: the copy has a nonce reserved that was used so long ago that a node cannot tell by which
// transaction. The recovery's no-op there ends all the same, once every node counts the nonce in final blocks.
func TestNodesWithoutOldStates(t *testing.T) {
	for name, is := range map[string]forgetful{"final": {}, "not final": {counts: func(uint64) uint64 { return 0 }}} {
		synctest.Test(t, func(t *testing.T) {
			c, tables, r, mine := world(t, 1e12)
			lose(c)
			mine(4)
			must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: first, NextNonce: 1, Ceiling: 2,
				Reservations: map[payment.ID]wallet.Reservation{lost: {At: time.Now()}}}, coin.Contract))
			is.lacks = errors.New("lacks the history to tell")
			second(t, r, is)
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			r.BlockTime = time.Minute
			_, err := r.Run(ctx, must.Get(r.Hold(ctx))(t))
			if _, gone := tables.PendingTx(t.Context(), first, 0); (err == nil) != (name == "final") || (gone != nil) != (name == "final") {
				t.Errorf("%s: the run ends with %v, the no-op: %v", name, err, gone)
			}
		})
	}
}

// TestRecover puts a payment back into empty tables: a run uses up the window, stores the payment and lets other rails
// pay, the next one knows it, and Resume ends this pause alone.
func TestRecover(t *testing.T) { synctest.Test(t, testRecover) }

func testRecover(t *testing.T) {
	c, tables, r, mine := world(t, 1e12)
	ids := []wallet.ID{first, {ChainID: 1, Address: fakechain.Wallet(1)}}
	must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: ids[1], Paused: "theft"}, coin.Contract))
	r.GasUnit, c.Unit = 1000, 1000
	c.Fund(ids[0].Address, token.Amount{}, token.Amount{}) // its ether is the token
	c.Fund(ids[1].Address, token.Amount{}, token.Amount{})
	lose(c)
	c.Steal(ids[0].Address, 1, token.Units(2)) // somebody else's transfer, without an id
	mine(4)

	marked := token.Coin{ChainID: 1} // it had nodes and no rail
	must.OK(t, tables.SetCompared(t.Context(), marked, store.Comparison{Ran: time.Now()}))
	run := func() recovery.Report { return must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t) }
	paused := func(id wallet.ID) string { return must.Get(tables.Wallet(t.Context(), id))(t).Paused }

	keys, dry := r.Keys, porttest.New(t, tables, nil, r)
	for _, r.DryRun = range []bool{true, false} { // a dry run writes and signs nothing, and reports what the run does
		if r.Keys = keys; r.DryRun {
			r.Keys = dry
		}
		if got := run(); got.Stored != 1 || got.Known != 0 || got.Noops != 4 || got.Sum != token.Units(7) ||
			len(got.Foreign) != 1 || dry.Did("Sign#1") {
			t.Errorf("the first run: %+v", got)
		}
	}
	p := must.Get(tables.Payment(t.Context(), lost))(t)
	if age := time.Since(p.CreatedAt); p.State != payment.Confirmed || p.Wallet != first.Address || p.Nonce != 0 ||
		age > time.Minute || p.Tx.GasUnit != r.GasUnit {
		t.Errorf("the payment is %+v", p)
	}
	known, _ := must.Get(tables.Wallets(t.Context(), r.Coin()))(t).Find(first.Address)
	if known.State != wallet.Draining || known.Since.IsZero() {
		t.Errorf("a wallet that no table knew is %s since %s: it may hold a merchant's coins", known.State, known.Since)
	}
	if mark := must.Get(tables.Compared(t.Context(), marked))(t); !mark.Ran.IsZero() {
		t.Errorf("it has ended, and no other rail pays: %+v", mark)
	}
	if got := run(); got.Stored != 0 || got.Known != 1 {
		t.Errorf("the second run: %+v", got)
	}
	for _, ended := range []bool{false, true} {
		if w := must.Get(tables.Wallet(t.Context(), ids[0]))(t); !w.Suspect() || recovery.Unfinished(w) == ended {
			t.Errorf("ended %t: it is paused for %q", ended, w.Paused)
		}
		must.OK(t, r.End(t.Context(), ids, ended))
	}
	if paused(ids[0]) != "" || paused(ids[1]) != "theft" {
		t.Errorf("after Resume the wallets are paused for %q and %q", paused(ids[0]), paused(ids[1]))
	}
}

// TestRecoverWithoutAKey: an operator names a wallet that has no key. The run ends if all that the tables and the nodes
// have of it is final.
func TestRecoverWithoutAKey(t *testing.T) {
	for name, ends := range map[string]bool{"in no table": true, "in the tables": true, "a nonce is given out": false,
		"a nonce is reserved": false, "nobody names it": false, "a pool has a transaction": false} {
		synctest.Test(t, func(t *testing.T) {
			c, tables, r, mine := world(t, 1e12)
			id, keys := wallet.ID{ChainID: 1, Address: fakechain.Wallet(1)}, &fakechain.Keys{}
			keys.Add(first.Address)
			r.Keys, r.Keyed, r.Wallets = keys, keys.All(), []token.Address{id.Address}
			c.Steal(id.Address, 0, token.Units(2))
			mine(4)
			is := wallet.Wallet{ID: id, NextNonce: 1, Reservations: map[payment.ID]wallet.Reservation{}}
			switch name {
			case "a nonce is given out":
				is.NextNonce = 2
			case "a nonce is reserved":
				is.Reservations[lost] = wallet.Reservation{}
			case "nobody names it":
				r.Wallets = nil
			case "a pool has a transaction":
				c.Steal(id.Address, 1, token.Units(2))
			}
			if name != "in no table" {
				must.OK(t, tables.Open(t.Context(), is, coin.Contract))
			}
			for _, r.DryRun = range []bool{true, false} {
				_, err := r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t))
				if ends && err != nil || !ends && !errors.Is(err, wallet.ErrNoKey) {
					t.Errorf("%s: %v", name, err)
				}
			}
			known, _ := must.Get(tables.Wallets(t.Context(), r.Coin()))(t).Find(id.Address)
			if w := must.Get(tables.Wallet(t.Context(), id))(t); ends && w.NextNonce != 1 || !known.Since.IsZero() {
				t.Errorf("%s: the next nonce is %d; registered at %s, without a key", name, w.NextNonce, known.Since)
			}
			if known := must.Get(tables.Compared(t.Context(), r.Coin()))(t); known.Final.Hash.IsZero() {
				t.Errorf("%s: no final block is noted, so the next run may take another chain for this one", name)
			}
		})
	}
}

// TestMeanwhile: the nodes change to another chain, another run puts the payment back, or a lost transaction beyond
// the window turns up. No run takes another chain for its own, or ends well while a payment may be lost.
func TestMeanwhile(t *testing.T) {
	const lack = "0 of 3 nodes have final block 3"
	for name, test := range map[string]struct{ at, what, want string }{
		"another chain before it begins":  {"in no table", "another chain", lack},
		"another chain for some time":     {"nonces below", "another chain", ""},
		"another chain is read":           {"reading", "another chain", lack},
		"nodes have logs alone":           {"reading", "no transaction", "have 0 of 1"},
		"another run puts it back":        {"reading", "another run", ""},
		"a transaction beyond the window": {"put back", "a theft", "beyond the nonces"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, tables, r, mine := world(t, 1e12)
			final := chain.Block{Number: 3, Hash: must.Get(c.Nodes[0].BlockHashes(t.Context(), []uint64{3}))(t)[0]}
			must.OK(t, tables.SetCompared(t.Context(), r.Coin(), store.Comparison{Final: final}))
			signed := lose(c)
			mine(4)
			r.Say = func(format string, _ ...any) {
				at := strings.Contains(format, test.at)
				switch {
				case format == "waiting: %v":
					c.Return()
				case at && test.what == "another chain":
					c.Elsewhere(1, 99, c.Nodes...)
				case at && test.what == "no transaction":
					c.Each(func(n *fakechain.Node) { n.NullReceipts = true })
				case at && test.what == "another run":
					commit(t, tables, signed)
				case at:
					c.Steal(first.Address, c.MostMined(first.Address), token.Units(2))
				}
			}
			ids := must.Get(r.Hold(t.Context()))(t)
			_, err := r.Run(t.Context(), ids)
			if (err == nil) != (test.want == "") || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
			c.Return()
			c.Each((*fakechain.Node).Heal)
			r.Say = func(string, ...any) {}
			must.Get(r.Run(t.Context(), ids))(t)
			if p := must.Get(tables.Payment(t.Context(), lost))(t); p.State != payment.Confirmed {
				t.Errorf("%s: the payment is %s", name, p.State)
			}
		})
	}
}

// TestFailedInTheTables: a payment that has failed in the tables, and paid on the chain, differs, and stays as it is.
func TestFailedInTheTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tables, r, mine := world(t, 1e12)
		commit(t, tables, lose(c))
		p := must.Get(tables.Payment(t.Context(), lost))(t)
		must.OK(t, tables.Finish(t.Context(), must.Get(p.Fail(payment.NonceConsumed, chain.Receipt{}, time.Now()))(t)))
		mine(4)
		got := must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t)
		if p = must.Get(tables.Payment(t.Context(), lost))(t); len(got.Differ) != 1 || got.Known > 0 || p.State != payment.Failed {
			t.Errorf("%+v, the payment is %s", got, p.State)
		}
	})
}

// TestHold works with settings that cannot be obeyed, but not without the rail.
func TestHold(t *testing.T) {
	_, tables, r, _ := world(t, 0)
	tables.SpoilSettings(r.Coin(), settings.ErrDamaged)
	must.Get(r.Hold(t.Context()))(t)
	r.Store = memory.NewPayments()
	if _, err := r.Hold(t.Context()); !errors.Is(err, settings.ErrMissing) {
		t.Error(err)
	}
}

// TestOneCallFails: whichever call of the store fails, or request to every node, a recovery ends with that error, or
// waits and goes on; the next one puts the payment back as a merchant's wallet made it, whatever the tables have of it.
func TestOneCallFails(t *testing.T) {
	for _, has := range []string{"nothing", "a proposal", "another chain's", "another wallet's", "one without ID", "half a commit"} {
		synctest.Test(t, func(t *testing.T) { oneCallFails(t, has, "") })
	}
	for _, request := range []string{"Fees", "Account"} {
		synctest.Test(t, func(t *testing.T) { oneCallFails(t, "nothing", request) })
	}
}

func oneCallFails(t *testing.T, has, request string) {
	broken := errors.New("broken")
	for n := int64(0); ; n++ {
		c, tables, r, mine := world(t, 1e12)
		tx, signed := transfer, lose(c)
		mine(4)
		must.OK(t, tables.Register(t.Context(), wallet.Registration{ID: first, Token: coin.Contract,
			Key: wallet.InSecret, State: wallet.Assigned, Merchant: "mer_1"}))
		switch has {
		case "a proposal":
			must.Get(tables.Propose(t.Context(), proposal.New(proposal.Proposal{Life: time.Hour}, order, coin, 1, "test", time.Now())))(t)
		case "another chain's": // where the token has the same address
			tx.ChainID = 2
			prepare(t, tables, first.Address, tx)
		case "another wallet's":
			prepare(t, tables, fakechain.Wallet(1), tx)
		case "one without ID":
			tx.Data = chain.TransferData(order.To, order.Amount)
			prepare(t, tables, first.Address, tx)
		case "half a commit":
			commit(t, tables, signed)
			must.OK(t, tables.DeletePendingTx(t.Context(), first, 0))
			must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: first, NextNonce: 1, Ceiling: 3, Merchant: "mer_1",
				Reservations: map[payment.ID]wallet.Reservation{lost: {At: time.Unix(60, 0)}}}, coin.Contract))
		}
		var made atomic.Int64
		var failed atomic.Pointer[string]
		each := int64(1)
		failing := func(ctx context.Context, call interpose.Call, apply func(context.Context)) error {
			if (request == "" || request == call.Op) && (made.Add(1)-1)/each == n {
				failed.Store(&call.Op)
				return broken
			}
			apply(ctx)
			return nil
		}
		if request == "" {
			r.Store = &interpose.Store{Store: tables, Around: failing}
		} else {
			must.OK(t, r.Settle(t.Context())) // by nodes that do not fail, from now on
			nodes := slices.Clone(r.Nodes.(chain.Nodes))
			for i := range nodes {
				nodes[i] = interpose.Node{Node: nodes[i], Around: failing}
			}
			r.Nodes, each = nodes, 3
		}
		waited := false
		r.Say = func(format string, args ...any) {
			waited = waited || format == "waiting: %v" && errors.Is(args[0].(error), broken)
		}
		recover := func() error {
			ids, err := r.Hold(t.Context())
			if err == nil {
				_, err = r.Run(t.Context(), ids)
			}
			if err == nil {
				err = r.End(t.Context(), ids, true)
			}
			return err
		}
		err := recover()
		if failed.Load() == nil {
			return
		}
		if errors.Is(err, broken) == waited {
			t.Errorf("the tables have %s, %s fails, and the recovery ends with %v", has, *failed.Load(), err)
		}
		must.OK(t, recover())
		p := must.Get(tables.Payment(t.Context(), lost))(t)
		if p.State != payment.Confirmed || p.Coin() != r.Coin() || !p.Memo() || p.Wallet != first.Address || p.WalletOf != "mer_1" {
			t.Errorf("the tables had %s, %s failed, and the payment is %+v", has, *failed.Load(), p)
		}
	}
}

// behind answers the first read of a payment as if it came before the commit.
type behind struct {
	store.Store
	before *payment.Payment
}

func (s behind) Payment(ctx context.Context, id payment.ID) (payment.Payment, error) {
	if p := *s.before; p.ID == id {
		*s.before = payment.Payment{}
		return p, nil
	}
	return s.Store.Payment(ctx, id)
}

// TestRecoverTornCopy: of a write of a payment and its pending transaction, the copy has one side. The chain decides
// whether it was made, and a run ends. A payment that the tables have as committed keeps its bytes, if they have them.
func TestRecoverTornCopy(t *testing.T) {
	for _, has := range []string{"no payment", "it prepared", "it proposed", "it committed", "it committed meanwhile", "it committed alone",
		"it committed alone and released", "it committed with a bump alone", "it committed with a no-op alone",
		"it committed without its bump", "it committed without its no-op"} {
		for _, is := range []string{"mined", "in a pool", "unsent", "unsent, far ahead"} {
			if strings.HasPrefix(has, "it committed") && is == "unsent, far ahead" || strings.HasSuffix(has, "released") && is == "unsent" {
				continue // a wallet that commits gives out each nonce before; and no trace of it is left
			}
			t.Run(has+", "+is, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { tornCopy(t, has, is) }) })
		}
	}
}

func tornCopy(t *testing.T, has, is string) {
	c, tables, r, mine := world(t, 1e12)
	made := payment.New(lost, order, coin, "test", time.Now()).AssignedTo(first.Address, transfer)
	opened := wallet.Wallet{ID: first, NextNonce: 1, Ceiling: 3, Reservations: map[payment.ID]wallet.Reservation{}}
	if has == "it committed alone" {
		opened.Reservations[made.ID] = wallet.Reservation{For: made.Revision, At: time.Unix(60, 0)}
	}
	must.OK(t, tables.Open(t.Context(), opened, coin.Contract))
	nonce := map[string]uint64{"unsent, far ahead": 5}[is]
	signed := fakechain.Tx{Tx: made.Tx, From: first.Address, Nonce: nonce}.Sign()
	time.Sleep(time.Hour) // since the blocks 0 to 3
	committed := must.Get(made.Commit(signed, time.Now()))(t)

	whole := strings.HasPrefix(has, "it committed")
	switch has {
	case "no payment":
	case "it proposed":
		must.Get(tables.Propose(t.Context(), proposal.New(proposal.Proposal{Life: time.Hour}, order, coin, 1, "test", time.Now())))(t)
	default:
		_, _, err := tables.Create(t.Context(), made)
		must.OK(t, err)
	}
	if whole {
		must.OK(t, tables.Commit(t.Context(), committed))
	} else {
		must.OK(t, tables.PutNoop(t.Context(), store.PendingTxOf(committed)))
	}
	noop := chain.Tx{ChainID: 1, To: first.Address, Gas: chain.GasLimit(chain.NoopGas), Fees: made.Tx.Fees}
	raw := fakechain.Tx{Tx: noop, From: first.Address, Nonce: 1}.Sign()
	must.OK(t, tables.PutNoop(t.Context(), wallet.PendingNoop(first, noop, raw, time.Now())))
	next, again, cancels := made.Tx, committed.Bump, strings.Contains(has, "no-op")
	if cancels {
		next, again = noop, committed.Cancel
	}
	next.Fees.Tip = token.Units(2)
	newest := fakechain.Tx{Tx: next, From: first.Address, Nonce: nonce}.Sign()
	bumped := must.Get(again(newest, next, time.Unix(90, 0)))(t)
	switch {
	case strings.Contains(has, "without"):
		must.OK(t, tables.BumpNoop(t.Context(), store.PendingTxOf(bumped)))
	case strings.Contains(has, "with"):
		must.OK(t, tables.AddAttempt(t.Context(), bumped))
		must.OK(t, tables.DeletePendingTx(t.Context(), first, nonce))
		must.OK(t, tables.PutNoop(t.Context(), store.PendingTxOf(committed)))
	case strings.Contains(has, "alone"):
		must.OK(t, tables.DeletePendingTx(t.Context(), first, nonce))
		fallthrough
	default:
		newest = signed
	}
	time.Sleep(time.Hour)
	if is == "mined" {
		c.MineExactly(newest.Raw)
	}
	mine(4)
	if is == "in a pool" {
		c.Nodes[0].Send(t.Context(), newest.Raw)
	}

	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	torn := 0
	r.Say = func(format string, _ ...any) {
		if strings.HasSuffix(format, "counts as lost") {
			torn++
		}
	}
	if has == "it committed alone" || whole && is == "mined" {
		_ = r.Settle(ctx) // a round before does no harm
	}
	r.DryRun = true
	must.Get(r.Run(ctx, must.Get(r.Hold(ctx))(t)))(t)
	if (torn == 1) == whole || torn > 1 {
		t.Errorf("%d transactions count as lost", torn)
	}
	if r.DryRun = false; !whole {
		r.Since = 5 // it may have been mined before
		_, err := r.Run(ctx, must.Get(r.Hold(ctx))(t))
		if _, lacks := tables.PendingTx(ctx, first, nonce); lacks != nil || err == nil || !strings.Contains(err.Error(), "--since 4") {
			t.Errorf("after a dry run, and one from a later block: %v; %v", lacks, err)
		}
		r.Since = 4
	}
	if has == "it committed meanwhile" {
		r.Store = behind{tables, &made}
	}
	must.Get(r.Run(ctx, must.Get(r.Hold(ctx))(t)))(t)
	p, err := tables.Payment(ctx, lost)
	paid := err == nil && p.State == payment.Confirmed && p.TxHash == signed.Hash
	pays := !cancels
	if strings.HasPrefix(is, "unsent") { // the tables have its bytes
		pays = whole && has != "it committed alone" && has != "it committed without its no-op"
	}
	if strings.HasSuffix(has, "bump") && is == "mined" && p.LastAttempt().Fees != next.Fees {
		t.Errorf("the fees of the newest attempt are %v, want %v", p.LastAttempt().Fees, next.Fees)
	}
	if paid != pays || !paid && p.State.Signed() != whole || whole && !slices.Contains(p.Hashes(), p.Onchain) || cancels && !p.HasNoop() {
		t.Errorf("the payment is %q, with %s, %v", p.State, p.TxHash, err)
	}
	if w := must.Get(tables.Wallet(ctx, first))(t); w.NextNonce <= nonce {
		t.Errorf("the next nonce is %d: the lost transaction may be mined later", w.NextNonce)
	}
}

// cancelling cancels a proposal just before it is read.
type cancelling struct{ store.Store }

func (s cancelling) Proposal(ctx context.Context, id payment.ID) (proposal.Proposal, error) {
	p, err := s.Store.Proposal(ctx, id)
	if err == nil && p.Payment.State == payment.Proposed {
		err = s.Amend(ctx, p, p.End(payment.Cancelled, time.Now()), store.Guard{})
	}
	if err != nil {
		return p, err
	}
	return s.Store.Proposal(ctx, id)
}

// TestRecoverProposals: a proposal whose key was used on the chain is released by that payment, whatever it pays, and
// never once more; one that is cancelled before differs.
func TestRecoverProposals(t *testing.T) {
	for name, want := range map[string]payment.State{"open": payment.Confirmed, "begun": payment.Confirmed,
		"cancelled": payment.Cancelled, "cancelled meanwhile": payment.Cancelled, "another amount": payment.Confirmed,
		"another asset": payment.Confirmed, "a batch": payment.Confirmed} {
		synctest.Test(t, func(t *testing.T) {
			c, tables, r, mine := world(t, 1e12)
			request := order
			request.Reference = "inv-2"
			switch name {
			case "another amount":
				request.Amount = token.Units(8)
			case "a batch":
				request, _ = request.Batch([]payment.Entry{{To: fakechain.Payee(1), Amount: order.Amount}, {To: order.To, Amount: order.Amount}})
			}
			chainID := map[bool]uint64{true: 2, false: 1}[name == "another asset"]
			held := proposal.New(proposal.Proposal{Life: time.Hour}, request, coin, chainID, "test", time.Now())
			time.Sleep(2 * time.Minute)
			must.Get(tables.Propose(t.Context(), held))(t)
			to := held
			switch name {
			case "begun":
				offer := payment.New(held.Payment.ID, held.Request(), coin, "test", time.Now())
				to = held.Begin(offer.AssignedTo(fakechain.Wallet(1), chain.Tx{ChainID: 1}))
			case "cancelled":
				to = held.End(payment.Cancelled, time.Now())
			}
			must.OK(t, tables.Amend(t.Context(), held, to, store.Guard{}))
			if name == "cancelled meanwhile" {
				r.Store = cancelling{tables}
			}
			lose(c)
			mine(4)
			ids := must.Get(r.Hold(t.Context()))(t)
			got, err := r.Run(t.Context(), ids)
			if name == "cancelled meanwhile" && errors.Is(err, store.ErrChanged) {
				got, err = r.Run(t.Context(), ids)
			}
			must.OK(t, err)
			p := must.Get(tables.Proposal(t.Context(), held.Payment.ID))(t)
			if p.Payment.State != want || p.Payment.Merchant != "mer_1" || got.Stored+len(got.Differ) != 1 || (got.Stored == 1) != want.Final() ||
				want == payment.Confirmed && time.Since(p.Payment.CreatedAt) > time.Minute {
				t.Errorf("%s: %+v, the payment is %+v", name, got, p.Payment)
			}
			same := name == "open" || name == "begun" || want == payment.Cancelled
			if (p.Payment.Fingerprint == request.Fingerprint()) != same || (p.Payment.Reference == request.Reference) != same {
				t.Errorf("%s: the words of a request that is not paid: %+v", name, p.Payment)
			}
		})
	}
}
