package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// countMined counts the wallet's mined nonces, and publishes payment.mined for each payment that the last round did not
// count. Later writes store p.seen: after a crash in between, the next run publishes the same events again. A nonce
// whose event cannot be published does not count: p.seen.Mined stops there or, if it has a no-op, p.seen.Paid omits it.
// While too few nodes answer, the last count stays. The count never rises past a payment that the pass does not know.
func (p *pass) countMined(ctx context.Context, receipts chain.Mined) error {
	last := *cmp.Or(p.last, &p.wallet.Progress)
	counted := last.Mined
	if p.heads().Enough(len(p.views), p.final().silent) {
		counted = p.Nodes.Counted(p.views, p.final().silent)
	}
	p.seen = &wallet.Progress{Mined: min(counted, max(last.Mined, p.knownBelow()))}
	for _, view := range p.views {
		p.seen.Sent = max(p.seen.Sent, view.Pending)
	}
	beyond := func(tx wallet.PendingTx) bool { return tx.Nonce >= p.seen.Mined }
	mined := slices.DeleteFunc(slices.Clone(p.pendingTxs), beyond)
	return abreast(mined, func(tx wallet.PendingTx) error {
		counts, err := p.count(ctx, tx, last, receipts)
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case !tx.HasNoop && !counts:
			p.seen.Mined = min(p.seen.Mined, tx.Nonce)
		case tx.HasNoop && counts && len(p.seen.Paid) < wallet.MaxInFlight:
			p.seen.Paid = append(p.seen.Paid, tx.Nonce)
		}
		if err != nil {
			return fmt.Errorf("publishing that nonce %d is mined: %w", tx.Nonce, err)
		}
		return nil
	})
}

// knownBelow returns the nonce below which the pass knows every payment that has not ended. At a reserved nonce a
// handler may have committed a payment since the pass read the wallet, and an unreadable item may have any nonce.
func (p *pass) knownBelow() uint64 {
	if p.report.Unreadable > 0 {
		return 0
	}
	below := p.wallet.NextNonce
	for _, r := range p.wallet.Reservations {
		if p.pending(r.Nonce) < 0 {
			below = min(below, r.Nonce)
		}
	}
	return below
}

// count reports whether the payment at a mined nonce counts as mined, and publishes that unless the last round did.
func (p *pass) count(ctx context.Context, tx wallet.PendingTx, last wallet.Progress, receipts chain.Mined) (bool, error) {
	if tx.HasNoop {
		if paid, err := p.paid(ctx, tx, receipts); err != nil || !paid {
			return false, err
		}
	}
	switch {
	case last.IsMined(tx.Nonce, tx.HasNoop):
		return true, nil
	case p.short(ctx, 0):
		return false, nil
	}
	return p.publishMined(ctx, tx.Merchant, tx.Payment, tx.HasNoop)
}

// paid reports whether enough nodes have a receipt of a paying attempt of tx, whose nonce also has a no-op.
func (p *pass) paid(ctx context.Context, tx wallet.PendingTx, receipts chain.Mined) (bool, error) {
	stored, err := p.Store.Payment(ctx, tx.Payment)
	return err == nil && slices.ContainsFunc(stored.Attempts, func(a payment.Attempt) bool {
		return !a.Noop && p.heads().Enough(receipts.Seen[a.Hash], p.final().silent)
	}), err
}

// publishMined publishes payment.mined if a webhook of the merchant names it, and reports whether the payment counts as
// mined. It first stores the event's time, unless one is stored, so that all runs publish the same bytes. If paid is
// false and the payment now has a no-op, it does not count: the no-op may be the mined attempt.
func (p *pass) publishMined(ctx context.Context, merchant string, id payment.ID, paid bool) (bool, error) {
	if id == "" || merchant == "" || merchant == payment.Operator {
		return true, nil
	}
	if is := p.namedBy(ctx, merchant); is.err != nil || !is.named {
		return is.err == nil, is.err
	}
	stored, err := p.Store.SetMined(ctx, id, p.Now())
	switch {
	case errors.Is(err, store.ErrChanged):
		return true, nil // another run has published this event, and ended the payment
	case err != nil:
		return false, err
	case stored.HasNoop() && !paid:
		return false, nil
	}
	e, err := stored.Mined()
	if err != nil {
		return false, fmt.Errorf("writing that %s is mined: %w", id, err)
	}
	err = p.publish(ctx, stored, e, stored.MinedAt)
	return err == nil, err
}

func (p *pass) publish(ctx context.Context, of payment.Payment, e payment.Event, at time.Time) error {
	return p.Events.Publish(ctx, webhook.Event{Merchant: of.Merchant, Mode: of.Mode, ID: e.ID, Type: e.Type, At: at, Body: e.Body})
}

// A named is the answer of Events.Named for payment.mined.
type named struct {
	named bool
	err   error
}

// namedBy returns whether a merchant's webhook names payment.mined. It asks once in a pass, after the nodes have
// answered, so it misses no webhook that was there before the payment was mined.
func (p *pass) namedBy(ctx context.Context, merchant string) named {
	p.mu.Lock()
	if p.named == nil {
		p.named = map[string]func() named{}
	}
	if p.named[merchant] == nil {
		p.named[merchant] = async(func() (is named) {
			is.named, is.err = p.Events.Named(ctx, webhook.Owner{Merchant: merchant, Mode: p.Mode}, webhook.PaymentMined)
			return is
		})
	}
	read := p.named[merchant]
	p.mu.Unlock()
	return read()
}

func (p *pass) setWaits(why payment.Progress) {
	if p.seen != nil {
		p.seen.Waits = why
	}
}
