package settlement_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// one makes a run of one round, and returns the progress of a payment after it.
func (w *world) one(p payment.Payment) payment.Progress {
	must.Get(w.run(10 * second))(w.T)
	if is := w.record().ProgressOf(w.stored(p)); is != nil {
		return *is
	}
	return "none"
}

func paying(w *world) { p := w.commit("a", minute); w.paid(p, p.TxHash) }

func (w *world) retried(p payment.Payment, again func(chain.Signed, chain.Tx, time.Time) (payment.Payment, error)) payment.Payment {
	tx := chain.Noop(1, payer, p.Tx.Fees) // no test here reads its bytes
	signed := must.Get(w.Quiet().Sign(w.T.Context(), tx, p.Nonce))(w.T)
	p = must.Get(again(signed, tx, w.Now()))(w.T)
	w.Must(w.Tables.AddAttempt(w.T.Context(), p))
	return p
}

// first returns the payment of a world as it is stored.
func first(w *world) payment.Payment {
	return w.stored(payment.Payment{ID: payment.KeyID("mer_1", "test", "a")})
}

// TestProgress: the progress of a payment after a round, and after a change and another round.
func TestProgress(t *testing.T) {
	mined := func(w *world) { paying(w); w.final = 4 }
	stuck := func(w *world) { w.commit("a", 4*minute); w.pooled, w.price = 1, 21 }
	cancelled := func(w *world) { p := w.commit("a", minute); w.retried(p, p.Cancel); w.final = 4 }
	for _, test := range []struct {
		name            string
		before, happens func(*world)
		want            [2]payment.Progress
	}{
		{"no node has it, and then one has", func(w *world) { w.commit("a", 0) }, func(w *world) { w.pooled = 1 },
			[2]payment.Progress{"committed", "sent"}},
		{"one of two nodes has it", func(w *world) { w.commit("a", minute); w.second().pooled = 1 }, untouched,
			[2]payment.Progress{"sent", "sent"}},
		{"it is mined, and ends", mined, func(w *world) { w.final = 5 }, [2]payment.Progress{"mined", "none"}},
		{"no node has a receipt", func(w *world) { mined(w); clear(w.receipts) }, untouched, [2]payment.Progress{"mined", "mined"}},
		{"its reservation is not released", func(w *world) {
			w.unreleased(w.reserve("a", minute), minute)
			w.mined, w.final = 1, 4
		}, untouched, [2]payment.Progress{"mined", "mined"}},
		{"one of two nodes counts it", func(w *world) { mined(w); w.second().mined = 0 },
			func(w *world) { w.peer.mined = 1 }, [2]payment.Progress{"sent", "mined"}},
		{"it is taken back", mined, func(w *world) { w.mined, w.pooled = 0, 1 }, [2]payment.Progress{"mined", "sent"}},
		{"one of two nodes counts it no more", func(w *world) { mined(w); w.second() },
			func(w *world) { w.peer.mined = 0 }, [2]payment.Progress{"mined", "sent"}},
		{"one of two nodes does not answer any more", func(w *world) { mined(w); w.second() },
			func(w *world) { w.peer.down = porttest.ErrBroken }, [2]payment.Progress{"mined", "mined"}},
		{"the chain is behind the tables", mined, func(w *world) {
			w.known(chain.Block{Number: 4, Hash: chain.Hash{4}})
			w.fork = 4
		}, [2]payment.Progress{"mined", "committed"}},
		{"its no-op is mined", func(w *world) {
			cancelled(w)
			w.mine(chain.Receipt{Tx: first(w).LastAttempt().Hash})
		}, untouched, [2]payment.Progress{"sent", "sent"}},
		{"it is mined itself, beside a no-op, and taken back", func(w *world) {
			cancelled(w)
			w.paid(first(w), first(w).TxHash)
		}, func(w *world) { w.receipts = map[chain.Hash]chain.Receipt{first(w).LastAttempt().Hash: {}} },
			[2]payment.Progress{"mined", "sent"}},
		{"it is mined itself, beside a no-op, and not the lowest", func(w *world) {
			z := w.commit("z", minute)
			w.mine(chain.Receipt{Tx: z.TxHash, Succeeded: true})
			cancelled(w)
			w.settled = 1
			w.paid(first(w), first(w).TxHash)
		}, untouched, [2]payment.Progress{"mined", "mined"}},
		{"it is mined, and another run ends the one before", func(w *world) {
			z := w.commit("z", minute)
			w.mine(chain.Receipt{Tx: z.TxHash, Succeeded: true})
			mined(w)
			w.named = true
			w.Script["SetMined#1"] = func(w *world) error {
				return w.Tables.Finish(w.T.Context(), must.Get(z.Confirm(chain.Receipt{Tx: z.TxHash}, w.Now()))(w.T))
			}
		}, untouched, [2]payment.Progress{"mined", "mined"}},
		{"one of two nodes has its receipt, beside a no-op", func(w *world) {
			cancelled(w)
			w.paid(first(w), first(w).TxHash)
			clear(w.second().receipts)
		}, untouched, [2]payment.Progress{"sent", "sent"}},
		{"the market asks too much", func(w *world) { stuck(w); w.settler.Own.FeeLimit = token.Units(21) },
			func(w *world) { w.price = 20 }, [2]payment.Progress{"waiting_for_fees", "sent"}},
		{"the wallet lacks gas for the market", func(w *world) {
			stuck(w)
			w.has.Gas = token.Units(10*21 + 1)
		}, func(w *world) { w.has = funds }, [2]payment.Progress{"waiting_for_funds", "sent"}},
		{"the wallet lacks gas", func(w *world) { w.commit("a", minute); w.reply = chain.Funds },
			func(w *world) { w.reply = chain.Accepted }, [2]payment.Progress{"waiting_for_funds", "committed"}},
		{"the wallet is paused, and lacks gas", func(w *world) {
			w.commit("a", minute)
			w.reply = chain.Funds
			w.Must(w.Tables.Pause(w.T.Context(), id, "by hand"))
		}, untouched, [2]payment.Progress{"waiting_for_funds", "waiting_for_funds"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, script{})
			test.before(w)
			p := first(w)
			got := [2]payment.Progress{w.one(p)}
			test.happens(w)
			got[1] = w.one(p)
			if got != test.want {
				t.Errorf("%q, want %q, after %v", got, test.want, w.Calls)
			}
		})
	}
}

