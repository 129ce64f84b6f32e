package settlement_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/settlement"
	"remit/internal/stack"
	"remit/internal/token"
	"remit/internal/wallet"
)

// quiet is a node on which nothing is ever mined.
type quiet struct{ chain.Node }

func (quiet) String() string { return "quiet" }

func (quiet) Count(context.Context, token.Address, uint64) (uint64, error) { return 0, nil }

func (quiet) Account(context.Context, token.Address, token.Address, chain.ConfirmationRule) (chain.Account, error) {
	return chain.Account{Head: 9, Final: 7, Steady: true}, nil
}

func (quiet) Send(context.Context, []byte) chain.Reply { return chain.Reply{Class: chain.Accepted} }

// TestBusyWhicheverWalletIsLast: a round is busy as long as one wallet is, in
// whatever order their passes end.
func TestBusyWhicheverWalletIsLast(t *testing.T) {
	now := time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)
	for busy := range 3 {
		store := memory.NewPayments()
		for i := range 3 {
			id := wallet.ID{ChainID: 1, Address: token.Address{byte(i + 1)}}
			err := store.Open(t.Context(), wallet.Wallet{ID: id, Ceiling: 64, Reservations: map[payment.ID]wallet.Reservation{}})
			if err != nil {
				t.Fatal(err)
			}
			if i != busy {
				continue
			}
			pendingTx := wallet.PendingTx{ID: id, Hashes: []chain.Hash{{1}}, Raw: []byte{1}, At: now}
			if err := store.PutNoop(t.Context(), pendingTx); err != nil {
				t.Fatal(err)
			}
		}
		settler := settlement.New(stack.Config{ChainID: 1, BlockTime: time.Second, ReservationAge: time.Minute, BumpAfter: time.Minute},
			settlement.Parts{
				Store: store, Nodes: chain.Nodes{quiet{}}, Log: slog.New(slog.DiscardHandler),
				Now: func() time.Time { return now },
			})
		for range 20 {
			report, err := settler.Round(t.Context(), "run", true)
			if err != nil || !report.Busy || report.Pending != 1 {
				t.Fatalf("wallet %d has a pending transaction: report %+v, error %v", busy, report, err)
			}
		}
	}
}
