package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
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

// world is a chain with two funded wallets, empty tables, and a recovery whose waits make blocks.
func world(t *testing.T, wei uint64) (c *fakechain.Chain, keys *fakechain.Keys, tables *memory.Payments,
	r *recovery.Recovery, mine func(blocks int)) {
	c, tables, keys = fakechain.New(1, coin.Contract, 1, 3), memory.NewPayments(), &fakechain.Keys{}
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
		return settlement.New(config, settlement.Parts{Store: tables, Keys: keys, Nodes: r.Nodes, Now: time.Now,
			Events: porttest.Unheard{}, Log: slog.New(slog.DiscardHandler), Wait: func(context.Context, time.Duration) {}})
	})
	r = &recovery.Recovery{Config: config, Store: tables, Keys: keys, Nodes: nodes, Now: time.Now, Keyed: keys.All(),
		Window: 2, Settle: func(ctx context.Context) error { return must.Err(settler().Round(ctx, "recover", true)) },
		Wait: func(context.Context, time.Duration) { mine(1) }, Say: func(string, ...any) {}}
	return c, keys, tables, r, mine
}

// TestFund: the base fee rises above the no-ops' caps, and the wallets can pay for these alone. The recovery says how
// much the next attempt lacks beside them, and goes on once that is there.
func TestFund(t *testing.T) {
	const has = 12_000_000 // more than two no-ops take at a cap of 210
	c, _, _, r, mine := world(t, has)
	mine(2)
	said := map[token.Address]string{}
	r.Say = func(format string, args ...any) {
		if address, ok := args[len(args)-1].(token.Address); ok && strings.HasPrefix(format, "waiting for") {
			said[address] = args[1].(string)
		}
	}
	rounds := 0
	r.Wait = func(context.Context, time.Duration) {
		switch rounds++; rounds {
		case 1:
			c.BaseFee = token.Units(800)
		case 3: // or it would wait for ever
			c.BaseFee = token.Units(100)
		}
		mine(1)
	}
	must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t)
	want := token.Units((210+1000)*chain.GasLimit(chain.NoopGas) - has).Tokens(18)
	if said[fakechain.Wallet(0)] != want || said[fakechain.Wallet(1)] != want {
		t.Errorf("%v, want %s for each", said, want)
	}
}

// TestFundOfDearNoops: the base fee falls after the no-ops were signed. Recovery asks for no ether, since the wallets
// can pay for no-ops at the market's price, which settlement sends instead.
func TestFundOfDearNoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _, r, mine := world(t, 12_000_000) // as TestFund
		c.BaseFee = token.Units(800)
		mine(2)
		asked, lied := 0, true
		r.Say = func(format string, _ ...any) {
			if strings.HasPrefix(format, "waiting for") && !lied {
				asked++
			}
		}
		r.Wait = func(_ context.Context, d time.Duration) {
			c.BaseFee, lied = token.Units(100), false
			time.Sleep(d)
			mine(1)
		}
		must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t)
		if asked > 0 {
			t.Errorf("asked %d times for ether that the no-ops do not take", asked)
		}
	})
}

// lose mines a payment of the first wallet that no tables have, and returns the transaction that it was.
func lose(t *testing.T, c *fakechain.Chain, keys *fakechain.Keys) (payment.ID, chain.Tx) {
	lost := payment.KeyID("mer_1", "test", "order-1")
	signer := must.Get(keys.Signer(t.Context(), wallet.Registration{ID: wallet.ID{ChainID: 1, Address: fakechain.Wallet(0)}}))(t)
	data := append(chain.TransferData(fakechain.Payee(0), token.Units(7)), lost.Memo()...)
	tx := chain.Tx{ChainID: 1, To: coin.Contract, Data: data, Gas: 100_000, Fees: chain.Fees{Tip: token.Units(1), Cap: token.Units(1000)}}
	c.MineExactly(must.Get(signer.Sign(t.Context(), tx, 0))(t).Raw)
	return lost, tx
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

// TestOneNodeHidesBlocks: a node calls an old block final, with the newest one's count. The others' blocks are read.
func TestOneNodeHidesBlocks(t *testing.T) {
	c, keys, tables, r, mine := world(t, 1e12)
	mine(4)
	lost, _ := lose(t, c, keys)
	mine(4)
	second(t, r, forgetful{final: 1, counts: func(head uint64) uint64 { return head }})
	must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t)
	must.Get(tables.Payment(t.Context(), lost))(t)
}

