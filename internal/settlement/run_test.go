package settlement_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/settings"
	"remit/internal/settlement"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// TestSpent: what a payment and a no-op cost is stored with the payment and reported of the
// wallet; a cost that no node says is neither.
func TestSpent(t *testing.T) {
	w := newWorld(t, script{})
	fee := func(units uint64) *token.Amount { return new(token.Units(units)) }
	paid, silent, away := w.commit("a", time.Minute), w.commit("b", time.Minute), w.reserve("c", time.Minute)
	noop := w.noop(2, time.Minute)
	w.must(w.tables.Release(t.Context(), away.ID, noop))
	for hash, fee := range map[chain.Hash]*token.Amount{paid.TxHash: fee(7), silent.TxHash: nil, noop.Hash(): fee(5)} {
		w.paid(paid, hash)
		r := w.receipts[hash]
		r.Fee = fee
		w.receipts[hash] = r
	}
	report, err := w.round()
	w.must(err)
	slices.SortFunc(report.Spent, func(a, b settlement.Spent) int { return a.Fee.Cmp(b.Fee) })
	if want := []settlement.Spent{{Wallet: payer, Noop: true, Fee: *fee(5)}, {Wallet: payer, Fee: *fee(7)}}; !slices.Equal(report.Spent,
		want) {
		t.Errorf("spent %+v, want %+v", report.Spent, want)
	}
	if p := w.stored(paid); p.Fee == nil || *p.Fee != *fee(7) || p.Public().NetworkFee != p.Fee {
		t.Errorf("%s cost %v, want 7", p.State, p.Fee)
	}
	if p := w.stored(silent); !p.State.Final() || p.Fee != nil {
		t.Errorf("%s cost %v, want a cost that is not known", p.State, p.Fee)
	}
}

// TestRun: a run goes round once a block while something is pending, waits once
// for a claim of another run to end, and leaves the wallets free when its time is
// over.
func TestRun(t *testing.T) {
	const block, claim = 12 * second, 15 * second
	sent := func(w *world) { w.commit("a", minute); w.pooled = 1 }
	mined := func(w *world) error {
		p := w.stored(payment.Payment{ID: payment.KeyID("mer_1", "test", "a")})
		w.paid(p, p.TxHash)
		return nil
	}
	taken := func(w *world) error { // by another run, whatever claim there is
		_, err := w.tables.Claim(context.Background(), id, "other", w.now.Add(time.Hour), w.now.Add(claim))
		return err
	}
	for _, test := range []struct {
		name      string
		before    func(*world)
		script    script
		left      time.Duration // until the run's deadline; zero: for ever
		waits     []time.Duration
		confirmed int
		err       error
	}{
		{"nothing is pending", func(*world) {}, script{}, 0, nil, 0, nil},
		{"no node is known", sent, breaks("Nodes#1"), 0, nil, 0, errBroken},
		{"no node is known in the first round", sent, breaks("Nodes#2").with("Account#2", mined), 0, []time.Duration{block, block}, 1, nil},
		{"a payment is mined after a block", sent, script{"Account#2": mined}, 0, []time.Duration{block}, 1, nil},
		{"a round fails", sent, breaks("Wallets#1").with("Account#1", mined), 0, []time.Duration{block}, 1, nil},
		{"another run claims the wallet, and ends", sent, script{"Claim#1": taken, "Account#1": mined}, 0, []time.Duration{claim}, 1, nil},
		{"another run claims the wallet, and goes on", sent, script{"Claim#1": taken, "Claim#2": taken}, 0, []time.Duration{claim}, 0, nil},
		{"another run claims the wallet twice", sent, script{"Claim#1": taken, "Claim#3": taken, "Account#2": mined}, 0,
			[]time.Duration{claim, block, claim}, 1, nil},
		{"the time is over after a block", sent, script{}, block + 5*second, []time.Duration{block}, 0, nil},
		{"the time is over", sent, script{}, block + 5*second - 1, nil, 0, nil},
		{"the time is over, and the wallets cannot be listed", sent, breaks("Wallets#2"), second * 10, nil, 0, errBroken},
		{"the time is over, and the claim does not end", sent, breaks("Claim#2"), second * 10, nil, 0, errBroken},
		{"the time is over, and the round failed", sent, breaks("Account#1"), second * 10, nil, 0, errBroken},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.script)
			test.before(w)
			ctx := t.Context()
			if test.left > 0 {
				deadline, cancel := context.WithDeadline(ctx, w.now.Add(test.left))
				defer cancel()
				ctx = deadline
			}
			report, err := w.settler.Run(ctx, "run")
			if !errors.Is(err, test.err) || report.Confirmed != test.confirmed {
				t.Errorf("%d confirmed, %v, want %d, %v", report.Confirmed, err, test.confirmed, test.err)
			}
			if !slices.Equal(w.waits, test.waits) {
				t.Errorf("waited %v, want %v, after %v", w.waits, test.waits, w.calls)
			}
			if test.left > 0 && test.err == nil {
				if held, err := w.tables.Claim(t.Context(), id, "next", w.now, w.now.Add(second)); !held || err != nil {
					t.Errorf("the wallet is not free: %v", err)
				}
			}
			for call := range test.script {
				t.Errorf("%s was not called: %v", call, w.calls)
			}
		})
	}
}

