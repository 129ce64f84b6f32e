package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// ErrBusy reports that a merchant has as many requests under way as it may have. Nothing
// was looked up or started.
var ErrBusy = errors.New("too many requests of this merchant are under way")

// leaving bounds the time for giving a place back. A place that stays ends by itself.
const leaving = 2 * time.Second

// A Turnstile lets a merchant's requests through to a payer until it has Most of them under
// way, so that one merchant cannot take every process of a function.
type Turnstile struct {
	To interface {
		Send(ctx context.Context, r payment.Request) (Result, error)
	}
	Places store.Places
	Most   int // 0: no limit
	NewID  func() string
	Now    func() time.Time
	Log    *slog.Logger
}

// Send sends r, or returns ErrBusy. A request that cannot find out whether there is a place
// goes through: the limit protects others' requests and no money.
func (t Turnstile) Send(ctx context.Context, r payment.Request) (Result, error) {
	if t.Most == 0 {
		return t.To.Send(ctx, r)
	}
	place := store.Place{Merchant: r.Merchant, ID: t.NewID(), Until: t.Now().Add(handlerLife)}
	err := t.Places.Take(ctx, place, t.Now(), t.Most)
	if errors.Is(err, store.ErrFull) {
		return Result{}, ErrBusy
	}
	if err != nil {
		t.Log.WarnContext(ctx, "places not counted", "err", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
		defer cancel()
		Parts{Log: t.Log}.warn(ctx, t.Places.Leave(ctx, place), "place kept until its end")
	}()
	return t.To.Send(ctx, r)
}
