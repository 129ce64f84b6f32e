package chain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Tx is an unsigned EIP-1559 transaction without its nonce. With a nonce, a key in memory always makes the same
// bytes (RFC 6979 signatures are deterministic). A key in KMS makes different bytes with the same meaning each time.
type Tx struct {
	ChainID uint64
	To      token.Address
	Value   token.Amount // wei of ether that it moves
	Data    []byte
	Gas     uint64 // limit, in units of gas
	Fees    Fees
	L1Fee   token.Amount // wei that the wallet must hold besides gas; not signed
	GasUnit GasUnit      // how its gas is paid; not signed
}

// Takes returns the token and ether taken from a wallet by an amount of the token and the transaction's Cost.
func (tx Tx) Takes(amount token.Amount) (coin, gas token.Amount) {
	return tx.GasUnit.Takes(amount, tx.Cost())
}

// Cost is the most wei that the transaction can take: gas limit times fee cap, the L1 fee, and its
// value. It saturates, so that an absurd cost is refused as unaffordable.
func (tx Tx) Cost() token.Amount {
	cost, err := tx.Fees.Cap.Times(tx.Gas)
	if err == nil {
		cost, err = cost.Add(tx.L1Fee)
	}
	if err == nil {
		cost, err = cost.Add(tx.Value)
	}
	if err != nil {
		return token.MaxAmount()
	}
	return cost
}

// A Signed transaction has the bytes to send and their hash.
type Signed struct {
	Nonce uint64
	Hash  Hash
	Raw   []byte
}

// transferSelector is the first four bytes of keccak256("transfer(address,uint256)"), EIP-20.
var transferSelector = [4]byte{0xa9, 0x05, 0x9c, 0xbb}

// TransferData returns the call data of an ERC-20 transfer.
func TransferData(to token.Address, amount token.Amount) []byte {
	recipient, units := addressTopic(to), amount.Bytes32()
	return slices.Concat(transferSelector[:], recipient[:], units[:])
}

// ToNewHolders returns the call with n recipients replaced by accounts that hold nothing of the token: a transfer's
// recipient, or every tenth of a batch. Making a balance non-zero costs more gas than changing it, so this call's gas
// suffices if up to n recipients spend their last coin before the block. Other calls are unchanged.
func (c Call) ToNewHolders() (other Call, n uint64) {
	nobody := func(to token.Address) token.Address { // nobody owns the hash of an address
		h := sha256.Sum256(to[:])
		return token.Address(h[:20])
	}
	if t, _, ok := ParseTransfer(c.Data); ok {
		return c.PaidTo(nobody(t.To)), 1
	}
	coin, entries, rest, ok := disburser.Parse(c.Data)
	for i := 0; ok && i < len(entries); i += 10 {
		entries[i].To = nobody(entries[i].To)
		n++
	}
	if n > 0 {
		c.Data = disburser.Calldata(coin, entries, rest)
	}
	return c, n
}

// PaidTo returns a transfer's call with another recipient. Other calls are unchanged.
func (c Call) PaidTo(to token.Address) Call {
	if t, rest, ok := ParseTransfer(c.Data); ok {
		c.Data = append(TransferData(to, t.Amount), rest...)
	}
	return c
}

// ParseTransfer reads the recipient and the amount from the call data of an ERC-20 transfer.
// rest follows the arguments. It reports false if data is no such call.
func ParseTransfer(data []byte) (t Transfer, rest []byte, ok bool) {
	const size = 4 + 32 + 32
	if len(data) < size {
		return t, nil, false
	}
	copy(t.To[:], data[4+12:])
	amount, err := token.AmountFromBytes(data[size-32 : size])
	t.Amount = amount
	return t, data[size:], err == nil && bytes.Equal(data[:size], TransferData(t.To, amount))
}

// Noop is the package's Noop with the nodes' estimate as its gas limit: Arbitrum charges more than
// NoopGas (OffchainLabs/nitro, GasChargingHook). It has NoopGas if no node gives an estimate.
func (n Nodes) Noop(ctx context.Context, chainID uint64, wallet token.Address, fees Fees) Tx {
	tx := Noop(chainID, wallet, fees)
	if gas, err := n.Estimate(ctx, Call{From: wallet, To: wallet}); err == nil {
		tx.Gas = max(tx.Gas, GasLimit(gas))
	}
	return tx
}

// Noop returns the transaction that only uses up a nonce: a transfer of no ether to the wallet itself, with NoopGas.
func Noop(chainID uint64, wallet token.Address, fees Fees) Tx {
	return Tx{ChainID: chainID, To: wallet, Gas: NoopGas, Fees: fees}
}
