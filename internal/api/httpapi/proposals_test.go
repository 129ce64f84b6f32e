package httpapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// begun begins the release of the proposal of order-2041, and returns it.
func (a *api) begun() proposal.Proposal {
	a.Helper()
	p := must.Get(a.payments.Proposal(a.Context(), payment.KeyID(a.merchant, "test", "order-2041")))(a)
	offer := payment.New(p.Payment.ID, p.Request(), asset, "base-sepolia", a.now)
	to := p.Begin(offer.AssignedTo(ownWallet, chain.Tx{ChainID: 84532, To: asset.Contract, Data: offer.Call(ownWallet, true).Data}))
	must.OK(a, a.payments.Amend(a.Context(), p, to, store.Guard{}))
	return to
}

func (a *api) released() { must.Get(a.payments.commit(a.Context(), a.begun().Payment))(a) }

// TestProposals holds the routes of proposals to the contract.
func TestProposals(t *testing.T) {
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		a := newAPI(t)
		must.OK(t, a.payments.Register(t.Context(), wallet.Registration{State: wallet.Active, Token: asset.Contract,
			ID: wallet.ID{ChainID: 84532, Address: ownWallet}}))
		a.play(c.In...).outcome(t, c.Want)
	})
}

// TestExplain: a refusal of a release is a 400 of a payment, or approval_required; anything else holds only for now.
func TestExplain(t *testing.T) {
	for want, err := range map[string]error{
		"insufficient_funds": dispatch.ErrInsufficient, "daily_limit_exceeded": store.ErrDailyLimit,
		"approval_required":     dispatch.ErrApprovalRequired,
		"recipient_not_allowed": &chain.EntryError{Index: 2, Err: dispatch.ErrOwnWallet},
		"batches_not_enabled":   &dispatch.TooManyError{Fit: 7},
		"similar_payment":       &dispatch.SimilarError{},
	} {
		if got := httpapi.Explain(err); got.Code != want || got.Message == "" ||
			(got.Index != nil) != (want == "recipient_not_allowed") ||
			strings.Contains(got.Message, "Cancel this proposal; for a second") != (want == "similar_payment") {
			t.Errorf("%v is %+v", err, got)
		}
	}
	for _, err := range []error{dispatch.ErrUnavailable, dispatch.ErrTooMany, dispatch.ErrSimilarPending, dispatch.ErrExpired, errBroken,
		errors.Join(dispatch.ErrInProgress, dispatch.ErrInsufficient), dispatch.ErrDuplicate} {
		if got := httpapi.Explain(err); got.Code != "" {
			t.Errorf("%v is %+v", err, got)
		}
	}
}