// TestIdleWallets are looked at once in a run.
func TestIdleWallets(t *testing.T) {
	w := newWorld(t, script{})
	if _, err := w.settler.Round(t.Context(), "run", false); err != nil || w.did("Account#1") || w.did("Claim#1") {
		t.Errorf("a later round: %v, after %v", err, w.calls)
	}
	// One that another run has settled meanwhile is idle too.
	w = newWorld(t, breaks().with("Claim#1", func(w *world) error { w.claim("other", 15*second); return nil }).
		with("Wallets#2", func(w *world) error { return w.tables.DeletePendingTx(context.Background(), id, 0) }))
	w.commit("a", minute)
	if _, err := w.settler.Run(t.Context(), "run"); err != nil || w.times["Account"] != 1 || len(w.waits) != 1 {
		t.Errorf("a wallet that became idle: %v, after %v", err, w.calls)
	}
	w = newWorld(t, script{})
	report, err := w.round()
	if err != nil || len(report.Wallets) != 1 || report.Wallets[0] != funds || w.did("Claim#1") || w.did("Receipts#1") {
		t.Errorf("the first round: %+v, %v, after %v", report.Wallets, err, w.calls)
	}
}

// TestNoStepIsBegunInTheLastFiveSeconds of a run: they are for ending cleanly.
func TestNoStepIsBegunInTheLastFiveSeconds(t *testing.T) {
	for left, enough := range map[time.Duration]bool{5*second - 1: false, 5 * second: true} {
		for call, before := range map[string]func(*world){
			"Commit#1": func(w *world) { w.reserve("a", 2*minute) },
			"Finish#1": func(w *world) { p := w.commit("a", minute); w.paid(p, p.TxHash) },
			"Send#1":   func(w *world) { w.commit("a", minute) },
		} {
			w := newWorld(t, script{})
			before(w)
			ctx, cancel := context.WithDeadline(t.Context(), w.now.Add(left))
			defer cancel()
			if _, err := w.settler.Round(ctx, "run", true); err != nil || w.did(call) != enough {
				t.Errorf("with %v left %s is called: %v, %v", left, call, w.did(call), err)
			}
		}
	}
	w := newWorld(t, script{})
	w.commit("a", minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.settler.Run(ctx, "run"); w.did("Send#1") || len(w.waits) > 0 {
		t.Errorf("cancelled: %v, after %v", err, w.calls)
	}
}

// TestANodeThatHangsGetsATransactionARound: a node that takes longer than a block
// for one transaction gets the next one in the next round.
func TestANodeThatHangsGetsATransactionARound(t *testing.T) {
	for takes, next := range map[time.Duration]bool{12 * second: true, 12*second + 1: false} {
		w := newWorld(t, script{"Send#1": func(w *world) error { w.now = w.now.Add(takes); return nil }})
		w.commit("a", minute)
		w.commit("b", minute)
		if _, err := w.round(); err != nil || w.did("Send#2") != next {
			t.Errorf("after a Send of %v there is another: %v, %v", takes, w.did("Send#2"), err)
		}
	}
}

// TestOutOfGas: the pause for lack of gas ends when a node takes the bytes again
// or none wait, and no other pause does.
func TestOutOfGas(t *testing.T) {
	waiting := func(w *world) { w.commit("a", minute) }
	for _, test := range []struct {
		name   string
		before func(*world)
		reply  chain.Class
		paused string // before
		want   string
	}{
		{"the node wants gas", waiting, chain.Funds, "", "out of gas funds"},
		{"the node wants gas still", waiting, chain.Funds, "out of gas funds", "out of gas funds"},
		{"the node wants gas of a wallet that a person paused", waiting, chain.Funds, "by hand", "by hand"},
		{"the node takes the bytes", waiting, chain.Accepted, "out of gas funds", ""},
		{"the node has the bytes", waiting, chain.Known, "out of gas funds", ""},
		{"the node's pool is full", waiting, chain.Full, "out of gas funds", "out of gas funds"},
		{"the node takes the bytes of a wallet that a person paused", waiting, chain.Accepted, "by hand", "by hand"},
		{"no bytes wait", func(*world) {}, chain.Accepted, "out of gas funds", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, script{})
			test.before(w)
			w.reply = test.reply
			if test.paused != "" {
				w.must(w.tables.Pause(t.Context(), id, test.paused))
			}
			report, err := w.round()
			if got := w.record().Paused; err != nil || got != test.want || report.Paused > 0 != (test.want != "") {
				t.Errorf("paused %q, %v, report %+v; want %q", got, err, report, test.want)
			}
			if test.paused == test.want && w.did("Repause#1") {
				t.Errorf("the pause is written again: %v", w.calls)
			}
		})
	}
	w := newWorld(t, breaks("Repause#1"))
	waiting(w)
	w.must(w.tables.Pause(t.Context(), id, "out of gas funds"))
	if _, err := w.round(); !errors.Is(err, errBroken) || w.record().Paused == "" {
		t.Errorf("a pause that does not end: %v", err)
	}
}

