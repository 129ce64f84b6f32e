package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// A desk is a process with proposals.
type desk struct {
	*process
	*dispatch.Proposals
	terms    apikey.Terms
	events   []string
	data     []string      // of the events, with their times
	replayed bool          // of the last propose
	released int           // by the last run
	oldest   time.Duration // of it
}

var (
	owner   = webhook.Owner{Merchant: asked.Merchant, Mode: asked.Mode}
	maker   = proposal.Author{Key: "key_1", Root: "key_1"}
	checker = proposal.Author{Key: "key_2", Root: "key_2", Limits: payment.KeyLimits{ApproveAbove: unit(1)}}
	name    = proposal.ID(payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey))
)

func newDesk(t *testing.T, s script) *desk { return deskOf(newProcess(t, s)) }

func deskOf(p *process) *desk {
	d := &desk{process: p}
	parts := p.d.Parts
	parts.Store = eager{parts.Store, p.Tables}
	rails := p.rails(parts, nil)
	p.d = must.Get(rails.Of(p.T.Context(), token.Coin{}))(p.T)
	p.d.Forget()
	d.Proposals = &dispatch.Proposals{Rails: rails, Events: d,
		Terms: func(context.Context, string) (apikey.Terms, error) { return d.terms, nil },
		Explain: func(err error) proposal.Refusal {
			for code, is := range map[string]error{"insufficient_funds": dispatch.ErrInsufficient,
				"daily_limit_exceeded": store.ErrDailyLimit, "approval_required": dispatch.ErrApprovalRequired} {
				if errors.Is(err, is) {
					return proposal.Refusal{Code: code}
				}
			}
			_, similar := errors.AsType[*dispatch.SimilarError](err)
			return proposal.Refusal{Code: map[bool]string{true: "similar_payment"}[similar]}
		}}
	return d
}

// An eager store names all proposals as due, and the one of asked once it is closed too, as an index that lags may.
type eager struct {
	dispatch.Store
	tables store.Proposals
}

func (e eager) Due(ctx context.Context, now time.Time, limit int) ([]store.DueProposal, error) {
	due, err := e.Store.Due(ctx, now.AddDate(1, 0, 0), limit)
	if p, _ := e.tables.Proposal(ctx, proposal.Payment(name)); p.Closed {
		due = append(due, store.DueProposal{Merchant: asked.Merchant, Mode: asked.Mode, ID: p.Payment.ID})
	}
	return due, err
}

// Now ends the ambiguity between the process's and the dispatcher's.
func (d *desk) Now() time.Time { return d.process.Now() }

func (d *desk) Announce(_ context.Context, _ webhook.Owner, kind string, at time.Time, data any) error {
	if err := d.Call("Announce"); err != nil {
		return err
	}
	d.events, d.data = append(d.events, kind), append(d.data, fmt.Sprint(at, data))
	return nil
}

// propose proposes asked, changed.
func (d *desk) propose(changes ...func(*proposal.Proposal, *payment.Request)) (made proposal.Proposal, err error) {
	p, r := proposal.Proposal{By: maker, Required: true, Life: time.Hour}, asked
	for _, change := range changes {
		change(&p, &r)
	}
	made, d.replayed, err = d.Propose(d.process.T.Context(), p, r, true)
	return made, err
}

// Active implements dispatch.AddressBook: it has every recipient, and takes a second.
func (d *desk) Active(context.Context, string, string, token.Address, time.Time) (bool, error) {
	d.Pass(time.Second)
	return true, nil
}

func anyAsset(token.Coin) bool { return true }

func free(p *proposal.Proposal, _ *payment.Request) { p.Required = false }

// run lets due proposals be released, and returns the one of asked.
func (d *desk) run() proposal.Proposal {
	d.process.T.Helper()
	var err error
	sent := len(d.sent)
	if d.released, d.oldest, err = d.Run(d.process.T.Context()); err != nil || d.released != len(d.sent)-sent {
		d.process.T.Errorf("%d released, and %d sent: %v", d.released, len(d.sent)-sent, err)
	}
	return d.read()
}

func (d *desk) read() proposal.Proposal {
	d.process.T.Helper()
	return must.Get(d.Tables.Proposal(context.Background(), payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey)))(d.process.T)
}

func (d *desk) approve(by proposal.Author) error {
	return must.Err(d.Approve(d.process.T.Context(), owner, name, by, anyAsset))
}

func (d *desk) is(what, status string) proposal.Proposal {
	d.process.T.Helper()
	p := d.read()
	if p.Status() != status {
		d.process.T.Errorf("%s: it is %s, want %s, after %v", what, p.Status(), status, d.Calls)
	}
	return p
}

