package dispatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// A release holds the terms of a sending that releases a proposal. The zero release is none.
type release struct {
	ends    time.Time // no payment is begun at this time or later
	due     time.Time // repeat guards count back from it
	explain func(error) proposal.Refusal
}

const (
	// releaseRead is the most due proposals that a run reads; releaseWidth how many it handles at once.
	releaseRead, releaseWidth = 10_000, 16
)

// Run releases the due proposals, one of each merchant in turn, and returns how many payments are signed, and how long
// the oldest proposal has waited for a run. It also publishes the events, and stores the ends, that others left undone.
// It stops when ctx ends. If more are due than it reads, it defers proposals that can neither be released nor ended
// now. Two runs at once do no harm.
func (s *Proposals) Run(ctx context.Context) (released int, oldest time.Duration, err error) {
	most := cmp.Or(s.Most, releaseRead)
	due, err := s.Store.Due(ctx, s.Now(), most)
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
	var signed atomic.Int64
	var group errgroup.Group
	group.SetLimit(cmp.Or(s.Width, releaseWidth))
	for _, d := range due {
		if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ok && deadline.Sub(s.Now()) < reserve {
			break
		}
		group.Go(func() error {
			done, err := s.lookAfter(ctx, d.ID, len(due) == most)
			if done {
				signed.Add(1)
			}
			s.warn(ctx, err, "proposal left to the next run", "proposal", proposal.ID(d.ID))
			return nil
		})
	}
	_ = group.Wait()
	return int(signed.Load()), oldest, nil
}

// lookAfter releases, ends or announces a due proposal, and reports whether its payment is signed now.
func (s *Proposals) lookAfter(ctx context.Context, id payment.ID, crowd bool) (signed bool, err error) {
	p, err := s.Store.Proposal(ctx, id)
	if err != nil {
		return false, err
	}
	if !p.Payment.Proposal {
		return false, store.ErrNotFound // a torn copy has its place in the list alone
	}
	p = s.publish(ctx, p)
	signed, err = s.tryRelease(ctx, p)
	if crowd && !signed && p.Payment.State == payment.Proposed && p.Event == "" {
		err = errors.Join(err, s.amendUnchanged(ctx, p, p.Later(s.Now())))
	}
	return signed, err
}

// amendUnchanged stores to over p, unless the stored proposal has changed since.
func (s *Proposals) amendUnchanged(ctx context.Context, p, to proposal.Proposal) error {
	if err := s.Store.Amend(ctx, p, to, store.Guard{}); !errors.Is(err, store.ErrChanged) {
		return err
	}
	return nil
}

func (s *Proposals) tryRelease(ctx context.Context, p proposal.Proposal) (signed bool, err error) {
	terms, err := s.Terms(ctx, p.Payment.Merchant)
	switch state, now := p.Payment.State, s.Now(); {
	case state.Signed() || state.UsedUp():
		return false, nil
	case state == payment.Proposed && !now.Before(p.ExpiresAt()):
		if err = s.unmade(ctx, p.Payment); err == nil {
			_, err = s.amend(ctx, p, p.End(payment.Expired, now))
		}
		return false, err
	case err != nil:
		return false, err
	case p.Event != "" || terms.Suspended != "" || now.Before(p.Next()):
		return false, nil
	}
	request := p.Request()
	limits := terms.Of(p.Asset)
	request.Key.MerchantMaximum, request.Key.MerchantDaily, request.Key.OwnWallets = limits.Maximum, limits.Daily, limits.Own != ""
	err = s.Release(ctx, p, request)
	if err == nil {
		if p, err = s.Store.Proposal(ctx, p.Payment.ID); err == nil {
			s.publish(ctx, p)
		}
		return true, err
	}
	if why := s.Explain(err); why.Code != "" && p.Payment.State == payment.Proposed && !errors.Is(err, ErrInProgress) {
		// If the release was begun, its refusal is stored already, and this write finds a changed proposal.
		err = s.amendUnchanged(ctx, p, p.Refused(why, s.Now()))
	}
	return false, err
}

// Release makes the payment of a due proposal; of is its request. It continues a release that was begun. A crash
// between its steps leaves a prepared payment: the next run repeats the release, or a cancel takes it back.
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

// withdraw lets the proposal of a refused release wait again, if its payment is still prepared with p's revision;
// otherwise it returns store.ErrChanged. It never frees the key.
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
