package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// Rules checks the meaning of guarded writes on empty stores: Alike only compares.
func Rules(t *testing.T, s Stores) {
	c := &ruled{T: t, Store: s.Payments}
	c.writes()
	c.claims()
	c.payments()
	c.charges()
	c.others(s)
	c.damaged(s.Damage)
}

type ruled struct {
	*testing.T
	store.Store
	made uint32 // wallets
}

func (c *ruled) walletID() wallet.ID {
	c.made++
	id := wallet.ID{ChainID: 84532}
	binary.BigEndian.PutUint32(id.Address[:], c.made)
	return id
}

func (c *ruled) wallet(id wallet.ID) wallet.Wallet { return must.Get(c.Wallet(ctx, id))(c) }

func (c *ruled) same(what string, want, got any) {
	c.Helper()
	if diff := cmp.Diff(want, got, byEquality, bare, cmpopts.EquateEmpty()); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (c *ruled) refused(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s: error = %v, want %v", what, err, want)
	}
}

// after returns w as a reservation for need leaves it.
func after(w wallet.Wallet, n wallet.Need) wallet.Wallet {
	w.Reservations = maps.Clone(w.Reservations)
	w.Reservations[n.Payment] = wallet.Reservation{Nonce: w.NextNonce, At: n.At, For: n.For}
	w.NextNonce++
	w.Balance, w.Gas = w.Balance.Sub(n.Amount), w.Gas.Sub(n.Gas)
	return w
}

