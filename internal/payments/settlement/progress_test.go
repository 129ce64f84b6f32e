package settlement_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// one makes a run of one round, and writes the stage of a payment after it.
func (w *world) one(p payment.Payment) string {
	ctx, cancel := context.WithDeadline(w.T.Context(), w.Now().Add(10*second))
	defer cancel()
	_, err := w.settler.Run(ctx, fmt.Sprint("run", w.Times["Claim"]))
	w.Must(err)
	is := w.record().ProgressOf(w.stored(p))
	switch {
	case is == nil:
		return "none"
	case is.Block == nil:
		return string(is.Stage)
	case is.Left == nil:
		return fmt.Sprint(is.Stage, " ", *is.Block)
	}
	return fmt.Sprint(is.Stage, " ", *is.Block, ", left ", *is.Left)
}

// paying commits a payment and has it mined in block 5.
func paying(w *world) { p := w.commit("a", minute); w.paid(p, p.TxHash) }

// also has a payment mined at the next nonce in block 5.
func (w *world) also() { p := w.commit("b", minute); w.paid(p, p.TxHash) }

// retried stores another attempt at a payment.
func (w *world) retried(p payment.Payment, again func(chain.Signed, chain.Tx, time.Time) (payment.Payment, error)) payment.Payment {
	tx := chain.Noop(1, payer, p.Tx.Fees) // its bytes are nobody's concern here
	signed, err := w.Quiet().Sign(w.T.Context(), tx, p.Nonce)
	w.Must(err)
	p, err = again(signed, tx, w.Now())
	w.Must(err)
	w.Must(w.Tables.AddAttempt(w.T.Context(), p))
	return p
}

// first returns the payment of a world as it is stored.
func first(w *world) payment.Payment {
	return w.stored(payment.Payment{ID: payment.KeyID("mer_1", "test", "a")})
}

