package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/simulation/fakechain"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
)

// deaf hears no hints.
type deaf struct{}

func (deaf) Hint(context.Context) error { return nil }

// TestRefusals has every reason for which a payment is not even begun, and
// checks that nothing of it is stored, so that its key is free.
func TestRefusals(t *testing.T) {
	payee, blocked := fakechain.Payee(1), fakechain.Payee(2)
	for _, test := range []struct {
		name   string
		to     token.Address
		amount uint64
		before func(*fakechain.Chain, *fakechain.Keys)
		want   error
	}{
		{"just enough", payee, 10, nil, nil},
		{"as much as is allowed", payee, 500, nil, nil},
		{"below the minimum", payee, 9, nil, dispatch.ErrAmountBelow},
		{"above the maximum", payee, 501, nil, dispatch.ErrAmountAbove},
		{"to a wallet of ours", fakechain.Wallet(0), 10, nil, dispatch.ErrOwnWallet},
		{"to a draining wallet of ours", fakechain.Wallet(1), 10, nil, dispatch.ErrOwnWallet},
		{"to somebody the token refuses", blocked, 10, nil, dispatch.ErrRecipient},
		{"more than the wallet has", payee, 400, nil, dispatch.ErrInsufficient},
		{"while the secret store is down", payee, 10,
			func(_ *fakechain.Chain, k *fakechain.Keys) { k.Down(true) }, dispatch.ErrUnavailable},
		{"while every wallet is draining", payee, 10,
			func(_ *fakechain.Chain, k *fakechain.Keys) { k.Drain(fakechain.Wallet(0)) }, dispatch.ErrUnavailable},
		{"while the node is down", payee, 10,
			func(c *fakechain.Chain, _ *fakechain.Keys) { c.Nodes[0].Down = true }, dispatch.ErrUnavailable},
		{"while the node serves another chain", payee, 10,
			func(c *fakechain.Chain, _ *fakechain.Keys) { c.Nodes[0].OtherChain = true }, dispatch.ErrUnavailable},
		{"while the token pays nobody", payee, 10, func(c *fakechain.Chain, _ *fakechain.Keys) {
			c.Recipients[payee], c.Recipients[fakechain.Wallet(0)] = fakechain.Reverts, fakechain.Reverts
		}, dispatch.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			coin := token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0}}
			fake := fakechain.New(7, coin.Contract, 1, 1)
			fake.Recipients[blocked] = fakechain.Reverts
			keys := &fakechain.Keys{}
			keys.Add(fakechain.Wallet(0))
			keys.Add(fakechain.Wallet(1))
			keys.Drain(fakechain.Wallet(1))
			funds := uint64(1_000)
			if errors.Is(test.want, dispatch.ErrInsufficient) {
				funds = 399
			}
			fake.Fund(fakechain.Wallet(0), token.Units(funds), token.Units(1e18))
			if test.before != nil {
				test.before(fake, keys)
			}
			tables := memory.NewPayments()
			d := dispatch.New(stack.Config{
				ChainID: 7, Token: coin, Network: "n", Window: 4, Minimum: token.Units(10), Maximum: token.Units(500), BlockTime: time.Second,
			}, dispatch.Parts{
				Store: tables, Keys: keys, Nodes: chain.Nodes{fake.Nodes[0]}, Hints: deaf{},
				Log: slog.New(slog.DiscardHandler), Now: time.Now, Draw: func(int) int { return 0 },
			})
			_, err := d.Send(t.Context(), payment.Request{Merchant: "m", Mode: "test", IdempotencyKey: "k", To: test.to, Amount: token.Units(test.amount)})
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			_, err = tables.Payment(t.Context(), payment.KeyID("m", "test", "k"))
			if stored := !errors.Is(err, store.ErrNotFound); stored != (test.want == nil) {
				t.Errorf("stored %v (%v)", stored, err)
			}
		})
	}
}
