package dispatch_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/stack"
	"remit/internal/token"
)

// roundTrip is how far away a node is.
const roundTrip = 50 * time.Millisecond

// distant is a node that is a round trip away.
type distant struct{ willing }

func (n distant) Account(ctx context.Context, a, coin token.Address, f chain.ConfirmationRule) (chain.Account, error) {
	time.Sleep(roundTrip)
	return n.willing.Account(ctx, a, coin, f)
}

// many are the keys of sixteen wallets.
type many struct{ keys }

func (many) All(context.Context) ([]token.Address, error) {
	all := make([]token.Address, 16)
	for i := range all {
		all[i] = token.Address{1, byte(i)}
	}
	return all, nil
}

func (m many) Active(ctx context.Context) ([]token.Address, error) { return m.All(ctx) }

// TestStartupCheckAsksForAllWalletsAtOnce: a cold process with sixteen wallets waits
// for the node as long as one with a single wallet does: a round trip to open
// them, and one when they are known.
func TestStartupCheckAsksForAllWalletsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewPayments()
		tooMuch := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "k", To: token.Address{9}, Amount: token.Units(600)}
		for _, how := range []string{"opens them", "knows them"} {
			d := dispatch.New(stack.Config{ChainID: 1, Window: 64}, dispatch.Parts{
				Store: store, Keys: many{}, Nodes: chain.Nodes{distant{willing{holds: token.Units(5)}}},
				Log: slog.New(slog.DiscardHandler), Now: time.Now, Random: rand.Reader, Draw: func(int) int { return 0 },
			})
			began := time.Now()
			if _, err := d.Send(t.Context(), tooMuch); !errors.Is(err, dispatch.ErrInsufficient) {
				t.Fatalf("Send() = %v, want ErrInsufficient", err)
			}
			if took := time.Since(began); took > roundTrip {
				t.Errorf("a process that %s took %v, want %v", how, took, roundTrip)
			}
		}
	})
}
