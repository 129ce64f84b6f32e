package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// A payer calls itself for each request.
type payer func()

func (p payer) Send(context.Context, payment.Request) (dispatch.Result, error) {
	p()
	return dispatch.Result{}, nil
}

// A deaf is a store that counts no places.
type deaf struct{ store.Places }

func (deaf) Take(context.Context, store.Place, time.Time, int) error { return porttest.ErrBroken }
func (deaf) Leave(context.Context, store.Place) error                { return porttest.ErrBroken }

// TestTurnstile: a merchant has so many requests under way and no more, others have theirs.
func TestTurnstile(t *testing.T) {
	now, ids, depth := time.Unix(1_000_000, 0), 'a', 0
	turns := dispatch.Turnstile{Places: memory.NewPayments(), Most: 2, NewID: func() string { ids++; return string(ids) },
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	ask := func(merchant string, want error) {
		t.Helper()
		if err := must.Err(turns.Send(t.Context(), payment.Request{Merchant: merchant})); !errors.Is(err, want) {
			t.Errorf("%s with %d requests of mer_1 under way: %v, want %v", merchant, depth, err, want)
		}
	}
	turns.To = payer(func() {
		switch depth++; depth {
		case 1:
			ask("mer_1", nil)
		case 2:
			ask("mer_1", dispatch.ErrBusy)
			ask("mer_2", nil)
		}
	})
	ask("mer_1", nil)
	ask("mer_1", nil) // both places were given back
	turns.Places = deaf{}
	ask("mer_1", nil) // nobody counts
	turns.Most, turns.Places = 0, nil
	ask("mer_1", nil) // there is no limit
}

// TestWorstCaseIsKept: transfers are executed within the gas of a transfer to a stranger. One
// request in 15 seconds estimates it, beside its payment; if it cannot, the old value serves for 30
// in all. A dearer recipient is estimated, and paid. A process that pays less often only estimates.
func TestWorstCaseIsKept(t *testing.T) {
	const calm, forked = 50_000 + 12*43, 150_000 + 12*43 // so many bytes of such a transfer are zero
	p := newProcess(t, script{})
	p.d.ByCall = true
	dear, stranger := token.Address{0xde}, token.Address(slices.Repeat([]byte{0xff}, 20))
	p.costs = map[token.Address]uint64{dear: 400_000}
	for i, step := range []struct {
		why   string
		after time.Duration
		to    token.Address
		cost  uint64 // of a transfer to a stranger from now on; 1: the token refuses it
		want  []string
		gas   uint64
	}{
		{"the first payment is estimated", time.Hour, asked.To, 50_000, []string{"09 0"}, 50_000},
		{"so is the second, beside the worst case", 14 * time.Second, asked.To, 0, []string{"09 0", "ff 0"}, 50_000},
		{"then there is one", time.Second, asked.To, 0, []string{"09 50516"}, calm},
		{"a dear recipient", time.Second, dear, 0, []string{"de 50516"}, 400_000},
		{"the chain forks", 12999 * time.Millisecond, asked.To, 150_000, []string{"09 50516"}, calm},
		{"and is followed", time.Millisecond, asked.To, 0, []string{"09 50516", "ff 0"}, calm},
		{"from the next payment on", 0, asked.To, 0, []string{"09 150516"}, forked},
		{"it lasts", 14 * time.Second, asked.To, 0, []string{"09 150516"}, forked},
		{"and cannot be estimated again", time.Second, asked.To, 1, []string{"09 150516", "ff 0"}, forked},
		{"which holds for a while", 14 * time.Second, asked.To, 0, []string{"09 150516"}, forked},
		{"and is tried again, once", time.Second, asked.To, 0, []string{"09 0", "ff 0"}, 50_000},
		{"a process that pays now and then", 30 * time.Second, asked.To, 0, []string{"09 0"}, 50_000},
		{"estimates", 15 * time.Second, asked.To, 0, []string{"09 0"}, 50_000},
	} {
		p.Pass(step.after)
		p.executed, p.mined = nil, uint64(i)
		if step.cost > 0 {
			p.costs[stranger], p.refuses = step.cost, nil
		}
		if step.cost == 1 {
			p.refuses = []token.Address{stranger}
		}
		made := p.ask(fmt.Sprint(i), func(r *payment.Request) { r.To = step.to }).is(step.why, nil).Payment
		slices.Sort(p.executed)
		if !slices.Equal(p.executed, step.want) || made.Tx.Gas != chain.GasLimit(step.gas) {
			t.Errorf("%s: %q, signed with %d; want %q with %d", step.why, p.executed, made.Tx.Gas, step.want, chain.GasLimit(step.gas))
		}
	}
}
