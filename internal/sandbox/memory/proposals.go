package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

func (s *Payments) Propose(ctx context.Context, p proposal.Proposal) (created bool, err error) {
	err = s.locked(ctx, func() error {
		if s.payments[p.Payment.ID] != nil {
			return nil
		}
		open := 0
		for _, r := range s.payments {
			if r.p.Proposal && !r.proposal.Closed && r.p.Merchant == p.Payment.Merchant && r.p.Mode == p.Payment.Mode {
				open++
			}
		}
		if open >= proposal.MaxOpen {
			return store.ErrProposals
		}
		s.payments[p.Payment.ID] = &record{p: p.Payment, proposal: p, next: p.Next()}
		created = true
		return nil
	}, store.FitsPayment(p.Payment))
	return created, err
}

func (s *Payments) Proposal(ctx context.Context, id payment.ID) (proposal.Proposal, error) {
	return answer(ctx, s, func() (proposal.Proposal, error) {
		p, err := s.payment(id)
		if err != nil {
			return proposal.Proposal{}, err
		}
		return s.payments[id].proposed(p), nil
	})
}

// proposed returns the proposal of r, whose payment is p.
func (r *record) proposed(p payment.Payment) proposal.Proposal {
	all := r.proposal
	all.Payment = p
	return all
}

func (s *Payments) Amend(ctx context.Context, from, to proposal.Proposal, g store.Guard) error {
	return s.locked(ctx, func() error {
		there, signed := s.payments[to.Payment.ID], from.Payment.State.Signed()
		if there == nil || !there.p.Proposal || there.proposal.Writes != from.Writes || there.p.State != from.Payment.State ||
			!signed && there.p.Revision != from.Payment.Revision || g.ID != "" && s.guards[g.ID].Version != g.Version {
			return store.ErrChanged
		}
		if g.ID != "" {
			s.guards[g.ID] = g.With(to.Payment)
		}
		if !signed {
			there.p = to.Payment
		}
		if from.Next() != to.Next() || from.Status() != to.Status() {
			there.next = to.Next()
		}
		to.Writes = from.Writes + 1
		there.proposal = to
		return nil
	}, store.FitsGuard(g))
}

func (s *Payments) Due(ctx context.Context, now time.Time, limit int) ([]store.DueProposal, error) {
	return answer(ctx, s, func() ([]store.DueProposal, error) {
		due := []store.DueProposal{}
		for _, r := range s.payments {
			if r.p.Proposal && !r.next.IsZero() && !r.next.After(now) {
				due = append(due, store.DueProposal{Merchant: r.p.Merchant, Mode: r.p.Mode, ID: r.p.ID, Since: r.next})
			}
		}
		slices.SortFunc(due, func(a, b store.DueProposal) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
		return due[:min(limit, len(due))], nil
	})
}

func (s *Payments) ListProposals(ctx context.Context, f store.ProposalFilter) (page []proposal.Proposal, next store.Position, err error) {
	err = s.locked(ctx, func() error {
		all := []proposal.Proposal{}
		for _, r := range s.payments {
			if p := r.proposed(r.p); p.Payment.Proposal && !r.spoiled && p.Payment.Merchant == f.Merchant && p.Payment.Mode == f.Mode &&
				f.Matches(p) {
				all = append(all, p)
			}
		}
		page, next = newest(all, f.From, f.Limit, func(p proposal.Proposal) store.Position {
			return store.Position{CreatedAt: p.CreatedAt, ID: p.Payment.ID}
		})
		return nil
	})
	return page, next, err
}
