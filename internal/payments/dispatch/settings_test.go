package dispatch_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// TestUnusableSettings: nothing new begins without settings that can be obeyed. Requests for made
// payments are answered, and payments with a nonce are made.
func TestUnusableSettings(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(p *process)
		log   string
	}{
		"damaged":               {func(p *process) { p.Tables.SpoilSettings(porttest.Rail.Coin(), settings.ErrDamaged) }, "damaged"},
		"missing":               {func(p *process) { p.Tables.SpoilSettings(porttest.Rail.Coin(), settings.ErrMissing) }, "remit rails add"},
		"of newer code":         {func(p *process) { p.Set(func(s *settings.Settings) { s.Needs = settings.Code + 1 }) }, "newer code"},
		"unreadable":            {func(p *process) { p.Script = breaks("Rules#2", "Rules#3", "Rules#4", "Rules#5") }, porttest.ErrBroken.Error()},
		"a live stack's, unset": {func(p *process) { p.d.Live = true }, "AmountMinimum, AmountMaximum"},
		"a restored live stack's": {func(p *process) {
			p.d.Live = true
			p.Set(func(s *settings.Settings) { s.Minimum, s.Maximum = token.Units(1), token.Units(1000) })
		}, "not confirmed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, script{})
			var log bytes.Buffer
			p.d.Log = slog.New(slog.NewTextHandler(&log, nil))
			paid := must.Get(p.pay())(t)
			test.spoil(p)
			p.Pass(settings.MaxAge)
			if _, err := p.send("new"); !errors.Is(err, dispatch.ErrUnavailable) || p.Did("Create#2") {
				t.Errorf("a new payment: %v, after %v", err, p.Calls)
			}
			if !strings.Contains(log.String(), "settings unusable") || !strings.Contains(log.String(), test.log) {
				t.Errorf("logged %s, want %q", &log, test.log)
			}
			if again, err := p.pay(); err != nil || !again.Replayed || again.Payment.TxHash != paid.Payment.TxHash {
				t.Errorf("a repetition: %+v, %v", again, err)
			}
			if _, err := p.d.Offer(t.Context(), dispatch.Transfer{Key: "k", Mode: "test", From: first, To: asked.To,
				Amount: token.Units(1)}); !errors.Is(err, dispatch.ErrUnavailable) {
				t.Errorf("a transfer: %v", err)
			}
			if err := p.d.Refill(t.Context(), second, true, 1); !errors.Is(err, dispatch.ErrUnavailable) {
				t.Errorf("a refill: %v", err)
			}
			p.Set(func(s *settings.Settings) {
				if s.Minimum, s.Maximum, s.Daily = token.Units(1), token.Units(1000), token.Units(5000); s.Needs != settings.Code {
					s.Needs, s.MerchantCap = settings.Code, 100
				}
				s.Confirmed = true
			})
			if _, err := p.send("new"); err != nil {
				t.Errorf("once they are set: %v", err)
			}
		})
	}
}
