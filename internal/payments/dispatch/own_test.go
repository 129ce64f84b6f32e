package dispatch_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// own is a wallet of mer_1 alone.
var own = token.Address{0x77}

// owning returns a process with two common wallets, and one that is mer_1's.
func owning(t *testing.T, s script) *process {
	p := newProcess(t, s)
	p.Must(p.Tables.Register(t.Context(), wallet.Registration{ID: walletOf(own), Token: porttest.Rail.Token.Contract,
		State: wallet.Assigned, Key: wallet.InSecret, Merchant: asked.Merchant}))
	return p
}

// payFor sends asked under a key of its own for a merchant, with wallets of its own or without.
func (p *process) payFor(merchant, key string, own bool) (payment.Payment, error) {
	r := asked
	r.Merchant, r.IdempotencyKey, r.Key.OwnWallets = merchant, key, own
	result, err := p.d.Send(p.T.Context(), r)
	return result.Payment, err
}

// assign gives a wallet to a merchant, or takes it back, as an operator does.
func (p *process) assign(a token.Address, merchant string) {
	p.T.Helper()
	ctx, from := context.Background(), wallet.Active
	if merchant == "" {
		from = wallet.Assigned
	}
	p.Must(cmp.Or(p.Tables.SetState(ctx, walletOf(a), from, wallet.Draining, p.Now()),
		p.Tables.Assign(ctx, p.Record(walletOf(a)), merchant, p.Now())))
}

// TestOwnWallets: a merchant with own wallets spends those alone, and no other merchant does.
func TestOwnWallets(t *testing.T) {
	for name, test := range map[string]struct {
		before   func(p *process)
		merchant string
		own      bool
		want     token.Address // zero: refused
		err      error
	}{
		"its own":                     {nil, "mer_1", true, own, nil},
		"another's common":            {nil, "mer_2", false, first, nil},
		"common, as its terms say so": {nil, "mer_1", false, first, nil},
		"no own wallet is left":       {func(p *process) { p.assign(own, "") }, "mer_1", true, token.Address{}, dispatch.ErrUnavailable},
		"it is empty":                 {func(p *process) { p.poor = own }, "mer_1", true, token.Address{}, dispatch.ErrInsufficient},
		"it is paused":                {func(p *process) { p.Must(pause(own)(p)) }, "mer_1", true, token.Address{}, dispatch.ErrUnavailable},
		"it is draining": {func(p *process) {
			p.Must(p.Tables.SetState(context.Background(), walletOf(own), wallet.Assigned, wallet.Draining, p.Now()))
		}, "mer_1", true, token.Address{}, dispatch.ErrUnavailable},
		"the common ones are paused": {func(p *process) { p.Must(cmp.Or(pause(first)(p), pause(second)(p))) }, "mer_2", false, token.Address{},
			dispatch.ErrUnavailable},
		"over the merchant's cap": {func(p *process) { p.set(func(s *settings.Settings) { s.MerchantCap = 1 }) }, "mer_1", true, own, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := owning(t, script{})
			must.Get(p.payFor("mer_1", "first", true))(t) // opens the wallets
			p.Pass(time.Hour)
			if test.before != nil {
				p.Must(p.Tables.RaiseCeiling(t.Context(), walletOf(own), 9))
				test.before(p)
			}
			got, err := p.payFor(test.merchant, "k", test.own)
			of := map[bool]string{true: test.merchant}[got.Wallet == own]
			if got.Wallet != test.want || !errors.Is(err, test.err) || got.WalletOf != of || errors.Is(err, dispatch.ErrTooMany) {
				t.Errorf("from %x of %q: %v", got.Wallet[:1], got.WalletOf, err)
			}
		})
	}
}

// TestAnAssignmentThatAProcessDoesNotKnow: its registry is from before, and the records decide.
func TestAnAssignmentThatAProcessDoesNotKnow(t *testing.T) {
	p := newProcess(t, script{})
	must.Get(p.payFor("mer_2", "before", false))(t)
	p.Must(p.Tables.Release(t.Context(), payment.KeyID("mer_2", "test", "before"), wallet.PendingTx{ID: walletOf(first)}))
	p.draining = []token.Address{first}
	p.assign(first, "mer_1")
	p.keys, p.draining = p.keys[1:], nil
	p.Pass(3 * time.Second)
	for key, want := range map[string]token.Address{"a": second, "b": second} {
		if got, err := p.payFor("mer_2", key, false); got.Wallet != want || err != nil {
			t.Errorf("another merchant's: from %x, %v", got.Wallet[:1], err)
		}
	}
	if got, err := p.payFor("mer_1", "own", true); got.Wallet != first || err != nil { // it reads the registry anew
		t.Errorf("its own: from %x, %v", got.Wallet[:1], err)
	}
	p.Must(pause(second)(p))
	if got, err := p.payFor("mer_2", "c", false); !errors.Is(err, dispatch.ErrUnavailable) {
		t.Errorf("without a common wallet: from %x, %v", got.Wallet[:1], err)
	}
	p.assign(first, "")
	if got, err := p.payFor("mer_1", "late", true); !errors.Is(err, dispatch.ErrUnavailable) {
		t.Errorf("of a wallet that was taken back: from %x, %v", got.Wallet[:1], err)
	}
}

// TestAnAssignmentHoldsAtOnce for its merchant, also in a process whose registry is from before.
func TestAnAssignmentHoldsAtOnce(t *testing.T) {
	p := newProcess(t, script{})
	must.Get(p.payFor("mer_2", "before", false))(t)
	p.Must(p.Tables.Register(t.Context(), wallet.Registration{ID: walletOf(own), Token: porttest.Rail.Token.Contract,
		State: wallet.Assigned, Key: wallet.InSecret, Merchant: "mer_1"}))
	p.Pass(3 * time.Second)
	if got, err := p.payFor("mer_1", "own", true); got.Wallet != own || err != nil {
		t.Errorf("from %x, %v", got.Wallet[:1], err)
	}
}

// TestAnOwnWalletIsRefilledWithEtherOnly, and an operator may move its coins.
func TestAnOwnWalletIsRefilledWithEtherOnly(t *testing.T) {
	p := owning(t, script{})
	must.Get(p.payFor("mer_1", "first", true))(t)
	p.keys = append(p.keys, funding)
	p.Pass(time.Hour)
	p.set(func(s *settings.Settings) {
		s.Refills = settings.Refills{Token: settings.Refill{Amount: token.Units(5)}, Ether: settings.Refill{Amount: token.Units(5)}}
	})
	for _, ether := range []bool{true, false} {
		if err := p.d.Refill(t.Context(), own, ether, 9); ether != (err == nil) {
			t.Errorf("ether %t: %v", ether, err)
		}
	}
	moved, err := p.d.Move(t.Context(), dispatch.Transfer{Key: "sweep", Mode: "test", From: own, To: token.Address{8}, Amount: token.Units(5)})
	if w := p.Record(walletOf(own)); err != nil || len(w.Reservations) == 0 {
		t.Errorf("moved %+v: %v", moved, err)
	}
}
