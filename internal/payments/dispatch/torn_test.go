package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// A copy has the place of a proposal that it lacks.
type placed struct{ dispatch.Store }

func (s placed) Due(context.Context, time.Time, int) ([]store.DueProposal, error) {
	id := payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey)
	return []store.DueProposal{{Merchant: asked.Merchant, Mode: asked.Mode, ID: id}}, nil
}

// A request under its key crashed before it held a nonce: no run pays that.
func TestTornPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, down("Reserve"))
		d.ask("k")
		d.Pass(time.Hour)
		d.Rails.Store = placed{d.Rails.Store}
		released, _, _ := d.Run(t.Context())
		if got := d.stored().State; got != payment.Prepared || released > 0 {
			t.Errorf("it is %s, and %d released", got, released)
		}
	})
}

// down is a script in which a process gives up.
func down(op string) script {
	s := script{}
	for n := range 8 {
		s[fmt.Sprint(op, "#", n+1)] = func(*process) error { return porttest.ErrBroken }
	}
	return s
}

// A copy has a payment's pending transaction and its reservation, and the payment as prepared.
func TestTornCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, down("Commit"))
		p.ask("k")
		held := p.stored()
		nonce := p.Record(walletOf(held.Wallet)).Reservations[held.ID].Nonce
		signed := must.Get(p.Quiet().Sign(t.Context(), held.Tx, nonce))(t)
		p.Must(p.Tables.PutNoop(t.Context(), store.PendingTxOf(must.Get(held.Commit(signed, p.Now()))(t))))
		p.Pass(time.Hour)
		start(t, p.Tables, nil).ask("k")
		if now := p.stored(); now.State.Signed() {
			t.Errorf("two signed transactions, at nonces %d and %d", nonce, now.Nonce)
		}
	})
}

// A copy has the record of one wallet, which is suspect, and not that its registration was opened; no other has one.
func TestTornSuspect(t *testing.T) {
	p := newProcess(t, nil)
	p.Must(p.Tables.Open(t.Context(), wallet.Wallet{ID: walletOf(first), NextNonce: 1, Ceiling: 4, Balance: unit(1000),
		Gas: unit(1 << 60), Paused: wallet.Suspicion + ": 1 transactions are mined"}, porttest.Rail.Token.Contract))
	p.mined, p.idle = 1, second
	p.Tables.TearOpen(walletOf(first))
	p.ask("k").is("while the chain is ahead", dispatch.ErrUnavailable)
}