// TestProgress: what answers show of a payment after a round, and after another one, before which
// something happens.
func TestProgress(t *testing.T) {
	nothing := func(*world) {}
	mined := func(w *world) { paying(w); w.final = 4 }
	stuck := func(w *world) { w.commit("a", 4*minute); w.pooled, w.price = 1, 21 }
	for _, test := range []struct {
		name            string
		before, happens func(*world)
		want            [2]string
	}{
		{"no node has it, and then one has", func(w *world) { w.commit("a", 0) }, func(w *world) { w.pooled = 1 },
			[2]string{"committed", "sent"}},
		{"one of two nodes has it", func(w *world) { w.commit("a", minute); w.second().pooled = 1 }, nothing, [2]string{"sent", "sent"}},
		{"it is mined, and ends", mined, func(w *world) { w.final = 5 }, [2]string{"mined 5, left 0", "none"}},
		{"its first attempt is mined", func(w *world) { mined(w); p := first(w); w.retried(p, p.Bump) }, nothing,
			[2]string{"mined 5, left 0", "mined 5, left 0"}},
		{"the rule wants more", func(w *world) { mined(w); w.settler.ConfirmationRule.Depth = 12 }, nothing,
			[2]string{"mined 5, left 8", "mined 5, left 8"}},
		{"the rule is a tag", func(w *world) { mined(w); w.settler.ConfirmationRule.Tag = "finalized" }, nothing,
			[2]string{"mined 5", "mined 5"}},
		{"one of two nodes counts it", func(w *world) { mined(w); w.second().mined = 0 }, func(w *world) { w.peer.mined = 1 },
			[2]string{"sent", "mined 5, left 0"}},
		{"one of two nodes has no receipt", func(w *world) { mined(w); clear(w.second().receipts) }, nothing, [2]string{"sent", "sent"}},
		{"its block is above a node's head", func(w *world) {
			mined(w)
			r := w.receipts[first(w).TxHash]
			r.Block = 10
			w.receipts[r.Tx] = r
		}, nothing, [2]string{"sent", "sent"}},
		{"it is mined on a branch of its own", func(w *world) {
			mined(w)
			r := w.receipts[first(w).TxHash]
			r.BlockHash[3]++
			w.second().receipts[r.Tx] = r
		}, nothing, [2]string{"sent", "sent"}},
		{"it is taken back", mined, func(w *world) { w.mined, w.pooled = 0, 1 }, [2]string{"mined 5, left 0", "sent"}},
		{"its nonce is used by another", mined, func(w *world) { clear(w.receipts) }, [2]string{"mined 5, left 0", "sent"}},
		{"it is mined in another block", mined, func(w *world) {
			r := w.receipts[first(w).TxHash]
			r.Block, r.BlockHash = 6, chain.Hash{6}
			w.receipts[r.Tx] = r
		}, [2]string{"mined 5, left 0", "mined 6, left 0"}},
		{"one of two nodes counts it no more", func(w *world) { mined(w); w.second() }, func(w *world) { w.peer.mined = 0 },
			[2]string{"mined 5, left 0", "sent"}},
		{"one of two nodes has no receipt any more", func(w *world) { mined(w); w.second() }, func(w *world) { clear(w.peer.receipts) },
			[2]string{"mined 5, left 0", "mined 5, left 0"}},
		{"with another, it is mined in another block", func(w *world) { mined(w); w.also() }, func(w *world) {
			for tx, r := range w.receipts {
				r.Block, r.BlockHash = 6, chain.Hash{6}
				w.receipts[tx] = r
			}
		}, [2]string{"mined 5, left 0", "mined 6, left 0"}},
		{"it is mined after another", func(w *world) {
			w.also()
			w.commit("a", minute)
			w.final = 4
		}, func(w *world) { w.mine(chain.Receipt{Tx: first(w).TxHash}) }, [2]string{"committed", "mined 5, left 0"}},
		{"its second attempt is mined", func(w *world) {
			p := w.commit("a", minute)
			w.mine(chain.Receipt{Tx: w.retried(p, p.Bump).LastAttempt().Hash})
			w.final = 4
		}, nothing, [2]string{"mined 5, left 0", "mined 5, left 0"}},
		{"a node gives no receipts any more", func(w *world) { mined(w); w.second() },
			func(w *world) { w.Script["Receipts#4"] = func(*world) error { return porttest.ErrBroken } },
			[2]string{"mined 5, left 0", "mined 5, left 0"}},
		{"the chain is behind the tables", mined, func(w *world) {
			w.known(chain.Block{Number: 4, Hash: chain.Hash{4}})
			w.fork = 4
		}, [2]string{"mined 5, left 0", "committed"}},
		{"the market asks too much", func(w *world) { stuck(w); w.settler.Own.FeeLimit = token.Units(21) }, func(w *world) { w.price = 20 },
			[2]string{"waiting_for_fees", "sent"}},
		{"the wallet lacks gas for the market", func(w *world) {
			stuck(w)
			w.Must(w.Tables.Reconcile(w.T.Context(), w.record(), funds.Balance, token.Units(1), nil, nil))
		}, nothing, [2]string{"waiting_for_funds", "sent"}}, // the first round sees a top-up
		{"the wallet lacks gas", func(w *world) { w.commit("a", minute); w.reply = chain.Funds }, func(w *world) { w.reply = chain.Accepted },
			[2]string{"waiting_for_funds", "committed"}},
		{"the wallet is paused, and lacks gas", func(w *world) {
			w.commit("a", minute)
			w.reply = chain.Funds
			w.Must(w.Tables.Pause(w.T.Context(), id, "by hand"))
		}, nothing, [2]string{"waiting_for_funds", "waiting_for_funds"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, script{})
			test.before(w)
			p := first(w)
			var got [2]string
			got[0] = w.one(p)
			test.happens(w)
			got[1] = w.one(p)
			if got != test.want {
				t.Errorf("%q, want %q, after %v", got, test.want, w.Calls)
			}
		})
	}
}

