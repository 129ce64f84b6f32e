package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// moneyPromises have the meaning of each method that moves money, once: Alike compares the stores in everything.
var moneyPromises = []promise[*check]{
	{"nonces and amounts are given, and given back, on these conditions alone", func(c *check) {
		type w = wallet.Wallet
		changed, ctx := store.ErrChanged, c.Context()
		much, same := token.MaxAmount(), func(*w) {}
		reserve := func(id payment.ID, changes ...func(*wallet.Need)) func(w) error {
			return func(at w) error {
				n := need(at, id)
				for _, change := range changes {
					change(&n)
				}
				got, err := c.Reserve(ctx, n)
				c.same("the answer to a reservation", c.wallet(at.ID), got)
				return err
			}
		}
		asks := func(amount, gas token.Amount) func(*wallet.Need) {
			return func(n *wallet.Need) { n.Amount, n.Gas = amount, gas }
		}
		owner := func(m string) func(*wallet.Need) { return func(n *wallet.Need) { n.Owner = m } }
		capped := func(n *wallet.Need) { n.Merchant, n.MerchantCap = "mer_a", 1 }
		other := func(n *wallet.Need) { n.For = "another" }
		back := func(nonce uint64, id payment.ID, later time.Duration) func(w) error {
			return func(at w) error {
				n := need(at, id)
				n.At = n.At.Add(later)
				return c.Return(ctx, n, nonce)
			}
		}
		release := func(nonce uint64, id payment.ID) func(w) error {
			return func(at w) error { return c.Release(ctx, id, wallet.PendingTx{ID: at.ID, Nonce: nonce}) }
		}
		orphan := func(nonce uint64, id payment.ID) func(w) error {
			return func(at w) error { return c.Orphan(ctx, at.ID, id, nonce) }
		}
		ceiling := func(set func(context.Context, wallet.ID, uint64) error, to uint64) func(w) error {
			return func(at w) error { return set(ctx, at.ID, to) }
		}
		then := func(all ...func(w) error) func(w) error {
			return func(at w) (err error) {
				for _, do := range all {
					err = errors.Join(err, do(at))
				}
				return err
			}
		}
		state := func(from, to wallet.State) func(w) error {
			return func(at w) error { return c.SetState(ctx, at.ID, from, to, noon) }
		}
		pause := func(why string) func(w) error {
			return func(at w) error { return c.Pause(ctx, at.ID, why) }
		}
		repause := func(from, to string) func(w) error {
			return func(at w) error { return c.Repause(ctx, at.ID, from, to) }
		}
		// read is a write of a wallet as its caller has read it, with these changes since.
		read := func(write func(w) error, changes ...func(*w)) func(w) error {
			return func(at w) error {
				for _, change := range changes {
					change(&at)
				}
				return write(at)
			}
		}
		resume := repause("by hand", "")
		retire := func(at w) error { return c.Retire(ctx, at, noon) }
		assign := func(at w) error { return c.Assign(ctx, at, "mer_a", noon) }
		takeBack := func(at w) error { return c.Assign(ctx, at, "", noon) }
		reconcile := func(balance, gas uint64) func(w) error {
			return func(at w) error {
				return c.Reconcile(ctx, at, token.Units(balance), token.Units(gas), nil, nil)
			}
		}
		registered := func(state wallet.State, merchant string) func(w) error {
			return func(at w) error {
				want := wallet.Registry{{ID: at.ID, Token: usdc.Contract, State: state, Opened: true, Since: noon,
					Key: wallet.InSecret, Merchant: merchant}}
				of := must.Get(c.Wallets(ctx, rail(at.ID.ChainID)))(c) // with those of all rows
				others := func(r wallet.Registration) bool { return r.ID != at.ID }
				c.same("the registration", want, slices.DeleteFunc(of, others))
				return nil
			}
		}
		next := func(by uint64) func(*w) { return func(at *w) { at.NextNonce += by } }
		forth, once := then(back(6, "pay_b", 0), reserve("pay_b")), func(at *w) { at.Returned = 1 }
		used := then(reserve("pay_c"), release(7, "pay_c"))
		active, drain := state(wallet.Draining, wallet.Active), state(wallet.Assigned, wallet.Draining)
		ended := then(drain, takeBack)
		paused, full := func(at *w) { at.Paused = "by hand" }, func(at *w) { at.NextNonce = 9 }
		spent := func(at *w) { paused(at); full(at); at.Balance, at.Gas = token.Amount{}, token.Amount{} }
		theirs, idle := func(at *w) { at.Merchant = "mer_a" }, func(at *w) { clear(at.Reservations) }
		idleTheirs, idlePaused := func(at *w) { idle(at); theirs(at) }, func(at *w) { idle(at); paused(at) }
		common, yours := func(at *w) { at.Merchant = "" }, func(at *w) { at.Merchant = "mer_b" }
		taken := func(at *w) { *at = after(*at, need(*at, "pay_c")) }
		retired, onceUsed := func(at *w) { at.Paused = wallet.RetiredReason }, func(at *w) { taken(at); idle(at) }
		counted := func(at *w) { taken(at); at.PerMerchant = map[string]uint64{"mer_a": 1} }
		freed := func(at *w) { delete(at.Reservations, "pay_a") }
		given := func(at *w) {
			delete(at.Reservations, "pay_b")
			at.NextNonce, at.Returned, at.Balance, at.Gas = 6, 1, token.Units(1010), token.Units(1003)
		}
		never := func(at *w) { at.Reservations["pay_b"] = wallet.Reservation{Nonce: 6, For: "revision"} }
		asStored := func(at *w) { *at = c.wallet(at.ID) }
		unknown := func(at *w) { at.ID = c.walletID() }
		give := func(id wallet.ID, merchant string) error {
			return c.Register(ctx, wallet.Registration{ID: id, Token: usdc.Contract, State: wallet.Assigned, Since: noon,
				Key: wallet.InSecret, Merchant: merchant})
		}
		for _, row := range []struct {
			what   string
			before func(*w)
			do     func(w) error
			want   error
			after  func(*w)
		}{
			{"a nonce", same, reserve("pay_c"), nil, taken},
			{"the same, asked for twice", same, then(reserve("pay_c"), reserve("pay_c")), nil, taken},
			{"one that is held, of a wallet that gives none", spent, reserve("pay_a", asks(much, much)), nil, same},
			{"one that is held for another revision", same, reserve("pay_a", other), wallet.ErrHeld, same},
			{"the same, paused", paused, reserve("pay_a", other), wallet.ErrPaused, same},
			{"everything is wrong", spent, reserve("pay_c", owner("mer_a")), wallet.ErrOwner, same},
			{"but its owner", spent, reserve("pay_c"), wallet.ErrPaused, same},
			{"paused", paused, reserve("pay_c"), wallet.ErrPaused, same},
			{"at its ceiling", full, reserve("pay_c", asks(much, much)), wallet.ErrCeiling, same},
			{"a unit short", same, reserve("pay_c", asks(token.Units(1001), token.Units(1001))), wallet.ErrToken, same},
			{"a wei short", same, reserve("pay_c", asks(token.Units(1000), token.Units(1001))), wallet.ErrGas, same},
			{"more than any wallet has", same, reserve("pay_c", asks(much, much)), wallet.ErrToken, same},
			{"more gas than any wallet has", same, reserve("pay_c", asks(token.Units(1), much)), wallet.ErrGas, same},
			{"a merchant's wallet, for all", theirs, reserve("pay_c"), wallet.ErrOwner, same},
			{"a merchant's wallet, for it", theirs, reserve("pay_c", owner("mer_a")), nil, taken},
			{"a merchant's wallet, for another", theirs, reserve("pay_c", owner("mer_b")), wallet.ErrOwner, same},
			{"a wallet of anyone", theirs, reserve("pay_c", owner(wallet.Anyone)), nil, taken},
			{"a merchant's cap", same, then(reserve("pay_c", capped), reserve("pay_d", capped)), wallet.ErrMerchantCap, counted},
			{"the last nonce back", same, back(6, "pay_b", 0), nil, given},
			{"the same twice", same, then(back(6, "pay_b", 0), back(6, "pay_b", 0)), changed, given},
			{"another nonce back", same, back(5, "pay_b", 0), changed, same},
			{"another request's back", same, back(6, "pay_b", 1), changed, same},
			{"the last nonce back, which is another's", same, back(6, "pay_a", 0), changed, same},
			{"another payment's back", same, back(6, "pay_c", 0), changed, same},
			{"one before the last back", same, back(5, "pay_a", 0), changed, same},
			{"a paused wallet's back", paused, back(6, "pay_b", 0), changed, same},
			{"an orphan back", same, then(orphan(6, "pay_b"), back(6, "pay_b", 0)), changed, never},
			{"another nonce orphaned", same, orphan(5, "pay_b"), changed, same},
			{"a nonce released, twice", paused, then(release(5, "pay_a"), release(5, "pay_a")), nil, freed},
			{"another nonce released", same, release(6, "pay_a"), nil, same},
			{"another's nonce released", same, release(5, "pay_c"), nil, same},
			{"a ceiling raised", same, ceiling(c.RaiseCeiling, 20), nil, func(at *w) { at.Ceiling = 20 }},
			{"a ceiling raised to less", same, ceiling(c.RaiseCeiling, 8), nil, same},
			{"a ceiling lowered below the next nonce", same, ceiling(c.LowerCeiling, 3), nil, func(at *w) { at.Ceiling = 7 }},
			{"paused, and for another reason", same, then(pause("a"), pause("a"), pause("by hand")), nil, paused},
			{"paused without a reason", same, then(pause(""), reserve("pay_c")), wallet.ErrPaused, asStored},
			{"paused if it is not, twice", same, then(repause("", "by hand"), repause("", "by hand")), nil, paused},
			{"paused if it is not, and it is", paused, repause("", "other"), changed, same},
			{"resumed, twice, and a nonce", paused, then(resume, resume, reserve("pay_c")), nil, func(at *w) { at.Paused = ""; taken(at) }},
			{"resumed from another pause", paused, repause("low on gas", ""), changed, same},
			{"from one pause to another", paused, repause("by hand", "b"), nil, func(at *w) { at.Paused = "b" }},
			{"reconciled, twice", same, then(reconcile(70, 0), reconcile(80, 90)), nil, func(at *w) {
				at.Balance, at.Gas = token.Units(80), token.Units(90)
			}},
			{"reconciled before a reservation", same, read(reconcile(1, 1), next(math.MaxUint64)), changed, same},
			{"reconciled after one that was lost", same, read(reconcile(1, 1), next(1)), changed, same},
			{"reconciled, and a nonce went back and forth", same, then(forth, reconcile(1, 1)), changed, once},
			{"the same, seen", same, then(forth, read(reconcile(1, 1), once)), nil, func(at *w) {
				at.Returned, at.Balance, at.Gas = 1, token.Units(1), token.Units(1)
			}},
			{"retired, twice", idle, then(retire, retire), nil, retired},
			{"retired with its pause", idlePaused, retire, nil, retired},
			{"retired, and a nonce", idle, then(retire, reserve("pay_c")), wallet.ErrPaused, retired},
			{"retired, and drained", idle, then(retire, state(wallet.Active, wallet.Draining)), changed, retired},
			{"retired while it is active", idle, then(active, retire), changed, same},
			{"retired while it holds a nonce", same, retire, changed, same},
			{"retired after it gave a nonce", idle, then(used, retire), changed, onceUsed},
			{"retired after it was paused", idle, then(pause("by hand"), retire), changed, paused},
			{"assigned, twice", idle, then(assign, assign, registered(wallet.Assigned, "mer_a")), nil, theirs},
			{"assigned, and a nonce for all", idle, then(assign, reserve("pay_c")), wallet.ErrOwner, theirs},
			{"assigned while it is active", idle, then(active, assign), changed, same},
			{"assigned while it holds a nonce", same, assign, changed, same},
			{"assigned after it gave a nonce", idle, then(used, assign), changed, onceUsed},
			{"assigned after it was resumed", idle, read(assign, paused), changed, same},
			{"assigned by its state alone", idle, state(wallet.Draining, wallet.Assigned), changed, same},
			{"common by its state alone", idleTheirs, state(wallet.Assigned, wallet.Active), changed, same},
			{"a funding wallet by its state alone", idleTheirs, state(wallet.Assigned, wallet.Funding), changed, same},
			{"taken back, twice", idleTheirs, then(ended, takeBack, registered(wallet.Draining, "")), nil, common},
			{"taken back, a nonce for it", idleTheirs, then(ended, reserve("pay_c", owner("mer_a"))), wallet.ErrOwner, common},
			{"taken back, one for all", idleTheirs, then(ended, used), nil, func(at *w) { common(at); onceUsed(at) }},
			{"taken back while it is assigned", idleTheirs, takeBack, changed, same},
			{"taken back while it holds a nonce", theirs, ended, changed, same},
			{"taken back from another", idleTheirs, then(drain, read(takeBack, yours)), changed, same},
			{"opened as a common wallet", same, func(at w) error {
				at.ID = c.walletID()
				c.ok("registering", give(at.ID, "mer_b"))
				defer func() { c.refused("reading it", must.Err(c.Wallet(ctx, at.ID)), wallet.ErrUnknown) }()
				return c.Open(ctx, at, usdc.Contract)
			}, changed, same},
			{"retired, of no record", same, read(retire, unknown), wallet.ErrUnknown, same},
			{"assigned, of no record", same, read(assign, unknown), wallet.ErrUnknown, same},
		} {
			at := w{ID: c.walletID(), NextNonce: 7, Ceiling: 9, Balance: token.Units(1000), Gas: token.Units(1000),
				Reservations: map[payment.ID]wallet.Reservation{}}
			for nonce, id := range map[uint64]payment.ID{5: "pay_a", 6: "pay_b"} {
				at.Reservations[id] = wallet.Reservation{Nonce: nonce, At: need(at, id).At, For: "revision"}
			}
			if row.before(&at); at.Merchant != "" {
				c.ok("registering", give(at.ID, at.Merchant))
			}
			c.open(at)
			c.refused(row.what, row.do(at), row.want)
			row.after(&at)
			c.same(row.what, at, c.wallet(at.ID))
		}
	}},
	{"a wallet is claimed by one run until its claim ends", func(c *check) {
		w := c.opened()
		for _, row := range []struct {
			what       string
			by         string
			now, until time.Duration
			held       bool
			after      time.Duration
		}{
			{"no run claims it", "one", 0, 5 * time.Second, true, 5 * time.Second},
			{"another run's claim lasts", "two", time.Second, 9 * time.Second, false, 5 * time.Second},
			{"its own claim lasts", "one", 2 * time.Second, 7 * time.Second, true, 7 * time.Second},
			{"another's lasts a nanosecond more", "two", 7*time.Second - 1, 9 * time.Second, false, 7 * time.Second},
			{"another run's claim ends now", "two", 7 * time.Second, 12 * time.Second, true, 12 * time.Second},
			{"it gives its claim up", "two", 8 * time.Second, 8 * time.Second, true, 8 * time.Second},
			{"the claim was given up", "one", 8 * time.Second, 9 * time.Second, true, 9 * time.Second},
		} {
			held, err := c.Claim(c.Context(), w.ID, row.by, noon.Add(row.now), noon.Add(row.until), nil)
			c.ok(row.what, err)
			if held != row.held {
				c.Errorf("%s: held = %v", row.what, held)
			}
			w.ClaimedUntil = noon.Add(row.after)
			c.same("the wallet", w, c.wallet(w.ID))
		}
	}},
	{"each write of a payment is taken in some of its states, and in others changes nothing", func(c *check) {
		changed, ctx := store.ErrChanged, c.Context()
		for _, op := range []struct {
			name    string
			in      string // the states that take it
			refusal error
			do      func(*stage) error
		}{
			{"Commit", " prepared found begun ", changed, func(s *stage) error { return c.Commit(ctx, s.committed) }},
			{"Reassign", " prepared found reassigned begun rerouted ", changed, func(s *stage) error {
				return c.Reassign(ctx, s.moved, s.prepared.Revision)
			}},
			{"Reassign as another", " reassigned rerouted ", changed, func(s *stage) error { return c.Reassign(ctx, s.moved, "another") }},
			{"Discard", " prepared found ", changed, func(s *stage) error { return c.Discard(ctx, s.prepared) }},
			{"AddAttempt", " committed settled adopted released ", changed, func(s *stage) error { return c.AddAttempt(ctx, s.bumped) }},
			{"Finish", " committed bumped settled released ", changed, func(s *stage) error { return c.Finish(ctx, s.final) }},
			{"SetMined", " committed bumped settled adopted released ", changed, func(s *stage) error {
				return must.Err(c.SetMined(ctx, s.prepared.ID, noon))
			}},
			{"Redact", " final ", changed, func(s *stage) error { return c.Redact(ctx, must.Get(s.final.Redacted())(c)) }},
			{"Adopt", " settled ", changed, func(s *stage) error { return c.Adopt(ctx, s.adopted) }},
			{"PutNoop", " missing prepared found reassigned proposed begun rerouted ", store.ErrNonceTaken, func(s *stage) error {
				return c.PutNoop(ctx, noop(idOf(s.prepared), 3))
			}},
			{"Amend as proposed", " proposed ", changed, func(s *stage) error {
				return c.Amend(ctx, s.proposed, s.proposed.End(payment.Cancelled, noon), store.Guard{})
			}},
			{"Amend as begun", " begun ", changed, func(s *stage) error {
				return c.Amend(ctx, s.begun, s.begun.End(payment.Cancelled, noon), store.Guard{})
			}},
		} {
			for _, state := range strings.Fields(states) {
				s, want, what := c.stage(state), op.refusal, op.name+" of a payment that is "+state
				if strings.Contains(op.in, " "+state+" ") {
					want = nil
				}
				before := c.about(s)
				if c.refused(what, op.do(s), want); want != nil {
					c.same(what, before, c.about(s))
				}
			}
		}
	}},
	{"what is signed takes a nonce that is free, and an attempt follows the one before", func(c *check) {
		s := c.stage("committed")
		other := c.create(c.draft(idOf(s.prepared), noon, token.Units(9)))
		over := c.committing(other, 3)
		c.refused("committing over another", c.Commit(c.Context(), over), store.ErrNonceTaken)
		c.ok("committing", c.Commit(c.Context(), c.committing(other, math.MaxUint64)))
		c.refused("committing twice, and over another", c.Commit(c.Context(), over), store.ErrChanged)
		c.refused("finding its hash", must.Err(c.PaymentByHash(c.Context(), over.TxHash)), store.ErrNotFound)
		n := noop(idOf(s.prepared), 7)
		for _, step := range []struct {
			tx   wallet.PendingTx
			want error
		}{{rebid(n, 2), store.ErrChanged}, {n, nil}, {rebid(n, 2), nil}, {rebid(n, 2), nil}, {rebid(n, 3), store.ErrChanged}} {
			do := c.BumpNoop
			if len(step.tx.Hashes) == 1 {
				do = c.PutNoop
			}
			c.refused(fmt.Sprintf("attempt %d", len(step.tx.Hashes)), do(c.Context(), step.tx), step.want)
		}
		over2 := rebid(store.PendingTxOf(s.committed), 9)
		over2.Payment = ""
		c.refused("bumping a payment as a no-op", c.BumpNoop(c.Context(), over2), store.ErrChanged)
		c.refused("two attempts at once", c.AddAttempt(c.Context(), c.bumping(s.bumped, 60)), store.ErrChanged)
		c.ok("an attempt that the payment lacks", c.BumpNoop(c.Context(), store.PendingTxOf(s.bumped))) // a torn copy
		c.refused("another attempt", c.AddAttempt(c.Context(), c.bumping(s.committed, 60)), store.ErrChanged)
		c.ok("joining it", c.AddAttempt(c.Context(), s.bumped))
		c.ok("deleting", c.DeletePendingTx(c.Context(), n.ID, 3))
		c.refused("bumping what is deleted", c.AddAttempt(c.Context(), c.bumping(s.bumped, 60)), store.ErrChanged)
		c.ok("putting it again", c.PutNoop(c.Context(), store.PendingTxOf(s.bumped)))
		c.ok("finding it", must.Err(c.PaymentByHash(c.Context(), s.bumped.LastAttempt().Hash)))
	}},
	{"a payment, or a release, and its guard are stored together, or neither is", func(c *check) {
		one, two, s := c.unstored(), c.unstored(), c.stage("proposed")
		one.Guarded, two.Guarded, s.begun.Payment.Guarded = true, true, true
		read := func() store.Guard { return must.Get(c.Guard(c.Context(), c.merchant))(c) }
		create := func(p payment.Payment, g store.Guard) error {
			_, created, err := c.CreateGuarded(c.Context(), p, g)
			return othersUnless(created, err)
		}
		release := func(g store.Guard) error { return c.Amend(c.Context(), s.proposed, s.begun, g) }
		none := read()
		c.ok("the first", create(one, none))
		first := read()
		for what, err := range map[string]error{"of the guard before": create(two, none), "a release of it": release(none)} {
			c.refused(what, err, store.ErrChanged)
		}
		c.refused("the first again", create(one, none), errOthers)
		c.ok("the second", create(two, first))
		c.refused("a release of the guard before", release(first), store.ErrChanged)
		c.ok("a release", release(read()))
		c.same("its payments", []payment.ID{one.ID, two.ID, s.begun.Payment.ID}, read().Payments)
		full := read()
		full.Payments = slices.Repeat(full.Payments, store.MaxGuarded)[:store.MaxGuarded]
		c.refused("a payment more than the bound", create(c.unstored(), full), store.ErrTooLarge)
		full.Payments = full.Payments[1:]
		c.ok("up to the bound", create(c.unstored(), full))
	}},
	{"a charge counts under all limits of its day or under none, and a refund gives back what was charged", func(c *check) {
		key, all := payment.DailyLimit{Key: "key_a", Amount: token.Units(50), Count: 3}, payment.DailyLimit{Amount: token.Units(110)}
		type limits = []payment.DailyLimit
		under, most, full := limits{key, all}, token.MaxAmount(), store.ErrDailyLimit
		day := noon.Truncate(24 * time.Hour)
		for _, step := range []struct {
			what   string
			back   bool
			at     time.Duration
			amount token.Amount
			limits limits
			want   error
		}{
			{"more than the key's", false, 0, token.Units(51), under, full},
			{"more than was charged", true, 0, token.Units(1), under, nil},
			{"under both", false, 0, token.Units(20), under, nil},
			{"more than the key has left", false, 24*time.Hour - 1, token.Units(31), under, full},
			{"on the next day", false, 24 * time.Hour, token.Units(50), under, nil},
			{"all that the merchant has left but 10", false, 0, token.Units(80), limits{all}, nil},
			{"the key has room, its merchant has none", false, 0, token.Units(11), under, full},
			{"what the refused ones left", false, 0, token.Units(10), under, nil},
			{"the merchant's day is over", false, 0, token.Units(1), limits{all}, full},
			{"under a limit that was raised", false, 0, token.Units(1), limits{{Amount: token.Units(111)}}, nil},
			{"under one that was lowered", false, 0, token.Units(1), limits{{Amount: token.Units(100)}}, full},
			{"more back than the key was charged", true, 0, token.Units(31), under, nil},
			{"back from both", true, 0, token.Units(20), under, nil},
			{"more than both have again", false, 0, token.Units(20), under, full},
			{"what both have again", false, 0, token.Units(19), under, nil},
			{"a third payment, whatever its amount", false, 0, most, limits{{Key: "key_a", Count: 3}}, nil},
			{"a fourth", false, 0, token.Units(1), limits{{Key: "key_a", Count: 3}}, full},
			{"more than a tally holds", false, 48 * time.Hour, most, limits{{Amount: most}}, full},
			{"the same back", true, 48 * time.Hour, most, limits{{Amount: most}}, nil},
			{"some of so large a limit", false, 48 * time.Hour, token.Units(7), limits{{Amount: most}}, nil},
			{"more than is left of it", false, 48 * time.Hour, wallet.Spendable(most).Sub(token.Units(6)), limits{{Amount: most}}, full},
		} {
			charge := store.Charge{Merchant: c.merchant, Mode: "test", At: day.Add(step.at), Amount: step.amount, Count: 1,
				Limits: step.limits}
			do := c.Charge
			if step.back {
				do = c.Refund
			}
			c.refused(step.what, do(c.Context(), charge), step.want)
		}
		for name, want := range map[string][2]uint64{"key_a": {29, 3}, "": {110, 0}, "key_x": {}} {
			amount, count, err := c.Charged(c.Context(), c.merchant, "test", name, noon)
			if err != nil || amount != token.Units(want[0]) || count != want[1] {
				c.Errorf("%q was charged %v and %d, %v, want %v", name, amount, count, err, want)
			}
		}
	}},
	{"a merchant has at most so many open proposals", func(c *check) {
		s := c.stage("proposed")
		propose := func() error {
			created, err := c.Propose(c.Context(), c.proposal(c.request(token.Units(5))))
			return othersUnless(created, err)
		}
		for range proposal.MaxOpen - 1 {
			c.ok("proposing", propose())
		}
		c.refused("one more", propose(), store.ErrProposals)
		if created, err := c.Propose(c.Context(), s.proposed); created || err != nil {
			c.Errorf("a used key comes before the limit: %v, %v", created, err)
		}
		end, closed := s.proposed.End(payment.Expired, noon), s.proposed.End(payment.Expired, noon)
		c.ok("an end", c.Amend(c.Context(), s.proposed, end, store.Guard{}))
		c.refused("before it is closed", propose(), store.ErrProposals)
		end.Writes, closed.Closed = s.proposed.Writes+1, true
		c.ok("closing it", c.Amend(c.Context(), end, closed, store.Guard{}))
		c.ok("one more", propose())
	}},
}

