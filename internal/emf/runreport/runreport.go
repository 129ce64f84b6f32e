// Package runreport turns the report of a run of check-receipts into metrics.
package runreport

import (
	"math"
	"strconv"

	"remit/internal/chain"
	"remit/internal/emf"
	"remit/internal/settlement"
	"remit/internal/token"
)

const gweiDecimals = 9 // 1 gwei is 10^9 wei

// Add adds the report of a run of check-receipts to m. Amounts of the token
// are written as whole tokens, of which one has 10^decimals units; gas in gwei.
// Both are for people and alarms only: they are rounded. What a canary watches is of the
// function's version too, by its name.
func Add(m *emf.Meter, r settlement.Report, decimals int, version string) {
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
		{"RefillsRefused", r.Unfilled},
		{"PaymentsPending", r.Pending},
	} {
		if count.n > 0 {
			m.Add(count.name, emf.Count, float64(count.n))
		}
	}
	if r.Failed > 0 {
		m.AddOf("Version", version, "PaymentsFailed", emf.Count, float64(r.Failed))
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
		m.AddOf("Wallet", s.Wallet.String(), map[bool]string{false: "PaymentFees", true: "NoopFees"}[s.Noop], emf.None, rounded(s.Fee, gweiDecimals))
	}
	for _, left := range r.Treasury {
		m.Add("TreasuryRefills", emf.Count, float64(left))
	}
	for _, w := range r.Wallets {
		m.Add("WalletToken", emf.None, rounded(w.Balance, decimals))
		m.Add("WalletGas", emf.None, rounded(w.Gas, gweiDecimals))
		m.Add("NonceGap", emf.Count, float64(w.Gap))
	}
}

// AddNodes adds to m what a run has seen of the configured nodes. NodesSilent is how
// many of them left the last request unanswered. NodeErrors, the requests that they left
// unanswered, is of the stack and of each node.
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
		if n.Open {
			m.AddOf("Node", n.Node, "NodeBreakerOpen", emf.Count, 1)
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
