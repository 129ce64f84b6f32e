package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// A slowPayer calls during for each request.
type slowPayer struct{ during func() }

func (p slowPayer) Send(context.Context, payment.Request) (dispatch.Result, error) {
	p.during()
	return dispatch.Result{}, nil
}

// A deaf is a store that counts no places.
type deaf struct{ store.Places }

func (deaf) Take(context.Context, store.Place, time.Time, int) error { return errors.New("no answer") }
func (deaf) Leave(context.Context, store.Place) error                { return errors.New("no answer") }

// TestTurnstile: a merchant has so many requests under way and no more, others have theirs.
func TestTurnstile(t *testing.T) {
	now, ids, depth := time.Unix(1_000_000, 0), 'a', 0
	var turns dispatch.Turnstile
	ask := func(merchant string) error {
		return must.Err(turns.Send(t.Context(), payment.Request{Merchant: merchant}))
	}
	busy := func(want bool, merchant string) {
		t.Helper()
		if err := ask(merchant); errors.Is(err, dispatch.ErrBusy) != want || err != nil && !want {
			t.Errorf("%s with %d requests of mer_1 under way: %v, want busy: %t", merchant, depth, err, want)
		}
	}
	during := func() {}
	turns = dispatch.Turnstile{
		To: slowPayer{func() { during() }}, Places: memory.NewPayments(), Most: 2,
		NewID: func() string { ids++; return string(ids) }, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}
	during = func() {
		switch depth++; depth {
		case 1:
			busy(false, "mer_1")
		case 2:
			busy(true, "mer_1")
			busy(false, "mer_2")
		}
	}
	busy(false, "mer_1")
	during = func() {}
	busy(false, "mer_1") // both places were given back
	turns.Places = deaf{}
	busy(false, "mer_1") // nobody counts
	turns.Most, turns.Places = 0, nil
	busy(false, "mer_1") // there is no limit
}

// TestCrowd: a process remembers a thousand merchants that had too many payments pending, however many there are.
func TestCrowd(t *testing.T) {
	for added, want := range map[int]int{1: 1, 1000: 1000, 1001: 1, 2500: 500} {
		if got := dispatch.Crowded(added); got != want {
			t.Errorf("of %d merchants %d are held, want %d", added, got, want)
		}
	}
}
