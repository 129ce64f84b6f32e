package dispatch

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ErrApprovalRequired reports an amount that is paid from an approved proposal only. Nothing was started.
var ErrApprovalRequired = errors.New("the amount needs an approval")

// ErrNoProposal reports an id that none of the merchant's proposals has.
var ErrNoProposal = errors.New("no such proposal")

// An OpenError reports a key that an open proposal holds. Nothing was started.
type OpenError struct{ ID payment.ID }

func (e *OpenError) Error() string { return "an open proposal holds the key: " + proposal.ID(e.ID) }

// An Announcer publishes events; *webhook.Publisher is one.
type Announcer interface {
	Announce(ctx context.Context, o webhook.Owner, kind string, at time.Time, data any) error
}

// Proposals takes, approves, ends and releases the proposals of merchants. A crash between two writes leaves an event
// unpublished, or a proposal that counts as open: the next Run does the rest.
type Proposals struct {
	*Rails
	Events Announcer
	// Terms returns a merchant's terms as they are now. Explain returns an error as a refusal for merchants, without a
	// code if the error may pass. Only releases use these two.
	Terms   func(ctx context.Context, merchant string) (apikey.Terms, error)
	Explain func(error) proposal.Refusal
	Most    int // due proposals that a run reads; 0: 10,000
	Width   int // due proposals that a run handles at once; 0: 16
}

// Propose stores a proposal for r, which takes r's key. If the same one is stored, it returns that, with replayed.
// Errors are those of Send that need no node, ErrKeyReused, ErrInProgress for a key with a half-made payment,
// store.ErrProposals, and apikey.ErrNotPermitted for a proposal without approval by a key that may not pay.
func (s *Proposals) Propose(ctx context.Context, p proposal.Proposal, r payment.Request, mayPay bool) (made proposal.Proposal,
	replayed bool, err error) {
	if r.NotAfter.Unix()-s.Now().Unix() > int64(MaxNotAfter/time.Second) {
		return p, false, ErrNotAfter
	}
	on, err := s.Of(ctx, r.Asset)
	if err != nil {
		return p, false, unknown(r, err)
	}
	rules, refused := on.ruling(ctx)
	d := sending{Dispatcher: on, ruling: rules, refused: refused, notAfter: r.NotAfter}
	p = proposal.New(p, r, d.Token, d.ChainID, d.Network, s.Now())
	stored, err := s.Store.Proposal(ctx, p.Payment.ID)
	switch {
	case err == nil:
		return answer(p, stored)
	case !errors.Is(err, store.ErrNotFound):
		return p, false, err
	}
	if err := d.judge(ctx, p, r, mayPay); err != nil {
		return p, false, err
	}
	created, err := s.Store.Propose(ctx, p)
	if err != nil {
		return p, false, err
	}
	if !created {
		if stored, err = s.Store.Proposal(ctx, p.Payment.ID); err != nil {
			return p, false, err
		}
		return answer(p, stored)
	}
	return s.publish(ctx, p), false, nil
}

// answer answers a request for p with the proposal that its key holds.
func answer(p, stored proposal.Proposal) (proposal.Proposal, bool, error) {
	switch of := stored.Payment; {
	case !of.Proposal && of.State == payment.Prepared:
		return p, false, ErrDuplicate
	case !of.Proposal || !stored.Same(p):
		return p, false, ErrKeyReused
	}
	return stored, true, nil
}

// judge returns why p cannot be stored. Its release judges the rest.
func (d sending) judge(ctx context.Context, p proposal.Proposal, r payment.Request, mayPay bool) error {
	_, impossible := d.possible(ctx, r)
	if errors.Is(impossible, ErrOwnWallet) {
		return impossible
	}
	if !p.Required && !mayPay && !d.expired() {
		return apikey.ErrNotPermitted
	}
	if err := cmp.Or(d.barred(r, p.Required, nil), impossible); err != nil {
		return err
	}
	for i, e := range r.Entries {
		if len(r.Entries) > 1 && disburser.MaxAmount().Less(e.Amount) { // no contract can pay it, and no store keeps it
			return &chain.EntryError{Index: i, Err: ErrAmountAbove}
		}
	}
	if r.Key.Book {
		if err := d.listed(ctx, r); err != nil {
			return err
		}
	}
	if d.expired() {
		return ErrExpired
	}
	return nil
}

// FindProposal returns a merchant's proposal, or ErrNoProposal.
func FindProposal(ctx context.Context, in store.Proposals, o webhook.Owner, id string) (proposal.Proposal, error) {
	of := proposal.Payment(id)
	if of == "" {
		return proposal.Proposal{}, ErrNoProposal
	}
	p, err := in.Proposal(ctx, of)
	held := p.Payment
	if errors.Is(err, store.ErrNotFound) || err == nil && (!held.Proposal || held.Merchant != o.Merchant || held.Mode != o.Mode) {
		return proposal.Proposal{}, ErrNoProposal
	}
	return p, err
}

// changes bounds how often other processes may change a proposal before a request gives up.
const changes = 8

