package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
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

// TestWorstCaseIsKept: transfers are executed within the gas of a transfer to a stranger. One request in 15 seconds
// estimates it, beside its payment; if it cannot, the old value serves for 30 in all. A dearer recipient is estimated,
// and paid. A process that pays less often only estimates. A row has the time since the last one, the recipient, the
// gas of a transfer to a stranger, the executions, and the estimate (each zero byte of such a transfer adds 12 of gas).
func TestWorstCaseIsKept(t *testing.T) {
	p := newProcess(t, script{})
	p.d.ByCall = true
	stranger, payees := token.Address(slices.Repeat([]byte{0xff}, 20)), map[string]token.Address{"one": asked.To, "dear": {0xde}}
	p.costs = map[token.Address]uint64{payees["dear"]: 400_000}
	for i, c := range tabletest.Read(t, nil) {
		p.Pass(must.Get(time.ParseDuration(c.In[0]))(t))
		p.executed, p.mined = nil, uint64(i)
		switch c.In[2] {
		case "as before":
		case "refused":
			p.refuses = []token.Address{stranger}
		default:
			p.costs[stranger], p.refuses = must.Get(strconv.ParseUint(c.In[2], 10, 64))(t), nil
		}
		made := p.ask(fmt.Sprint(i), func(r *payment.Request) { r.To = payees[c.In[1]] }).is(c.Name, nil).Payment
		slices.Sort(p.executed)
		limit := chain.GasLimit(must.Get(strconv.ParseUint(c.Want, 10, 64))(t))
		if has := strings.Join(p.executed, ", "); has != c.In[3] || made.Tx.Gas != limit {
			t.Errorf("%s: %s, signed with %d; want %s with %d", c.Name, has, made.Tx.Gas, c.In[3], limit)
		}
	}
}