// TestBumps: the next attempt costs more and pays the same, or nothing once
// every node has refused the bytes for ever.
func TestBumps(t *testing.T) {
	for _, test := range []struct {
		name     string
		reply    chain.Class
		estimate uint64
		noop     bool
		limit    uint64
	}{
		{"the fees are too low", chain.FeeTooLow, 0, false, 10},
		{"the fees are too low, and the transfer needs more gas", chain.FeeTooLow, 50_000, false, chain.GasLimit(50_000)},
		{"the gas is too low", chain.GasTooLow, 50_000, false, chain.GasLimit(50_000)},
		{"the gas is too low, and the transfer reverts", chain.GasTooLow, 0, true, chain.NoopGas},
		{"no node will ever take the bytes", chain.Wrong, 50_000, true, 60_000},
	} {
		w := newWorld(t, script{})
		p := w.commit("a", 4*minute)
		w.reply, w.gas = test.reply, test.estimate
		_, err := w.round()
		p = w.stored(p)
		if last := p.LastAttempt(); err != nil || len(p.Attempts) != 2 || last.Noop != test.noop || p.Gas() != test.limit ||
			last.Fees.Cap.Cmp(token.Units(24)) != 0 || !last.At.Equal(w.now) {
			t.Errorf("%s: %+v, %v", test.name, p.Attempts, err)
		}
		if tx := w.pending()[0]; tx.Hash() != p.LastAttempt().Hash || w.times["Send"] < 2 {
			t.Errorf("%s: stored is %+v, sent %d times", test.name, tx, w.times["Send"])
		}
		// One that pays nothing is followed by none that pays.
		w.now, w.reply = w.now.Add(4*minute), chain.Accepted
		report, err := w.round()
		if last := w.stored(p).LastAttempt(); err != nil || last.Noop != test.noop {
			t.Errorf("%s, and the next: %+v, %v", test.name, last, err)
		}
		// However often its fees are raised, it is pending since it was committed.
		if report.Oldest != 8*minute {
			t.Errorf("%s: the oldest is pending for %v", test.name, report.Oldest)
		}
	}
}

