package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

const (
	// tries is the most wallets that a request simulates or reserves at, however many there are.
	tries = 4
	// surveyAge is how long the records of a survey count as current: a flood of requests that no
	// wallet can pay costs one read of each wallet a second.
	surveyAge = time.Second
	// surveyReads is how many records a survey reads at once.
	surveyReads = 20
)

var errMore = fmt.Errorf("%w: other wallets may be able to pay", ErrUnavailable)

// candidates returns the wallets to try for a need, apart from tried: first those whose records can pay. It leaves out
// other merchants' wallets, and wallets whose record has too little of the token; it returns the refusals of the
// latter. It reads all records if none that it knows can pay, or after a try has failed.
func (d sending) candidates(ctx context.Context, wallets wallet.Registry, need wallet.Need,
	tried []token.Address) (ids []wallet.ID, refusals []error) {
	for _, id := range d.pool.Choose(d.ChainID, wallets.Paying(d.owner), need.Amount, d.Now()) {
		if !slices.Contains(tried, id.Address) {
			ids = append(ids, id)
		}
	}
	able := func(id wallet.ID) bool { return d.pool.Refusal(id, need) == nil }
	if len(tried) > 0 || !slices.ContainsFunc(ids, able) {
		d.survey(ctx, ids)
	}
	var first, last []wallet.ID
	for _, id := range ids {
		switch err := d.pool.Refusal(id, need); {
		case err == nil:
			first = append(first, id)
		case errors.Is(err, wallet.ErrOwner): // the registry is older than its record
		case errors.Is(err, wallet.ErrToken):
			refusals = append(refusals, err)
		default: // its window may have moved, or its pause ended
			last = append(last, id)
		}
	}
	return slices.Concat(first, last), refusals
}

// survey reads the records of wallets, unless it has within surveyAge. One that cannot be read stays as it was.
func (d sending) survey(ctx context.Context, ids []wallet.ID) {
	began := d.Now()
	d.mu.Lock()
	recent := !d.surveyed.IsZero() && began.Sub(d.surveyed).Abs() < surveyAge
	d.mu.Unlock()
	if recent {
		return
	}
	var reads errgroup.Group
	reads.SetLimit(surveyReads)
	for _, id := range ids {
		reads.Go(func() error {
			if w, err := d.Store.Wallet(ctx, id); err == nil {
				d.pool.Observe(w)
			}
			return nil
		})
	}
	_ = reads.Wait() // no read returns an error
	d.mu.Lock()
	d.surveyed = began // only now, so that no concurrent request relies on older records
	d.mu.Unlock()
}