// TestMinedIsPublished: once, however many rounds see it, if the merchant wants it, of which a run
// asks once; and again where it is not known to have been published.
func TestMinedIsPublished(t *testing.T) {
	for _, test := range []struct {
		name        string
		named       bool
		script      script
		asked, sent int // reads of what the merchant wants, and events
	}{
		{"nobody wants it", false, script{}, 1, 0},
		{"it is wanted", true, script{}, 1, 2},
		{"it cannot be published at first", true, breaks("Publish#1"), 1, 3},
		{"what the merchant wants is not known at first", true, breaks("Named#1"), 2, 2},
		{"a node does not give the block's time at first", true, breaks("BlockTime#1"), 1, 2},
		{"two rounds fail after it", true, breaks("Reconcile#1", "Reconcile#2", "Reconcile#3", "Reconcile#4"), 1, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.script)
			w.named, w.final = test.named, 4
			for n, key := range []string{"a", "b"} {
				p := w.commit(key, minute)
				w.mine(chain.Receipt{Tx: p.TxHash, Succeeded: true})
				w.mined = uint64(n + 1)
			}
			ctx, cancel := context.WithDeadline(t.Context(), w.Now().Add(40*second))
			defer cancel()
			_, err := w.settler.Run(ctx, "run")
			if err != nil || w.Times["Named"] != test.asked || w.Times["Publish"] != test.sent || w.Times["Claim"] < 3 {
				t.Errorf("%v; %d reads, %d events; %v", err, w.Times["Named"], w.Times["Publish"], w.Calls)
			}
			listed, _ := w.record().Progress.Mined.Of(1)
			if events := len(w.events); listed != 5 || test.named != (events == 2) || test.named != strings.Contains(w.body, `"blocks_left":0`) {
				t.Errorf("in block %d, events %v, the last %s", listed, w.events, w.body)
			}
		})
	}
}

// TestMinedBeforeItEnds: of a payment that is final when a round first sees it, both events are
// published; and again, alike, by a run that follows a crash.
func TestMinedBeforeItEnds(t *testing.T) {
	w := newWorld(t, breaks("DeletePendingTx#1"))
	w.named = true
	paying(w)
	_, err := w.round()
	if err == nil || len(w.events) != 2 {
		t.Errorf("%v, events %v", err, w.events)
	}
	_, err = w.round()
	if w.Must(err); len(w.events) != 2 || w.record().Progress.Mined.Runs != nil {
		t.Errorf("events %v, %+v", w.events, w.record().Progress)
	}
}

// TestMinedByAnyNode: if the first of two nodes lags or is forked, and does not give a block's time, the other one does,
// and no event is held up.
func TestMinedByAnyNode(t *testing.T) {
	w := newWorld(t, breaks("BlockTime#1"))
	w.named = true
	paying(w)
	w.second()
	_, err := w.round()
	if w.Must(err); len(w.events) != 2 || w.stored(first(w)).State != payment.Confirmed {
		t.Errorf("events %v, after %v", w.events, w.Calls)
	}
}

// TestMinedOfAForeignTransaction: a table that was repaired by hand has a pending transaction of a payment that was never
// committed. That is an error.
func TestMinedOfAForeignTransaction(t *testing.T) {
	w := newWorld(t, script{})
	w.named, w.final = true, 4
	p := w.reserve("a", 0)
	foreign := wallet.PendingTx{ID: id, Payment: p.ID, Merchant: p.Merchant, Hashes: []chain.Hash{{1}}, Since: w.Now()}
	w.Must(w.Tables.PutNoop(t.Context(), foreign))
	w.mine(chain.Receipt{Tx: foreign.Hash(), Succeeded: true})
	if _, err := w.round(); err == nil || !strings.Contains(err.Error(), "does not match its payment") || len(w.events) > 0 {
		t.Errorf("%v, events %v", err, w.events)
	}
}

// TestMinedForNobody: neither a no-op, nor a transfer of the operator, nor a payment without a merchant, which recovery has
// found, is published as mined.
func TestMinedForNobody(t *testing.T) {
	w := newWorld(t, script{})
	w.named, w.final = true, 4
	w.mine(chain.Receipt{Tx: w.noop(0, minute).Hash()})
	w.Must(w.Tables.Advance(t.Context(), id, 1, 0))
	for _, merchant := range []string{payment.Operator, ""} {
		p := w.prepareFor(merchant, "a", minute)
		_, err := w.Tables.Reserve(t.Context(), store.NeedOf(p, w.Now()))
		w.Must(err)
		p = w.unreleased(p, minute)
		w.paid(p, p.TxHash)
	}
	_, err := w.round()
	if m := w.record().Progress.Mined; err != nil || len(w.events) > 0 || m.Next() != 3 {
		t.Errorf("%v, events %v, %+v", err, w.events, m)
	}
}

