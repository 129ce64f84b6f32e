package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/remit-payouts/remit/internal/payments/store"
)

// ErrBusy reports that a merchant has its maximum of requests under way. Nothing was started.
var ErrBusy = errors.New("too many requests of this merchant are under way")

// leaving bounds the time for giving a place back. Unreturned places expire.
const leaving = 2 * time.Second

// A Turnstile lets at most Most requests of a merchant through at once, so that one merchant cannot occupy every
// process of a function.
type Turnstile struct {
	Places store.Places
	Most   int // 0: no limit
	NewID  func() string
	Now    func() time.Time
	Log    *slog.Logger
}

// enter takes a place, which leave gives back, or returns ErrBusy. It lets a merchant through if it cannot count the
// requests: the limit protects other merchants' requests, not money.
func (t Turnstile) enter(ctx context.Context, merchant string) (leave func(), err error) {
	if t.Most == 0 {
		return func() {}, nil
	}
	place := store.Place{Merchant: merchant, ID: t.NewID(), Until: t.Now().Add(handlerLife)}
	err = t.Places.Take(ctx, place, t.Now(), t.Most)
	if errors.Is(err, store.ErrFull) {
		return nil, ErrBusy
	}
	if err != nil {
		t.Log.WarnContext(ctx, "places not counted", "err", err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
		defer cancel()
		Parts{Log: t.Log}.warn(ctx, t.Places.Leave(ctx, place), "place kept until its end")
	}, nil
}
