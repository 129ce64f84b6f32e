package plan_test

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestThePageShowsAPlan: docs/scale.md shows `remit plan` as it prints.
func TestThePageShowsAPlan(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/scale.md"))(t)
	out := strings.Builder{}
	must.OK(t, (&plan.Command{Rate: 500, Chain: "base", Traffic: plan.Traffic{Merchants: 10, Amount: 100, Hours: 24}}).Run(&out))
	if !strings.Contains(string(page), "\n$ remit plan --rate 500 --chain base --merchants 10\n"+out.String()+"```\n") {
		t.Errorf("docs/scale.md does not show:\n%s", out.String())
	}
}

// TestGasInTheToken: where the token pays gas, a wallet's tokens cover both, each payment's gas is rounded up to a unit of
// the token, and no line speaks of another coin.
func TestGasInTheToken(t *testing.T) {
	for _, name := range []string{"arc", "tempo"} {
		out := strings.Builder{}
		must.OK(t, (&plan.Command{Rate: 1, Chain: name, Traffic: plan.Traffic{Merchants: 1, Hours: 1}}).Run(&out))
		if text := out.String(); !strings.Contains(text, " tokens, gas among them, refilled") ||
			!strings.Contains(text, "$1 a token, which pays it\n") || strings.Contains(text, "coin") || strings.Contains(text, "ETH") {
			t.Errorf("%s", text)
		}
		cheap := plan.Load{Rate: 1, Chain: plan.Chains[name], Wallets: 1}
		cheap.Chain.Price = 1e-6
		if tokens, coins := (plan.Traffic{Amount: 5, Hours: 1}).Funds(cheap); math.Abs(tokens-18_000-0.003600-0.000016) > 1e-9 || coins != 0 {
			t.Errorf("%s: a wallet holds %v and %v for 3,600 payments of 5, and 16 in flight", name, tokens, coins)
		}
	}
}

// TestArguments: an argument that makes no sense is named, with what it may be.
func TestArguments(t *testing.T) {
	good := plan.Command{Rate: 1, Chain: "Base", Traffic: plan.Traffic{Merchants: 1, Amount: 1, Hours: 1}}
	for want, change := range map[string]func(*plan.Command){
		"ethereum, polygon": func(c *plan.Command) { c.Chain = "solana" },
		"--rate above 0":    func(c *plan.Command) { c.Rate = math.NaN() },
		"at most 1000000":   func(c *plan.Command) { c.Rate = math.Inf(1) },
		"--merchants":       func(c *plan.Command) { c.Merchants = 0.5 },
		"--amount":          func(c *plan.Command) { c.Amount = -1 },
		"--hours":           func(c *plan.Command) { c.Hours = 0 },
	} {
		c, out := good, strings.Builder{}
		change(&c)
		if err := c.Run(&out); err == nil || !strings.Contains(err.Error(), strings.Split(want, ", ")[0]) || out.Len() > 0 {
			t.Errorf("%s: error = %v, printed %q", want, err, out.String())
		}
	}
	must.OK(t, good.Run(&strings.Builder{}))
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
				if w.At() < last || math.IsNaN(w.At()) || w.Raise != "" && w.Most == 0 && w.Needed(rate)/w.Each < rate {
					t.Errorf("%s at %v: %+v stands at %v, behind one at %v", name, rate, w, w.At(), last)
				}
				last = w.At()
			}
			few := l
			few.Wallets = 1
			if many := l.Calls(); few.Calls() > many || many < 4*rate {
				t.Errorf("%s at %v: %v calls with one wallet, %v with all", name, rate, few.Calls(), many)
			}
		}
	}
}

// TestAStackAgainstThePlan: a stack as the plan wants it holds the rate, and each thing that
// it has less of is named, from its number to the plan's.
func TestAStackAgainstThePlan(t *testing.T) {
	for _, row := range []struct {
		why    string
		rate   float64
		change func(*plan.Load)
		want   string // of the advice; "" for none
	}{
		{"as planned", 20, func(*plan.Load) {}, ""},
		{"more than planned", 20, func(l *plan.Load) { l.Wallets *= 2 }, ""},
		{"too few wallets", 500, func(l *plan.Load) { l.Wallets = 4 }, "wallets: remit wallet create, from 4 to 107"},
		{"one too few", 500, func(l *plan.Load) { l.Wallets-- }, "from 106 to 107"},
		{"the template's memory", 500, func(l *plan.Load) { l.Stack.SettleGB = 0.5 }, "CheckReceiptsMemory, from 512 to 5,658"},
		{"a new table", 500, func(*plan.Load) {}, "warm throughput; it doubles by itself each half hour, from 4,000 to 10,000"},
		{"a rate of the API", 500, func(*plan.Load) {}, "Size (Api), from 500 to 1,429"},
		{"half of the windows for one merchant", 20, func(l *plan.Load) { l.Merchants = 1 }, "MerchantCap, from 50 to 82"},
		{"what nothing moves", 5000, func(l *plan.Load) { l.Chain.BlockGas /= 10 }, "nothing moves it"},
	} {
		l := plan.Load{Rate: row.rate, Merchants: 1000, Chain: plan.Chains["base"], Stack: plan.Default}.Planned()
		row.change(&l)
		var advice []string
		for _, w := range l.Short() {
			advice = append(advice, w.Advice(row.rate))
		}
		if got := strings.Join(advice, "\n"); !strings.Contains(got, row.want) || row.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}