// compared stores that a run has compared the wallets of these tables.
func (d *desk) compared() {
	known := must.Get(d.Tables.Compared(context.Background(), porttest.Rail.Coin()))(d.process.T)
	d.Must(d.Tables.SetCompared(context.Background(), porttest.Rail.Coin(),
		store.Comparison{Ran: d.Now(), Since: d.Now(), Abreast: d.Now(), Revision: known.Revision}))
}

// TestProposalIsReleased: with its approval, at its time, once, from its merchant's wallet. Its events are published,
// and its place is given back.
func TestProposalIsReleased(t *testing.T) {
	d := newDesk(t, nil)
	d.Must(owning(d.process))
	d.terms.Own = "assigned"
	due := d.Now().Add(10 * time.Minute)
	later := func(p *proposal.Proposal, _ *payment.Request) { p.NotBefore = due }
	if made := must.Get(d.propose(later))(t); d.replayed || made.Status() != proposal.StatusAwaiting {
		t.Fatal(made, d.replayed)
	}
	for _, step := range []struct {
		what, status string
		after        time.Duration
	}{{"without an approval", proposal.StatusAwaiting, 0}, {"before its time", proposal.StatusScheduled, 0},
		{"a moment before its time", proposal.StatusScheduled, 10*time.Minute - 1}, {"due", proposal.StatusReleased, 1 + time.Second}} {
		d.Pass(step.after)
		if d.run(); (d.released == 1) != (step.status == proposal.StatusReleased) {
			t.Errorf("%s: %d released", step.what, d.released)
		}
		if d.is(step.what, step.status); step.status == proposal.StatusAwaiting {
			d.Must(d.approve(checker))
		}
	}
	if p := d.read(); !p.Payment.CreatedAt.Equal(d.Now()) || !p.Closed || p.Payment.Wallet != own ||
		len(d.sent) != 1 || d.oldest != time.Second || !d.ask("k").is("its own request", nil).Replayed {
		t.Errorf("%+v, %d sent, %s", p, len(d.sent), d.oldest)
	}
	d.run()
	if again := must.Get(d.propose(later))(t); !d.replayed || again.Status() != proposal.StatusReleased {
		t.Errorf("proposed again: %v, %v", again, d.replayed)
	}
	writes := d.read().Writes
	if err := d.approve(proposal.Author{Key: "key_3", Root: "key_3"}); err != nil || d.read().Approver.Key != "key_2" ||
		d.read().Writes != writes {
		t.Errorf("approved once more: %v", err)
	}
	if _, err := d.Cancel(t.Context(), owner, name); !errors.Is(err, proposal.ErrReleased) {
		t.Errorf("cancelled: %v", err)
	}
	if want := []string{proposal.Created, proposal.Approved}; !slices.Equal(d.events, want) || len(d.sent) != 1 {
		t.Errorf("events %v, want %v; %d sent", d.events, want, len(d.sent))
	}
}

// TestARefusedReleaseKeepsTheKey, and is tried again.
func TestARefusedReleaseKeepsTheKey(t *testing.T) {
	approve := func(d *desk) { d.Must(d.approve(checker)) }
	daily := func(units uint64) func(d *desk) {
		return func(d *desk) { d.set(func(s *settings.Settings) { s.Daily = unit(units) }) }
	}
	for what, test := range map[string]struct {
		refuse, allow func(d *desk)
		code          string
	}{
		"its amount is not there": {func(d *desk) { d.holds = unit(1) },
			func(d *desk) { d.holds = unit(1000) }, "insufficient_funds"},
		"the day is used up":           {daily(1), daily(0), "daily_limit_exceeded"},
		"its key's limit at that time": {func(*desk) {}, approve, "daily_limit_exceeded"},
		"it needs an approval": {func(d *desk) { d.set(func(s *settings.Settings) { s.ApproveAbove = unit(99) }) },
			approve, "approval_required"},
	} {
		d := newDesk(t, nil)
		must.Get(d.propose(free, func(_ *proposal.Proposal, r *payment.Request) {
			if what == "its key's limit at that time" {
				r.Key.Daily = payment.DailyLimit{Key: "key_1", Amount: unit(99)}
			}
		}))(t)
		test.refuse(d)
		p := d.run()
		if p.Payment.State != payment.Proposed || p.Refusal == nil || p.Refusal.Code != test.code || p.Tries != 1 {
			t.Errorf("%s: it is %s, %+v, after %v", what, p.Payment.State, p.Refusal, d.Calls)
		}
		if !errors.As(d.ask("k", d.until(-time.Second)).err, new(*dispatch.OpenError)) {
			t.Errorf("%s: its key is free", what)
		}
		test.allow(d)
		if d.read().Approver.Key == "" { // an approval begins the intervals anew
			d.Pass(time.Minute - 1)
			if d.run(); len(d.sent) > 0 {
				t.Errorf("%s: it was tried within a minute", what)
			}
			d.Pass(1)
		}
		d.run()
		if p := d.is(what, proposal.StatusReleased); p.Refusal == nil || len(d.sent) != 1 {
			t.Errorf("%s: %+v", what, p.Refusal)
		}
	}
}