// TestNodeThatCallsNothingFinal: a recovery makes no no-op at each nonce of a wallet's life. Nor does it wait for a
// node that counts more than the others.
func TestNodeThatCallsNothingFinal(t *testing.T) {
	for name, is := range map[string]forgetful{"context canceled": {counts: func(uint64) uint64 { return 0 }},
		"they must agree": {more: 1000}} {
		c, keys, _, r, mine := world(t, 1e12)
		lose(t, c, keys)
		for n := range uint64(3) {
			c.Steal(fakechain.Wallet(0), n+1, token.Units(2))
			mine(1)
		}
		second(t, r, is)
		ctx, stop := context.WithCancel(t.Context())
		r.Wait = func(context.Context, time.Duration) { stop() }
		if done, err := r.Run(ctx, must.Get(r.Hold(ctx))(t)); err == nil || !strings.Contains(err.Error(), name) || done.Noops > 0 {
			t.Errorf("%d no-ops, %v, want %s", done.Noops, err, name)
		}
	}
}

// TestOneNodeLags behind the newest final block of the others: the recovery waits until it has that one.
func TestOneNodeLags(t *testing.T) {
	c, keys, tables, r, mine := world(t, 1e12)
	lost, _ := lose(t, c, keys)
	mine(6)
	second(t, r, forgetful{lags: 3})
	waited := 0
	r.Say = func(format string, args ...any) {
		if strings.Contains(fmt.Sprintf(format, args...), "lacks block") {
			if waited++; waited == 3 { // it catches up
				nodes := r.Nodes.(chain.Nodes)
				nodes[1] = nodes[1].(forgetful).Node
			}
		}
	}
	must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t)
	must.Get(tables.Payment(t.Context(), lost))(t)
	if waited != 3 {
		t.Errorf("it waited %d times", waited)
	}
}

// TestLostBeyondTheWindow: a transaction that was lost turns up beyond the nonces of the run, when it has put back all
// others. The run does not end well.
func TestLostBeyondTheWindow(t *testing.T) {
	c, keys, tables, r, mine := world(t, 1e12)
	lost, _ := lose(t, c, keys)
	settle := r.Settle
	r.Settle = func(ctx context.Context) error {
		if p, _ := tables.Payment(ctx, lost); p.State == payment.Confirmed {
			c.Steal(fakechain.Wallet(0), c.MostMined(fakechain.Wallet(0)), token.Units(2))
			mine(1)
		}
		return settle(ctx)
	}
	if _, err := r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)); err == nil {
		t.Error("it ends well")
	}
}

// TestNodesWithoutOldStates: the copy has a nonce reserved that was used so long ago that a node cannot tell by which
// transaction. The recovery's no-op there ends all the same, once every node counts the nonce in final blocks.
func TestNodesWithoutOldStates(t *testing.T) {
	for name, is := range map[string]forgetful{"final": {}, "not final": {counts: func(uint64) uint64 { return 0 }}} {
		synctest.Test(t, func(t *testing.T) {
			c, keys, tables, r, mine := world(t, 1e12)
			id := wallet.ID{ChainID: 1, Address: fakechain.Wallet(0)}
			lost, _ := lose(t, c, keys)
			mine(4)
			must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: id, NextNonce: 1, Ceiling: 2,
				Reservations: map[payment.ID]wallet.Reservation{lost: {At: time.Now()}}}, coin.Contract))
			is.lacks = errors.New("lacks the history to tell")
			second(t, r, is)
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			r.Wait = func(context.Context, time.Duration) {
				time.Sleep(time.Minute)
				mine(1)
			}
			_, err := r.Run(ctx, must.Get(r.Hold(ctx))(t))
			if _, gone := tables.PendingTx(t.Context(), id, 0); (err == nil) != (name == "final") || (gone != nil) != (name == "final") {
				t.Errorf("%s: the run ends with %v, the no-op: %v", name, err, gone)
			}
		})
	}
}

// TestRecoverAKeyOfAnotherRail: the copy has the key prepared on another chain, where the token has the same address.
// A payment of this chain is put back as this chain's.
func TestRecoverAKeyOfAnotherRail(t *testing.T) {
	c, keys, tables, r, mine := world(t, 1e12)
	lost, tx := lose(t, c, keys)
	mine(4)
	tx.ChainID = 2
	q := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "order-1", To: fakechain.Payee(0), Amount: token.Units(7)}
	prepared := payment.New(lost, q, coin, "other", time.Now()).AssignedTo(fakechain.Wallet(0), tx)
	_, _, err := tables.Create(t.Context(), prepared)
	must.OK(t, err)
	must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t)
	if p := must.Get(tables.Payment(t.Context(), lost))(t); p.State != payment.Confirmed || p.Tx.ChainID != 1 {
		t.Errorf("the payment is %s on chain %d", p.State, p.Tx.ChainID)
	}
}