// A stage is a payment in a state, as the steps to it and beyond have it. A moved one goes to another wallet.
type stage struct {
	prepared, moved, committed, bumped, final, adopted payment.Payment
	proposed, begun                                    proposal.Proposal
}

// states are of a payment; a found one has no merchant until it is adopted, and one that was proposed is begun, then
// assigned to another wallet or signed.
const states = "missing prepared reassigned committed bumped final found settled adopted proposed begun rerouted released"

func (c *check) stage(state string) *stage {
	c.Helper()
	c.made++
	r := c.request(token.Units(c.made))
	s := &stage{prepared: offer(c.walletID(), noon, r)}
	p := &s.prepared
	at := func(of ...string) bool { return slices.Contains(of, state) }
	if at("found", "settled", "adopted") {
		*p = found(*p)
	}
	if at("proposed", "begun", "rerouted", "released") {
		c.ok("proposing", must.Err(c.Propose(c.Context(), c.proposal(r))))
		s.proposed = must.Get(c.Proposal(c.Context(), p.ID))(c)
		s.begun = s.proposed.Begin(*p)
		s.begun.Writes++
		if *p = s.begun.Payment; at("proposed") {
			p.Revision = s.proposed.Payment.Revision
		}
	} else if !at("missing") {
		c.create(*p)
	}
	s.committed = c.committing(*p, 3)
	s.moved, s.bumped, s.final = p.AssignedTo(c.walletID().Address, p.Tx), c.bumping(s.committed, 20), c.confirming(s.committed)
	s.adopted = s.committed.Adopted(r)
	for _, step := range []struct {
		in string
		do func() error
	}{
		{"begun rerouted released", func() error { return c.Amend(c.Context(), s.proposed, s.begun, store.Guard{}) }},
		{"reassigned rerouted", func() error { return c.Reassign(c.Context(), s.moved, p.Revision) }},
		{"committed bumped final settled adopted released", func() error { return c.Commit(c.Context(), s.committed) }},
		{"bumped", func() error { return c.AddAttempt(c.Context(), s.bumped) }},
		{"final", func() error { return c.Finish(c.Context(), s.final) }},
		{"adopted", func() error { return c.Adopt(c.Context(), s.adopted) }},
	} {
		if at(strings.Fields(step.in)...) {
			c.ok(state, step.do())
		}
	}
	return s
}

