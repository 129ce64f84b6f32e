package dispatch

import "remit/internal/settings"

// Forget has the process read the rules again.
func (d *Dispatcher) Forget() { d.rules = settings.Cached[ruling]{} }