// Approve approves a proposal by a key that pays some assets. A key approves nothing that it, or a rotation of it, has
// proposed. Errors are ErrNoProposal, proposal.ErrOwn, ErrOtherAsset, ErrGuardedBatch and proposal.ErrEnded;
// proposal.ErrBeginning asks to repeat it.
func (s *Proposals) Approve(ctx context.Context, o webhook.Owner, id string, by proposal.Author, pays func(token.Coin) bool) (
	proposal.Proposal, error) {
	p, err := s.change(ctx, o, id, func(p proposal.Proposal) (to proposal.Proposal, err error) {
		switch state := p.Payment.State; {
		case p.By.Root == by.Root:
			return p, proposal.ErrOwn
		case !pays(p.Payment.Coin()):
			return p, ErrOtherAsset
		case state.UsedUp():
			return p, proposal.ErrEnded
		case state == payment.Proposed && !s.Now().Before(p.ExpiresAt()):
			return p.End(payment.Expired, s.Now()), s.unmade(ctx, p.Payment)
		case p.Approver.Key != "" || state.Signed():
			return p, nil
		case by.Limits.Guard > 0 && p.Payment.Entries != nil:
			return p, ErrGuardedBatch
		}
		return p.Approve(by, s.Now()), nil
	})
	if err == nil && p.Payment.State.UsedUp() {
		err = proposal.ErrEnded
	}
	return p, err
}

// Cancel uses a proposal's key up. It returns proposal.ErrReleased if the payment holds a nonce or is signed, and
// proposal.ErrBeginning while a release may be reserving one. After handlerLife it takes back a release without a
// nonce: a handler that reserves one later can never commit it, as the state and the revision have changed.
func (s *Proposals) Cancel(ctx context.Context, o webhook.Owner, id string) (proposal.Proposal, error) {
	return s.change(ctx, o, id, func(p proposal.Proposal) (to proposal.Proposal, err error) {
		switch state := p.Payment.State; {
		case state.UsedUp():
			return p, nil
		case state.Signed():
			return p, proposal.ErrReleased
		}
		return p.End(payment.Cancelled, s.Now()), s.unmade(ctx, p.Payment)
	})
}

// unmade returns an error unless an open proposal can end: its release holds no nonce, and no handler is making its
// payment. It also returns one while restored tables may lack a payment under its key: until a run of this series has
// found the wallets abreast, while another rail is not cleared, or while a wallet is under suspicion.
func (s *Proposals) unmade(ctx context.Context, p payment.Payment) error {
	on, err := s.Of(ctx, p.Coin())
	if err != nil {
		return err
	}
	wallets, err := s.Store.Wallets(ctx, p.Coin())
	compared, unread := s.Store.Compared(ctx, p.Coin())
	others, unknown := on.uncleared(ctx)
	if err := cmp.Or(err, unread, unknown); err != nil {
		return err
	}
	opened, begun := wallets.Working(true), p.State == payment.Prepared
	lost := (len(opened) > 0 || !on.Ephemeral) && !compared.Cleared(s.Now())
	unsure := lost || len(others) > 0 || begun && s.Now().Sub(p.CreatedAt) < handlerLife
	for _, r := range opened {
		w, err := s.Store.Wallet(ctx, r.ID)
		if err != nil && !errors.Is(err, wallet.ErrUnknown) {
			return err
		}
		if _, held := w.Holds(p.ID, p.Revision); held && begun {
			return proposal.ErrReleased
		}
		unsure = unsure || w.Suspect()
	}
	if unsure {
		return proposal.ErrBeginning
	}
	return nil
}

// change stores the result of do, and publishes its event. It begins again if another process was faster.
func (s *Proposals) change(ctx context.Context, o webhook.Owner, id string, do func(proposal.Proposal) (proposal.Proposal, error)) (
	proposal.Proposal, error) {
	for range changes {
		p, err := FindProposal(ctx, s.Store, o, id)
		if err != nil {
			return p, err
		}
		p = s.publish(ctx, p) // first: an event that is published again has the same data then
		to, err := do(p)
		if err == nil && to.Version == p.Version {
			return p, nil
		}
		if err == nil {
			p, err = s.amend(ctx, p, to)
		}
		if !errors.Is(err, store.ErrChanged) {
			return p, err
		}
	}
	return proposal.Proposal{}, proposal.ErrBeginning
}

// amend stores to over from, and publishes its event.
func (s *Proposals) amend(ctx context.Context, from, to proposal.Proposal) (proposal.Proposal, error) {
	if err := s.Store.Amend(ctx, from, to, store.Guard{}); err != nil {
		return from, err
	}
	to.Writes = from.Writes + 1
	return s.publish(ctx, to), nil
}

// publish publishes p's events, and closes p if it has ended. After a failure the next Run does it.
func (s *Proposals) publish(ctx context.Context, p proposal.Proposal) proposal.Proposal {
	to, over := p, p.Payment.State.Signed() || p.Payment.State.UsedUp()
	if to.Event, to.Closed = "", over; p.Event == "" && p.Closed == over {
		return p
	}
	var err error
	for kind := range strings.FieldsSeq(p.Event) {
		o := webhook.Owner{Merchant: p.Payment.Merchant, Mode: p.Payment.Mode}
		err = errors.Join(err, s.Events.Announce(ctx, o, kind, p.UpdatedAt, p.Public()))
	}
	if err == nil {
		to, err = s.amend(ctx, p, to)
	}
	s.warn(ctx, err, "left to the next run", "proposal", proposal.ID(p.Payment.ID))
	if err != nil {
		return p
	}
	return to
}