func (c *ruled) writes() {
	type w = wallet.Wallet
	changed := store.ErrChanged
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
	asks := func(n *wallet.Need) { n.Amount, n.Gas = much, much }
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
	advance := func(to uint64) func(w) error { return func(at w) error { return c.Advance(ctx, at.ID, to, to) } }
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
			want := wallet.Registration{ID: at.ID, Token: usdc.Contract, State: state, Opened: true, Since: noon,
				Key: wallet.InSecret, Merchant: merchant}
			got, _ := must.Get(c.Wallets(ctx, rail(at.ID.ChainID)))(c).Find(at.ID.Address)
			c.same("the registration", want, got)
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
	idleTheirs := func(at *w) { idle(at); theirs(at) }
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
		{"one that is held, of a wallet that gives none", spent, reserve("pay_a", asks), nil, same},
		{"one that is held for another revision", same, reserve("pay_a", other), wallet.ErrHeld, same},
		{"everything is wrong", spent, reserve("pay_c", owner("mer_a")), wallet.ErrOwner, same},
		{"a merchant's wallet, for all", theirs, reserve("pay_c"), wallet.ErrOwner, same},
		{"a wallet of anyone", theirs, reserve("pay_c", owner(wallet.Anyone)), nil, taken},
		{"a merchant's cap", same, then(reserve("pay_c", capped), reserve("pay_d", capped)), wallet.ErrMerchantCap, counted},
		{"the last nonce back, twice", same, then(back(6, "pay_b", 0), back(6, "pay_b", 0)), changed, given},
		{"another request's back", same, back(6, "pay_b", 1), changed, same},
		{"the last nonce back, which is another's", same, back(6, "pay_a", 0), changed, same},
		{"one before the last back", same, back(5, "pay_a", 0), changed, same},
		{"a paused wallet's back", paused, back(6, "pay_b", 0), changed, same},
		{"an orphan back", same, then(orphan(6, "pay_b"), back(6, "pay_b", 0)), changed, never},
		{"another nonce orphaned", same, orphan(5, "pay_b"), changed, same},
		{"a nonce released, twice", paused, then(release(5, "pay_a"), release(5, "pay_a")), nil, freed},
		{"another nonce released", same, release(6, "pay_a"), nil, same},
		{"a ceiling raised", same, ceiling(c.RaiseCeiling, 20), nil, func(at *w) { at.Ceiling = 20 }},
		{"a ceiling raised to less", same, ceiling(c.RaiseCeiling, 8), nil, same},
		{"a ceiling lowered below the next nonce", same, ceiling(c.LowerCeiling, 3), nil, func(at *w) { at.Ceiling = 7 }},
		{"paused without a reason", same, then(pause(""), reserve("pay_c")), wallet.ErrPaused, asStored},
		{"paused if it is not, twice", same, then(repause("", "by hand"), repause("", "by hand")), nil, paused},
		{"paused if it is not, and it is", paused, repause("", "other"), changed, same},
		{"resumed, twice, and a nonce", paused, then(resume, resume, reserve("pay_c")), nil, func(at *w) { at.Paused = ""; taken(at) }},
		{"reconciled, twice", same, then(reconcile(70, 0), reconcile(80, 90)), nil, func(at *w) {
			at.Balance, at.Gas = token.Units(80), token.Units(90)
		}},
		{"reconciled after one that was lost", same, read(reconcile(1, 1), next(1)), changed, same},
		{"reconciled, and a nonce went back and forth", same, then(forth, reconcile(1, 1)), changed, once},
		{"the same, seen", same, then(forth, read(reconcile(1, 1), once)), nil, func(at *w) {
			at.Returned, at.Balance, at.Gas = 1, token.Units(1), token.Units(1)
		}},
		{"retired, twice", idle, then(retire, retire), nil, retired},
		{"retired while it is active", idle, then(active, retire), changed, same},
		{"retired while it holds a nonce", same, retire, changed, same},
		{"retired after it gave a nonce", idle, then(used, retire), changed, onceUsed},
		{"retired after it was paused", idle, then(pause("by hand"), retire), changed, paused},
		{"assigned, twice", idle, then(assign, assign, registered(wallet.Assigned, "mer_a")), nil, theirs},
		{"assigned while it is active", idle, then(active, assign), changed, same},
		{"assigned while it holds a nonce", same, assign, changed, same},
		{"assigned after it gave a nonce", idle, then(used, assign), changed, onceUsed},
		{"assigned after it was resumed", idle, read(assign, paused), changed, same},
		{"a funding wallet by its state alone", idleTheirs, state(wallet.Assigned, wallet.Funding), changed, same},
		{"taken back, twice", idleTheirs, then(ended, takeBack, registered(wallet.Draining, "")), nil, common},
		{"taken back from another", idleTheirs, then(drain, read(takeBack, yours)), changed, same},
		{"opened as a common wallet", same, func(at w) error {
			at.ID = c.walletID()
			must.OK(c, give(at.ID, "mer_b"))
			defer func() { c.refused("reading it", must.Err(c.Wallet(ctx, at.ID)), wallet.ErrUnknown) }()
			return c.Open(ctx, at, usdc.Contract)
		}, changed, same},
		{"opened again", same, read(func(at w) error { return c.Open(ctx, at, usdc.Contract) }, spent), nil, same},
		{"registered for another rail", same, func(at w) error {
			return c.Register(ctx, wallet.Registration{ID: at.ID, Token: token.Address{1}, State: wallet.Active, Key: wallet.InSecret})
		}, store.ErrOtherRail, same},
		{"advanced, and not back", same, then(advance(9), advance(8)), nil, func(at *w) { at.NextNonce, at.NoopsBelow = 9, 9 }},
	} {
		at := w{ID: c.walletID(), NextNonce: 7, Ceiling: 9, Balance: token.Units(1000), Gas: token.Units(1000),
			Reservations: map[payment.ID]wallet.Reservation{}}
		for nonce, id := range map[uint64]payment.ID{5: "pay_a", 6: "pay_b"} {
			at.Reservations[id] = wallet.Reservation{Nonce: nonce, At: need(at, id).At, For: "revision"}
		}
		if row.before(&at); at.Merchant != "" {
			must.OK(c, give(at.ID, at.Merchant))
		}
		must.OK(c, c.Open(ctx, at, usdc.Contract))
		c.refused(row.what, row.do(at), row.want)
		row.after(&at)
		c.same(row.what, at, c.wallet(at.ID))
	}
}

func (c *ruled) claims() {
	w := wallet.Wallet{ID: c.walletID()}
	must.OK(c, c.Open(ctx, w, usdc.Contract))
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
		held, err := c.Claim(ctx, w.ID, row.by, noon.Add(row.now), noon.Add(row.until), nil)
		must.OK(c, err)
		if held != row.held {
			c.Errorf("%s: held = %v", row.what, held)
		}
		w.ClaimedUntil = noon.Add(row.after)
		c.same("the wallet", w, c.wallet(w.ID))
	}
}