// TestApproval: of another key, in time, and by a key that may pay so.
func TestApproval(t *testing.T) {
	d := newDesk(t, nil)
	must.Get(d.propose(func(p *proposal.Proposal, _ *payment.Request) { p.By.Root = "key_0" }))(t)
	for _, own := range []proposal.Author{{Key: "key_1", Root: "key_0"}, {Key: "key_0", Root: "key_0"}, {Key: "key_9", Root: "key_0"}} {
		if err := d.approve(own); !errors.Is(err, proposal.ErrOwn) {
			t.Errorf("by %s: %v", own.Key, err)
		}
	}
	other := webhook.Owner{Merchant: "mer_2", Mode: asked.Mode}
	if _, err := d.Approve(t.Context(), other, name, checker, anyAsset); !errors.Is(err, dispatch.ErrNoProposal) {
		t.Errorf("by another merchant: %v", err)
	}
	if _, err := dispatch.FindProposal(t.Context(), nil, owner, "pay_1"); !errors.Is(err, dispatch.ErrNoProposal) {
		t.Errorf("by another name: %v", err)
	}
	d.Pass(time.Hour)
	if err := d.approve(checker); !errors.Is(err, proposal.ErrBeginning) {
		t.Errorf("after its end, in tables that may have lost their wallets: %v", err)
	}
	d.compared()
	if err := d.approve(checker); !errors.Is(err, proposal.ErrEnded) {
		t.Errorf("after its end: %v", err)
	}
	d.is("after its end", proposal.StatusExpired)
	if _, err := d.Cancel(t.Context(), owner, name); err != nil {
		t.Errorf("cancelled after its end: %v", err)
	}
	batch, _ := asked.Batch([]payment.Entry{{To: asked.To, Amount: unit(1)}})
	batched := func(_ *proposal.Proposal, r *payment.Request) { *r = batch }
	d = newDesk(t, nil)
	must.Get(d.propose(batched))(t)
	d.Must(d.approve(checker))
	d = newDesk(t, nil)
	must.Get(d.propose(batched))(t)
	limited := checker
	limited.Limits.Guard = time.Hour
	if err := d.approve(limited); !errors.Is(err, dispatch.ErrGuardedBatch) {
		t.Errorf("a batch by a guarded key: %v", err)
	}
	d.Pass(time.Hour)
	d.compared()
	for range 2 { // it ends, and has ended
		if err := d.approve(limited); !errors.Is(err, proposal.ErrEnded) {
			t.Errorf("a batch by a guarded key, after its end: %v", err)
		}
	}
}

// TestCancel: 200 only if nothing will be paid, 409 if a nonce is held, and a dead release is taken back.
func TestCancel(t *testing.T) {
	begun := []string{"Reserve#1", "Payment#1"}
	for what, test := range map[string]struct {
		calls   []string
		since   time.Duration
		restore func(*desk)
		want    error
	}{
		"no release":                {nil, 0, nil, nil},
		"a handler may be at work":  {begun, handlerLife - time.Millisecond, nil, proposal.ErrBeginning},
		"the handler is dead":       {begun, handlerLife, nil, nil},
		"the payment holds a nonce": {[]string{"Sign#1"}, handlerLife, nil, proposal.ErrReleased},
		"restored, and not compared": {nil, 0, func(d *desk) {
			d.Must(d.Tables.SetCompared(t.Context(), porttest.Rail.Coin(), store.Comparison{Revision: 1}))
		}, proposal.ErrBeginning},
		"another rail is not compared": {nil, 0, func(d *desk) {
			railsOf(d.process)
			d.Pass(time.Minute)
			d.compared()
		}, proposal.ErrBeginning},
		"restored, and suspected": {nil, 0, func(d *desk) {
			d.Must(d.Tables.Pause(t.Context(), walletOf(first), wallet.Suspicion+": restored"))
		}, proposal.ErrBeginning},
	} {
		d := newDesk(t, breaks(test.calls...))
		if d.compared(); test.restore != nil {
			d.ask("before").is("opens the wallets", nil)
			test.restore(d)
		}
		must.Get(d.propose(free))(t)
		if test.calls != nil {
			d.run()
		}
		d.Pass(test.since)
		direct := d.ask("k").err
		if open := errors.As(direct, new(*dispatch.OpenError)); open != (test.calls == nil) ||
			!open && !errors.Is(direct, dispatch.ErrDuplicate) {
			t.Errorf("%s: a request goes on with the release: %v, after %v", what, direct, d.Calls)
		}
		d.set(func(s *settings.Settings) { s.Needs = settings.Code + 1 }) // releases are stopped
		_, err := d.Cancel(t.Context(), owner, name)
		if state := d.read().Payment.State; !errors.Is(err, test.want) || (err == nil) != (state == payment.Cancelled) {
			t.Errorf("%s: %v, it is %s, after %v", what, err, state, d.Calls)
		}
		d.set(func(*settings.Settings) {}) // releases go on
		for _, ahead := range []time.Duration{0, -time.Second} {
			if used := d.ask("k", d.until(ahead)).err; err == nil && !errors.Is(used, dispatch.ErrKeyReused) {
				t.Errorf("%s: a request under a used-up key, with %s left: %v", what, ahead, used)
			}
		}
		if d.Pass(time.Hour); test.restore != nil {
			d.run()
			if err := d.approve(checker); !errors.Is(err, proposal.ErrBeginning) || d.read().Payment.State != payment.Proposed {
				t.Errorf("%s: after its end it is %s, approved: %v", what, d.read().Payment.State, err)
			}
		}
	}
}

