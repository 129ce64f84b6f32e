package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/token"
)

// errScreened reports a recipient that the sanctions list or the operator's deny list
// has.
var errScreened = fmt.Errorf("%w: it is on a list", ErrRecipient)

// denyAge is how long a process believes the deny list that it has read. A payment
// pays for no read of it, and a new entry counts after this time at the latest.
const denyAge = 30 * time.Second

// A denyList is the operator's deny list as a process read it last.
type denyList struct {
	mu     sync.Mutex
	at     time.Time
	denied map[token.Address]bool // never changed
}

// allowed returns errScreened for entries of which the operator's deny list has a
// recipient, and ErrUnavailable if the list cannot be read: a payment to a recipient on
// it cannot be taken back.
func (d sending) allowed(ctx context.Context, entries ...payment.Entry) error {
	l, now := &d.denials, d.Now()
	l.mu.Lock()
	denied, age := l.denied, now.Sub(l.at)
	l.mu.Unlock()
	if denied == nil || age < 0 || age >= denyAge {
		all, err := d.Store.Denied(ctx)
		if err != nil {
			return errors.Join(ErrUnavailable, err)
		}
		denied = make(map[token.Address]bool, len(all))
		for _, denial := range all {
			denied[denial.To] = true
		}
		l.mu.Lock()
		l.at, l.denied = now, denied
		l.mu.Unlock()
	}
	if i := slices.IndexFunc(entries, func(e payment.Entry) bool { return denied[e.To] }); i >= 0 {
		return &chain.EntryError{Index: i, Err: errScreened}
	}
	return nil
}

// screened notes a refusal by a list, for the people who answer for it.
func (d sending) screened(ctx context.Context, r payment.Request, refusal error) {
	if errors.Is(refusal, errScreened) {
		to, _ := place(refusal)
		d.Log.WarnContext(ctx, "recipient refused", "to", r.Outputs()[to].To, "merchant", r.Merchant, "list", map[bool]string{true: "sanctions", false: "deny"}[errors.Is(refusal, chain.ErrListed)])
	}
}

// screen returns why p, which is stored, could not be begun now: a list has a recipient of
// it or does not answer, or its transfer does not pass.
func (d sending) screen(ctx context.Context, p payment.Payment) error {
	if err := d.allowed(ctx, p.Outputs()...); err != nil {
		return err
	}
	_, err := d.simulate(ctx, walletOf(p), p)
	return err
}