// payments makes the writes of a payment's life, each with those that come too early, too late or from a state that has
// changed.
func (c *ruled) payments() {
	made, changed := new(maker), store.ErrChanged
	before, other, lost, waiting := made.draft(noon), made.draft(noon), found(made.draft(noon)), proposed(made.request())
	p := before.AssignedTo(ids[1].Address, before.Tx)
	other = other.AssignedTo(ids[1].Address, other.Tx)
	first, asked := committed(p, 3), made.request()
	second, beside := bumped(first, token.Units(2000)), committed(other, 3)
	over, third := store.PendingTxOf(second), bumped(second, token.Units(3000))
	end, torn := confirmed(third), store.PendingTxOf(third)
	over.Payment = ""
	early := end
	early.Version = before.Version + 1
	for _, p := range []payment.Payment{before, other, lost} {
		_, _, err := c.Create(ctx, p)
		must.OK(c, err)
	}
	must.Get(c.Propose(ctx, waiting))(c)
	waiting = must.Get(c.Proposal(ctx, waiting.Payment.ID))(c)
	amend := func(from, to proposal.Proposal, g store.Guard) error { return c.Amend(ctx, from, to, g) }
	approved := waiting.Approve(proposal.Author{Key: "key_2", Root: "key_2"}, noon)
	begun := approved.Begin(offer(ids[0], noon, waiting.Request()))
	approved.Writes, begun.Writes = waiting.Writes+1, waiting.Writes+2
	moved := begun
	moved.Payment = begun.Payment.AssignedTo(ids[1].Address, begun.Payment.Tx)
	cancelled := func(from proposal.Proposal) error {
		return amend(from, from.End(payment.Cancelled, noon), store.Guard{})
	}
	none := store.Guard{ID: "guard"}
	read := func() store.Guard { return must.Get(c.Guard(ctx, "guard"))(c) }
	guarded := func(g store.Guard) error {
		_, _, err := c.CreateGuarded(ctx, made.draft(noon), g)
		return err
	}
	mined := func(at time.Time) error { return must.Err(c.SetMined(ctx, p.ID, at)) }
	redact := func() error { return c.Redact(ctx, must.Get(end.Redacted())(c)) }
	adopt := func(p payment.Payment) error { return c.Adopt(ctx, p.Adopted(asked)) }
	for _, step := range []struct { // made in this order
		what      string
		got, want error
	}{
		{"reassigning another revision", c.Reassign(ctx, p, "another"), changed},
		{"reassigning", c.Reassign(ctx, p, before.Revision), nil}, {"again", c.Reassign(ctx, p, before.Revision), nil},
		{"committing the revision before", c.Commit(ctx, committed(before, 3)), changed},
		{"discarding the revision before", c.Discard(ctx, before), changed},
		{"an attempt before the first", c.AddAttempt(ctx, second), changed}, {"an end before it", c.Finish(ctx, early), changed},
		{"mined before it", mined(noon), changed}, {"adopting before it", adopt(lost), changed},
		{"committing", c.Commit(ctx, first), nil}, {"again", c.Commit(ctx, first), changed},
		{"reassigning after it", c.Reassign(ctx, p, before.Revision), changed}, {"discarding after it", c.Discard(ctx, p), changed},
		{"another at its nonce", c.Commit(ctx, beside), store.ErrNonceTaken},
		{"a no-op at its nonce", c.PutNoop(ctx, noop(ids[1], 3)), store.ErrNonceTaken},
		{"bumping it as a no-op", c.BumpNoop(ctx, over), changed}, {"two attempts at once", c.AddAttempt(ctx, third), changed},
		{"another attempt", c.AddAttempt(ctx, second), nil}, {"again", c.AddAttempt(ctx, second), changed},
		{"an attempt that the payment lacks", c.BumpNoop(ctx, torn), nil}, {"again", c.BumpNoop(ctx, torn), nil},
		{"another than that", c.AddAttempt(ctx, bumped(second, token.Units(4000))), changed},
		{"joining it", c.AddAttempt(ctx, third), nil},
		{"redacting before its end", redact(), changed}, {"adopting a request's", adopt(second), changed},
		{"mined", mined(noon), nil}, {"mined again", mined(noon.Add(time.Hour)), nil},
		{"finishing", c.Finish(ctx, end), nil}, {"again", c.Finish(ctx, end), changed},
		{"mined after its end", mined(noon), changed}, {"redacting", redact(), nil},
		{"an attempt after it", c.AddAttempt(ctx, bumped(third, token.Units(4000))), changed},
		{"committing one without a request", c.Commit(ctx, committed(lost, 9)), nil},
		{"adopting it as it was", adopt(lost), changed}, {"adopting it", adopt(committed(lost, 9)), nil},
		{"again", adopt(committed(lost, 9)), changed},
		{"the end of the version before", c.Finish(ctx, confirmed(committed(lost, 9))), changed},
		{"discarding", c.Discard(ctx, other), nil}, {"again", c.Discard(ctx, other), changed},

		{"the first of a guard", guarded(none), nil}, {"another of the guard before", guarded(none), changed},
		{"approving", amend(waiting, approved, store.Guard{}), nil}, {"cancelling it as it was", cancelled(waiting), changed},
		{"releasing under the guard before", amend(approved, begun, none), changed},
		{"releasing", amend(approved, begun, read()), nil}, {"a third", guarded(read()), nil},
		{"reassigning", c.Reassign(ctx, moved.Payment, begun.Payment.Revision), nil},
		{"cancelling the revision before", cancelled(begun), changed},
		{"discarding a proposal's payment", c.Discard(ctx, moved.Payment), changed},
		{"committing it", c.Commit(ctx, committed(moved.Payment, 4)), nil}, {"cancelling it after that", cancelled(moved), changed},
	} {
		c.refused(step.what, step.got, step.want)
	}
	final := must.Get(end.Redacted())(c)
	final.MinedAt = noon
	c.same("the payment", final, must.Get(c.Payment(ctx, p.ID))(c))
	c.same("payments of the guard", 3, len(read().Payments))
	for _, hash := range second.Hashes() {
		c.same("the payment of an attempt", p.ID, must.Get(c.PaymentByHash(ctx, hash))(c).ID)
	}
	c.refused("that of one that was refused", must.Err(c.PaymentByHash(ctx, beside.TxHash)), store.ErrNotFound)
}

