package simulation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// Nitro charges the data that goes to L1 out of the gas limit, before a
// transaction runs (OffchainLabs/nitro, GasChargingHook). A no-op of 21,000 gas is
// never mined there, and all nonces of the wallet wait behind it.
func TestNoopNeedsMoreGas(t *testing.T) {
	for name, spike := range map[string]bool{"from the start": false, "since it was signed": true} {
		perform(t, name, pair, func(s *simulation.Scenario) {
			if !spike {
				s.Chain.L1Gas = 500
			}
			first, second := moved(s)
			s.Thaw()
			s.Until(func() bool { return len(s.Reports()) > 0 || s.Record(first).NextNonce == 1 })
			if spike {
				s.Halted = true
				s.Elapse(50 * time.Second)
				s.Chain.Each((*fakechain.Node).Forget)
				s.Chain.L1Gas = 90_000
				s.Halted = false
			}
			s.Elapse(6 * time.Minute)
			s.Is("mined on the first", s.Chain.Account(fakechain.Wallet(first), 2).Nonce, uint64(1))
			s.Pause(second, "by hand")
			s.Pay("client", order(1))
			s.After(3*time.Minute, order(1), payment.Confirmed)
			s.Resume(second)
		})
	}
}

// No node can estimate a no-op for a while: it is made with the gas that every
// transaction needs on most chains, and gets more when a node can.
func TestNoopWithoutAnEstimate(t *testing.T) {
	simulation.Perform(t, pair, func(s *simulation.Scenario) {
		s.Chain.L1Gas = 5_000
		first, _ := moved(s)
		s.Thaw()
		s.On("run", "Estimate", 2, scheduler.FailBefore)
		s.Elapse(8 * time.Minute)
		s.Is("mined on the first", s.Chain.Account(fakechain.Wallet(first), 2).Nonce, uint64(1))
	})
}

// The price of L1 data rises while a payment waits (cowprotocol/services#2795), or
// a fork raises the least gas of call data (EIP-7623): every node refuses the bytes
// for their gas limit. While the transfer can be estimated it is paid, with a
// higher limit, and never given up.
func TestGasLimitIsTooLow(t *testing.T) {
	for name, dear := range map[string]func(s *simulation.Scenario){
		"L1 data":       func(s *simulation.Scenario) { s.Chain.L1Gas = 200_000 },
		"least gas":     func(s *simulation.Scenario) { s.Chain.Each(func(n *fakechain.Node) { n.Floor = 10_000 }) },
		"a higher base": func(s *simulation.Scenario) { s.Chain.L1Gas, s.Chain.BaseFee = 200_000, spike },
	} {
		for _, limit := range []uint64{0, 210} { // with and without room for higher fees
			if limit > 0 && name == "a higher base" {
				continue
			}
			perform(t, name, simulation.Setup{FeeLimit: unit(limit)}, func(s *simulation.Scenario) {
				s.Halted = true
				p := s.Pay("client", order(0))
				s.Pay("client", order(1))
				s.Chain.Each((*fakechain.Node).Forget)
				dear(s)
				s.Halted = false
				s.Elapse(12 * time.Minute)
				s.IsState(order(0), payment.Confirmed)
				s.IsState(order(1), payment.Confirmed)
				s.Is("hash", s.Payment(order(0)).TxHash, p.TxHash)
				s.Is("attempts", len(s.Payment(order(0)).Attempts), 2)
				s.Chain.BaseFee = quiet
			})
		}
	}
}

// A chain, or its RPC, stands still for hours. Nobody asks for more than was
// offered, so no fee rises.
func TestMarketStandsStill(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Pay("client", order(0))
		s.Halted = true
		s.Elapse(4 * time.Hour)
		s.Is("attempts", len(s.Payment(order(0)).Attempts), 1)
		s.Halted = false
		s.After(3*time.Minute, order(0), payment.Confirmed)
	})
}

// The price rises and stays. Every payment that waits below it is lifted at once,
// not one after the other.
func TestPriceRisesForAll(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Halted = true
		payFirst(s, "client", 20)
		s.Chain.BaseFee, s.Halted = spike, false
		s.Elapse(4 * time.Minute)
		for n := range 20 {
			s.IsState(order(n), payment.Confirmed)
			s.Is("attempts", len(s.Payment(order(n)).Attempts), 2)
		}
		s.Chain.BaseFee = quiet
	})
}

// The handler's clock is ten minutes ahead. The price rises, and the payment is not
// left alone for as long.
func TestPriceRisesUnderAWrongClock(t *testing.T) {
	setup := simulation.Setup{Skews: []time.Duration{0, 10 * time.Minute, 0, 0, 0, 0, 0, 0, 0}} // of the first instance and the first run
	simulation.Perform(t, setup, func(s *simulation.Scenario) {
		s.Halted = true
		s.Pay("client", order(0))
		s.Elapse(2 * time.Minute) // the first run ends
		s.Chain.BaseFee, s.Halted = spike, false
		s.After(4*time.Minute, order(0), payment.Confirmed)
		s.Chain.BaseFee = quiet
	})
}

