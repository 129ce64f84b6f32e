// Package runreport turns the report of a run of check-receipts into metrics.
package runreport

import (
	"cmp"
	"math"
	"slices"
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

// Of has the units of a rail's balances.
type Of struct {
	Asset                string  // its CAIP-19 name, under which its numbers are
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
	return Of{Asset: c.Coin().String(), Decimals: c.Token.Decimals, TokenGas: c.GasUnit > 0, TokenLow: low,
		GasLowGwei: float64(cmp.Or(r.GasLowGwei, 2_000_000))}
}

// Add adds the report of a run of check-receipts to m: alarms watch the numbers of the stack, and the others are of the
// rail. Amounts of the token are whole tokens, gas and fees gwei, all rounded: they are for people and alarms only.
func Add(m *emf.Meter, r settlement.Report, of Of) {
	for _, count := range []struct {
		dimension, name string
		n               int
	}{
		{"", "ItemsUnreadable", r.Unreadable},
		{"", "SettingsUnusable", r.Unruled},
		{"", "NoncesConsumed", r.Suspect},
		{"", "WalletsPaused", r.Paused},
		{"Asset", "PaymentsConfirmed", r.Confirmed},
		{"Asset", "PaymentsFailed", r.Failed},
		{"Asset", "ReservationsFinished", r.Reservations},
		{"Asset", "Noops", r.Noops},
		{"Asset", "FeeBumps", r.Bumps},
		{"Asset", "Resent", r.Resent},
		{"Asset", "BroadcastsRefused", r.Refused},
		{"Asset", "Undecided", r.Undecided},
		{"Asset", "PaymentsPending", r.Pending},
	} {
		if count.n > 0 {
			m.AddOf(count.dimension, map[string]string{"Asset": of.Asset}[count.dimension], count.name, float64(count.n))
		}
	}
	if ended := r.Confirmed + r.Failed; ended > 0 {
		m.Add("PaymentsFailedShare", 100*float64(r.Failed)/float64(ended))
	}
	if r.Oldest > 0 {
		m.Add("OldestPending", r.Oldest.Seconds())
	}
	if len(r.ToFinal) > 0 {
		m.AddOf("Asset", of.Asset, "SlowestToFinal", slices.Max(r.ToFinal).Seconds())
	}
	for _, s := range r.Spent {
		m.AddOf("Asset", of.Asset, map[bool]string{false: "PaymentFees", true: "NoopFees"}[s.Noop], rounded(s.Fee, gweiDecimals))
	}
	low := 0.0
	for _, left := range r.Funding {
		if left < fundingLow {
			low++
		}
	}
	poorest, gas, gap := math.Inf(1), math.Inf(1), uint64(0)
	for _, w := range r.Wallets {
		tokens, gwei := rounded(w.Balance, of.Decimals), rounded(w.Gas, gweiDecimals)
		if tokens < of.TokenLow && !w.Own || !of.TokenGas && gwei < of.GasLowGwei {
			low++
		}
		poorest, gas, gap = min(poorest, tokens), min(gas, gwei), max(gap, w.Gap)
	}
	if len(r.Wallets) > 0 {
		m.AddOf("Asset", of.Asset, "PoorestToken", poorest)
		m.AddOf("Asset", of.Asset, "NonceGap", float64(gap))
		if !of.TokenGas {
			m.AddOf("Asset", of.Asset, "PoorestGas", gas)
		}
	}
	if len(r.Funding)+len(r.Wallets) > 0 { // a run that looked: it also ends the alarm
		m.Add("WalletsLow", low)
	}
}

// AddNodes adds the configured nodes' health to m. NodesSilent is how many of them left the last request unanswered. Of
// each node, NodeErrors are the requests that it left unanswered, and NodeLatency is its slowest good answer in ms.
func AddNodes(m *emf.Meter, nodes []chain.Health) {
	silent := 0.0
	for _, n := range nodes {
		if n.Silent {
			silent++
		}
		if n.Missed > 0 {
			m.AddOf("Node", n.Node, "NodeErrors", float64(n.Missed))
		}
		if n.Slowest > 0 {
			m.AddOf("Node", n.Node, "NodeLatency", float64(n.Slowest.Milliseconds()))
		}
	}
	if silent > 0 {
		m.Add("NodesSilent", silent)
	}
}

func rounded(a token.Amount, decimals int) float64 {
	units, err := strconv.ParseFloat(a.String(), 64)
	if err != nil { // an amount prints as digits
		return math.NaN()
	}
	return units / math.Pow10(decimals)
}
