package simulation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"remit/internal/dispatch"
	"remit/internal/simulation"
	"remit/internal/simulation/fakechain"
	"remit/internal/simulation/oracle"
	"remit/internal/token"
	"remit/internal/wallet"
)

// 500 merchants pay from one wallet at the rate that its window allows, and from 50 wallets.
// No round settles for two minutes. Then a round sees a top-up of each wallet, and payments
// are refused for a window or a merchant's share only.
func TestManyMerchants(t *testing.T) {
	for _, test := range []struct{ wallets, rate int }{{1, 64 / 12}, {50, inRace(3, 25)}} { // a second
		setup := simulation.Setup{Wallets: test.wallets, Window: 64, Share: 32, Instances: 4}
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
					s.T.Errorf("wallet %d has %s after a round, topped up", n, balance)
				}
			}
			made := 0
			for _, c := range answers {
				switch a := s.Await(c); {
				case a.Err == nil:
					made++
				case !errors.Is(a.Err, dispatch.ErrTooMany) && !errors.Is(a.Err, wallet.ErrCeiling):
					s.T.Errorf("%s: %v", a.Order.Key, a.Err)
				}
			}
			if made < len(answers)/2 {
				s.T.Errorf("%d of %d payments were made", made, len(answers))
			}
		})
	}
}
