package settlement_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

const (
	second = time.Second
	minute = time.Minute
)

// stranger is a transaction that is not ours, and nothing a no-op of ours.
var stranger, nothing = chain.Hash{0xff}, chain.Hash{0xfe}

// The states from which several tests start.
func untouched(*world) {}
func sent(w *world)    { w.commit("a", minute); w.pooled = 1 }
func used(w *world)    { w.commit("a", minute); w.mined, w.atNonce = 1, stranger }
func ahead(w *world)   { w.mined = 2 }

func again(call string, err error) script {
	return script{call: func(*world) error { return err }}
}

// A situation is a wallet before a round, other processes' acts in it, and its whole report: alarms ring on its counts.
type situation struct {
	name   string
	before func(*world)
	script script
	want   settlement.Report
	err    error
}

func situations() []situation {
	type report = settlement.Report
	const held, over = 2 * minute, 4 * minute // ages at which a round finishes a reservation, bumps an attempt
	ctx, aMinute, busy := context.Background(), []time.Duration{minute}, report{Busy: true}
	pending, waiting := report{Busy: true, Pending: 1, Oldest: minute}, report{Busy: true, Pending: 1, Oldest: over}
	undecided := report{Busy: true, Undecided: 1, Pending: 1, Oldest: minute}
	committed := report{Busy: true, Reservations: 1, Pending: 1}
	orphaned := report{Busy: true, Reservations: 1, Noops: 1, Pending: 1}
	filled := report{Busy: true, Suspect: 1, Noops: 2, Pending: 2}
	goesOn := report{Busy: true, Confirmed: 1, ToFinal: aMinute}
	calm := func(name string, before func(*world), want report) situation {
		return situation{name, before, nil, want, nil}
	}
	reserved := func(w *world) { w.reserve("a", held) }
	stuck := func(w *world) { w.commit("a", over); w.pooled, w.price = 1, 21 }
	unfilled := func(w *world) { w.reserve("a", 0); w.noop(0, over); w.pooled, w.price = 1, 21 }
	noops := func(by chain.Hash, reach uint64) func(*world) {
		return func(w *world) {
			w.mined, w.atNonce = 2, by
			w.Must(w.Tables.Advance(ctx, id, 0, reach))
		}
	}
	discarded := func(w *world) { w.Must(w.Tables.Discard(ctx, w.reserve("a", held))) }
	usedUp := func(w *world) {
		p := w.reserve("a", 0)
		tx := w.noop(0, minute)
		w.Must(w.Tables.Release(ctx, p.ID, tx))
		w.mine(chain.Receipt{Tx: tx.Hash()})
	}
	superseded := func(w *world) {
		p := w.reserve("a", 0)
		w.Must(w.Tables.Release(ctx, p.ID, w.noop(0, minute)))
		w.mined, w.atNonce = 1, stranger
	}
	cost := func(w *world, fee uint64) {
		r := w.receipts[w.pending()[0].Hash()]
		r.Fee = new(token.Units(fee))
		w.receipts[r.Tx] = r
	}
	unruled := func(before func(*world)) func(*world) {
		return func(w *world) { before(w); w.Tables.SpoilSettings(porttest.Rail.Coin(), settings.ErrDamaged) }
	}
	confirm := func(w *world) {
		p := must.Get(first(w).Confirm(w.receipts[first(w).TxHash], w.Now()))(w.T)
		w.Must(w.Tables.Finish(ctx, p))
	}
	settled := func(w *world) {
		w.mined = 1
		w.commit("a", minute)
		w.Must(w.Tables.DeletePendingTx(ctx, id, 0))
	}

	return []situation{
		calm("nothing to do", untouched, report{}),

		calm("a fresh reservation", func(w *world) { w.reserve("a", settlement.ReservationAge-1) }, busy),
		calm("an old reservation", func(w *world) { w.reserve("a", settlement.ReservationAge) }, committed),
		calm("a reservation from a clock that is a little ahead", func(w *world) { w.reserve("a", -5*second) }, busy),
		calm("a reservation from a wrong clock", func(w *world) { w.reserve("a", -5*second-1) }, committed),
		calm("a reservation whose nonce has a no-op",
			func(w *world) { w.reserve("a", held); w.noop(0, minute); w.pooled = 1 },
			report{Busy: true, Reservations: 1, Pending: 1, Oldest: minute}),
		calm("a reservation of a discarded payment", discarded, orphaned),
		calm("a reservation of a discarded payment whose key was used again", func(w *world) {
			w.Must(w.Tables.Discard(ctx, w.reserve("a", held)))
			w.prepare("a", second)
		}, orphaned),
		{"an unreadable wallet", reserved, again("Wallet#1", store.ErrUnreadable), report{Unreadable: 1},
			store.ErrUnreadable},
		{"a reservation that a handler gives back meanwhile", discarded, again("Orphan#1", store.ErrChanged), busy,
			nil},
		calm("a damaged wallet", func(w *world) { w.Tables.SpoilWallet(id) }, report{Unreadable: 1}),
		calm("a damaged registration of a wallet that has no record", func(w *world) {
			w.register(unused, wallet.Active)
			w.Tables.SpoilRegistration(unused)
		}, report{Unreadable: 1}),
		{"an unreadable payment", reserved, again("Payment#1", store.ErrUnreadable), report{Busy: true, Unreadable: 1},
			store.ErrUnreadable},
		{"a payment that was moved meanwhile", reserved, again("Commit#1", store.ErrChanged), busy, nil},

		calm("a transaction in the pool", sent, pending),
		calm("a transaction that the node has forgotten", func(w *world) { w.commit("a", minute) },
			report{Busy: true, Resent: 1, Pending: 1, Oldest: minute}),
		calm("a transaction of a block's time", func(w *world) { w.commit("a", 12*second) },
			report{Busy: true, Resent: 1, Pending: 1, Oldest: 12 * second}),
		calm("a transaction that was found on the chain, and is gone", func(w *world) {
			w.Must(w.Tables.PutNoop(ctx, wallet.PendingTx{ID: id, Hashes: []chain.Hash{{1}}, Since: w.Now()}))
		}, report{Busy: true, Pending: 1}),
		calm("a transaction that the node refuses",
			func(w *world) { w.commit("a", minute); w.reply = chain.Replacement },
			report{Busy: true, Resent: 1, Refused: 1, Pending: 1, Oldest: minute}),
		calm("a transaction without the gas",
			func(w *world) { w.commit("a", minute); w.commit("b", minute); w.reply = chain.Funds },
			report{Busy: true, Resent: 1, Paused: 1, Pending: 2, Oldest: minute}),
		{"and a person has paused it meanwhile", func(w *world) { w.commit("a", minute); w.reply = chain.Funds },
			again("Repause#1", store.ErrChanged), report{Busy: true, Resent: 1, Pending: 1, Oldest: minute}, nil},
		{"more transactions than one round sends", untouched, script{"Wallets#1": func(w *world) error {
			w.Must(w.Tables.RaiseCeiling(ctx, id, 70))
			for n := range 66 {
				w.commit(fmt.Sprint(n), minute)
			}
			return nil
		}}, report{Busy: true, Resent: 64, Pending: 66, Oldest: minute}, nil},

		calm("a transaction that waits too long",
			func(w *world) { w.commit("a", settlement.BumpAfter); w.pooled, w.price = 1, 21 },
			report{Busy: true, Bumps: 1, Pending: 1, Oldest: settlement.BumpAfter}),
		calm("a transaction that waits", func(w *world) { w.commit("a", settlement.BumpAfter-1); w.pooled = 1 },
			report{Busy: true, Pending: 1, Oldest: settlement.BumpAfter - 1}),
		{"and it has had every attempt that is stored", untouched, script{"Wallets#1": func(w *world) error {
			p := w.commit("a", over)
			for n := 1; n < store.MaxAttempts; n++ {
				p.Attempts = append(p.Attempts, payment.Attempt{Hash: chain.Hash{1, byte(n)}, Raw: []byte{1}, At: w.Now().Add(-over)})
				w.Must(w.Tables.AddAttempt(ctx, p))
			}
			w.pooled, w.price = 1, 21
			return nil
		}}, report{Busy: true, Resent: 1, Pending: 1, Oldest: over}, nil},
		calm("and the market asks no more than it offers", func(w *world) { stuck(w); w.price = 20 }, waiting),
		{"two that wait too long, and ether to bump one", untouched, script{"Wallets#1": func(w *world) error {
			w.commit("a", over)
			w.commit("b", over)
			w.pooled, w.price = 2, 21
			return w.Tables.Reconcile(ctx, w.record(), funds.Balance, token.Units(30), nil, nil)
		}}, report{Busy: true, Bumps: 1, Pending: 2, Oldest: over}, nil},
		{"a bump that the gas of the last attempt makes too dear", untouched,
			script{"Wallets#1": func(w *world) error {
				p := w.commit("a", 2*over)
				tx := p.Tx
				tx.Gas = 50
				p = must.Get(p.Bump(chain.Signed{Hash: chain.Hash{2}, Raw: []byte{2}}, tx, w.Now().Add(-over)))(w.T)
				w.Must(w.Tables.AddAttempt(ctx, p))
				w.pooled, w.price, w.has.Gas = 1, 21, token.Units(50*21+100)
				return nil
			}}, report{Busy: true, Resent: 1, Pending: 1, Oldest: 2 * over}, nil},
		{"a bump of a no-op that its L1 fee makes too dear", untouched, script{"Wallets#1": func(w *world) error {
			unfilled(w)
			w.l1, w.has.Gas = 30_000, token.Units(21_000*21+100_000)
			return nil
		}}, waiting, nil},
		calm("a no-op that waits too long", unfilled, report{Busy: true, Bumps: 1, Pending: 1, Oldest: over}),
		calm("no room for a bump", func(w *world) { stuck(w); w.settler.Own.FeeLimit = token.Units(21) }, waiting),
		calm("no room for a bump, and the pool holds another attempt", func(w *world) {
			stuck(w)
			w.reply, w.settler.Own.FeeLimit = chain.Replacement, token.Units(21)
		}, report{Busy: true, Bumps: 1, Pending: 1, Oldest: over}),
		calm("no room for a bump, and it needs more gas", func(w *world) {
			stuck(w)
			w.commit("b", over)
			w.pooled, w.gas, w.reply, w.settler.Own.FeeLimit = 2, 50, chain.GasTooLow, token.Units(21)
		}, report{Busy: true, Bumps: 1, Pending: 2, Oldest: over}),
		{"another run has bumped", stuck, script{"Payment#1": func(w *world) error {
			stored := first(w)
			stored.Attempts = append(stored.Attempts, payment.Attempt{Hash: chain.Hash{3}})
			return w.Tables.AddAttempt(ctx, stored)
		}}, waiting, nil},
		{"another run has bumped the first of two", func(w *world) { stuck(w); w.commit("b", over) },
			script{"Payment#1": func(w *world) error {
				p, tx := first(w), first(w).Tx
				tx.Gas = 50
				p = must.Get(p.Bump(chain.Signed{Hash: chain.Hash{2}, Raw: []byte{2}}, tx, w.Now()))(w.T)
				return w.Tables.AddAttempt(ctx, p)
			}}, report{Busy: true, Bumps: 1, Pending: 2, Oldest: over}, nil},
		calm("no room for a no-op's bump", func(w *world) {
			unfilled(w)
			w.gas, w.settler.Own.FeeLimit = 30_000, token.Units(21)
		}, waiting),

		calm("a payment that was made", paying, report{Confirmed: 1, ToFinal: aMinute}),
		calm("a payment that reverted", func(w *world) { w.mine(chain.Receipt{Tx: w.commit("a", minute).TxHash}) },
			report{Failed: 1, ToFinal: aMinute}),
		calm("a no-op that was mined",
			func(w *world) { w.reserve("a", 0); w.mine(chain.Receipt{Tx: w.noop(0, minute).Hash()}) }, pending),
		calm("a no-op without a reservation that was mined", usedUp, report{}),
		{"a no-op at a nonce that is reserved after the wallet was read",
			func(w *world) { w.mine(chain.Receipt{Tx: w.noop(0, minute).Hash()}) },
			script{"Wallet#2": func(w *world) error { w.reserve("a", 0); return nil }}, pending, nil},
		calm("what a payment cost", func(w *world) { paying(w); cost(w, 7) },
			report{Confirmed: 1, ToFinal: aMinute, Spent: []settlement.Spent{{Wallet: payer, Fee: token.Units(7)}}}),
		calm("what a no-op cost", func(w *world) { usedUp(w); cost(w, 5) },
			report{Spent: []settlement.Spent{{Wallet: payer, Noop: true, Fee: token.Units(5)}}}),
		calm("a block that is not final", func(w *world) { paying(w); w.final = 4 }, pending),
		calm("a payment while one of two nodes is down",
			func(w *world) { paying(w); w.second().down = porttest.ErrBroken }, undecided),
		calm("a payment whose block is final on one of two nodes", func(w *world) { paying(w); w.second().final = 4 },
			pending),
		calm("a payment of which one of two nodes has no receipt, and an older final block",
			func(w *world) { paying(w); clear(w.second().receipts); w.peer.final = 4 }, undecided),
		calm("a nonce that was used while one of two nodes has another final block", func(w *world) {
			used(w)
			w.known(chain.Block{Number: 4, Hash: chain.Hash{4}})
			w.second().fork = 4
			w.peer.atNonce = stranger
		}, undecided),
		{"nodes that change to another chain within the round", paying,
			script{"Head#2": func(w *world) error { w.fork = 5; return nil }}, undecided, nil},
		calm("nodes that know no final block", func(w *world) { sent(w); w.final = 0 }, pending),
		calm("a chain that is behind the tables", func(w *world) {
			w.commit("a", minute)
			w.known(chain.Block{Number: 5, Hash: chain.Hash{5}})
			w.fork = 5
		}, report{Busy: true, Paused: 1, Resent: 1, Pending: 1, Oldest: minute}),
		{"a payment that is unreadable at its end", paying, again("Payment#1", store.ErrUnreadable),
			report{Busy: true, Unreadable: 1, Pending: 1, Oldest: minute}, store.ErrUnreadable},
		{"an end that another run stores", paying,
			script{"Finish#1": func(w *world) error { confirm(w); return store.ErrChanged }}, report{}, nil},
		{"an end that no run stores", paying, again("Finish#1", store.ErrChanged), pending, store.ErrChanged},

		calm("a nonce that was used by an attempt without a receipt",
			func(w *world) { used(w); w.atNonce = w.pending()[0].Hash() }, undecided),
		calm("a nonce that a stranger used", used, report{Undecided: 1, Suspect: 1, Failed: 1, ToFinal: aMinute}),
		calm("a nonce that an attempt used that the tables lack", func(w *world) { used(w); w.atNonce = chain.Hash{1} }, undecided),
		calm("a nonce that a no-op used, where none of a lost recovery reaches",
			func(w *world) { used(w); w.atNonce = nothing },
			report{Undecided: 1, Suspect: 1, Failed: 1, ToFinal: aMinute}),
		calm("a nonce that a no-op used, where the tables may have lost it", func(w *world) {
			used(w)
			w.atNonce = nothing
			w.Must(w.Tables.SetCompared(ctx, porttest.Rail.Coin(), store.Comparison{Revision: 1}))
		}, undecided),
		calm("and no node gives its transaction", func(w *world) {
			used(w)
			w.atNonce = chain.Hash{0xfd}
			w.Must(w.Tables.Advance(ctx, id, 1, 1))
		}, undecided),
		{"and another run has ended it", used, again("PendingTx#1", wallet.ErrUnknown), report{Undecided: 1}, nil},
		{"a nonce that a bump of another run used", used, script{"PendingTx#1": func(w *world) error {
			p := first(w)
			p.Attempts = append(p.Attempts, payment.Attempt{Hash: stranger})
			return w.Tables.AddAttempt(ctx, p)
		}}, undecided, nil},
		calm("a no-op's nonce that an earlier no-op used", superseded, report{Undecided: 1}),
		{"and no node has the state of then", func(w *world) { superseded(w); w.settled = 1 }, breaks("TxAtNonce#1"),
			report{Undecided: 1}, nil},
		{"and it is not final", superseded, breaks("TxAtNonce#1"), undecided, porttest.ErrBroken},

		calm("transactions that no reservation explains", ahead,
			report{Busy: true, Suspect: 1, Noops: 2, Pending: 2, Paused: 0}),
		calm("and one node of two counts them", func(w *world) { w.second(); w.mined = 2 }, report{Suspect: 1}),
		{"and there are no settings", unruled(ahead), nil, report{Unruled: 1, Suspect: 1}, settings.ErrDamaged},
		calm("no-ops that a lost recovery has signed", noops(nothing, 2), report{Busy: true, Noops: 2, Pending: 2}),
		calm("no-ops beyond those of a lost recovery", noops(nothing, 1), filled),
		calm("transfers where no-ops of a lost recovery may be", noops(stranger, 2), filled),
		{"transactions of payments since the wallet was read", func(w *world) { w.mined = 1 },
			script{"Wallet#2": func(w *world) error { w.commit("a", 0); return nil }}, report{}, nil},

		{"of two nodes one lacks a payment that ended, one lags", func(w *world) { settled(w); w.second().mined = 0 },
			script{"Wallets#1": func(w *world) error { w.peer.lag = 17; return nil }}, report{}, nil},
		{"a reconciliation that a reservation overtakes", settled, again("Reconcile#1", store.ErrChanged), report{},
			nil},
		{"a reserved payment that is unreadable to be reconciled", func(w *world) { w.reserve("a", 0) },
			again("Payment#1", store.ErrUnreadable), busy, nil},

		calm("a reservation without settings", unruled(reserved),
			report{Busy: true, Unruled: 1, Reservations: 1, Pending: 1}),
		calm("an orphan without settings", unruled(discarded), report{Busy: true, Unruled: 1}),
		calm("a stuck payment without settings", unruled(stuck),
			report{Busy: true, Unruled: 1, Pending: 1, Oldest: over}),
		calm("a payment that was made, without settings", unruled(paying),
			report{Unruled: 1, Confirmed: 1, ToFinal: aMinute}),

		calm("a wallet that another run claims", func(w *world) { sent(w); w.claim("other", 15*second) },
			report{ClaimedElsewhere: true}),
		calm("a claim that may be of a clock a little ahead", func(w *world) { sent(w); w.claim("other", 20*second) },
			report{ClaimedElsewhere: true}),
		calm("a claim of a wrong clock", func(w *world) { sent(w); w.claim("other", 20*second+1) }, pending),
		{"a claim that may not have ended", paying, breaks("Claim#2"), goesOn, porttest.ErrBroken},
		{"a claim that ended, and the wallet is not read again", paying, breaks("Wallet#2"), goesOn, porttest.ErrBroken},
		calm("a paused wallet", func(w *world) { sent(w); w.Must(w.Tables.Pause(ctx, id, "by hand")) },
			report{Busy: true, Paused: 1, Pending: 1, Oldest: minute}),
	}
}

