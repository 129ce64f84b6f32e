// Package runreport turns the report of a run of check-receipts into metrics.
package runreport

import (
	"cmp"
	"math"
	"strconv"

	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

const gweiDecimals = 9 // 1 gwei is 10^9 wei

// fundingLow is of how many refills the funding wallet counts as low.
const fundingLow = 3

// Of has the units of a stack's balances.
type Of struct {
	Decimals             int     // of the token: one has 10^Decimals units
	TokenLow, GasLowGwei float64 // a wallet with less whole tokens, or gwei, is low
	TokenGas             bool    // the token pays gas, so that there are no gwei to measure
}

// OfRail returns the units of a rail. Its token is low below 100, but below 5 where no money is real: a faucet gives
// 20. Its gas is low below 0.002 ether.
func OfRail(c stack.Config, r settings.Rail) Of {
	low := map[bool]float64{true: 100, false: 5}[c.Live]
	if !r.TokenLow.IsZero() {
		low = rounded(r.TokenLow, c.Token.Decimals)
	}
	return Of{Decimals: c.Token.Decimals, TokenGas: c.GasUnit > 0, TokenLow: low, GasLowGwei: float64(cmp.Or(r.GasLowGwei, 2_000_000))}
}

// Add adds the report of a run of check-receipts to m. Amounts of the token are written as whole tokens, gas in gwei.
// Both are for people and alarms only: they are rounded.
func Add(m *emf.Meter, r settlement.Report, of Of) {
	for _, count := range []struct {
		name string
		n    int
	}{
		{"PaymentsConfirmed", r.Confirmed},
		{"PaymentsFailed", r.Failed},
		{"ReservationsFinished", r.Reservations},
		{"Noops", r.Noops},
		{"FeeBumps", r.Bumps},
		{"Resent", r.Resent},
		{"BroadcastsRefused", r.Refused},
		{"ItemsUnreadable", r.Unreadable},
		{"SettingsUnusable", r.Unruled},
		{"NoncesConsumed", r.Suspect},
		{"Undecided", r.Undecided},
		{"WalletsPaused", r.Paused},
		{"PaymentsPending", r.Pending},
	} {
		if count.n > 0 {
			m.Add(count.name, emf.Count, float64(count.n))
		}
	}
	if ended := r.Confirmed + r.Failed; ended > 0 {
		m.Add("PaymentsFailedShare", emf.Percent, 100*float64(r.Failed)/float64(ended))
	}
	if r.Oldest > 0 {
		m.Add("OldestPending", emf.Seconds, r.Oldest.Seconds())
	}
	for _, took := range r.ToFinal {
		m.Add("SecondsToFinal", emf.Seconds, took.Seconds())
	}
	for _, s := range r.Spent {
		m.AddOf("Wallet", s.Wallet.String(), map[bool]string{false: "PaymentFees", true: "NoopFees"}[s.Noop], emf.None,
			rounded(s.Fee, gweiDecimals))
	}
	low := 0.0
	for _, left := range r.Funding {
		if left < fundingLow {
			low++
		}
		m.Add("FundingRefills", emf.Count, float64(left))
	}
	for _, w := range r.Wallets {
		tokens, gas := rounded(w.Balance, of.Decimals), rounded(w.Gas, gweiDecimals)
		if tokens < of.TokenLow && !w.Own || !of.TokenGas && gas < of.GasLowGwei {
			low++
		}
		m.Add("WalletToken", emf.None, tokens)
		if !of.TokenGas {
			m.Add("WalletGas", emf.None, gas)
		}
		m.Add("NonceGap", emf.Count, float64(w.Gap))
	}
	if len(r.Funding)+len(r.Wallets) > 0 { // a run that looked: it also ends the alarm
		m.Add("WalletsLow", emf.Count, low)
	}
}

// AddNodes adds the configured nodes' health to m. NodesSilent is how many of them left the last
// request unanswered. NodeErrors, the requests that they left unanswered, is of the stack and of
// each node; NodeLatency, its slowest good answer, of each node.
func AddNodes(m *emf.Meter, nodes []chain.Health) {
	silent, missed := 0.0, 0
	for _, n := range nodes {
		if n.Silent {
			silent++
		}
		missed += n.Missed
		if n.Missed > 0 {
			m.AddOf("Node", n.Node, "NodeErrors", emf.Count, float64(n.Missed))
		}
		if n.Slowest > 0 {
			m.AddOf("Node", n.Node, "NodeLatency", emf.Milliseconds, float64(n.Slowest.Milliseconds()))
		}
	}
	if missed > 0 {
		m.Add("NodeErrors", emf.Count, float64(missed))
	}
	if silent > 0 {
		m.Add("NodesSilent", emf.Count, silent)
	}
}

func rounded(a token.Amount, decimals int) float64 {
	units, err := strconv.ParseFloat(a.String(), 64)
	if err != nil { // an amount prints as digits
		return math.NaN()
	}
	return units / math.Pow10(decimals)
}