// TestRecover puts a payment back into empty tables: a run uses up the window, stores the payment and lets other rails
// pay, the next one knows it, and Resume ends this pause alone.
func TestRecover(t *testing.T) {
	c, keys, tables, r, mine := world(t, 1e12)
	ids := []wallet.ID{{ChainID: 1, Address: fakechain.Wallet(0)}, {ChainID: 1, Address: fakechain.Wallet(1)}}
	must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: ids[1], Paused: "theft"}, coin.Contract))

	lost, _ := lose(t, c, keys)
	c.Steal(ids[0].Address, 1, token.Units(2)) // somebody else's transfer, without an id
	mine(4)

	marked := token.Coin{ChainID: 1} // it had nodes and no rail
	must.OK(t, tables.SetCompared(t.Context(), marked, store.Comparison{Ran: time.Now()}))
	run := func() recovery.Report { return must.Get(r.Run(t.Context(), must.Get(r.Hold(t.Context()))(t)))(t) }
	paused := func(id wallet.ID) string { return must.Get(tables.Wallet(t.Context(), id))(t).Paused }

	if got := run(); got.Stored != 1 || got.Known != 0 || got.Noops != 4 || got.Sum != token.Units(7) || len(got.Foreign) != 1 {
		t.Errorf("the first run: %+v", got)
	}
	p := must.Get(tables.Payment(t.Context(), lost))(t)
	if p.State != payment.Confirmed || p.Wallet != ids[0].Address || p.Nonce != 0 || time.Since(p.CreatedAt) > time.Minute {
		t.Errorf("the payment is %s, of %s at nonce %d, created at %s", p.State, p.Wallet, p.Nonce, p.CreatedAt)
	}
	if known, _ := must.Get(tables.Wallets(t.Context(), r.Coin()))(t).Find(ids[0].Address); known.State != wallet.Draining {
		t.Errorf("a wallet that no table knew is %s: it may hold a merchant's coins", known.State)
	}
	if mark := must.Get(tables.Compared(t.Context(), marked))(t); !mark.Ran.IsZero() {
		t.Errorf("it has ended, and no other rail pays: %+v", mark)
	}
	if got := run(); got.Stored != 0 || got.Known != 1 {
		t.Errorf("the second run: %+v", got)
	}
	must.OK(t, r.Resume(t.Context(), ids))
	if paused(ids[0]) != "" || paused(ids[1]) != "theft" {
		t.Errorf("after Resume the wallets are paused for %q and %q", paused(ids[0]), paused(ids[1]))
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
			t.Run(has+", "+is, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { recoverTornCopy(t, has, is) }) })
		}
	}
}

