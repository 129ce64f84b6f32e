// Package runreport turns the report of a run of check-receipts into metrics.
package runreport

import (
	"math"
	"math/big"
	"slices"

	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

const gweiDecimals = 9 // 1 gwei is 10^9 wei

// fundingLow is of how many refills the funding wallet counts as low.
const fundingLow = 3

// Add adds a rail's report of a run of check-receipts to m: alarms watch the numbers of the stack, and the others are
// of the rail. Amounts of the token are whole tokens, gas and fees gwei, all rounded: they are for people and alarms
// only. By default a wallet is low below 100 tokens, but below 5 where no money is real: a faucet gives 20. It is low
// below 0.002 ether too.
func Add(m *emf.Meter, a settlement.Account) {
	r, asset := a.Report, a.Coin().String()
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
			m.AddOf(count.dimension, map[string]string{"Asset": asset}[count.dimension], count.name, float64(count.n))
		}
	}
	if ended := r.Confirmed + r.Failed; ended > 0 {
		m.Add("PaymentsFailedShare", 100*float64(r.Failed)/float64(ended))
	}
	if r.Oldest > 0 {
		m.Add("OldestPending", r.Oldest.Seconds())
	}
	if len(r.ToFinal) > 0 {
		m.AddOf("Asset", asset, "SlowestToFinal", slices.Max(r.ToFinal).Seconds())
	}
	for _, s := range r.Spent {
		m.AddOf("Asset", asset, map[bool]string{false: "PaymentFees", true: "NoopFees"}[s.Noop], rounded(s.Fee, gweiDecimals))
	}
	tokenLow := map[bool]float64{true: 100, false: 5}[a.Live]
	if !a.Rail.TokenLow.IsZero() {
		tokenLow = rounded(a.Rail.TokenLow, a.Token.Decimals)
	}
	gasLow, inToken := float64(a.Rail.GasLow()), a.GasUnit > 0 // then a wallet needs no gwei
	low := 0.0
	if n := len(r.Funding); n > 0 && r.Funding[n-1] < fundingLow { // of a rail's one funding wallet, by each round
		low++
	}
	poorest, gas, gap := math.Inf(1), math.Inf(1), uint64(0)
	for _, w := range r.Wallets {
		tokens, gwei := rounded(w.Balance, a.Token.Decimals), rounded(w.Gas, gweiDecimals)
		if tokens < tokenLow && !w.Own || !inToken && gwei < gasLow {
			low++
		}
		poorest, gas, gap = min(poorest, tokens), min(gas, gwei), max(gap, w.Gap)
	}
	if len(r.Wallets) > 0 {
		m.AddOf("Asset", asset, "PoorestToken", poorest)
		m.AddOf("Asset", asset, "NonceGap", float64(gap))
		if !inToken {
			m.AddOf("Asset", asset, "PoorestGas", gas)
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
	units, _ := new(big.Float).SetInt(a.Big()).Float64()
	return units / math.Pow10(decimals)
}
