package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

func unit(n uint64) token.Amount { return token.Units(n) }

func order(n int) oracle.Order {
	return oracle.Order{Key: fmt.Sprintf("key%d", n), To: fakechain.Payee(n), Amount: 1000}
}

// areConfirmed fails the scenario unless the payments of the first n orders are confirmed.
func areConfirmed(s *simulation.Scenario, n int) {
	s.T.Helper()
	for i := range n {
		s.IsState(order(i), payment.Confirmed)
	}
}

func codeOf(p payment.Payment) payment.FailureCode {
	if p.Failure == nil {
		return ""
	}
	return p.Failure.Code
}

func is(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func perform(t *testing.T, name string, setup simulation.Setup, scenario func(*simulation.Scenario)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { simulation.Perform(t, setup, scenario) })
}

// A payment is moved to another wallet and back, while the sleeper's nonce is used up by a no-op, mined and forgotten.
func TestAssignedAwayAndBackWhileAHandlerSleeps(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Wallets: 2}, func(s *simulation.Scenario) {
		s.Begin("sleeper", 0, order(0), "Reserve", scheduler.Freeze)
		first := int(s.Payment(order(0)).Wallet[19])
		s.Pause(first, "by hand")
		s.Begin("mover", 1, order(0), "Reassign", scheduler.KillAfter)
		s.Resume(first)
		second := int(s.Payment(order(0)).Wallet[19])
		s.On("sleeper", "Commit", 1, scheduler.Freeze)
		s.Thaw()
		s.Elapse(5 * time.Minute)
		s.Is("mined on the first", s.Chain.Account(fakechain.Wallet(first), 2).Nonce, uint64(1))
		s.Pause(second, "by hand")
		s.Begin("back", 1, order(0), "Reassign", scheduler.KillAfter)
		s.Is("assigned to", s.Payment(order(0)).Wallet, fakechain.Wallet(first))
		s.Resume(second)
		s.Thaw()
		s.Elapse(time.Second)
		s.Pay("client", order(0))
		s.After(3*time.Minute, order(0), payment.Confirmed)
	})
}

// quiet and spike are base fees in wei per gas. A spike by eight takes eighteen full blocks; on 1 May 2022 a popular
// sale raised Ethereum's base fee far beyond that in minutes.
var quiet, spike = unit(100), unit(800)

// A transfer of ether is bumped as a payment is, as far as the wallet can pay for that beside the value.
func TestTransferOfEther(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		all := oracle.Order{Key: "sweep", From: fakechain.Wallet(0), To: fakechain.Payee(7), Ether: true}
		s.StartClient("client-sweep", all, 1, false)
		s.Elapse(3 * time.Second)
		s.Chain.BaseFee = unit(250) // above the cap of 210, within twice of it
		s.After(6*time.Minute, all, payment.Confirmed)
		s.Is("bumped", len(s.Payment(all).Attempts) > 1, true)
	})
}

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
		compared[n], _ = s.Store.Compared(s.T.Context(), simulation.Asset(n))
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