// TestMinedIsPublished: a run publishes payment.mined before it stores the count, if the merchant's
// webhooks name it: once, or again in the same form if publishing may have failed.
func TestMinedIsPublished(t *testing.T) {
	lost := func(*world) error { return porttest.ErrLost }
	for _, test := range []struct {
		name        string
		named       bool
		script      script
		asked, sent int // calls of Named and of Publish
	}{
		{"nobody wants it", false, script{}, 1, 0},
		{"it is wanted", true, script{}, 1, 2},
		{"it cannot be published at first", true, breaks("Publish#1", "Publish#2"), 2, 4},
		{"what the merchant wants is not known at first", true, breaks("Named#1"), 2, 2},
		{"its time may not be stored at first", true, script{"SetMined#1": lost, "SetMined#2": lost}, 2, 2},
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
			w.commit("c", minute) // is not mined
			_, err := w.run(40 * second)
			if err != nil || w.Times["Named"] != test.asked || w.Times["Publish"] != test.sent || w.Times["Claim"] < 3 {
				t.Errorf("%v; %d reads, %d events; %v", err, w.Times["Named"], w.Times["Publish"], w.Calls)
			}
			if ids := w.ids(); w.record().Progress.Mined != 2 || test.named != (len(ids) == 2) {
				t.Errorf("%+v, events %v", w.record().Progress, ids)
			}
		})
	}
}

