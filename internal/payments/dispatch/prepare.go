package dispatch

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// prepare does everything that can fail before anything is stored: limits, repeat guard, fee quote, simulation, key,
// wallet. Its only effect is that guarded may discard similar payments.
func (d sending) prepare(ctx context.Context, id payment.ID, r payment.Request) (offer payment.Payment, g store.Guard, err error) {
	wallets, err := d.possible(ctx, r)
	if err != nil {
		return offer, g, err
	}
	for i, e := range r.Outputs() {
		if err := d.bounds(r, e.Amount); err != nil {
			return offer, g, &chain.EntryError{Index: i, Err: err}
		}
	}
	if r.Key.Book {
		if err := d.listed(ctx, r); err != nil {
			return offer, g, err
		}
	}
	if err := d.allowed(r.Outputs()...); err != nil {
		return offer, g, err
	}
	var newest payment.Payment
	if r.Key.Guard > 0 {
		if g, newest, err = d.guarded(ctx, id, r); err != nil {
			return offer, g, err
		}
	}
	now := d.Now()
	if newest.CreatedAt.After(now) { // clocks differ: a guard's newest payment has the latest time
		now = newest.CreatedAt
	}
	offer = payment.New(id, r, d.Token, d.Network, now)
	if len(r.Entries) > 1 {
		offer.BatchContract = d.BatchContract
	}
	if d.owner == "" && d.crowd.has(r.Merchant, d.Now()) {
		return offer, g, ErrTooMany
	}
	offer, err = d.assign(ctx, wallets, offer)
	return offer, g, err
}

// possible returns the rail's wallets. It returns ErrOwnWallet if a recipient is a wallet of any rail, even a retired
// one, whose key may be lost or public; and ErrNoBatches for a batch if the stack has no contract for them.
func (d sending) possible(ctx context.Context, r payment.Request) (wallet.Registry, error) {
	wallets, err := d.registry(ctx, d.registryAge())
	all := []wallet.Registry{wallets}
	others, failed := d.others(ctx)
	for _, o := range others { // each caches its registry
		registry, unread := o.registry(ctx, o.registryAge())
		all, failed = append(all, registry), cmp.Or(failed, unread)
	}
	if err = cmp.Or(err, failed); err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	for i, e := range r.Outputs() {
		for _, registry := range all {
			if _, own := registry.Find(e.To); own {
				return nil, &chain.EntryError{Index: i, Err: ErrOwnWallet}
			}
		}
	}
	if r.Entries != nil && d.BatchContract.IsZero() {
		return nil, ErrNoBatches
	}
	return wallets, nil
}

// bounds returns ErrAmountBelow or ErrAmountAbove unless r's payments may have the amount.
func (d sending) bounds(r payment.Request, amount token.Amount) error {
	maximum := cmp.Or(r.Key.MerchantMaximum, d.Maximum)
	switch {
	case amount.Less(d.Minimum):
		return ErrAmountBelow
	case !maximum.IsZero() && maximum.Less(amount), !r.Key.Maximum.IsZero() && r.Key.Maximum.Less(amount),
		len(r.Entries) > 1 && disburser.MaxAmount().Less(amount):
		return ErrAmountAbove
	}
	return nil
}

// needsApproval reports whether r's amount is above its key's ApproveAbove, or the rail's.
func (d sending) needsApproval(r payment.Request) bool {
	return slices.ContainsFunc([]token.Amount{r.Key.ApproveAbove, d.ApproveAbove}, func(most token.Amount) bool {
		return !most.IsZero() && most.Less(r.Amount)
	})
}

// bookReads is how many recipients of a batch are looked up in an address book at once.
const bookReads = 20

// listed returns ErrNotInBook unless every recipient of r is an active entry of its merchant's address book.
func (d sending) listed(ctx context.Context, r payment.Request) error {
	active := make([]bool, len(r.Outputs()))
	var asked errgroup.Group
	asked.SetLimit(bookReads)
	for i, e := range r.Outputs() {
		asked.Go(func() (err error) {
			active[i], err = d.Book.Active(ctx, r.Merchant, r.Mode, e.To, d.Now())
			return err
		})
	}
	if err := asked.Wait(); err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if i := slices.Index(active, false); i >= 0 {
		return &chain.EntryError{Index: i, Err: ErrNotInBook}
	}
	return nil
}

// assign returns offer with a wallet that can pay it, and its transaction there.
func (d sending) assign(ctx context.Context, wallets wallet.Registry, offer payment.Payment) (payment.Payment, error) {
	var blocked []wallet.ID
	var tried []token.Address
	need := wallet.Need{Amount: offer.Amount, Owner: d.owner}
	ids, refusals := d.candidates(ctx, wallets, need, nil)
	for len(ids) > 0 {
		if len(tried) == tries {
			refusals = append(refusals, errMore)
			break
		}
		w := ids[0]
		ids, tried = ids[1:], append(tried, w.Address)
		var held errgroup.Group // reads or tries the key, unless it is in memory
		held.Go(func() error {
			_, err := d.ready(ctx, w.Address)
			return err
		})
		tx, err := d.simulate(ctx, w, offer)
		keyErr := held.Wait()
		switch {
		case errors.Is(err, errBlocked):
			blocked = append(blocked, w)
		case errors.Is(err, errUnapproved):
			d.Log.WarnContext(ctx, "wallet pays no batches", "wallet", w.Address, "err", err)
		case errors.Is(err, ErrInsufficient): // another may have more
		case err != nil:
			return payment.Payment{}, err
		case keyErr != nil: // another wallet's key may be in reach
			err = d.keyless(ctx, w, keyErr)
		default:
			d.pool.EndCooldown(w)
			d.coolDown(ctx, blocked)
			return offer.AssignedTo(w.Address, tx), nil
		}
		if len(tried) == 1 { // the records of the others may be unread, or old
			ids, refusals = d.candidates(ctx, wallets, need, tried)
		}
		refusals = append(refusals, err)
	}
	if len(blocked) > 0 {
		return payment.Payment{}, d.refusedMemo(ctx, blocked[0], offer, unable(refusals))
	}
	return payment.Payment{}, unable(refusals)
}

func walletOf(p payment.Payment) wallet.ID {
	return wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
}
