package chain

// GasLimit returns the gas limit of a transaction with the given estimate: a fifth more, since the
// price of its data on L1 can rise before it is mined.
func GasLimit(estimate uint64) uint64 { return estimate + estimate/5 }

// NoopGas is the cost of a plain transfer of ether, the intrinsic gas of any transaction (Ethereum
// yellow paper, appendix G, G_transaction).
const NoopGas = 21_000

// maxGas is the most gas of one transaction (EIP-7825, in force since the fork Osaka).
const maxGas = 1 << 24

// Fits reports whether an estimate's gas limit fits a transaction and a block of blockGas.
func Fits(estimate, blockGas uint64) bool { return GasLimit(estimate) <= min(blockGas, maxGas) }