// TestAReleaseThatWasTakenBack while its reservation was under way is none.
func TestAReleaseThatWasTakenBack(t *testing.T) {
	for what, take := range map[string]func(p proposal.Proposal, at time.Time) proposal.Proposal{
		"refused":   func(p proposal.Proposal, at time.Time) proposal.Proposal { return p.Refused(proposal.Refusal{}, at) },
		"cancelled": func(p proposal.Proposal, at time.Time) proposal.Proposal { return p.End(payment.Cancelled, at) },
	} {
		d := newDesk(t, nil)
		must.Get(d.propose(free))(t)
		d.Script = script{"Reserve#1": func(*process) error {
			d.Must(d.Tables.Amend(t.Context(), d.read(), take(d.read(), d.Now()), store.Guard{}))
			return porttest.ErrBroken
		}}
		if d.run(); d.released != 0 || len(d.sent) > 0 {
			t.Errorf("%s: %d released, after %v", what, d.released, d.Calls)
		}
	}
}

// TestWhoIsNotReleased: a suspended merchant's proposals wait, those after their end expire, and 503 is no refusal.
func TestWhoIsNotReleased(t *testing.T) {
	d := newDesk(t, nil)
	must.Get(d.propose(free))(t)
	d.terms.Suspended = "fraud"
	d.run()
	d.is("a suspended merchant", proposal.StatusScheduled)
	d.terms = apikey.Terms{AssetTerms: apikey.AssetTerms{Maximum: unit(99)}}
	if p := d.run(); p.Payment.State != payment.Proposed {
		t.Errorf("above the merchant's maximum: %s", p.Payment.State)
	}
	d.terms = apikey.Terms{}
	d.Script = breaks("Nodes#2")
	if p := d.run(); p.Refusal != nil || p.Version != 1 {
		t.Errorf("without nodes it is %+v", p)
	}
	d.mined = 1
	if before := d.Times["Amend"]; d.run().Refusal != nil || d.Times["Amend"] > before {
		t.Errorf("where the tables lack payments: %v", d.Calls)
	}
	d.Script = breaks(fmt.Sprint("Proposal#", d.Times["Proposal"]+1))
	d.run()
	d.is("it cannot be read", proposal.StatusScheduled)
	d.Pass(time.Hour)
	d.compared()
	if p := d.run(); p.Status() != proposal.StatusExpired || !p.Closed || len(d.sent) > 0 {
		t.Errorf("after its end it is %s", p.Status())
	}
	if want := []string{proposal.Created, proposal.HasExpired}; !slices.Equal(d.events, want) {
		t.Errorf("events %v, want %v", d.events, want)
	}
	old := newDesk(t, nil)
	railsOf(old.process)
	d = deskOf(start(t, old.Tables, nil))
	must.Get(d.propose(free, func(_ *proposal.Proposal, r *payment.Request) { r.Asset = euro.Coin() }))(t)
	logs := func(d *desk, want string) {
		t.Helper()
		if d.run(); !strings.Contains(d.log.String(), want) || len(d.sent) > 0 {
			t.Errorf("logged %s, want %s", &d.log, want)
		}
	}
	logs(old, dispatch.ErrUnavailable.Error()) // it does not know the rail yet
	if _, err := old.Cancel(t.Context(), owner, name); !errors.Is(err, dispatch.ErrUnavailable) {
		t.Errorf("cancelled without its rail: %v", err)
	}
	d.terms = apikey.Terms{}.With(euro.Coin(), apikey.AssetTerms{Maximum: unit(99)})
	logs(d, dispatch.ErrAmountAbove.Error())
	d.terms = apikey.Terms{}
	d.Must(d.Tables.Deny(t.Context(), store.Denial{To: asked.To}))
	d.Pass(settings.MaxAge)
	logs(d, "recipient refused")
	d.keys = append(d.keys, asked.To)
	d.Pass(dispatch.RegistryAge)
	logs(d, dispatch.ErrOwnWallet.Error())
	d = newDesk(t, breaks("Reserve#1", "Payment#1")) // begun in time, and without a nonce
	must.Get(d.propose(free))(t)
	d.run()
	d.Pass(time.Hour)
	d.compared()
	d.run()
	if p := d.run(); p.Status() != proposal.StatusExpired || len(d.sent) > 0 {
		t.Errorf("begun in time: %s, after %v", p.Status(), d.Calls)
	}
}

