package simulation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// The run that has begun a release dies. No request carries its payment on, and a cancel takes it back unless it holds a
// nonce: then a run of check-receipts finishes it.
func TestReleaseDies(t *testing.T) {
	for effect, ends := range map[string]payment.State{"Reserve": payment.Cancelled, "Commit": payment.Confirmed} {
		perform(t, "before "+effect, simulation.Setup{}, func(s *simulation.Scenario) {
			s.Pay("first", order(1))
			s.Elapse(2 * time.Minute)
			s.Idle = true
			s.Is("proposed", s.Propose(order(0)), nil)
			s.On("release", effect, 1, scheduler.KillBefore)
			s.StartReleases()
			s.After(40*time.Second, order(0), payment.Prepared)
			s.Is("a request waits", errors.Is(s.Ask("pay", order(0)).Err, dispatch.ErrDuplicate), true)
			s.Is("a cancel is too late", errors.Is(s.Cancel(order(0)), proposal.ErrReleased), ends == payment.Confirmed)
			s.Idle = false
			s.After(5*time.Minute, order(0), ends)
		})
	}
}
