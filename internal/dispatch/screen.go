package dispatch

import (
	"context"
	"errors"
	"fmt"
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

// allowed returns errScreened for a recipient on the operator's deny list, and
// ErrUnavailable if the list cannot be read: a payment to a recipient on it cannot be
// taken back.
func (d sending) allowed(ctx context.Context, to token.Address) error {
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
	if denied[to] {
		return errScreened
	}
	return nil
}

// screened notes a refusal by a list, for the people who answer for it.
func (d sending) screened(ctx context.Context, r payment.Request, refusal error) {
	if errors.Is(refusal, errScreened) {
		d.Log.WarnContext(ctx, "recipient refused", "to", r.To, "merchant", r.Merchant, "list", map[bool]string{true: "sanctions", false: "deny"}[errors.Is(refusal, chain.ErrListed)])
	}
}
