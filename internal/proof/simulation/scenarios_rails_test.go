package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// elsewhere returns an order for the other asset, under the same key.
func elsewhere(o oracle.Order) oracle.Order {
	o.Asset = simulation.Asset(1)
	return o
}

// Each effect of a payment goes wrong in every way, while another client asks for the other asset under its key: one
// of them is paid.
func TestOneKeyForTwoAssets(t *testing.T) {
	for _, effect := range []string{"Rules", "Create", "Reserve", "Commit", "Release"} {
		for _, o := range scheduler.Faults() {
			perform(t, fmt.Sprintf("%s %s", effect, o), simulation.Setup{Rails: 2}, func(s *simulation.Scenario) {
				s.On("client-a", effect, 1, o)
				s.StartClient("client-a", order(0), 3, false)
				s.StartClient("client-b", elsewhere(order(0)), 3, false)
				s.Elapse(5 * time.Minute)
			})
		}
	}
}

// A dead rail holds nobody up, nor a process that starts beside it.
func TestAnotherRailIsDown(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Rails: 2}, func(s *simulation.Scenario) {
		s.Pay("a", order(0))
		s.Pay("b", elsewhere(order(1)))
		s.Elapse(time.Hour)
		s.ChainOf(1).Each(func(n *fakechain.Node) { n.Down = true })
		s.Elapse(time.Hour)
		s.Restart(0)
		s.Pay("c", order(2))
		s.Is("the same key", errors.Is(s.Ask("d", elsewhere(order(2))).Err, dispatch.ErrKeyReused), true)
	})
}