// TestMinedBeforeItEnds: a round that first counts a payment when it is final publishes both events, payment.mined
// first. After a failure the next round repeats an event in the same form. The payment ends only after payment.mined.
func TestMinedBeforeItEnds(t *testing.T) {
	cancel := func(w *world) error { w.retried(first(w), first(w).Cancel); return nil }
	once := []string{webhook.PaymentConfirmed}
	for name, test := range map[string]struct {
		script    script
		confirmed []string // events
	}{
		"its end is not stored":       {breaks("DeletePendingTx#1"), append(once, once...)},
		"payment.mined is lost":       {breaks("Publish#1"), once}, // published twice in a round
		"payment.confirmed is lost":   {breaks("Publish#2"), once},
		"a no-op is stored meanwhile": {script{"Account#1": cancel}, once},
		"beside a no-op, and an item that cannot be read": {script{"Wallets#1": func(w *world) error {
			w.commit("b", minute)
			w.Tables.SpoilPendingTx(id, 1)
			return cancel(w)
		}}, once},
	} {
		w := newWorld(t, test.script)
		w.named = true
		paying(w)
		for range 2 {
			_, _ = w.round()
		}
		var got []string
		for _, e := range w.events {
			got = append(got, e.Type)
		}
		want := append([]string{webhook.PaymentMined}, test.confirmed...)
		if !slices.Equal(got, want) || first(w).State != payment.Confirmed {
			t.Errorf("%s: %v, want %v, after %v", name, got, want, w.Calls)
		}
	}
}

// TestMinedForNobody: no-ops, the operator's transfers, and recovered payments without a merchant get no payment.mined.
func TestMinedForNobody(t *testing.T) {
	w := newWorld(t, script{})
	w.named, w.final = true, 4
	w.mine(chain.Receipt{Tx: w.noop(0, minute).Hash()})
	w.Must(w.Tables.Advance(t.Context(), id, 1, 0))
	for _, merchant := range []string{payment.Operator, ""} {
		p := w.prepareFor(merchant, "a", minute)
		must.Get(w.Tables.Reserve(t.Context(), store.NeedOf(p, w.Now())))(w.T)
		p = w.unreleased(p, minute)
		w.paid(p, p.TxHash)
	}
	_, err := w.round()
	if m := w.record().Progress.Mined; err != nil || len(w.events) > 0 || m != 3 {
		t.Errorf("%v, events %v, %d", err, w.events, m)
	}
}

// TestMinedBehindTheReads: a mined nonce whose payment the pass could not know yet, or read, is not stored as mined.
func TestMinedBehindTheReads(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*world)
		events  int
	}{
		"committed meanwhile": {func(w *world) {
			b := w.reserve("b", 0)
			w.Script["Account#1"] = func(w *world) error { w.unreleased(b, 0); return nil }
		}, 2},
		"unreadable": {func(w *world) { w.commit("b", minute); w.Tables.SpoilPendingTx(id, 1) }, 0},
	} {
		w := newWorld(t, script{})
		w.named, w.final = true, 4
		w.commit("a", minute)
		test.happens(w)
		w.mined = 2
		_, _ = w.run(40 * second)
		if ids := w.ids(); len(ids) != test.events || w.record().Progress.Mined > uint64(len(ids)) {
			t.Errorf("%s: %+v, events %v", name, w.record().Progress, ids)
		}
	}
}

// TestCancelledIsNotMined: a no-op that used a payment's nonce is not payment.mined, whether a round
// counts it first or ends the payment at once, or the no-op is stored after the round read the payment.
func TestCancelledIsNotMined(t *testing.T) {
	for _, final := range []uint64{4, 5} {
		w := newWorld(t, script{})
		w.named, w.final = true, final
		p := w.commit("a", minute)
		p = w.retried(p, p.Cancel)
		w.mine(chain.Receipt{Tx: p.LastAttempt().Hash, Succeeded: true})
		_, err := w.round()
		if w.Must(err); len(w.events) != int(final-4) || final == 5 && w.events[0].Type != webhook.PaymentFailed {
			t.Errorf("with block %d final: events %v", final, w.events)
		}
	}
	w := newWorld(t, script{"Account#1": func(w *world) error { p := first(w); w.retried(p, p.Cancel); return nil }})
	w.named, w.final, w.mined = true, 4, 1
	w.commit("a", minute)
	if is := w.one(first(w)); is == payment.ProgressMined || len(w.events) > 0 {
		t.Errorf("it is %s, events %v", is, w.events)
	}
}

