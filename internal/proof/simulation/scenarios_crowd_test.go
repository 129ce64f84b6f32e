package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
)

// 500 merchants pay from one wallet at the rate that its window allows, and from 50 wallets. No round settles for two
// minutes. Then a round sees the top-ups before it, and payments are refused for a window or a merchant cap only.
func TestManyMerchants(t *testing.T) {
	for _, test := range []struct{ wallets, rate int }{{1, 64 / 12}, {50, 3}} { // a second
		setup := simulation.Setup{Wallets: test.wallets, Window: 64, MerchantCap: 32, Instances: 4}
		perform(t, fmt.Sprint(test.wallets, " wallets"), setup, func(s *simulation.Scenario) {
			var answers []<-chan oracle.Answer
			pay := func(seconds int) {
				for range seconds {
					for range test.rate {
						n := len(answers)
						o := oracle.Order{Key: fmt.Sprint("key", n), Merchant: fmt.Sprint("mer_", n%500), To: fakechain.Payee(n), Amount: 1}
						answers = append(answers, s.Post(fmt.Sprint("client", n), n, o))
					}
					s.Elapse(time.Second)
				}
			}
			s.Idle = true
			pay(120)
			s.Idle = false
			for n := range test.wallets {
				s.Chain.Fund(fakechain.Wallet(n), unit(1_000_000), token.Amount{})
			}
			pay(75)
			for n := range test.wallets {
				if balance := s.Record(n).Balance; balance.Less(unit(1_500_000)) {
					s.T.Errorf("wallet %d has %s after the top-up and a round", n, balance)
				}
			}
			made, full, capped := 0, 0, 0
			for _, c := range answers {
				switch a := s.Await(c); {
				case a.Err == nil:
					made++
				case errors.Is(a.Err, dispatch.ErrTooMany):
					capped++
				case errors.Is(a.Err, wallet.ErrCeiling):
					full++
				default:
					s.T.Errorf("%s: %v", a.Order.Key, a.Err)
				}
			}
			s.T.Logf("%d payments, %d made, %d refused for a window, %d for a merchant cap", len(answers), made, full, capped)
			if failed := s.Failed(); len(failed) > 0 {
				s.T.Errorf("%d runs failed, the first with: %v", len(failed), failed[0])
			}
			if made < len(answers)/2 {
				s.T.Errorf("%d of %d payments were made", made, len(answers))
			}
		})
	}
}