// TestReleasesTakeTurns: one of each merchant, also if one has many. None begins when too little time is left.
func TestReleasesTakeTurns(t *testing.T) {
	d := newDesk(t, nil)
	d.Store, d.Width, d.keys = d.Store.(eager).Store, 1, d.keys[:1]
	var last proposal.Proposal
	for n, merchant := range []string{"mer_1", "mer_1", "mer_2"} {
		d.Pass(time.Second)
		last = must.Get(d.propose(free, func(_ *proposal.Proposal, r *payment.Request) {
			r.Merchant, r.IdempotencyKey = merchant, fmt.Sprint(n)
		}))(t)
	}
	d.Calls = nil
	for n, want := range []int{0, 3} {
		ctx, cancel := context.WithDeadline(t.Context(), d.Now().Add(6*time.Second-1+time.Duration(n)))
		defer cancel()
		if released, _, err := d.Run(ctx); err != nil || released != want || n == 0 && len(d.Calls) > 1 {
			t.Errorf("%d released, want %d: %v, after %v", released, want, err, d.Calls)
		}
	}
	if p := must.Get(d.Tables.Payment(t.Context(), last.Payment.ID))(t); p.Nonce != 1 {
		t.Errorf("the other merchant's is paid at nonce %d", p.Nonce)
	}
}

// TestABegunReleaseGoesOn as it was begun; if an approval adds a repeat guard meanwhile, it is begun anew, so that the
// guard names it. One that ends before its reservation is taken back.
func TestABegunReleaseGoesOn(t *testing.T) {
	limited := checker
	for what, guards := range map[string][]time.Duration{"none": {0, 0}, "a guard": {guardTime, 0}, "one since": {0, guardTime}} {
		d := newDesk(t, breaks(unreserved...))
		must.Get(d.propose(free, func(_ *proposal.Proposal, r *payment.Request) { r.Key.Guard = guards[0] }))(t)
		d.run()
		d.Pass(handlerLife)
		limited.Limits.Guard = guards[1]
		if d.Must(d.approve(limited)); guards[1] > 0 {
			d.run()
			d.is(what+", at first", proposal.StatusScheduled)
		}
		if p := d.run(); d.released != 1 || p.Payment.Guarded != (max(guards[0], guards[1]) > 0) {
			t.Errorf("%s: %d released, guarded: %t", what, d.released, p.Payment.Guarded)
		}
	}
	d := newDesk(t, script{"Charge#1": func(p *process) error { p.Pass(time.Hour); return nil }})
	must.Get(d.propose(free))(t)
	if p := d.run(); p.Payment.State != payment.Proposed {
		t.Errorf("it has ended, and is %s", p.Payment.State)
	}
}

// TestACrowdMakesRoom: more proposals than a run reads, which can neither be released nor ended now, keep no other from
// its release. While a run reads them all, it writes nothing about them.
func TestACrowdMakesRoom(t *testing.T) {
	for why, life := range map[string]time.Duration{
		"a suspended merchant's": time.Hour, "refused for now": time.Hour,
		"ended, in tables that were not compared": time.Minute,
	} {
		d, stuck := newDesk(t, nil), payment.ID("")
		d.Store = d.Store.(eager).Store
		d.Terms = func(_ context.Context, merchant string) (terms apikey.Terms, err error) {
			if stuck := merchant == "mer_stuck"; stuck && why == "refused for now" {
				err = chain.ErrUnavailable
			} else if stuck {
				terms.Suspended = "fraud"
			}
			return terms, err
		}
		propose := func(merchant, key string, life time.Duration) payment.ID {
			return must.Get(d.propose(free, func(p *proposal.Proposal, r *payment.Request) {
				r.Merchant, r.IdempotencyKey, p.Life = merchant, key, life
			}))(t).Payment.ID
		}
		run := func(most int) (released int, writes uint64) {
			d.Most = most
			released, _, err := d.Run(t.Context())
			d.Must(err)
			return released, must.Get(d.Tables.Proposal(t.Context(), stuck))(t).Writes
		}
		stuck = propose("mer_1", "opens a wallet", time.Hour)
		run(2)
		stuck = propose("mer_stuck", "a", life)
		propose("mer_stuck", "b", life)
		d.Pass(2 * time.Minute)
		_, before := run(3)
		propose("mer_1", "c", time.Hour)
		if released, after := run(4); released != 1 || after != before {
			t.Errorf("%s, read with all others: %d released, %d writes", why, released, after-before)
		}
		propose("mer_1", "d", time.Hour)
		if released, _ := run(2); released != 0 {
			t.Errorf("%s: %d released before others that were due earlier", why, released)
		}
		if released, _ := run(2); released != 1 {
			t.Errorf("%s: %d released, want the one that can be", why, released)
		}
	}
}

