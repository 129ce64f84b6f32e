package plan

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Command is `remit plan`. It asks no stack: it is arithmetic.
type Command struct {
	Rate      float64 `required:"" help:"Payments a second, at the busiest."`
	Chain     string  `required:"" help:"ethereum, base or polygon."`
	Merchants float64 `default:"1" help:"Merchants that share them evenly."`
	Amount    float64 `default:"100" help:"Whole tokens of an average payment."`
	Hours     float64 `default:"24" help:"How long the wallets pay before they are filled again."`
	KMS       bool    `name:"kms" help:"The wallets' keys are in KMS."`
}

// Run prints the plan. An error names the argument that is wrong, and what it may be.
func (c *Command) Run(out io.Writer) error {
	chain, known := Chains[strings.ToLower(c.Chain)]
	names := slices.Sorted(maps.Keys(Chains))
	switch {
	case !known:
		return fmt.Errorf("--chain=%s: there are numbers for %s; of another chain docs/scale.md says how to find them", c.Chain, strings.Join(names, ", "))
	case !(c.Rate > 0) || c.Rate > 1e6 || !(c.Merchants >= 1) || !(c.Amount >= 0) || !(c.Hours > 0):
		return fmt.Errorf("--rate is above 0 and at most 1000000, --merchants at least 1, --amount not negative, --hours above 0")
	}
	deployed := Load{Rate: c.Rate, Merchants: c.Merchants, Chain: chain, KMS: c.KMS, Stack: Default}
	l := deployed.Planned()
	deployed.Wallets = l.Wallets
	n, s := l.Month()
	paid := c.Rate * c.Hours * 3600 / s.Wallets // of one wallet until it is filled again
	burnt, tied := l.Ether(paid)
	gas, _ := l.Ether(n)
	aws := 0.0
	for _, line := range s.Bill(n, Measured) {
		aws += line.Dollars
	}
	fmt.Fprintf(out, `%s payments a second on %s, all day: %s a month

wallets            %s, each good for %.1f payments a second, with NonceWindow=%d
  each holds       %s tokens and %s %s, filled every %s h
calls to each node %s a second, in rounds %s s apart
post at once       %s functions of send-payment
capacity           %s
AWS                $%s a month, $%.2f a million payments
gas                $%s a month, at %v gwei and $%v a coin

`, human(c.Rate), c.Chain, human(n), human(s.Wallets), l.PerWallet(), chain.Window(), human(paid*c.Amount), human(burnt+tied), chain.Ether, human(c.Hours),
		human(l.Calls()), human(l.Round()), human(math.Ceil(c.Rate*Measured.Post)), capacity(n, s), human(aws), aws/n*1e6, human(gas*chain.Dollars), chain.Price, chain.Dollars)
	for _, w := range deployed.Walls() {
		switch {
		case w.At() < c.Rate && w.Raise == "":
			fmt.Fprintf(out, "cannot:  %s ends at %s payments a second\n", w.Name, human(w.At()))
		case w.Needed(c.Rate) > w.Limit && w.Raise != "" && !strings.HasPrefix(w.Raise, "wallets"):
			fmt.Fprintf(out, "raise:   %s, from %s to %s\n", w.Raise, human(w.Limit), human(w.Needed(c.Rate)))
		}
	}
	return nil
}

// capacity says which mode of capacity costs less for a steady load.
func capacity(n float64, s Deployment) string {
	other := s
	other.Provisioned = true
	if saved := s.PerMillion(n, Measured) - other.PerMillion(n, Measured); saved > 0 {
		return fmt.Sprintf("PaymentsCapacity=provisioned saves $%.2f a million if the load is steady", saved)
	}
	return "PaymentsCapacity=on-demand"
}

// human writes a number with three digits, or all of those before the point, in groups
// of three.
func human(v float64) string {
	if v < 100 {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.*f", max(0, 2-int(math.Floor(math.Log10(max(v, 1e-9))))), v), "0"), ".")
	}
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