// TestForeignPendingTx: bytes that belong to no payment of that wallet and nonce
// end none.
func TestForeignPendingTx(t *testing.T) {
	for name, change := range map[string]func(*wallet.PendingTx){
		"of another nonce":      func(tx *wallet.PendingTx) { tx.Nonce = 1 },
		"of a prepared payment": func(tx *wallet.PendingTx) { tx.Payment = payment.KeyID("mer_1", "test", "b") },
	} {
		w := newWorld(t, script{})
		p := w.commit("a", minute)
		tx := w.pending()[0]
		w.must(w.tables.DeletePendingTx(t.Context(), id, 0))
		w.reserve("b", 0)
		change(&tx)
		w.must(w.tables.PutNoop(t.Context(), tx))
		w.mined = 1
		w.paid(p, p.TxHash)
		report, err := w.round()
		if err == nil || report.Confirmed > 0 || w.stored(p).State != payment.Committed {
			t.Errorf("bytes %s: %+v, %v", name, report, err)
		}
	}
}

// TestReconciling: a wallet may spend its balance less what reservations and
// pending transactions tie up, each counted once, and reads no more than it
// needs for that.
func TestReconciling(t *testing.T) {
	w := newWorld(t, script{})
	w.commit("a", 0)
	w.reserve("b", 0)
	p := w.reserve("c", 0)
	w.must(w.tables.Reconcile(t.Context(), wallet.Wallet{ID: id, NextNonce: 3}, token.Units(5), token.Units(5), nil))
	report, err := w.round()
	spendable, gas := funds.Balance.Sub(token.Units(300)), funds.Gas.Sub(token.Units(3*210))
	if got := w.record(); err != nil || got.Balance != spendable || got.Gas != gas || report.Wallets[0].Gap != 3 {
		t.Errorf("spendable %v and %v, gap %d, %v; want %v and %v", got.Balance, got.Gas, report.Wallets[0].Gap, err, spendable, gas)
	}
	if seen := report.Wallets[0]; seen.Balance != spendable || seen.Gas != gas {
		t.Errorf("reported %v and %v, want what is spendable", seen.Balance, seen.Gas)
	}
	if _, err := w.round(); err != nil || w.did("Reconcile#2") || w.did("RaiseCeiling#1") {
		t.Errorf("written again: %v, after %v", err, w.calls)
	}
	// A nonce without an owner tells nothing.
	w.must(w.tables.Reconcile(t.Context(), wallet.Wallet{ID: id, NextNonce: 3}, token.Units(5), token.Units(5), nil))
	w.must(w.tables.Release(t.Context(), p.ID, wallet.PendingTx{ID: id, Nonce: 2}))
	report, err = w.round()
	if err != nil || w.did("Reconcile#2") || report.Wallets[0].Gas != token.Units(5) {
		t.Errorf("stored without the owner of a nonce, or reported otherwise: %v, %v", err, report.Wallets)
	}
}

// A refiller counts how often it is asked.
type refiller int

func (r *refiller) Refill(context.Context, token.Address, bool, uint64) error {
	*r++
	return nil
}