// TestRounds compares the whole report of every situation.
func TestRounds(t *testing.T) {
	for _, test := range situations() {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, maps.Clone(test.script))
			test.before(w)
			got, err := w.round()
			if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			stopped := w.Did("Advance#1") || got.Suspect > got.Failed
			if whole := err == nil && !stopped && !got.ClaimedElsewhere && w.fork == 0; whole && len(got.Wallets) != 1 {
				t.Errorf("the balances of %d wallets are reported", len(got.Wallets))
			}
			if stopped && len(got.Wallets) > 0 {
				t.Errorf("the pass goes on after the wallets were paused: %v", w.Calls)
			}
			if w.Did("Advance#1") && got.Noops == 0 {
				t.Errorf("next_nonce is raised over nothing: %v", w.Calls)
			}
			if got.Bumps > 0 && w.Times["Send"] <= got.Bumps {
				t.Errorf("a bump is not sent: %v", w.Calls)
			}
			left := w.has.Gas
			for _, tx := range w.pending() {
				left = left.Sub(tx.Gas)
			}
			if got.Bumps > 0 && left.Less(w.record().Gas) {
				t.Errorf("%s wei are left, and %s may be promised", left, w.record().Gas)
			}
			if got.Unruled > 0 && w.Did("RaiseCeiling#1") {
				t.Errorf("a ceiling rises without settings: %v", w.Calls)
			}
			got.Wallets = nil
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(settlement.Spent{})); diff != "" {
				t.Errorf("report (-want +got):\n%s\nafter %v", diff, w.Calls)
			}
			w.scripted()
		})
	}
}

