package dispatch

import "github.com/remit-payouts/remit/internal/evm/settings"

// Forget has the process read the rules again.
func (d *Dispatcher) Forget() { d.rules = settings.Cached[ruling]{} }