// TestEventsAreNotLost: events whose publishing failed are published by the next change, or the next run. An event that
// was published, and may not have been, is published with the same data.
func TestEventsAreNotLost(t *testing.T) {
	all := []string{proposal.Created, proposal.Approved, proposal.WasCanceled}
	for why, c := range map[string]struct {
		breaks []string
		runs   bool
		events []string
	}{
		"runs between":     {[]string{"Announce#1", "Announce#3", "Announce#5"}, true, all},
		"changes in a row": {[]string{"Announce#1", "Announce#2"}, false, all},
		"published twice":  {[]string{"Amend#1"}, false, append([]string{proposal.Created}, all...)},
	} {
		d := newDesk(t, breaks(c.breaks...))
		must.Get(d.propose())(t)
		d.Pass(time.Second)
		if c.runs {
			d.run()
		}
		must.Get(d.Approve(t.Context(), owner, name, checker, anyAsset))(t)
		d.terms.Suspended = "so that it waits"
		if c.runs {
			d.run()
		}
		d.compared()
		must.Get(d.Cancel(t.Context(), owner, name))(t)
		d.terms = apikey.Terms{}
		if p := d.run(); !p.Closed || p.Status() != proposal.StatusCancelled {
			t.Errorf("%s: it is %+v", why, p)
		}
		if !slices.Equal(d.events, c.events) || why == "published twice" && d.data[0] != d.data[1] {
			t.Errorf("%s: events %v, want %v; %v", why, d.events, c.events, d.data)
		}
	}
}

// TestTheGuardOfARelease looks back from when it was due first, and at all later payments: waiting does not help.
func TestTheGuardOfARelease(t *testing.T) {
	pay := func(d *desk) { d.ask("similar", guarded).is("similar", nil) }
	propose := func(d *desk) {
		must.Get(d.propose(free, func(p *proposal.Proposal, r *payment.Request) { p.Life, r.Key.Guard = proposal.MaxLife, time.Hour }))(t)
	}
	d := newDesk(t, nil)
	d.set(func(s *settings.Settings) { s.Daily = unit(1) })
	propose(d)
	d.run() // it is named, and withdrawn
	d.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
	if d.ask("other", guarded).is("it may be released and not read so", nil); !d.Did("Discard#1") {
		t.Errorf("no write waits for that: %v", d.Calls)
	}
	for _, steps := range [][]func(*desk){{pay, propose}, {propose, pay}} {
		d := newDesk(t, nil)
		steps[0](d)
		d.Pass(59 * time.Minute)
		steps[1](d)
		for range 3 {
			if p := d.run(); p.Refusal == nil || p.Refusal.Code != "similar_payment" || p.Payment.State != payment.Proposed {
				t.Fatalf("%+v, it is %s", p.Refusal, p.Payment.State)
			}
			d.Pass(10 * 24 * time.Hour)
		}
	}
}

