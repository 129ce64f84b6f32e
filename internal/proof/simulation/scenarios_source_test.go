package simulation_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
)

// leave stores the payment of an order with a source, as an older version left it: a nonce
// is reserved for it, or it is committed too.
func leave(s *simulation.Scenario, o oracle.Order, commit bool) {
	ctx, w := s.T.Context(), s.Record(0)
	p := payment.New(o.ID(), o.Request(), token.Token{Symbol: "USDC", Decimals: 6, Contract: s.Chain.Token}, "simulated", time.Now())
	p.Source = fakechain.Source
	p = p.AssignedTo(w.Address, chain.Tx{
		ChainID: w.ChainID, To: s.Chain.Token, Data: p.CallData(true), Gas: 100_000, Fees: chain.Fees{Tip: unit(100), Cap: unit(1_000)},
	})
	_, _, err := s.Store.Create(ctx, p)
	s.Is("stored", err, nil)
	w, err = s.Store.Reserve(ctx, store.NeedOf(p, time.Now()))
	s.Is("reserved", err, nil)
	if !commit {
		return
	}
	signer, err := s.Keys.Signer(ctx, wallet.Registration{ID: w.ID})
	s.Is("key", err, nil)
	_, err = store.Commit(ctx, s.Store, signer, p, w.Reservations[p.ID].Nonce, time.Now())
	s.Is("committed", err, nil)
}

// Payments with a source that hold a nonce are made as they are stored, with the source's
// coins, or fail unpaid once its owner has taken the allowance away.
func TestStoredPaymentsWithASource(t *testing.T) {
	for name, allowance := range map[string]uint64{"allowed": 9_000, "no more": 0} {
		perform(t, name, simulation.Setup{}, func(s *simulation.Scenario) {
			s.Chain.Fund(fakechain.Source, unit(9_000), unit(0))
			s.Chain.Approve(fakechain.Wallet(0), unit(allowance))
			s.Pay("client", order(0))
			leave(s, order(1), false)
			leave(s, order(2), true)
			s.Elapse(4 * time.Minute)
			for n := 1; n <= 2; n++ {
				s.Pay("client", order(n))
				s.Is("why", codeOf(s.Payment(order(n))), map[bool]payment.FailureCode{true: payment.ExecutionReverted}[allowance == 0])
				s.Is("whose coins", s.Payment(order(n)).Source, fakechain.Source)
			}
			s.Is("the wallet's coins", s.Chain.Account(fakechain.Wallet(0), 0).Coins, unit(999_000))
		})
	}
}

// Tables that forget such a payment find it on the chain, by the source that others name.
func TestPaymentsWithASourceForgotten(t *testing.T) {
	simulation.Perform(t, simulation.Setup{}, func(s *simulation.Scenario) {
		s.Chain.Fund(fakechain.Source, unit(9_000), unit(0))
		s.Chain.Approve(fakechain.Wallet(0), unit(9_000))
		s.Pay("client", order(0))
		leave(s, order(1), true)
		s.Elapse(4 * time.Minute)
		image := s.Store.Image()
		leave(s, order(2), true)
		s.Elapse(4 * time.Minute)
		s.Lose(image)
		s.Is("recovered", s.Recover(), true)
		s.Is("whose coins", s.Payment(order(2)).Source, fakechain.Source)
		for n := range 3 {
			s.Pay("client", order(n))
			s.IsState(order(n), payment.Confirmed)
		}
	})
}
