package dispatch_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/interpose"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// willing is a node that lets every transfer pass and says what the wallet
// holds.
type willing struct {
	chain.Node
	holds token.Amount
}

func (willing) String() string { return "willing" }

func (willing) Fees(context.Context) (chain.Market, error) {
	return chain.Market{BaseFee: token.Units(10), Tip: token.Units(1)}, nil
}

func (willing) Estimate(context.Context, chain.Call) (uint64, error) { return 50_000, nil }

func (n willing) Account(context.Context, token.Address, token.Address, chain.ConfirmationRule) (chain.Account, error) {
	return chain.Account{Head: 9, Balance: n.holds, Gas: token.Units(1 << 60), Steady: true}, nil
}

// keys are one wallet's, which signs nothing here.
type keys struct{ wallet.Keys }

func (keys) Active(context.Context) ([]token.Address, error) { return []token.Address{{1}}, nil }

func (keys) All(context.Context) ([]token.Address, error) { return []token.Address{{1}}, nil }

func (keys) Signer(context.Context, token.Address) (wallet.Signer, error) { return nil, nil }

// TestRefundsTheDayThatWasCharged: a payment that is refused after midnight
// gives back what it took before, and adds nothing to the new day.
func TestRefundsTheDayThatWasCharged(t *testing.T) {
	midnight := time.Date(2026, time.June, 2, 0, 0, 0, 0, time.UTC)
	clock := midnight.Add(-time.Second)
	tables := &interpose.Store{Store: memory.NewPayments(), Around: func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
		if c.Op == "Reserve" {
			clock = midnight.Add(time.Second)
		}
		apply(ctx)
		return nil
	}}
	limit := token.Units(1000)
	d := dispatch.New(stack.Config{ChainID: 1, Window: 64, Daily: limit}, dispatch.Parts{
		Store: tables, Keys: keys{}, Nodes: chain.Nodes{willing{holds: token.Units(5)}},
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return clock }, Random: rand.Reader,
		Draw: func(int) int { return 0 },
	})
	r := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "k", To: token.Address{9}, Amount: token.Units(600)}
	if _, err := d.Send(t.Context(), r); !errors.Is(err, dispatch.ErrInsufficient) {
		t.Fatalf("Send() = %v, want ErrInsufficient", err)
	}
	for _, day := range []time.Time{midnight.Add(-time.Second), midnight.Add(time.Second)} {
		if err := tables.Charge(t.Context(), "mer_1", "test", limit, limit, day); err != nil {
			t.Errorf("the whole limit on %s: %v", day.Format(time.DateOnly), err)
		}
		if err := tables.Charge(t.Context(), "mer_1", "test", token.Units(1), limit, day); !errors.Is(err, store.ErrDailyLimit) {
			t.Errorf("one more on %s: %v, want ErrDailyLimit", day.Format(time.DateOnly), err)
		}
	}
}
