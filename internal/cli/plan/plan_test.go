package plan_test

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestThePageShowsAPlan: docs/scale.md shows `remit plan` as it prints.
func TestThePageShowsAPlan(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/scale.md"))(t)
	out := strings.Builder{}
	must.OK(t, (&plan.Command{Rate: 500, Chain: "base", Merchants: 10, Amount: 100, Hours: 24}).Run(&out))
	if !strings.Contains(string(page), "\n$ remit plan --rate 500 --chain base --merchants 10\n"+out.String()+"```\n") {
		t.Errorf("docs/scale.md does not show:\n%s", out.String())
	}
}

// TestGasInTheToken: where the token pays gas, a wallet's tokens cover both, and no line speaks of another coin. No
// number has an exponent.
func TestGasInTheToken(t *testing.T) {
	for _, name := range []string{"arc", "tempo"} {
		out := strings.Builder{}
		must.OK(t, (&plan.Command{Rate: 1e-5, Chain: name, Merchants: 1, Hours: 1}).Run(&out))
		if text := out.String(); !strings.Contains(text, " tokens, gas among them, refilled") || strings.Contains(text, "ETH") ||
			strings.Contains(text, "e-05") {
			t.Errorf("%s", text)
		}
	}
	out := strings.Builder{} // 900 payments of a wallet burn 900 × 0.00124, and 16 in flight tie up 2.4 times theirs
	must.OK(t, (&plan.Command{Rate: 1, Chain: "Arc", Merchants: 1, Hours: 1}).Run(&out))
	if !strings.Contains(out.String(), " 1.16 tokens, gas among them") {
		t.Errorf("%s", out.String())
	}
}

// TestKeysAndABus: a million signatures cost $15, two a payment while a wallet pays rarely, and a million events $1.
func TestKeysAndABus(t *testing.T) {
	for rate, signatures := range map[float64]float64{0.001: 30, 1000: 15} {
		n, s := plan.Load{Rate: rate, Wallets: 1, Chain: plan.Chains["base"], Stack: plan.Default}.Month()
		before := s.Bill(n, plan.Measured)
		s.KMS, s.Bus = true, true
		for i, l := range s.Bill(n, plan.Measured) {
			more, want := l.Dollars-before[i].Dollars, map[string]float64{"KMS": n*signatures/1e6 + 1, "EventBridge": n / 1e6}[l.Name]
			if want > 0 && math.Abs(more-want) > 0.01*want {
				t.Errorf("%s at %v a second costs %v more, want %v", l.Name, rate, more, want)
			}
		}
	}
}

// TestAPlanHolds: the stack that a plan asks for meets none of the walls that can be moved
// at the rate it was made for, and its wallets pay that rate.
func TestAPlanHolds(t *testing.T) {
	for name, chain := range plan.Chains {
		for _, rate := range []float64{0.01, 1, 100, 5000, 10_000} {
			l := plan.Load{Rate: rate, Chain: chain, Stack: plan.Default}.Planned()
			if l.Wallets*l.PerWallet() < rate {
				t.Errorf("%s at %v: %v wallets pay %v", name, rate, l.Wallets, l.Wallets*l.PerWallet())
			}
			last := 0.0
			for _, w := range l.Walls() {
				if w.At() < last || math.IsNaN(w.At()) || w.Raise != "" && w.Needed(rate)/w.Each < rate && w.Raise != "parameter CheckReceiptsMemory" {
					t.Errorf("%s at %v: %+v stands at %v, behind one at %v", name, rate, w, w.At(), last)
				}
				last = w.At()
			}
		}
	}
}

// TestWhatToRaise: a plan names each limit of the template's defaults that its rate exceeds, and the needed number.
func TestWhatToRaise(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		rate, merchants := must.Get(strconv.ParseFloat(c.In[0], 64))(t), must.Get(strconv.ParseFloat(c.In[1], 64))(t)
		out := strings.Builder{}
		must.OK(t, (&plan.Command{Rate: rate, Chain: c.In[2], Merchants: merchants, Hours: 1}).Run(&out))
		_, got, _ := strings.Cut(out.String(), "each\n\n")
		if (got == "") != (c.Want == "nothing") || got != "" && !strings.Contains(got, c.Want) {
			t.Errorf("%q, want %q", got, c.Want)
		}
	})
}
