package local

import (
	"context"
	"log/slog"
	"time"

	"github.com/remit-payouts/remit/internal/payments/settlement"
)

const (
	settlePeriod = time.Minute      // the schedule's
	settleRun    = 55 * time.Second // the function's timeout
	// settlerName is the same for every run: a run that was killed leaves claims
	// on wallets, and the next run must not wait for them to end.
	settlerName = "local"
)

// hints starts a check-receipts run soon. It holds one hint, which stands for any
// number of them.
type hints chan struct{}

func (h hints) Hint(context.Context) error {
	select {
	case h <- struct{}{}:
	default:
	}
	return nil
}

// settleLoop runs check-receipts and refill-wallets once a minute, and soon after every
// hint, until ctx ends.
func settleLoop(ctx context.Context, settler *settlement.Settler, hinted hints, log *slog.Logger) {
	ticker := time.NewTicker(settlePeriod)
	defer ticker.Stop()
	for ctx.Err() == nil {
		run, cancel := context.WithTimeout(ctx, settleRun)
		if _, err := settler.Run(run, settlerName); err != nil && ctx.Err() == nil {
			log.Warn("settling", "err", err)
		}
		if _, err := settler.Refill(run); err != nil && ctx.Err() == nil {
			log.Warn("refilling", "err", err)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-hinted:
		}
	}
}