// TestUnreadOwner: while the payment of a reservation cannot be read, balances are not
// stored, and reported all the same.
func TestUnreadOwner(t *testing.T) {
	w := newWorld(t, breaks("Payment#1"))
	w.must(w.tables.SetState(t.Context(), id, wallet.Draining, wallet.Active, w.now))
	w.reserve("a", 0)
	report, err := w.round()
	if !errors.Is(err, errBroken) || len(report.Wallets) != 1 || w.did("Reconcile#1") {
		t.Errorf("%v, %+v, after %v", err, report.Wallets, w.calls)
	}
}

// TestRefill: a wallet that is low beside what it ties up is refilled, whether or not a
// payment of a reservation can be read, and a round refills none.
func TestRefill(t *testing.T) {
	for _, test := range []struct {
		name  string
		above uint64 // what it has is so much below the mark
		with  script
		want  refiller
	}{
		{"enough", 0, script{}, 0},
		{"low", 1, script{}, 1},
		{"low, and a payment cannot be read", 1, breaks("Payment#1"), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.with)
			asked := new(refiller)
			w.settler.Refiller = asked
			w.must(w.tables.SetState(t.Context(), id, wallet.Draining, wallet.Active, w.now))
			low, _ := funds.Balance.Add(token.Units(test.above))
			w.settings(func(s *settings.Settings) { s.Refills.Token = settings.Refill{Low: low, Amount: token.Units(1)} })
			if test.above > 0 {
				w.reserve("a", 0)
			}
			if _, err := w.settler.Refill(t.Context()); err != nil || *asked != test.want {
				t.Errorf("asked for %d refills, want %d: %v", *asked, test.want, err)
			}
			if _, _ = w.round(); *asked != test.want {
				t.Errorf("a round asks for refills")
			}
		})
	}
}

// TestWindow: the ceiling is the mined count plus the window of the settings, not below what
// is given out. It is written only where it changes.
func TestWindow(t *testing.T) {
	for _, test := range []struct {
		window, ceiling uint64
		call            string
	}{{3, 4, "LowerCeiling"}, {2, 4, "LowerCeiling"}, {5, 6, "LowerCeiling"}, {63, 64, ""}, {64, 65, "RaiseCeiling"}} {
		w := newWorld(t, script{})
		w.settings(func(s *settings.Settings) { s.NonceWindow = test.window })
		p := w.commit("a", 0)
		w.paid(p, p.TxHash)
		for n := range 3 {
			w.commit(fmt.Sprint(n), 0)
		}
		for range 2 {
			if _, err := w.round(); err != nil || w.record().Ceiling != test.ceiling {
				t.Errorf("window %d: ceiling %d, %v; want %d", test.window, w.record().Ceiling, err, test.ceiling)
			}
		}
		if w.times["LowerCeiling"]+w.times["RaiseCeiling"] > 1 || test.call != "" && w.times[test.call] != 1 {
			t.Errorf("window %d: %v", test.window, w.calls)
		}
	}
}

// TestReconcilingReadsOnlyOwners: a reservation whose nonce has a pending
// transaction, or is mined, needs no payment to be reconciled.
func TestReconcilingReadsOnlyOwners(t *testing.T) {
	for _, mined := range []uint64{0, 1} {
		w := newWorld(t, script{})
		w.must(w.tables.Discard(t.Context(), w.reserve("a", 0)))
		w.noop(0, 0)
		w.mined, w.atNonce = mined, chain.Hash{}
		if mined > 0 {
			w.must(w.tables.DeletePendingTx(t.Context(), id, 0))
		}
		if _, err := w.round(); err != nil || !w.did("Reconcile#1") || w.did("Payment#1") {
			t.Errorf("%d mined: %v, after %v", mined, err, w.calls)
		}
	}
}