// TestPropose judges the order of what is wrong.
func TestPropose(t *testing.T) {
	type change = func(*proposal.Proposal, *payment.Request)
	d := deskOf(left(t, handlerLife, unreserved...))
	fails := func(what string, want error, changes ...change) {
		t.Helper()
		if _, err := d.propose(changes...); !errors.Is(err, want) || err != nil && d.replayed {
			t.Errorf("%s: %v, replayed %v, want %v", what, err, d.replayed, want)
		}
	}
	fails("a key with a half-made payment", dispatch.ErrInProgress)
	d = newDesk(t, nil)
	d.ask("k").is("paid", nil)
	fails("a key that is used", dispatch.ErrKeyReused)
	d = newDesk(t, nil)
	fails("proposed", nil)
	fails("no approval", dispatch.ErrKeyReused, free)
	d.ask("k", inEuro).is("a payment of other content", dispatch.ErrKeyReused)
	key := func(_ *proposal.Proposal, r *payment.Request) { r.IdempotencyKey = "another" }
	above := func(_ *proposal.Proposal, r *payment.Request) { r.Key.ApproveAbove = unit(99) }
	late := func(_ *proposal.Proposal, r *payment.Request) { r.NotAfter = d.Now().Add(-time.Second) }
	own := func(_ *proposal.Proposal, r *payment.Request) { r.To = first }
	ahead := func(by time.Duration) change {
		return func(_ *proposal.Proposal, r *payment.Request) {
			r.IdempotencyKey, r.NotAfter = fmt.Sprint(by), d.Now().Add(by)
		}
	}
	fails("300 s ahead", nil, ahead(dispatch.MaxNotAfter))
	fails("301 s ahead", dispatch.ErrNotAfter, ahead(dispatch.MaxNotAfter+time.Second))
	fails("no rail", dispatch.ErrUnavailable, func(_ *proposal.Proposal, r *payment.Request) { r.Asset.ChainID = 9 })
	fails("above, without approval", dispatch.ErrApprovalRequired, key, above, free)
	fails("late", dispatch.ErrExpired, key, late, above, free)
	fails("own wallet, late and above", dispatch.ErrOwnWallet, key, own, late, above, free)
	d.d.Book = d
	fails("late once the address book is read", dispatch.ErrExpired, key, func(_ *proposal.Proposal, r *payment.Request) {
		r.Key.Book, r.NotAfter = true, d.Now()
	})
	fails("above, with approval", nil, key, above)
	most := disburser.MaxAmount()
	most, _ = most.Add(unit(1))
	pays := func(entries ...payment.Entry) change {
		return func(p *proposal.Proposal, r *payment.Request) {
			*r, _ = r.Batch(entries)
			r.IdempotencyKey = fmt.Sprint(len(entries))
		}
	}
	fails("one entry, which a transfer pays", nil, pays(payment.Entry{To: asked.To, Amount: most}))
	fails("more than a batch's entry can have", dispatch.ErrAmountAbove,
		pays(payment.Entry{To: asked.To, Amount: unit(1)}, payment.Entry{To: asked.To, Amount: most}))
	limited := func(units uint64) func(*payment.Request) {
		return func(r *payment.Request) { r.Key.ApproveAbove = unit(units) }
	}
	d.ask("direct", limited(99)).is("a direct payment above", dispatch.ErrApprovalRequired)
	d.ask("direct", limited(100)).is("as much", nil)
	d.ask("direct", limited(99)).is("its replay", nil)
	d.set(func(s *settings.Settings) { s.ApproveAbove = unit(99) })
	d.ask("direct", limited(99)).is("its replay, above the rail's", nil)
	d.ask("any key").is("above the rail's", dispatch.ErrApprovalRequired)
	d.Must(d.Tables.Deny(t.Context(), store.Denial{To: asked.To}))
	d.set(func(s *settings.Settings) { s.Minimum = unit(101) })
	fails("denied, and too little", nil, func(_ *proposal.Proposal, r *payment.Request) { r.IdempotencyKey = "denied" })
	for want, notAfter := range map[error]time.Time{apikey.ErrNotPermitted: {}, dispatch.ErrExpired: d.Now().Add(-time.Second)} {
		r := payment.Request{NotAfter: notAfter}
		if _, _, err := d.Propose(t.Context(), proposal.Proposal{By: maker, Life: time.Hour}, r, false); !errors.Is(err, want) {
			t.Errorf("without the scope: %v, want %v", err, want)
		}
	}
}

// TestOneCallOfAProposalFails: whichever call fails, the answer is that error, or what it is without a failure. Asked
// again, it does the whole.
func TestOneCallOfAProposalFails(t *testing.T) {
	propose := func(d *desk) error { return must.Err(d.propose()) }
	proposed := func(d *desk) { d.compared(); d.Must(propose(d)) }
	for what, step := range map[string]struct {
		before func(*desk)
		do     func(*desk) error
		status string
	}{
		"propose":       {(*desk).compared, propose, "awaiting_approval"},
		"propose again": {proposed, propose, "awaiting_approval"},
		"approve":       {proposed, func(d *desk) error { return d.approve(checker) }, "scheduled"},
		"cancel":        {proposed, func(d *desk) error { return must.Err(d.Cancel(t.Context(), owner, name)) }, "cancelled"},
		"expire": {func(d *desk) { proposed(d); d.Pass(time.Hour); d.compared() }, func(d *desk) error {
			if err := d.approve(checker); !errors.Is(err, proposal.ErrEnded) {
				return err
			}
			return nil
		}, "expired"},
	} {
		begin := func() *desk {
			d := newDesk(t, script{})
			d.ask("another").is("opens a wallet", nil)
			step.before(d)
			return d
		}
		calm := begin()
		before := len(calm.Calls)
		calm.Must(step.do(calm))
		calm.is(what, step.status)
		last := calm.Calls[len(calm.Calls)-1] // after an event that was published
		for _, call := range calm.Calls[before:] {
			d := begin()
			d.Script[call] = func(*process) error { return porttest.ErrBroken }
			if err := step.do(d); err != nil && (!errors.Is(err, porttest.ErrBroken) || d.replayed) {
				t.Errorf("%s: %s fails: %v, replayed %v", what, call, err, d.replayed)
			} else if passes := call == last || strings.HasPrefix(call, "Announce") || strings.HasPrefix(call, "Rules"); err == nil && !passes {
				t.Errorf("%s: %s fails, and nobody is told", what, call)
			} else if err == nil {
				d.is(what+" without "+call, step.status)
			}
			d.Must(step.do(d))
			d.is(what+" after "+call, step.status)
		}
	}
	made := must.Get(newDesk(t, nil).propose())(t)
	for call, want := range map[string]error{"": nil, "Proposal#2": porttest.ErrBroken} {
		d := newDesk(t, breaks(call).With("Propose#1", func(p *process) error { return must.Err(p.Tables.Propose(t.Context(), made)) }))
		if _, err := d.propose(); !errors.Is(err, want) || d.replayed != (want == nil) {
			t.Errorf("another process proposes the same first, and %q fails: %v, replayed %v", call, err, d.replayed)
		}
	}
}

