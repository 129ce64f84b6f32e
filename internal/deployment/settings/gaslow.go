package settings

import "cmp"

const defaultGasLow = 2_000_000

// GasLow returns the gwei of ether below which a wallet is low on gas: an alarm fires, and remit doctor reports it.
func (r Rail) GasLow() uint64 { return cmp.Or(r.GasLowGwei, defaultGasLow) }
