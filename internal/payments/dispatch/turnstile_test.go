package dispatch_test

import (
	"context"
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
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// A deaf is a store that counts no places.
type deaf struct{ store.Places }

func (deaf) Take(context.Context, store.Place, time.Time, int) error { return porttest.ErrBroken }
func (deaf) Leave(context.Context, store.Place) error                { return porttest.ErrBroken }

// TestTurnstile: a merchant has so many requests under way and no more; others have theirs, and what is stored answers.
func TestTurnstile(t *testing.T) {
	ids := 'a'
	p := newProcess(t, nil)
	p.d.Turns = dispatch.Turnstile{Places: p.Tables, Most: 2, NewID: func() string { ids++; return string(ids) },
		Now: p.Now, Log: slog.New(slog.DiscardHandler)}
	p.ask("paid").is("alone", nil)
	p.Script = script{
		"Create#2": func(p *process) error {
			p.ask("second").is("one is under way", nil)
			return nil
		},
		"Create#3": func(p *process) error {
			p.ask("third").is("two are under way", dispatch.ErrBusy)
			p.ask("fourth", p.until(dispatch.MaxNotAfter+time.Second)).is("too far ahead, before a place", dispatch.ErrNotAfter)
			p.ask("fifth", p.until(-time.Second)).is("late, before a place", dispatch.ErrExpired)
			p.ask("paid").is("a replay, without a place", nil)
			p.ask("other", func(r *payment.Request) { r.Merchant = "mer_2" }).is("another merchant", nil)
			return nil
		},
	}
	p.ask("first").is("the first", nil)
	p.ask("third").is("both places were given back", nil)
	p.d.Turns.Places, p.d.Turns.Most = deaf{}, 1
	p.ask("sixth").is("nobody counts", nil)
	if len(p.Script) > 0 {
		t.Error(p.Calls)
	}
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
