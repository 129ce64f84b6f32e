package dispatch

import (
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Forget has the process read the rules again.
func (d *Dispatcher) Forget() { d.rules = new(settings.Cached[store.Rules]) }
