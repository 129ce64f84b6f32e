package simulation_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// One of two nodes counts too many transactions of each of 30 wallets. A round reads and writes in proportion to the
// wallets, and writes no pause again.
func TestOvercountCost(t *testing.T) {
	const wallets = 30
	simulation.Perform(t, simulation.Setup{Nodes: 2, Wallets: wallets}, func(s *simulation.Scenario) {
		s.Pending = true
		for n := range wallets {
			s.Pay("client", order(n))
		}
		s.Halted = true
		s.Chain.Nodes[1].Counts = 1_000
		calls := map[string]int{}
		s.Fate = func(e *scheduler.Effect) scheduler.Outcome {
			calls[e.Call.Op]++
			return scheduler.Apply
		}
		s.Elapse(time.Minute)
		suspect := 0
		for n := range wallets {
			if s.Record(n).Suspect() {
				suspect++
			}
		}
		s.Is("suspect wallets", suspect, wallets)
		s.Is("pauses are written once or twice", calls["Repause"] <= 2*wallets, true)
		s.Is("reads of a wallet in five rounds", calls["Wallet"] <= 5*5*wallets, true)
	})
}