// TestSleep returns when its time or its context is over, and is how a settler
// waits that was not told how.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := settlement.New(stack.Config{}, settlement.Parts{}).Wait
		began := time.Now()
		wait(t.Context(), minute)
		if took := time.Since(began); took != minute {
			t.Errorf("slept %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		wait(ctx, minute)
		if took := time.Since(began); took != minute+second {
			t.Errorf("slept %v past the end of the context", took-minute-second)
		}
	})
}

// TestBusyWhicheverWalletIsLast: a round is busy as long as one wallet is, in
// whatever order their passes end.
func TestBusyWhicheverWalletIsLast(t *testing.T) {
	for busy := range 3 {
		w := newWorld(t, script{})
		wallets := []wallet.ID{id, {ChainID: 1, Address: token.Address{2}}, {ChainID: 1, Address: token.Address{3}}}
		for _, other := range wallets[1:] {
			w.must(w.tables.Open(t.Context(), wallet.Wallet{ID: other, Ceiling: 64}))
		}
		w.must(w.tables.PutNoop(t.Context(), wallet.PendingTx{ID: wallets[busy], Hashes: []chain.Hash{{1}}, Raw: []byte{1}, At: w.now}))
		for range 20 {
			if report, err := w.round(); err != nil || !report.Busy || report.Pending != 1 {
				t.Fatalf("wallet %d has a pending transaction: report %+v, error %v", busy, report, err)
			}
		}
	}
}

// TestARunTellsThatItHasComparedEveryWallet since it began: processes that start
// believe it. One that it could not compare it asks for again.
func TestARunTellsThatItHasComparedEveryWallet(t *testing.T) {
	none := func(*world) {}
	for _, test := range []struct {
		name   string
		before func(*world)
		script script
		want   bool
		looks  int // at two wallets; 0: as many as there are
	}{
		{"idle wallets", none, script{}, true, 2},
		{"a busy one", func(w *world) { w.commit("a", minute) }, script{"Claim#2": func(w *world) error {
			return w.tables.DeletePendingTx(context.Background(), id, 0)
		}}, true, 3},
		{"one that a node gives in the next round", none, breaks("Account#2"), true, 3},
		{"one that the table gives then", none, breaks("Wallet#1"), true, 2},
		{"one that no round gets", none, breaks("Account#1", "Account#3", "Account#4", "Account#5"), false, 5},
		{"one that another run claims all the time", func(w *world) { w.commit("a", minute); w.claim("other", 16*second) }, script{}, false, 1},
		{"the list of wallets comes late", none, breaks("Wallets#1"), true, 2},
		{"no node is known in the first round", none, breaks("Nodes#2"), true, 2},
		{"the chain is ahead of one", func(w *world) { w.mined = 7 }, script{}, false, 0},
		{"the write is lost", none, breaks("SetCompared#1"), false, 2},
	} {
		w := newWorld(t, test.script)
		w.must(w.tables.Open(t.Context(), wallet.Wallet{ID: wallet.ID{ChainID: 1, Address: token.Address{2}}, NextNonce: 7, Ceiling: 64}))
		test.before(w)
		began := w.now
		ctx, cancel := context.WithDeadline(t.Context(), began.Add(50*second))
		defer cancel()
		_, _ = w.settler.Run(ctx, "run")
		at, err := w.tables.Compared(t.Context(), id.ChainID)
		if err != nil || at.At.Equal(began) != test.want || at.At.IsZero() == test.want || w.times["Account"] != test.looks && test.looks > 0 ||
			w.times["SetCompared"] > 1 {
			t.Errorf("%s: stored %v, %v, after %v", test.name, at, err, w.calls)
		}
	}
}

