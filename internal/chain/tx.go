package chain

import (
	"bytes"
	"context"

	"remit/internal/token"
)

// A Tx is an unsigned EIP-1559 transaction, complete but for its nonce. It
// moves no ether. With a nonce added, a key turns it into exactly one sequence
// of bytes (RFC 6979 signatures are deterministic), so any process that signs it later
// signs the same.
type Tx struct {
	ChainID uint64
	To      token.Address
	Data    []byte
	Gas     uint64 // limit, in units of gas
	Fees    Fees
}

// Cost is the most wei the transaction can take: gas limit times fee cap. It
// saturates, so that an absurd cost is refused as unaffordable.
func (tx Tx) Cost() token.Amount {
	cost, err := tx.Fees.Cap.Times(tx.Gas)
	if err != nil {
		return token.MaxAmount()
	}
	return cost
}

// A Signed transaction is the bytes that a node takes, with their hash.
type Signed struct {
	Nonce uint64
	Hash  Hash
	Raw   []byte
}

// transferSelector is the first four bytes of
// keccak256("transfer(address,uint256)"), EIP-20.
var transferSelector = [4]byte{0xa9, 0x05, 0x9c, 0xbb}

// TransferData returns the call data of an ERC-20 transfer.
func TransferData(to token.Address, amount token.Amount) []byte {
	data := make([]byte, 4+32+32)
	copy(data, transferSelector[:])
	copy(data[4+12:], to[:])
	word := amount.Bytes32()
	copy(data[4+32:], word[:])
	return data
}

// ParseTransfer reads the call data of an ERC-20 transfer. rest follows its arguments.
// It reports false if data is no such call.
func ParseTransfer(data []byte) (to token.Address, amount token.Amount, rest []byte, ok bool) {
	const size = 4 + 32 + 32
	if len(data) < size {
		return to, amount, nil, false
	}
	copy(to[:], data[4+12:])
	amount, err := token.AmountFromBytes(data[4+32 : size])
	return to, amount, data[size:], err == nil && bytes.Equal(data[:size], TransferData(to, amount))
}

// resetGas is how much more a transfer can cost than its estimate, when the
// recipient spends its last coin in between: a balance that becomes non-zero
// costs 20,000 gas instead of 2,900 (EIP-2200, SSTORE_SET_GAS less
// SSTORE_RESET_GAS as EIP-2929 changed it).
const resetGas = 17_100

// TransferGas returns the gas limit of a transfer whose estimate is estimate: a
// fifth more, since the price of the data that goes to L1 can rise before the
// transfer is mined, and resetGas.
func TransferGas(estimate uint64) uint64 { return estimate + estimate/5 + resetGas }

// NoopGas is the cost of a plain transfer of ether, the intrinsic gas of any
// transaction (Ethereum yellow paper, appendix G, G_transaction).
const NoopGas = 21_000

// Noop is the package's Noop with the gas limit that the nodes' estimate asks for:
// Arbitrum charges more than NoopGas (OffchainLabs/nitro, GasChargingHook). It is
// NoopGas while no node gives an estimate.
func (n Nodes) Noop(ctx context.Context, chainID uint64, wallet token.Address, fees Fees) Tx {
	tx := Noop(chainID, wallet, fees)
	if gas, err := n.Estimate(ctx, Call{From: wallet, To: wallet}); err == nil {
		tx.Gas = max(tx.Gas, gas+gas/5)
	}
	return tx
}

// Noop returns the transaction that consumes a nonce and does nothing else: a
// transfer of no ether to the wallet itself, with NoopGas.
func Noop(chainID uint64, wallet token.Address, fees Fees) Tx {
	return Tx{ChainID: chainID, To: wallet, Gas: NoopGas, Fees: fees}
}
