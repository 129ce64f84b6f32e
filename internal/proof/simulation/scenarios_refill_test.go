package simulation_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// refilled is a small wallet beside a funding wallet that sends it 800 when it has less than
// 1,000, once in a day.
var refilled = simulation.Setup{Coins: 1_500, Depth: 1,
	Refills: settings.Refills{Token: settings.Refill{Low: unit(1_000), Amount: unit(800), Daily: unit(1_000)}}}

// runLow has a wallet pay before it is refilled.
func runLow(s *simulation.Scenario) {
	rules := s.Refills
	s.Refills = settings.Refills{}
	s.Pay("client", order(0))
	s.After(3*time.Minute, order(0), payment.Confirmed)
	s.Refills = rules
}

// A wallet that runs low is refilled once, while each effect of two runs at once goes
// wrong in every way, and each run asks again.
func TestRefill(t *testing.T) {
	for _, effect := range []string{"Payment", "Create", "Charge", "Reserve"} {
		for _, o := range scheduler.Faults() {
			setup := refilled
			setup.Refills.Token.Daily = unit(3_000) // a charge that is unknown is made again
			perform(t, effect+" "+o.String(), setup, func(s *simulation.Scenario) {
				runLow(s)
				s.On("refill", effect, 1, o)
				s.StartRefill()
				s.StartRefill()
				s.Elapse(8 * time.Minute)
				s.Is("tokens", s.Record(0).Balance, unit(1_500-1_000+800))
			})
		}
	}
}

// A run that looked at a wallet before its refill was there asks for no other one.
func TestRefillAfterAnOldLook(t *testing.T) {
	setup := refilled
	setup.Refills.Token.Daily = unit(0)
	simulation.Perform(t, setup, func(s *simulation.Scenario) {
		runLow(s)
		s.Idle = true
		late := s.StartRefill()
		s.On(late, "Payment", 1, scheduler.Freeze)
		s.Elapse(time.Second)
		for range 4 {
			s.StartRun()
			s.StartRefill()
			s.Elapse(12 * time.Second)
		}
		s.Elapse(3 * time.Second) // the refill is final, and the late run still alive
		s.Is("tokens", s.Record(0).Balance, unit(1_300))
		s.Thaw()
		for range 6 {
			s.StartRun()
			s.StartRefill()
			s.Elapse(30 * time.Second)
		}
		s.Is("tokens in the end", s.Record(0).Balance, unit(1_300))
	})
}
