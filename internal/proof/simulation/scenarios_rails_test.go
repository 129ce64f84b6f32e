package simulation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
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

// restored pays a payment on each rail, copies the tables, pays another on the second rail, and takes the tables back
// to the copy. Nobody notices.
func restored(s *simulation.Scenario, down, same bool) {
	s.Pay("a", order(0))
	s.Pay("b", elsewhere(order(1)))
	s.Elapse(time.Hour)
	image := s.Store.Image()
	var compared [2]store.Comparison
	for n := range compared {
		compared[n], _ = image.Compared(s.T.Context(), simulation.Asset(n))
	}
	s.Pay("lost", elsewhere(order(2)))
	s.Elapse(20 * time.Minute)
	s.Idle = true
	s.Elapse(2 * time.Minute)
	if down {
		s.ChainOf(1).Each(func(n *fakechain.Node) { n.Down = true })
	}
	s.Forget(image)
	for n := 0; same && n < len(compared); n++ { // as in a table of the same name
		compared[n].Revision = 0
		s.Is("compared", s.Store.SetCompared(s.T.Context(), simulation.Asset(n), compared[n]), nil)
	}
}

// A payment of one rail is mined, and the tables are restored without it. No process pays it on the other rail: not
// before a run has compared that one, not after a run found its chain ahead, and not while its nodes are down. After
// remit recover its key is known again.
func TestAnotherRailIsAhead(t *testing.T) {
	for _, test := range []struct {
		name       string
		runs       time.Duration
		down, same bool
	}{
		{"at once", 0, false, false}, {"after a run", 5 * time.Minute, false, false}, {"its nodes are down", 5 * time.Minute, true, false},
		{"under its own name", 0, false, true}, {"under its own name, after a run", 5 * time.Minute, false, true},
		{"under its own name, its nodes are down", 5 * time.Minute, true, true},
	} {
		perform(t, test.name, simulation.Setup{Rails: 2, Wallets: 2}, func(s *simulation.Scenario) {
			restored(s, test.down, test.same)
			s.Idle = test.runs == 0
			s.Elapse(test.runs)
			s.Is("a new payment is refused", s.Ask("new", order(3)).Refused(), true)
			s.Is("the lost one is refused", s.Ask("again", order(2)).Err != nil, true)
			s.Idle = false
			s.ChainOf(1).Each((*fakechain.Node).Heal)
			s.Elapse(10 * time.Minute)
			s.Is("later too", s.Ask("again2", order(2)).Err != nil, true)
			s.Is("recovered", s.Recover(), true)
			s.Elapse(3 * time.Minute)
			s.Is("its key is used", errors.Is(s.Ask("again3", order(2)).Err, dispatch.ErrKeyReused), true)
			s.Pay("new2", order(3))
		})
	}
}

// The copy has a payment that holds a nonce of the first rail. After it was copied the payment was discarded, and its
// key paid on the second rail. No run and no request makes the first payment.
func TestARestoredNonceOfAnotherRailsPayment(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Rails: 2}, func(s *simulation.Scenario) {
		s.Pay("b", elsewhere(order(1)))
		s.Elapse(time.Hour)
		s.Idle = true
		s.Begin("dead", 0, order(0), "Commit", scheduler.KillBefore)
		image := s.Store.Image()
		s.Is("discarded", s.Store.Discard(s.T.Context(), s.Payment(order(0))), nil) // by a request that was refused
		s.Pay("lost", elsewhere(order(0)))
		s.Elapse(10 * time.Minute)
		s.Forget(image)
		s.Idle = false
		s.Elapse(10 * time.Minute)
		s.IsState(order(0), payment.Prepared)
		s.Is("waiting", errors.Is(s.Ask("again", order(0)).Err, dispatch.ErrInProgress), true)
		s.Is("recovered", s.Recover(), true)
	})
}

// Each effect of a payment goes wrong in every way, while another client asks for the other asset under its key: one
// of them is paid.
func TestOneKeyForTwoAssets(t *testing.T) {
	performEach(t, simulation.Setup{Rails: 2}, []string{"Rules", "Create", "Reserve", "Commit", "Release"},
		func(s *simulation.Scenario, effect string, o scheduler.Outcome) {
			s.On("client-a", effect, 1, o)
			s.StartClient("client-a", order(0), 3, false)
			s.StartClient("client-b", elsewhere(order(0)), 3, false)
			s.Elapse(5 * time.Minute)
		})
}