// TestALostNoop moves no ether: the tables had lost the no-op that used up a transfer's nonce. Its gas is the bump's.
func TestALostNoop(t *testing.T) {
	w := newWorld(t, script{})
	w.moves = payment.Ether
	used(w)
	w.atNonce = nothing
	bumped := w.retried(first(w), first(w).Bump)
	w.Must(w.Tables.Advance(t.Context(), id, 1, 1)) // a lost recovery's no-ops reach over it
	for range 2 {
		must.Get(w.round())(t)
		w.receipts[nothing] = chain.Receipt{Tx: nothing, Succeeded: true, Block: 5, BlockHash: chain.Hash{5}}
	}
	if p := first(w); p.State != payment.Failed || p.Onchain != nothing || p.Gas() != bumped.Gas() {
		t.Errorf("%+v", p)
	}
}

// TestMinedIsNotReadAgain: from which nonces a run of four rounds reads. Nonces 0 and 1 are
// mined in block 5, 2 is not, and block 4 is final. It happens before the third round. What is remembered ends nothing.
func TestMinedIsNotReadAgain(t *testing.T) {
	broken := func(call string, after int) func(*world) {
		return func(w *world) {
			w.Script[fmt.Sprint(call, "#", w.Times[call]+after)] = func(*world) error { return porttest.ErrBroken }
		}
	}
	for _, test := range []struct {
		name            string
		before, happens func(*world)
		want            []string
	}{
		{"the final block moves", untouched, func(w *world) { w.final = 5 }, []string{"0", "2", "2", "0", "0"}},
		{"it moves, and another is mined", untouched, func(w *world) {
			c := w.stored(payment.Payment{ID: payment.KeyID("mer_1", "test", "c")})
			w.final = 5
			w.paid(c, c.TxHash)
		}, []string{"0", "2", "2", "0"}},
		{"it moves, and another run's bump is mined", untouched, func(w *world) {
			a := w.retried(first(w), first(w).Bump)
			delete(w.receipts, a.TxHash)
			w.paid(a, a.LastAttempt().Hash)
			w.final, w.mined = 5, 2
		}, []string{"0", "2", "2", "0", "0"}},
		{"they cannot be read, while a node is in doubt", func(w *world) { w.second() }, func(w *world) {
			w.mined, w.peer.mined = 3, 3
			broken("BlockHashes", 1)(w)
			broken("PendingTxs", 2)(w)
		}, []string{"0", "2", "2", "0", "0"}},
		{"another run has claimed it since", untouched, func(w *world) {
			_, _ = w.Tables.Claim(context.Background(), id, "other", w.Now().Add(time.Hour), w.Now(), nil)
		}, []string{"0", "2", "0", "2"}},
		{"a re-organisation", untouched, func(w *world) { w.mined = 1 }, []string{"0", "2", "2", "0", "1"}},
		{"an item is damaged since", func(w *world) { w.mined = 3 }, func(w *world) {
			w.mined = 2
			w.Tables.SpoilPendingTx(id, 0)
		}, []string{"0", "3", "3", "0", "0"}},
		{"the nodes are in doubt", untouched, broken("BlockHashes", 1), []string{"0", "2", "2", "0", "0"}},
		{"what is known could not be stored", broken("SetCompared", 1), untouched, []string{"0", "0", "2", "2"}},
		{"a mined nonce is still reserved", func(w *world) {
			w.unreleased(w.reserve("d", 0), 0)
			w.mined = 4
		}, untouched, []string{"0", "0", "0", "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, script{"Wallets#3": func(w *world) error { test.happens(w); return nil }})
			w.final = 4
			w.known(chain.Block{Number: 4, Hash: chain.Hash{4}})
			a, b := w.commit("a", minute), w.commit("b", minute)
			w.commit("c", minute)
			w.paid(a, a.TxHash)
			w.paid(b, b.TxHash)
			test.before(w)
			_, _ = w.run(45 * second)
			if !slices.Equal(w.from, test.want) || w.Did("TxAtNonce#1") { // each used nonce has a receipt
				t.Errorf("read from %v, want %v, after %v", w.from, test.want, w.Calls)
			}
			if ended := w.stored(a).State == payment.Confirmed; ended != (w.final == 5) {
				t.Errorf("a payment in block 5 has ended: %v, and block %d is final", ended, w.final)
			}
		})
	}
}