func recoverTornCopy(t *testing.T, has, is string) {
	c, keys, tables, r, mine := world(t, 1e12)
	id := wallet.ID{ChainID: 1, Address: fakechain.Wallet(0)}
	q := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "order-1", To: fakechain.Payee(0), Amount: token.Units(7)}
	lost := payment.New(payment.KeyID(q.Merchant, q.Mode, q.IdempotencyKey), q, coin, "test", time.Now())
	lost = lost.AssignedTo(id.Address, chain.Tx{ChainID: 1, To: coin.Contract, Gas: 100_000,
		Data: append(chain.TransferData(q.To, q.Amount), lost.ID.Memo()...), Fees: chain.Fees{Tip: token.Units(1), Cap: token.Units(1000)}})
	opened := wallet.Wallet{ID: id, NextNonce: 1, Ceiling: 3, Reservations: map[payment.ID]wallet.Reservation{}}
	if has == "it committed alone" {
		opened.Reservations[lost.ID] = wallet.Reservation{For: lost.Revision, At: time.Unix(60, 0)}
	}
	must.OK(t, tables.Open(t.Context(), opened, coin.Contract))
	signer := must.Get(keys.Signer(t.Context(), wallet.Registration{ID: id}))(t)
	nonce := map[string]uint64{"unsent, far ahead": 5}[is]
	signed := must.Get(signer.Sign(t.Context(), lost.Tx, nonce))(t)
	committed := must.Get(lost.Commit(signed, time.Unix(60, 0)))(t)

	whole := strings.HasPrefix(has, "it committed")
	switch has {
	case "no payment":
	case "it proposed":
		must.Get(tables.Propose(t.Context(), proposal.New(proposal.Proposal{Life: time.Hour}, q, coin, 1, "test", time.Now())))(t)
	default:
		_, _, err := tables.Create(t.Context(), lost)
		must.OK(t, err)
	}
	if whole {
		must.OK(t, tables.Commit(t.Context(), committed))
	} else {
		must.OK(t, tables.PutNoop(t.Context(), store.PendingTxOf(committed)))
	}
	noop := chain.Tx{ChainID: 1, To: id.Address, Gas: chain.GasLimit(chain.NoopGas), Fees: lost.Tx.Fees}
	must.OK(t, tables.PutNoop(t.Context(), wallet.PendingNoop(id, noop, must.Get(signer.Sign(t.Context(), noop, 1))(t), time.Now())))
	next, again, cancels := lost.Tx, committed.Bump, strings.Contains(has, "no-op")
	if cancels {
		next, again = noop, committed.Cancel
	}
	next.Fees.Tip = token.Units(2)
	newest := must.Get(signer.Sign(t.Context(), next, nonce))(t)
	bumped := must.Get(again(newest, next, time.Unix(90, 0)))(t)
	switch {
	case strings.Contains(has, "without"):
		must.OK(t, tables.BumpNoop(t.Context(), store.PendingTxOf(bumped)))
	case strings.Contains(has, "with"):
		must.OK(t, tables.AddAttempt(t.Context(), bumped))
		must.OK(t, tables.DeletePendingTx(t.Context(), id, nonce))
		must.OK(t, tables.PutNoop(t.Context(), store.PendingTxOf(committed)))
	case strings.Contains(has, "alone"):
		must.OK(t, tables.DeletePendingTx(t.Context(), id, nonce))
		fallthrough
	default:
		newest = signed
	}
	if is == "mined" {
		c.MineExactly(newest.Raw)
	}
	mine(4)
	if is == "in a pool" {
		c.Nodes[0].Send(t.Context(), newest.Raw)
	}

	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	r.Wait = func(_ context.Context, d time.Duration) {
		time.Sleep(d)
		mine(1)
	}
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
		r.Since = 2 // it may have been mined before
		_, err := r.Run(ctx, must.Get(r.Hold(ctx))(t))
		if _, lacks := tables.PendingTx(ctx, id, nonce); lacks != nil || err == nil || !strings.Contains(err.Error(), "--since 0") {
			t.Errorf("after a dry run, and one from a later block: %v; %v", lacks, err)
		}
		r.Since = 0
	}
	if has == "it committed meanwhile" {
		r.Store = behind{tables, &lost}
	}
	key := lost.ID
	must.Get(r.Run(ctx, must.Get(r.Hold(ctx))(t)))(t)
	p, err := tables.Payment(ctx, key)
	paid := err == nil && p.State == payment.Confirmed && p.TxHash == signed.Hash
	pays := !cancels
	if strings.HasPrefix(is, "unsent") { // the tables have its bytes
		pays = whole && has != "it committed alone" && has != "it committed without its no-op"
	}
	if paid != pays || !paid && p.State.Signed() != whole || whole && !slices.Contains(p.Hashes(), p.Onchain) || cancels && !p.HasNoop() {
		t.Errorf("the payment is %q, with %s, %v", p.State, p.TxHash, err)
	}
	if w := must.Get(tables.Wallet(ctx, id))(t); w.NextNonce <= nonce {
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
		t.Run(name, func(t *testing.T) {
			c, keys, tables, r, mine := world(t, 1e12)
			amount := token.Units(7)
			if name == "another amount" {
				amount = token.Units(8)
			}
			request := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "order-1", To: fakechain.Payee(0), Amount: amount,
				Reference: "inv-2"}
			if name == "a batch" {
				request, _ = request.Batch([]payment.Entry{{To: fakechain.Payee(1), Amount: amount}, {To: fakechain.Payee(2), Amount: amount}})
			}
			chainID := map[bool]uint64{true: 2, false: 1}[name == "another asset"]
			held := proposal.New(proposal.Proposal{Life: time.Hour}, request, coin, chainID, "test", time.Now())
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
			lose(t, c, keys)
			mine(4)
			ids := must.Get(r.Hold(t.Context()))(t)
			got, err := r.Run(t.Context(), ids)
			if name == "cancelled meanwhile" && errors.Is(err, store.ErrChanged) {
				got, err = r.Run(t.Context(), ids)
			}
			must.OK(t, err)
			p := must.Get(tables.Proposal(t.Context(), held.Payment.ID))(t)
			if p.Payment.State != want || p.Payment.Merchant != "mer_1" || got.Stored+len(got.Differ) != 1 || (got.Stored == 1) != want.Final() {
				t.Errorf("%+v, the payment is %+v", got, p.Payment)
			}
			if same := p.Payment.Fingerprint == request.Fingerprint(); (p.Payment.Reference == request.Reference) != same {
				t.Errorf("the words of a request that is not paid: %+v", p.Payment)
			}
		})
	}
}