func (c *check) about(s *stage) []any {
	c.Helper()
	p, err := c.Proposal(c.Context(), s.prepared.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		c.Fatal(err)
	}
	txs, unreadable, err := c.PendingTxs(c.Context(), idOf(s.prepared), 0)
	c.ok("reading pending transactions", err)
	_, hash := c.PaymentByHash(c.Context(), s.bumped.LastAttempt().Hash)
	return []any{p, txs, unreadable, class(hash)}
}

var racePromises = []promise[*check]{
	{"of many racing writes as many get in as would one after the other", func(c *check) {
		prepared, committed, bumps := c.stage("prepared"), c.stage("committed"), c.stage("committed")
		p, s, released, w := c.unstored(), c.stage("prepared"), c.stage("proposed"), c.opened()
		failed := must.Get(committed.committed.Fail(payment.NonceConsumed, chain.Receipt{}, noon))(c)
		ends := []payment.Payment{committed.final, failed}
		guards := store.Guard{ID: c.merchant}
		limits := []payment.DailyLimit{{Key: "key_a", Amount: token.Units(1000), Count: 17}, {Amount: token.Units(170)}}
		c.races(
			race{"creations", 8, 1, errOthers, func(ctx context.Context, _ int) error {
				_, created, err := c.Create(ctx, p)
				return othersUnless(created, err)
			}},
			race{"payments under a guard", 8, 1, store.ErrChanged, func(ctx context.Context, _ int) error {
				_, created, err := c.CreateGuarded(ctx, c.unstored(), guards)
				return othersUnless(created, err)
			}},
			race{"commits of a payment", 8, 1, store.ErrChanged, func(ctx context.Context, i int) error {
				return c.Commit(ctx, c.committing(prepared.prepared, uint64(i)))
			}},
			race{"a payment and no-ops at a nonce", 6, 1, store.ErrNonceTaken, func(ctx context.Context, i int) error {
				if i == 0 {
					return c.Commit(ctx, s.committed)
				}
				return c.PutNoop(ctx, noop(idOf(s.prepared), 3))
			}},
			race{"attempts", 3, 1, store.ErrChanged, func(ctx context.Context, i int) error {
				return c.AddAttempt(ctx, c.bumping(bumps.committed, uint64(20+i)))
			}},
			race{"ends", 2, 1, store.ErrChanged, func(ctx context.Context, i int) error { return c.Finish(ctx, ends[i]) }},
			race{"amendments", 5, 1, store.ErrChanged, func(ctx context.Context, i int) error {
				by := proposal.Author{Key: fmt.Sprint("key_", i)}
				return c.Amend(ctx, released.proposed, released.proposed.Approve(by, noon), store.Guard{})
			}},
			race{"claims", 8, 1, errOthers, func(ctx context.Context, i int) error {
				return othersUnless(c.Claim(ctx, w.ID, fmt.Sprint("run ", i), noon, noon.Add(time.Second), nil))
			}},
			race{"charges", 50, 17, store.ErrDailyLimit, func(ctx context.Context, _ int) error {
				return c.Charge(ctx, store.Charge{Merchant: c.merchant, Mode: "test", At: noon, Amount: token.Units(10), Count: 1,
					Limits: limits})
			}},
		)
	}},
	{"racing reservations get every nonce below the ceiling once", func(c *check) {
		const payments, room = 200, 150
		w := c.opened()
		c.ok("raising the ceiling", c.RaiseCeiling(c.Context(), w.ID, 5+room))
		var nonces [payments]uint64
		won := c.wins(payments, wallet.ErrCeiling, func(ctx context.Context, i int) error {
			id := payment.ID(fmt.Sprint("pay_", i))
			got, err := c.Reserve(ctx, need(w, id))
			nonces[i] = got.Reservations[id].Nonce
			return err
		})
		stored, got := c.wallet(w.ID), []uint64{}
		for _, i := range won {
			if held := stored.Reservations[payment.ID(fmt.Sprint("pay_", i))]; held.Nonce != nonces[i] {
				c.Errorf("payment %d was given nonce %d and holds %d", i, nonces[i], held.Nonce)
			}
			got = append(got, nonces[i])
		}
		slices.Sort(got)
		if got = slices.Compact(got); len(won) != room || len(got) != room || got[0] != 5 || got[room-1] != 4+room {
			c.Errorf("nonces have a hole or a double: %v", got)
		}
		w.NextNonce, w.Ceiling, w.Reservations = 5+room, 5+room, stored.Reservations
		w.Balance, w.Gas = token.Units(1_000_000-10*room), token.Units(1_000_000-3*room)
		c.same("the wallet", w, stored)
		again := c.opened()
		c.races(race{"reservations of one payment", 16, 16, nil, func(ctx context.Context, _ int) error {
			return must.Err(c.Reserve(ctx, need(again, "pay_a")))
		}})
		c.same("its wallet", after(again, need(again, "pay_a")), c.wallet(again.ID))
	}},
}