// The price rises beyond the wallet's ether. No attempt costs more than the wallet has: no node
// takes an attempt that the wallet cannot pay, and a payment that could wait for a better price
// would wait for a top-up.
func TestBumpsThatTheWalletCanPay(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Nodes: 1}, func(s *simulation.Scenario) {
		s.Chain.TakeGas(fakechain.Wallet(0))
		s.Chain.Fund(fakechain.Wallet(0), unit(0), unit(40_000_000))
		s.Halted = true
		s.Pay("client", order(0))
		s.Chain.Each((*fakechain.Node).Forget)
		s.Chain.BaseFee = spike
		s.Elapse(20 * time.Minute)
		s.Chain.BaseFee, s.Halted = unit(400), false
		s.After(3*time.Minute, order(0), payment.Confirmed)
		s.Is("attempts", len(s.Payment(order(0)).Attempts), 2)
		s.Chain.BaseFee = quiet
	})
}

// Runs die before the record has a bump's cost, so two payments are bumped by the same ether, at a
// price that the node asks for a while. Once the first has paid, the second follows the market down
// as soon as the wallet can pay that, and waits for no top-up.
func TestPaymentAtAnAbsurdPrice(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Nodes: 1, Gwei: 12}, func(s *simulation.Scenario) {
		s.Halted = true
		s.Pay("client", order(0))
		s.Pay("client", order(1))
		s.On("run", "Reconcile", 0, scheduler.FailBefore)
		s.Chain.Nodes[0].Quotes = fakechain.Nonsenses["dear"]
		s.Elapse(8 * time.Minute)
		s.Off("Reconcile")
		s.Chain.Nodes[0].Heal()
		s.Chain.BaseFee = unit(400)
		s.Chain.Mine(s.Chain.Nodes[0])
		s.Chain.BaseFee, s.Halted = unit(99_845), false // a little less, and still more than the wallet has
		s.After(3*time.Minute, order(0), payment.Confirmed)
		s.Is("attempts", len(s.Payment(order(1)).Attempts), 2)
		s.Chain.BaseFee = unit(400)
		s.After(3*time.Minute, order(1), payment.Confirmed)
		s.Is("attempts", len(s.Payment(order(1)).Attempts), 3)
		s.Chain.BaseFee = quiet
	})
}

// Chains of the OP stack charge an L1 fee beside gas, and take no transaction of a
// wallet that has not both. A wallet with gas alone gives no reservation, also while
// the fees of other payments are still to be paid.
func TestL1FeeIsReserved(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Nodes: 1}, func(s *simulation.Scenario) {
		const gas, l1 = 60_000 * (2*100 + 10), 1_000_000
		s.Chain.L1Fee = unit(l1)
		s.Chain.TakeGas(fakechain.Wallet(0))
		s.Chain.Fund(fakechain.Wallet(0), unit(0), unit(gas+l1/2))
		s.Is("refused with gas alone", s.Ask("client", order(0)).Refused(), true)
		s.Chain.Fund(fakechain.Wallet(0), unit(0), unit(gas+3*l1))
		s.Elapse(2 * time.Minute)
		s.Halted = true
		s.Pay("client", order(0))
		s.Is("refused with gas for two and one L1 fee", s.Ask("client", order(1)).Refused(), true)
		s.Elapse(2 * time.Minute)
		s.Is("refused after a round", s.Ask("client", order(1)).Refused(), true)
		s.Is("paused", s.Record(0).Paused, "")
		s.Halted = false
		s.After(3*time.Minute, order(0), payment.Confirmed)
		s.Pay("client", order(1))
		s.After(3*time.Minute, order(1), payment.Confirmed)
	})
}

// Transfers are executed within the gas of one to a stranger. A recipient that costs more,
// and a fork that makes all cost more, are estimated and paid; one for whom the token returns
// false is refused. A node that lets every call pass fails its own payments, as one whose
// estimates are too low does, and makes no other node's cheaper.
func TestTransfersByCall(t *testing.T) {
	warm := func(s *simulation.Scenario) {
		payFirst(s, "client", 3)
	}
	for name, run := range map[string]func(s *simulation.Scenario){
		"a dear recipient": func(s *simulation.Scenario) {
			s.Chain.Dear[order(3).To] = 400_000
			s.Is("gas", s.Pay("client", order(3)).Tx.Gas, chain.GasLimit(450_000))
		},
		"a fork": func(s *simulation.Scenario) {
			s.Chain.L1Gas = 100_000
			s.Is("gas", s.Pay("client", order(3)).Tx.Gas, chain.GasLimit(150_000))
		},
		"a node that is blind": func(s *simulation.Scenario) {
			s.Chain.Nodes[0].Blind = true
			s.Elapse(14 * time.Second)
			s.Pay("client", order(4))
			s.Elapse(time.Second)
			s.Pay("client", order(5)) // and the worst case again
			s.Is("enough gas", s.Pay("client", order(3)).Tx.Gas > chain.GasLimit(50_000), true)
		},
	} {
		perform(t, name, simulation.Setup{}, func(s *simulation.Scenario) {
			warm(s)
			run(s)
			s.After(3*time.Minute, order(3), payment.Confirmed)
		})
	}
	for _, cold := range []bool{true, false} {
		perform(t, fmt.Sprint("false, to a process that is cold: ", cold), simulation.Setup{}, func(s *simulation.Scenario) {
			s.Chain.Recipients[order(3).To] = fakechain.ReturnsFalse
			if !cold {
				warm(s)
			}
			s.Is("refused", s.Ask("client", order(3)).Refused(), true)
		})
	}
}