// TestReasonsStay: a new reason for a pause keeps the other one, even if that comes while the run
// pauses the wallet. It replaces a reason that cannot be read, or changes each time.
func TestReasonsStay(t *testing.T) {
	pause := func(reason string) func(*world) error {
		return func(w *world) error { return w.Tables.Pause(context.Background(), id, reason) }
	}
	lost := func(*world) error { return store.ErrChanged }
	torn := func(w *world) { // the copy has the transaction of a payment, and not that the payment is signed
		p, image := w.reserve("a", minute), w.Tables.Image()
		tx := store.PendingTxOf(w.unreleased(p, minute))
		w.Tables.Restore(image)
		w.Must(w.Tables.Release(context.Background(), p.ID, tx))
		w.Must(w.Tables.PutNoop(context.Background(), tx))
		w.mined, w.atNonce = 1, nothing // a recovery that was lost too used the nonce up
	}
	const suspect, two, retired = wallet.Suspicion, wallet.Suspicion + ": 2", wallet.RetiredReason
	changes := script{"Wallet#1": pause(suspect), "Repause#1": lost, "Repause#2": lost, "Repause#3": lost}
	for name, test := range map[string]struct {
		before            func(*world)
		script            script
		suspicion, other  string
		repauses, replace int // how often each is called
	}{
		"a suspicion of a paused wallet":      {ahead, script{"Wallet#1": pause("stolen")}, two, "stolen", 1, 0},
		"a suspicion, and a pause in between": {ahead, script{"Repause#1": pause("stolen")}, two, "stolen", 2, 0},
		"a suspicion of a suspect":            {ahead, script{"Wallet#1": pause(suspect)}, two, "", 1, 0},
		"a suspicion, and it is retired":      {ahead, script{"Wallet#1": pause(retired)}, "", retired, 0, 0},
		"a stranger's nonce of a suspect":     {used, script{"Wallet#1": pause(suspect)}, suspect, "nonce 0", 1, 0},
		"a stranger's nonce, and a reason":    {used, script{"Wallet#1": pause("stolen")}, "", "nonce 0", 1, 0},
		"a stranger's nonce, and it changes":  {used, changes, suspect, "nonce 0", 3, 1},
		"a no-op's nonce, in a torn copy":     {torn, script{"Wallet#1": pause(suspect)}, suspect, "", 0, 0},
		"a stranger's nonce, a bad record":    {used, again("Wallet#2", store.ErrUnreadable), "", "nonce 0", 0, 1},
	} {
		w := newWorld(t, test.script)
		test.before(w)
		if _, err := w.round(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		suspicion, other := w.record().Reasons()
		if !strings.HasPrefix(suspicion, test.suspicion) || (suspicion == "") != (test.suspicion == "") ||
			!strings.HasPrefix(other, test.other) || w.Times["Repause"] != test.repauses || w.Times["Pause"] != test.replace {
			t.Errorf("%s: it is paused for %q and %q, after %v", name, suspicion, other, w.Calls)
		}
	}
}

// TestFaults: a call that fails, before or after it takes effect, is an error of its round,
// and later rounds end as if it had not.
func TestFaults(t *testing.T) {
	// The round counts or retries their failures, asks other nodes, or waits.
	tolerated := []string{"Rules", "Head", "BlockHashes", "Count", "Estimate", "Send", "TxAtNonce", "Transactions"}
	reads := append(tolerated, "Nodes", "Wallets", "Wallet", "Compared", "PendingTxs", "PendingTx", "Payment",
		"Account", "Receipts", "Named", "Fees", "Signer", "Sign")
	for _, test := range situations() {
		if len(test.script) > 0 || test.err != nil {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			calm := newWorld(t, script{})
			test.before(calm)
			report := must.Get(calm.round())(t)
			calls, want := slices.Clone(calm.Calls), calm.end()
			for _, call := range calls {
				op, _, _ := strings.Cut(call, "#")
				for _, fault := range []error{porttest.ErrBroken, porttest.ErrLost} {
					if fault == porttest.ErrLost && slices.Contains(reads, op) {
						continue
					}
					w := newWorld(t, again(call, fault))
					test.before(w)
					got, err := w.round()
					if !errors.Is(err, fault) && w.peer == nil && !slices.Contains(tolerated, op) || got.Unreadable > report.Unreadable {
						t.Errorf("%s %v: the round returns %+v, %v", call, fault, got, err)
					}
					if diff := cmp.Diff(want, w.end()); diff != "" {
						t.Errorf("after %s %v (-want +got):\n%s", call, fault, diff)
					}
				}
			}
		})
	}
}