// charges checks that a charge counts under both limits or under neither, and that a refund takes it from both.
func (c *ruled) charges() {
	key, all := payment.DailyLimit{Key: "key_a", Amount: token.Units(50), Count: 2}, payment.DailyLimit{Amount: token.Units(110)}
	both := []payment.DailyLimit{key, all}
	of := func(amount uint64, limits []payment.DailyLimit) store.Charge {
		return store.Charge{Merchant: "mer_a", Mode: "test", At: noon, Amount: token.Units(amount), Count: 1, Limits: limits}
	}
	for _, step := range []struct {
		what     string
		do       func(context.Context, store.Charge) error
		amount   uint64
		limits   []payment.DailyLimit
		want     error
		key, all uint64 // that is charged then; every 20 of the key's are a payment
	}{
		{"back before any", c.Refund, 20, both, nil, 0, 0},
		{"under both", c.Charge, 20, both, nil, 20, 20},
		{"more than the key has left", c.Charge, 31, both, store.ErrDailyLimit, 20, 20},
		{"its merchant's alone", c.Charge, 80, both[1:], nil, 20, 100},
		{"more than its merchant has left", c.Charge, 11, both, store.ErrDailyLimit, 20, 100},
		{"more back than the key was charged", c.Refund, 21, both, nil, 20, 100},
		{"back from both", c.Refund, 20, both, nil, 0, 80},
		{"and again", c.Refund, 20, both, nil, 0, 80},
		{"the same again", c.Charge, 20, both, nil, 20, 100},
	} {
		c.refused(step.what, step.do(ctx, of(step.amount, step.limits)), step.want)
		amount, count, err := c.Charged(ctx, "mer_a", "test", key.Key, noon)
		sum, _, also := c.Charged(ctx, "mer_a", "test", "", noon)
		must.OK(c, errors.Join(err, also))
		c.same(step.what, []any{token.Units(step.key), step.key / 20, token.Units(step.all)}, []any{amount, count, sum})
	}
}