var damagePromises = []promise[*check]{
	{"a damaged registration hides no other", func(c *check) {
		id := c.walletID()
		id.ChainID = binary.BigEndian.Uint64(id.Address[:]) // the registry is of these two alone
		other := wallet.Registration{ID: wallet.ID{ChainID: id.ChainID, Address: token.Address{0xee}}, Token: usdc.Contract,
			State: wallet.Active, Key: wallet.InSecret, Since: noon}
		damaged := wallet.Registration{ID: id, Token: usdc.Contract, State: wallet.Active, Key: "a key", Since: noon}
		c.ok("registering", errors.Join(c.Register(c.Context(), other), c.Register(c.Context(), damaged)))
		c.SpoilRegistration(id)
		damaged = wallet.Registration{ID: id, Token: usdc.Contract, State: wallet.Damaged, Key: "a key", Opened: true}
		want := wallet.Registry{other, damaged}
		slices.SortFunc(want, func(a, b wallet.Registration) int { return bytes.Compare(a.Address[:], b.Address[:]) })
		c.same("the registry", want, must.Get(c.Wallets(c.Context(), rail(id.ChainID)))(c))
	}},
	{"a damaged record tells its nonces and gives none", func(c *check) {
		w := must.Get(c.Reserve(c.Context(), need(c.opened(), "pay_a")))(c)
		c.SpoilWallet(w.ID)
		got := c.wallet(w.ID)
		if got.Damaged == "" || got.NextNonce != w.NextNonce || got.Balance != w.Balance || !got.Gas.IsZero() {
			c.Errorf("%+v", got)
		}
		c.same("reservations", w.Reservations, got.Reservations)
		c.refused("reserving", must.Err(c.Reserve(c.Context(), wallet.Need{Wallet: w.ID, Payment: "pay_b", At: noon})), wallet.ErrPaused)
		c.ok("reconciling", c.Reconcile(c.Context(), w, token.Units(7), token.Units(8), nil, nil))
		w.Balance, w.Gas = token.Units(7), token.Units(8)
		c.same("the wallet", w, c.wallet(w.ID))
	}},
	{"an unreadable payment is told from a missing one, and hides no other", func(c *check) {
		p, intact := c.stage("committed").committed, c.stage("committed").committed
		c.Spoil(p.ID)
		_, created, err := c.Create(c.Context(), p)
		for what, err := range map[string]error{
			"reading":          must.Err(c.Payment(c.Context(), p.ID)),
			"finding its hash": must.Err(c.PaymentByHash(c.Context(), p.TxHash)), "creating": err,
		} {
			c.refused(what, err, store.ErrUnreadable)
		}
		page, _, err := c.List(c.Context(), store.Filter{Merchant: c.merchant, Mode: "test"})
		c.ok("listing", err)
		if created || len(page) != 1 || page[0].ID != intact.ID {
			c.Errorf("created %v, %d are listed", created, len(page))
		}
		unreadable, found := 0, []payment.ID{}
		for e, err := range c.Entries(c.Context()) {
			if errors.Is(err, store.ErrUnreadable) {
				unreadable++
			} else if c.ok("reading the books", err); e.Payment.ID != "" {
				found = append(found, e.Payment.ID)
			}
		}
		if unreadable == 0 || slices.Contains(found, p.ID) || !slices.Contains(found, intact.ID) {
			c.Errorf("%d entries are unreadable, among %v", unreadable, found)
		}
		for _, err := range c.Entries(c.Context()) {
			_ = err
			break // it must not go on
		}
		gone, stop := context.WithCancel(c.Context())
		stop()
		for _, err := range c.Entries(gone) {
			if err == nil {
				c.Error("an entry after the caller has left")
			}
		}
	}},
	{"a pending transaction that does not decode is left out and counted, and keeps its nonce", func(c *check) {
		p := c.stage("committed").committed
		n := noop(idOf(p), 9)
		c.ok("putting a no-op", c.PutNoop(c.Context(), n))
		c.SpoilPendingTx(n.ID, 3)
		txs, unreadable, err := c.PendingTxs(c.Context(), n.ID, 0)
		c.ok("reading them all", err)
		c.same("those that decode", []wallet.PendingTx{n}, txs)
		c.same("how many do not", 1, unreadable)
		c.refused("reading the damaged one", must.Err(c.PendingTx(c.Context(), n.ID, 3)), store.ErrUnreadable)
		c.refused("putting a no-op over it", c.PutNoop(c.Context(), noop(n.ID, 3)), store.ErrNonceTaken)
	}},
}
