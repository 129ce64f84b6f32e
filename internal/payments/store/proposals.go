package store

import (
	"context"
	"errors"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
)

// ErrProposals reports a merchant with proposal.MaxOpen open proposals.
var ErrProposals = errors.New("too many open proposals")

// Proposals keeps proposals, each in the item of its payment, so that one write decides about both.
type Proposals interface {
	// Propose stores p with its payment, and counts it as open, if nothing is stored under the payment's ID. Otherwise
	// it reports false. It returns ErrProposals, storing nothing, if the merchant has proposal.MaxOpen open ones.
	Propose(ctx context.Context, p proposal.Proposal) (created bool, err error)

	// Proposal returns the proposal whose payment has that ID. Of a payment that no proposal holds it returns the
	// payment alone; ErrNotFound if there is none.
	Proposal(ctx context.Context, id payment.ID) (proposal.Proposal, error)

	// Amend stores to over from, with the next Writes, if the stored proposal has the Writes, and the stored payment
	// the State and Revision of from; with an ID, it stores g with the payment in the same write, if the guard of g's
	// Version is stored. Otherwise ErrChanged. It leaves a signed payment as it is. Closing a proposal ends its count
	// as open. A caller that repeats it after a lost answer may get ErrChanged.
	Amend(ctx context.Context, from, to proposal.Proposal, g Guard) error

	// Due names the proposals whose Next is not after now, at most limit, the earliest first. It may lag, and costs no
	// read of proposals that are not due.
	Due(ctx context.Context, now time.Time, limit int) ([]DueProposal, error)

	// ListProposals returns a page of proposals as History.List does of payments. The Status of f alone may lag.
	ListProposals(ctx context.Context, f ProposalFilter) (page []proposal.Proposal, next Position, err error)
}

// A DueProposal names a proposal.
type DueProposal struct {
	Merchant, Mode string
	ID             payment.ID
	Since          time.Time // its Next
}

// A ProposalFilter selects proposals. Zero fields do not restrict.
type ProposalFilter struct {
	Merchant, Mode string
	Status         string
	By             string // the key that proposed
	Limit          int    // 1 to 100; anything else is 100
	From           Position
}

// Matches reports whether p is one of f's, wherever it stands.
func (f ProposalFilter) Matches(p proposal.Proposal) bool {
	return (f.Status == "" || p.Status() == f.Status) && (f.By == "" || p.By.Key == f.By)
}
