package plan

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Traffic is the merchants, amounts and refills of a load.
type Traffic struct {
	Merchants float64 `default:"1" help:"Merchants that share a rate evenly."`
	Amount    float64 `default:"100" help:"Whole tokens of an average payment."`
	Hours     float64 `default:"24" help:"How long the wallets pay between refills."`
}

// Check returns an error if an argument is out of range.
func (t Traffic) Check(rate float64) error {
	if !(rate > 0) || rate > 1e6 || !(t.Merchants >= 1) || !(t.Amount >= 0) || !(t.Hours > 0) {
		return errors.New("a number is out of range; use --rate above 0 and at most 1000000, --merchants from 1, " +
			"--amount from 0, --hours above 0")
	}
	return nil
}

// Funds returns what each wallet of a load holds between refills, in whole tokens
// and whole coins of the chain, of which there are none where the tokens pay gas.
func (t Traffic) Funds(l Load) (tokens, coins float64) {
	paid := l.Rate * t.Hours * 3600 / l.Wallets
	burnt, tied := l.Ether(paid)
	if l.Chain.GasInToken() {
		return paid*t.Amount + burnt + tied, 0
	}
	return paid * t.Amount, burnt + tied
}

// Command is `remit plan`. It only computes, and needs no stack.
type Command struct {
	Rate  float64 `required:"" help:"Payments per second in the busiest minutes."`
	Chain string  `required:"" help:"ethereum, base, polygon, arc or tempo."`
	Traffic
	KMS bool `name:"kms" help:"The wallets' keys are in KMS."`
}

// Run prints the plan. An error names the wrong argument and its range.
func (c *Command) Run(out io.Writer) error {
	chain, known := Chains[strings.ToLower(c.Chain)]
	names := slices.Sorted(maps.Keys(Chains))
	if !known {
		return fmt.Errorf("--chain=%s: use %s; for another chain, find its numbers as docs/scale.md shows", c.Chain,
			strings.Join(names, ", "))
	}
	if err := c.Check(c.Rate); err != nil {
		return err
	}
	deployed := Load{Rate: c.Rate, Merchants: c.Merchants, Chain: chain, KMS: c.KMS, Stack: Default}
	l := deployed.Planned()
	deployed.Wallets = l.Wallets
	n, s := l.Month()
	tokens, coins := c.Funds(l)
	gas, _ := l.Ether(n)
	holds, coin := fmt.Sprintf("%s tokens and %s %s", Human(tokens), Human(coins), chain.Ether), "coin"
	if chain.GasInToken() {
		holds, coin = Human(tokens)+" tokens, gas among them", "token, which pays it"
	}
	aws := 0.0
	for _, line := range s.Bill(n, Measured) {
		aws += line.Dollars
	}
	fmt.Fprintf(out, `%s payments a second on %s, all day: %s a month

wallets            %s, each for %.1f payments a second, with NonceWindow=%d
  each holds       %s, refilled every %s h
calls to each node %s a second, in rounds %s s apart
concurrency        %s of send-payment
capacity           %s
AWS                $%s a month, $%.2f a million payments
gas                $%s a month, at %v gwei and $%v a %s

`, Human(c.Rate), c.Chain, Human(n), Human(s.Wallets), l.PerWallet(), chain.Window(), holds, Human(c.Hours),
		Human(l.Calls()), Human(l.Round()), Human(math.Ceil(c.Rate*Measured.Post)), capacity(n, s), Human(aws), aws/n*1e6,
		Human(gas*chain.Dollars), chain.Price, chain.Dollars, coin)
	for _, w := range deployed.Short() {
		if w.Raise == "" {
			fmt.Fprintf(out, "cannot:  %s ends at %s payments a second\n", w.Name, Human(w.At()))
		} else {
			fmt.Fprintf(out, "raise:   %s\n", w.Advice(c.Rate))
		}
	}
	return nil
}

// capacity names the cheaper mode of capacity for a steady load.
func capacity(n float64, s Deployment) string {
	other := s
	other.Provisioned = true
	if saved := s.PerMillion(n, Measured) - other.PerMillion(n, Measured); saved > 0 {
		return fmt.Sprintf("PaymentsCapacity=provisioned saves $%.2f a million if the load is steady", saved)
	}
	return "PaymentsCapacity=on-demand"
}

// Human writes a number with three significant digits, or with all digits before the point,
// in groups of three.
func Human(v float64) string {
	if v < 100 {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.*f", max(0, 2-int(math.Floor(math.Log10(max(v, 1e-9))))), v), "0"), ".")
	}
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
