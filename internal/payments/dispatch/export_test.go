package dispatch

import (
	"strconv"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Forget has the process read the rules again.
func (d *Dispatcher) Forget() { d.rules = new(settings.Cached[store.Rules]) }

// Crowded adds n merchants to a crowd, and returns how many it holds then.
func Crowded(n int) int {
	var c crowd
	for i := range n {
		c.add(strconv.Itoa(i), time.Time{})
	}
	return len(c.seen)
}
