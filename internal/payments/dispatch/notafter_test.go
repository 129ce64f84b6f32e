package dispatch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

// until sends asked with a NotAfter some time from now.
func (p *process) until(ahead time.Duration) (dispatch.Result, error) {
	r := asked
	r.NotAfter = p.Now().Add(ahead)
	return p.d.Send(p.T.Context(), r)
}

// TestNotAfter: a request whose time has passed begins nothing. It answers with a payment that is
// signed or has a nonce, and discards one that a dead request left, before any limit is judged.
func TestNotAfter(t *testing.T) {
	late := func(p *process) error { p.Pass(2 * time.Second); return nil }
	for name, test := range map[string]struct {
		p     *process
		ahead time.Duration
		want  error
		state payment.State // stored afterwards; "": none
	}{
		"the last second":                  {newProcess(t, nil), 0, nil, payment.Committed},
		"a second later":                   {newProcess(t, nil), -time.Second, dispatch.ErrExpired, ""},
		"300 s ahead":                      {newProcess(t, nil), dispatch.MaxNotAfter, nil, payment.Committed},
		"301 s ahead":                      {newProcess(t, nil), dispatch.MaxNotAfter + time.Second, dispatch.ErrNotAfter, ""},
		"it passes before the reservation": {newProcess(t, script{"Create#1": late}), time.Second, dispatch.ErrExpired, ""},
		"a dead request left it":           {left(t, handlerLife, unreserved...), -time.Second, dispatch.ErrExpired, ""},
		"another may be making it": {left(t, handlerLife-time.Second, unreserved...), -time.Second,
			dispatch.ErrDuplicate, payment.Prepared},
		"it has a nonce":                     {left(t, 0, "Sign#1"), -time.Second, nil, payment.Committed},
		"it has a nonce, and its time comes": {left(t, handlerLife, "Sign#1"), 0, nil, payment.Committed},
	} {
		reserved := test.p.Did("Reserve#1")
		_, err := test.p.until(test.ahead)
		if !errors.Is(err, test.want) || test.p.stored().State != test.state {
			t.Errorf("%s: %v, and it is stored as %q, after %v", name, err, test.p.stored().State, test.p.Calls)
		}
		if began := test.p.Did("Reserve#1") && !reserved || test.p.Did("Reserve#2"); began && test.want != nil {
			t.Errorf("%s: it reserved a nonce, after %v", name, test.p.Calls)
		}
	}
}

// TestNotAfterComesFirst: before limits, but after the content of the stored payment, which it keeps.
func TestNotAfterComesFirst(t *testing.T) {
	p := newProcess(t, nil)
	p.set(func(s *settings.Settings) { s.Maximum = token.Units(1) })
	if _, err := p.until(-time.Second); !errors.Is(err, dispatch.ErrExpired) {
		t.Errorf("above the maximum: %v", err)
	}
	p = left(t, handlerLife, unreserved...)
	other := asked
	other.To, other.NotAfter = fakechain.Payee(3), p.Now().Add(-time.Second)
	if _, err := p.d.Send(t.Context(), other); !errors.Is(err, dispatch.ErrKeyReused) || p.stored().State != payment.Prepared {
		t.Errorf("other content: %v, and it is stored as %q", err, p.stored().State)
	}
	p = left(t, handlerLife, "Sign#1")
	p.Script = script{"Ready#3": func(p *process) error { // a run uses its nonce up
		p.Must(useUp(p))
		tx, err := p.Tables.PendingTx(t.Context(), walletOf(first), 0)
		p.Must(err)
		return p.Tables.Release(t.Context(), p.stored().ID, tx)
	}}
	if _, err := p.until(-time.Second); !errors.Is(err, dispatch.ErrDuplicate) || !p.Did("Ready#3") || p.Did("Reserve#2") {
		t.Errorf("its nonce is gone: %v, after %v", err, p.Calls)
	}
	p = left(t, time.Second, unreserved...)
	p.set(func(s *settings.Settings) { s.Daily = token.Amount{} }) // so that nothing is asked before it is taken up
	p.Script = script{"Ready#4": func(p *process) error { p.Pass(2 * time.Second); return nil }}
	if _, err := p.until(time.Second); !errors.Is(err, dispatch.ErrDuplicate) || p.Did("Reserve#2") || p.stored().State != payment.Prepared {
		t.Errorf("its time passes while it is taken up: %v, after %v", err, p.Calls)
	}
}
