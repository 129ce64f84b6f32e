package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// CreateProposal serves POST /proposals.
func CreateProposal(proposals *dispatch.Proposals, wallets WalletFinder, assets Assets, now func() time.Time) Endpoint {
	return submission("CreateProposal", func(c *call, f *form) (answer, error) {
		all, err := assets.ofPayment(c)
		if err != nil {
			return answer{}, err
		}
		read := (*form).single
		_, batch := f.given("payments")
		if batch {
			read = (*form).batch
		}
		r := read(f, c, all)
		for _, field := range []string{"amount", "to", "wallet_address"} {
			if _, both := f.given(field); both && batch {
				f.refuse("payments", "one_of", "Must not stand beside amount, to or wallet_address")
				break
			}
		}
		p := proposal.Proposal{By: authorOf(c.caller), NotBefore: f.notBefore(now()),
			Life:     f.seconds("expires_in_seconds", proposal.DefaultLife, proposal.MinLife, proposal.MaxLife),
			Required: f.word("approval", "required", "none") != "none"}
		if err := cmp.Or(f.err(), r.complete(c, f)); err != nil {
			return answer{}, err
		}
		if r.IdempotencyKey == "" {
			return answer{}, dispatch.ErrKeyMissing
		}
		p, replayed, err := proposals.Propose(c.Context(), p, r.Request, c.caller.Grant.May(apikey.PaymentsWrite))
		if err != nil {
			return answer{}, r.validity(err)
		}
		return createdAnswer(proposalsShown(c.Context(), wallets, p)[0], replayed), nil
	})
}

func authorOf(p apikey.Principal) proposal.Author {
	return proposal.Author{Key: p.KeyID, Root: p.Root(), Limits: limitsOf(p, token.Coin{})}
}

func (f *form) notBefore(now time.Time) time.Time {
	t := f.instant("not_before")
	if t.After(now.Add(proposal.MaxAhead)) {
		f.refuse("not_before", "too_large", "Must be at most 90 days ahead")
	}
	return t
}

func proposalsShown(ctx context.Context, wallets WalletFinder, proposals ...proposal.Proposal) []proposal.Public {
	views := make([]proposal.Public, len(proposals))
	for i, p := range proposals {
		if views[i] = p.Public(); views[i].Payment != nil {
			views[i].Payment = &shown(ctx, wallets, p.Payment)[0]
		}
	}
	return views
}

// ListProposals serves GET /proposals.
func ListProposals(payments store.Store) Endpoint {
	return endpoint("ListProposals", func(c *call) (answer, error) {
		q := c.query
		sent := filters{Status: q.word("status", proposal.Statuses()...), Key: q.idempotencyKey()}
		if by, ok := q.given("created_by"); ok {
			if sent.By = by.Text; !keyID.MatchString(by.Text) {
				q.refuse("created_by", "key_id_invalid", "Must be the id of a key")
			}
		}
		return ok(paged(c, "proposals 1", sent, func(at cursor) (page []proposal.Proposal, next position, err error) {
			f := store.ProposalFilter{Merchant: c.caller.MerchantID, Mode: string(c.caller.Mode), Status: at.Status,
				By: at.By, Limit: at.Limit, From: store.Position{CreatedAt: at.At, ID: payment.ID(at.ID)}}
			if at.Key == "" {
				page, next, err := payments.ListProposals(c.Context(), f)
				return page, positionOf(next.CreatedAt, next.ID), err
			}
			p, err := payments.Proposal(c.Context(), payment.KeyID(f.Merchant, f.Mode, at.Key))
			if errors.Is(err, store.ErrNotFound) {
				return nil, next, nil
			} else if p.Payment.Proposal && f.Matches(p) {
				page = append(page, p)
			}
			return page, next, err
		}, func(page []proposal.Proposal) []proposal.Public {
			return proposalsShown(c.Context(), payments, page...)
		},
			func(p proposal.Proposal) position { return positionOf(p.CreatedAt, p.Payment.ID) }))
	})
}

// GetProposal serves GET /proposals/{id}.
func GetProposal(payments store.Store) Endpoint {
	return endpoint("GetProposal", func(c *call) (answer, error) {
		return proposalAnswer(c, payments)(dispatch.FindProposal(c.Context(), payments, ownerOf(c.caller), c.params["id"]))
	})
}

func proposalAnswer(c *call, wallets WalletFinder) func(proposal.Proposal, error) (answer, error) {
	return reply(http.StatusOK, func(p proposal.Proposal) proposal.Public { return proposalsShown(c.Context(), wallets, p)[0] })
}

// ApproveProposal serves POST /proposals/{id}/approve.
func ApproveProposal(proposals *dispatch.Proposals, wallets WalletFinder, assets Assets) Endpoint {
	return action("ApproveProposal", func(c *call, _ *form) (answer, error) {
		all, err := assets.read(c.Context())
		if err != nil {
			return answer{}, err
		}
		return proposalAnswer(c, wallets)(proposals.Approve(c.Context(), ownerOf(c.caller), c.params["id"],
			authorOf(c.caller), func(asset token.Coin) bool { return c.caller.Grant.Pays(asset, all[0].Coin()) }))
	})
}

// CancelProposal serves POST /proposals/{id}/cancel.
func CancelProposal(proposals *dispatch.Proposals, wallets WalletFinder) Endpoint {
	return action("CancelProposal", func(c *call, _ *form) (answer, error) {
		return proposalAnswer(c, wallets)(proposals.Cancel(c.Context(), ownerOf(c.caller), c.params["id"]))
	})
}

// Explain returns why a release was refused, as merchants read it: as a 400 of a payment, or approval_required.
// Anything else has no code: it holds only for now.
func Explain(err error) proposal.Refusal {
	var r proposal.Refusal
	if entry, ok := errors.AsType[*chain.EntryError](err); ok {
		r.Index = &entry.Index
	}
	tooMany, many := errors.AsType[*dispatch.TooManyError](err)
	switch {
	case errors.Is(err, dispatch.ErrInProgress), errors.Is(err, dispatch.ErrExpired):
		return proposal.Refusal{}
	case errors.Is(err, dispatch.ErrOwnWallet): // it has become one since
		err = dispatch.ErrRecipient
	case many:
		return proposal.Refusal{Code: "batches_not_enabled",
			Message: fmt.Sprintf("At most %d of these payments fit into one transaction of this chain.", tooMany.Fit)}
	}
	p := problemOf(err)
	if p.status != http.StatusBadRequest && p.code != "approval_required" {
		return proposal.Refusal{}
	}
	r.Code = p.code
	if r.Message, _ = p.detail.(string); p.similar != nil { // a proposal cannot be changed
		r.Message = "This amount was paid to this recipient lately: " + p.similar.String() + ". Cancel this proposal;" +
			" for a second payment, propose it under another Idempotency-Key with that hash as different_from."
	}
	return r
}