// TestAThousandAtOnce: proposals of ten merchants that are due in one minute are released by its run, each once, where
// every call takes 50 ms. What is not due costs no read.
func TestAThousandAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.Store, d.holds, d.keys = d.Store.(eager).Store, unit(1e6), nil
		for i := range byte(16) {
			d.keys = append(d.keys, token.Address{1 + i})
		}
		d.set(func(s *settings.Settings) { s.NonceWindow, s.Daily = 64, token.Amount{} })
		propose := func(n int, due time.Duration) {
			for i := range n {
				must.Get(d.propose(free, func(p *proposal.Proposal, r *payment.Request) {
					p.NotBefore, r.To = d.Now().Add(due), token.Address{99}
					r.Merchant, r.IdempotencyKey = fmt.Sprint("mer_", i%10), fmt.Sprint(due, i)
				}))(t)
			}
		}
		propose(1000, time.Minute)
		propose(500, time.Hour)
		d.Pass(time.Minute)
		d.Delays = map[string]time.Duration{}
		for _, op := range []string{"Due", "Proposal", "Amend", "Estimate", "Ready", "Charge", "Reserve", "Sign", "Commit", "Release",
			"Send", "Hint"} {
			d.Delays[op] = 50 * time.Millisecond
		}
		began := time.Now()
		released, _, err := d.Run(t.Context())
		if took := time.Since(began); released != 1000 || err != nil || took > 55*time.Second {
			t.Errorf("%d released in %s: %v", released, took, err)
		}
		once := map[string]bool{}
		for _, raw := range d.sent {
			once[string(raw)] = true
		}
		if len(once) != 1000 {
			t.Errorf("%d payments were sent", len(once))
		}
		d.Calls = nil
		if released, _, err = d.Run(t.Context()); released != 0 || err != nil || len(d.Calls) != 1 {
			t.Errorf("with nothing due: %d, %v, %v", released, err, d.Calls)
		}
	})
}

// A copy has the place of a proposal that it lacks.
type placed struct{ dispatch.Store }

func (s placed) Due(context.Context, time.Time, int) ([]store.DueProposal, error) {
	id := payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey)
	return []store.DueProposal{{Merchant: asked.Merchant, Mode: asked.Mode, ID: id}}, nil
}

// A request under its key crashed before it held a nonce: no run pays that.
func TestTornPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, down("Reserve"))
		d.ask("k")
		d.Pass(time.Hour)
		d.Rails.Store = placed{d.Rails.Store}
		released, _, _ := d.Run(t.Context())
		if got := d.stored().State; got != payment.Prepared || released > 0 {
			t.Errorf("it is %s, and %d released", got, released)
		}
	})
}

// down is a script in which a process gives up.
func down(op string) script {
	s := script{}
	for n := range 8 {
		s[fmt.Sprint(op, "#", n+1)] = func(*process) error { return porttest.ErrBroken }
	}
	return s
}

// A copy has a payment's pending transaction and its reservation, and the payment as prepared.
func TestTornCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, down("Commit"))
		p.ask("k")
		held := p.stored()
		nonce := p.Record(walletOf(held.Wallet)).Reservations[held.ID].Nonce
		signed := must.Get(p.Quiet().Sign(t.Context(), held.Tx, nonce))(t)
		p.Must(p.Tables.PutNoop(t.Context(), store.PendingTxOf(must.Get(held.Commit(signed, p.Now()))(t))))
		p.Pass(time.Hour)
		start(t, p.Tables, nil).ask("k")
		if now := p.stored(); now.State.Signed() {
			t.Errorf("two signed transactions, at nonces %d and %d", nonce, now.Nonce)
		}
	})
}

// A copy has the record of one wallet, which is suspect, and not that its registration was opened; no other has one.
func TestTornSuspect(t *testing.T) {
	p := newProcess(t, nil)
	p.Must(p.Tables.Open(t.Context(), wallet.Wallet{ID: walletOf(first), NextNonce: 1, Ceiling: 4, Balance: unit(1000),
		Gas: unit(1 << 60), Paused: wallet.Suspicion + ": 1 transactions are mined"}, porttest.Rail.Token.Contract))
	p.mined, p.idle = 1, second
	p.Tables.TearOpen(walletOf(first))
	p.ask("k").is("while the chain is ahead", dispatch.ErrUnavailable)
}