// TestARetiredWallet: it is retired once all that it has signed is final on every
// node, or, if its key is stolen, once its payments have ended. From then on no run
// looks at it, but for one request a day, which says in one line that its key is used.
func TestARetiredWallet(t *testing.T) {
	drain := func(w *world) {
		w.must(w.tables.SetState(context.Background(), id, wallet.Active, wallet.Draining, w.now))
	}
	ended := func(w *world) {
		w.must(w.tables.Advance(context.Background(), id, 3, 0))
		w.mined, w.settled, w.pooled = 3, 3, 3
	}
	for name, test := range map[string]struct {
		before       func(w *world)
		want, stolen error
	}{
		"all has ended": {ended, nil, nil},
		"it is active": {func(w *world) {
			w.must(w.tables.SetState(context.Background(), id, wallet.Draining, wallet.Active, w.now))
		}, settlement.ErrNotDraining, settlement.ErrNotDraining},
		"a reservation is held":        {func(w *world) { w.reserve("a", 0) }, settlement.ErrUnsettled, settlement.ErrUnsettled},
		"a payment is pending":         {func(w *world) { w.commit("a", 0) }, settlement.ErrUnsettled, settlement.ErrUnsettled},
		"a no-op is pending":           {func(w *world) { ended(w); w.noop(2, 0) }, settlement.ErrUnsettled, nil},
		"a transaction is not final":   {func(w *world) { ended(w); w.settled = 2 }, settlement.ErrUnsettled, nil},
		"a node's pool holds another":  {func(w *world) { ended(w); w.pooled = 4 }, settlement.ErrUnsettled, nil},
		"another program uses its key": {func(w *world) { ended(w); w.mined, w.settled, w.pooled = 4, 4, 4 }, settlement.ErrUnsettled, nil},
		"a nonce was given out meanwhile": {func(w *world) {
			ended(w)
			w.script.with("Retire#1", func(w *world) error { return w.tables.Advance(context.Background(), id, 4, 0) })
		}, store.ErrChanged, store.ErrChanged},
		"a recovery paused it meanwhile": {func(w *world) {
			ended(w)
			w.script.with("Retire#1", func(w *world) error { return w.tables.Pause(context.Background(), id, wallet.Suspicion) })
		}, store.ErrChanged, store.ErrChanged},
		"restored tables may lack a payment": {func(w *world) {
			ended(w)
			w.must(w.tables.Pause(context.Background(), id, wallet.Suspicion+": restored"))
		}, settlement.ErrUnsettled, nil},
		"the write is lost": {func(w *world) { ended(w); w.script.with("Retire#1", func(*world) error { return errBroken }) }, errBroken,
			errBroken},
	} {
		for _, stolen := range []bool{false, true} {
			w, want := newWorld(t, script{}), test.want
			if stolen {
				want = test.stolen
			}
			drain(w)
			test.before(w)
			if err := w.settler.Retire(t.Context(), id, stolen); !errors.Is(err, want) ||
				(w.record().Paused == wallet.RetiredReason) != (err == nil) {
				t.Errorf("%s, stolen %t: %v, paused %q", name, stolen, err, w.record().Paused)
			}
		}
	}
	var log bytes.Buffer
	w := newWorld(t, script{})
	w.settler.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	drain(w)
	ended(w)
	for range 2 { // a command whose answer was lost is run again
		w.must(w.settler.Retire(t.Context(), id, false))
	}
	for hour := range 73 { // the thief sends, a run looks
		w.mined, w.pooled = w.mined+14, w.pooled+14
		if report, err := w.settler.Run(t.Context(), fmt.Sprint("run ", hour)); err != nil || !cmp.Equal(report, settlement.Report{}) {
			t.Fatalf("after %d transactions of a thief: %+v, %v", w.mined-3, report, err)
		}
		w.now = w.now.Add(time.Hour)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 4 || w.times["Account"] != 4+1 ||
		!strings.Contains(log.String(), "transactions=14\n") || !strings.Contains(log.String(), "transactions=1022\n") {
		t.Errorf("in three days and an hour %d looks wrote\n%s", w.times["Account"], &log)
	}
}