// TestCancelledIsNotMined: a no-op that used a payment's nonce is not payment.mined, whether a round sees it or ends the
// payment at once.
func TestCancelledIsNotMined(t *testing.T) {
	for _, final := range []uint64{4, 5} {
		w := newWorld(t, script{})
		w.named, w.final = true, final
		p := w.commit("a", minute)
		p = w.retried(p, p.Cancel)
		w.mine(chain.Receipt{Tx: p.LastAttempt().Hash, Succeeded: true})
		_, err := w.round()
		if w.Must(err); len(w.events) != int(final-4) || w.events[payment.EventID(p.ID, "payment.failed")] != (final == 5) {
			t.Errorf("with block %d final: events %v", final, w.events)
		}
	}
}

// TestReceiptsForProgressFail: a node that fails at a request with receipts for progress is asked again without them, so
// that payments end. For half a minute it is asked for no more of them, and the progress stays as it was seen.
func TestReceiptsForProgressFail(t *testing.T) {
	for _, test := range []struct {
		failing string
		asked   []int // receipts in a round every ten seconds, by each request that was answered
	}{{"", []int{30, 9, 9, 9, 9}}, {"Receipts#1", []int{8, 8, 8, 22, 9}}, {"Receipts#2", []int{30, 8, 8, 8, 9}}} {
		w := newWorld(t, breaks(test.failing))
		w.settled, w.settler.BlockTime = 8, 10*second
		for n := range 30 {
			p := w.commit(fmt.Sprint(n), minute)
			w.paid(p, p.TxHash)
			if r := w.receipts[p.TxHash]; n >= 8 {
				r.Block, r.BlockHash = 6, chain.Hash{6}
				w.receipts[r.Tx] = r
			}
		}
		ctx, cancel := context.WithDeadline(t.Context(), w.Now().Add(54*second))
		report, err := w.settler.Run(ctx, "run")
		cancel()
		in, _ := w.record().Progress.Mined.Of(29)
		if err != nil || report.Confirmed != 8 || !slices.Equal(w.asked, test.asked) || in != 6 {
			t.Errorf("%q fails: %v, %d end, the last is mined in %d, asked for %v, want %v", test.failing, err, report.Confirmed, in, w.asked,
				test.asked)
		}
	}
}

// TestProgressGoesStale: while nodes fail at receipts that only show progress, what was seen stays for a minute, and then
// nothing is called mined. It is seen again once they answer.
func TestProgressGoesStale(t *testing.T) {
	w := newWorld(t, script{})
	w.final, w.settler.BlockTime = 4, 10*second
	for n := range 12 {
		p := w.commit(fmt.Sprint(n), minute)
		w.paid(p, p.TxHash)
	}
	for i, most := range []int{0, 8, 8, 0} {
		w.most = most
		ctx, cancel := context.WithDeadline(t.Context(), w.Now().Add(50*second))
		_, err := w.settler.Run(ctx, "run")
		cancel()
		if _, mined := w.record().Progress.Mined.Of(11); err != nil || mined != (i != 2) {
			t.Errorf("run %d: %v, mined %t", i, err, mined)
		}
	}
}

// hiding are tables as a run finds them after one of an earlier version, whose claim hides the progress.
type hiding struct{ settlement.Store }

func (h hiding) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	w, err := h.Store.Wallet(ctx, id)
	w.Progress = wallet.Progress{}
	return w, err
}

// TestProgressOfNoNode: what is stored stays while no node answers, unless a claim of an earlier version hid it: then the
// next claim would show it again.
func TestProgressOfNoNode(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		w := newWorld(t, script{})
		paying(w)
		w.final = 4
		w.one(first(w))
		if hidden {
			w.settler.Store = hiding{w.settler.Store}
		}
		w.down = porttest.ErrBroken
		_, err := w.round()
		if _, listed := w.record().Progress.Mined.Of(0); err == nil || listed == hidden {
			t.Errorf("hidden %t: %v, %+v", hidden, err, w.record().Progress)
		}
	}
}

// TestMinedInOrder: a payment that the nodes place below the one before it is neither stored nor published as mined.
func TestMinedInOrder(t *testing.T) {
	w := newWorld(t, script{})
	w.named, w.final = true, 3
	paying(w)
	w.also()
	r := w.receipts[w.pending()[1].Hash()]
	r.Block, r.BlockHash = 4, chain.Hash{4}
	w.receipts[r.Tx] = r
	_, err := w.round()
	if m := w.record().Progress.Mined; err != nil || len(w.events) != 1 || m.Next() != 1 {
		t.Errorf("%v, events %v, %+v", err, w.events, m)
	}
}