// others are the rules of settings, webhooks and keys.
func (c *ruled) others(s Stores) {
	hooks, keys, add := s.Webhooks, s.Keys, settings.Default(settings.Rail{ChainID: 1, Token: usdc, Network: "devnet"})
	later, other := add, add
	later.Version, other.Token.Decimals, other.Version = 2, 7, 1
	d := newDelivery(mailboxes[0], noon)
	final := ended(tried(d, noon, false), webhook.Exhausted)
	late := func(s webhook.DeliveryStatus) error {
		again := tried(final, noon.Add(time.Minute), false)
		again.Status = s
		return must.Err(hooks.Record(ctx, again, 1))
	}
	parked := newDelivery(mailboxes[0], noon.Add(time.Hour))
	parked.Parked = true
	mine, next, third := newKey(1), newKey(3), newKey(5) // one merchant's
	const theirs = "mer_other"
	for _, step := range []struct { // made in this order
		what      string
		got, want error
	}{
		{"changing no rail", s.Payments.SetSettings(ctx, later), store.ErrChanged}, {"adding it", s.Payments.SetSettings(ctx, add), nil},
		{"another token", s.Payments.SetSettings(ctx, other), settings.ErrFixed},
		{"a delivery", hooks.AddDelivery(ctx, d), nil}, {"its end", must.Err(hooks.Record(ctx, final, 0)), nil},
		{"the delivery again", hooks.AddDelivery(ctx, d), nil}, {"an attempt after its end", late(webhook.Pending), webhook.ErrConflict},
		{"another end", late(webhook.Cancelled), webhook.ErrConflict}, {"a success after it", late(webhook.Delivered), nil},
		{"parking one", hooks.AddDelivery(ctx, parked), nil},
		{"unparking it as of before", hooks.Unpark(ctx, webhook.Due{Ref: parked.Ref, At: noon}), nil},
		{"a key", keys.Issue(ctx, mine, 1), nil}, {"one more", keys.Issue(ctx, next, 1), apikey.ErrLimit},
		{"another merchant revokes it", must.Err(keys.Revoke(ctx, theirs, mine.Hash, noon)), apikey.ErrNotFound},
		{"another merchant replaces it", keys.Replace(ctx, theirs, mine.Hash, noon, third), apikey.ErrNotFound},
		{"its own does", must.Err(keys.Revoke(ctx, mine.MerchantID, mine.Hash, noon)), nil},
		{"a key in its place", keys.Issue(ctx, next, 1), nil},
		{"terms over those of before", keys.SetTerms(ctx, theirs, apikey.Terms{Suspended: "once"}, apikey.Terms{Suspended: "now"}),
			apikey.ErrTerms},
	} {
		c.refused(step.what, step.got, step.want)
	}
	due := must.Get(hooks.Due(ctx, noon.Add(time.Hour), 9))(c)
	c.same("due", []webhook.Due{{Ref: parked.Ref, At: parked.NextAttemptAt}}, due)
}

// damaged: an unreadable item is told from a missing one, and hides no other.
func (c *ruled) damaged(damage Damage) {
	p, m := committed(offer(ids[2], noon, request(0, token.Units(9))), 3), wallet.Wallet{ID: ids[2], NextNonce: 7, Gas: token.Units(8)}
	draft := offer(ids[2], noon, request(0, token.Units(9)))
	_, _, err := c.Create(ctx, draft)
	must.OK(c, errors.Join(err, c.Commit(ctx, p), c.PutNoop(ctx, noop(m.ID, 9)), c.Open(ctx, m, usdc.Contract)))
	listed, _, err := c.List(ctx, store.Filter{Merchant: "mer_a", Mode: "test"})
	must.OK(c, err)
	damage.Spoil(p.ID)
	damage.SpoilPendingTx(m.ID, 3)
	damage.SpoilWallet(m.ID)
	rest, _, err := c.List(ctx, store.Filter{Merchant: "mer_a", Mode: "test"})
	must.OK(c, err)
	c.same("listed", len(listed)-1, len(rest))
	_, _, err = c.Create(ctx, draft)
	c.refused("creating", err, store.ErrUnreadable)
	var unreadable error
	for _, err := range c.Entries(ctx) {
		unreadable = errors.Join(unreadable, err)
	}
	c.refused("entries", unreadable, store.ErrUnreadable)
	txs, n, err := c.PendingTxs(ctx, m.ID, 0)
	must.OK(c, err)
	c.same("pending transactions", []any{1, 1}, []any{len(txs), n})
	c.refused("a no-op over it", c.PutNoop(ctx, noop(m.ID, 3)), store.ErrNonceTaken)
	c.refused("reserving", must.Err(c.Reserve(ctx, need(m, "pay_b"))), wallet.ErrPaused)
	must.OK(c, c.Reconcile(ctx, m, m.Balance, m.Gas, nil, nil))
	c.same("the wallet", m, c.wallet(m.ID))
}
