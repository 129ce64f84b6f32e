package dispatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// A release is what a sending of a proposal has beside its request. The zero release is none.
type release struct {
	ends    time.Time // nothing is begun then or later
	due     time.Time // repeat guards look back from there
	explain func(error) proposal.Refusal
}

const (
	// releaseRead is the most due proposals that a run reads; releaseWidth how many it looks after at once.
	releaseRead, releaseWidth = 10_000, 16
)

// A runOfReleases is one Run of Proposals.
type runOfReleases struct {
	*Proposals
	mu    sync.Mutex
	short map[pool]token.Amount // the least amounts that the wallets could not cover in this run
	out   atomic.Int64          // signed payments
}

// A pool names the wallets of an asset that pay for one owner.
type pool struct {
	coin  token.Coin
	owner string
}

// Run releases the due proposals, one of each merchant in turn, and returns how many payments are signed, and how long
// the oldest proposal has waited for a run. It publishes events and stores ends that were left, until ctx ends. Two runs
// at once do no harm.
func (s *Proposals) Run(ctx context.Context) (released int, oldest time.Duration, err error) {
	due, err := s.Store.Due(ctx, s.Now(), releaseRead)
	if err != nil || len(due) == 0 {
		return 0, 0, err
	}
	oldest = s.Now().Sub(due[0].Since)
	next, turn := map[string]int{}, map[payment.ID]int{}
	for _, d := range due {
		turn[d.ID] = next[d.Merchant]
		next[d.Merchant]++
	}
	slices.SortStableFunc(due, func(a, b store.DueProposal) int { return cmp.Compare(turn[a.ID], turn[b.ID]) })
	run := &runOfReleases{Proposals: s, short: map[pool]token.Amount{}}
	var group errgroup.Group
	group.SetLimit(cmp.Or(s.Width, releaseWidth))
	for _, d := range due {
		if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ok && deadline.Sub(s.Now()) < reserve {
			break
		}
		group.Go(func() error {
			s.warn(ctx, run.lookAfter(ctx, d.ID), "proposal left to the next run", "proposal", proposal.ID(d.ID))
			return nil
		})
	}
	_ = group.Wait()
	return int(run.out.Load()), oldest, nil
}

// lookAfter does what is due of a proposal.
func (r *runOfReleases) lookAfter(ctx context.Context, id payment.ID) error {
	p, err := r.Store.Proposal(ctx, id)
	if err != nil {
		return err
	}
	p = r.publish(ctx, p)
	terms, err := r.Terms(ctx, p.Payment.Merchant)
	switch state, now := p.Payment.State, r.Now(); {
	case state.Signed() || state.UsedUp():
		return nil
	case state == payment.Proposed && !now.Before(p.ExpiresAt()):
		if err = r.unmade(ctx, p.Payment); err == nil {
			_, err = r.amend(ctx, p, p.End(payment.Expired, now))
		}
		return err
	case err != nil:
		return err
	case p.Event != "" || terms.Suspended != "" || now.Before(p.Next()):
		return nil
	}
	request := p.Request()
	limits := terms.Of(p.Asset)
	request.Key.MerchantMaximum, request.Key.MerchantDaily, request.Key.OwnWallets = limits.Maximum, limits.Daily, limits.Own != ""
	return r.release(ctx, p, request)
}

// release makes the payment of a due proposal, or stores why not. Funds are asked for once in a run and pool: an
// amount that could not be covered stands for all that are not less.
func (r *runOfReleases) release(ctx context.Context, p proposal.Proposal, of payment.Request) error {
	from := pool{p.Payment.Coin(), of.Owner()}
	r.mu.Lock()
	least, some := r.short[from]
	short := some && !of.Amount.Less(least) && p.Payment.State == payment.Proposed
	r.mu.Unlock()
	err := error(ErrInsufficient)
	if !short {
		err = r.Release(ctx, p, of)
	}
	if errors.Is(err, ErrInsufficient) {
		r.mu.Lock()
		if least, some = r.short[from]; !some || of.Amount.Less(least) {
			r.short[from] = of.Amount
		}
		r.mu.Unlock()
	}
	if err == nil {
		r.out.Add(1)
		if p, err = r.Store.Proposal(ctx, p.Payment.ID); err == nil {
			r.publish(ctx, p)
		}
		return err
	}
	if why := r.Explain(err); why.Code != "" && p.Payment.State == payment.Proposed && !errors.Is(err, ErrInProgress) {
		// If the release was begun, its refusal is stored with its end, and this write finds another proposal.
		if err = r.Store.Amend(ctx, p, p.Refused(why, r.Now()), store.Guard{}); errors.Is(err, store.ErrChanged) {
			return nil
		}
	}
	return err
}

// Release makes the payment of a proposal that is due, for of, its request. A release that was begun is gone on with. A
// crash between its steps leaves a payment that is prepared: the next run repeats the release, or a cancel takes it back.
func (s *Proposals) Release(ctx context.Context, p proposal.Proposal, of payment.Request) error {
	on, err := s.Of(ctx, p.Asset)
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	d, err := on.begin(ctx)
	d.owner = of.Owner()
	d.release = release{ends: p.ExpiresAt(), due: p.DueAt(), explain: s.Explain}
	refusal := d.barred(of, p.Approver.Key != "", err)
	var offer payment.Payment
	var guard store.Guard
	if refusal == nil {
		offer, guard, refusal = d.prepare(ctx, p.Payment.ID, of)
		d.screened(ctx, of, refusal)
	}
	if p.Payment.State == payment.Prepared {
		if refusal == nil && offer.Guarded && !p.Payment.Guarded {
			refusal = errUnguarded
		}
		_, err := d.resume(ctx, p.Payment, of, offer, refusal)
		return err
	}
	if refusal != nil {
		return refusal
	}
	d.phases.end(phaseSimulate)
	if err := d.startupCheck(ctx); err != nil {
		return err
	}
	to := p.Begin(offer)
	if err := s.Store.Amend(ctx, p, to, guard); err != nil {
		return errors.Join(ErrInProgress, err)
	}
	d.created = true
	_, err = d.begun(ctx, to.Payment, d.limits(of))
	return err
}

// withdraw has the payment of a refused release wait again, if it is still prepared with p's revision; otherwise
// store.ErrChanged. It never frees the key.
func (d sending) withdraw(ctx context.Context, p payment.Payment, refusal error) error {
	held, err := d.Store.Proposal(ctx, p.ID)
	switch {
	case err != nil:
		return err
	case held.Payment.State != payment.Prepared || held.Payment.Revision != p.Revision || d.explain == nil:
		return store.ErrChanged
	}
	return d.Store.Amend(ctx, held, held.Refused(d.explain(refusal), d.Now()), store.Guard{})
}
