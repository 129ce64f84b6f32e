package devnet

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus/misc/eip1559"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// burnTarget is the address of a contract of one instruction, INVALID, which uses
// up all the gas of a call without doing any work.
var (
	burnTarget = common.Address{0: 0x7e, 1: 0x57, 19: 0xff}
	burnCode   = []byte{0xfe}
)

// BaseFee returns the base fee of the next block, in wei per gas.
func (c *Chain) BaseFee() (token.Amount, error) {
	return token.AmountFromBytes(c.nextBaseFee().Bytes())
}

func (c *Chain) nextBaseFee() *big.Int {
	blocks := c.eth.BlockChain()
	return eip1559.CalcBaseFee(blocks.Config(), blocks.CurrentBlock())
}

// RaiseBaseFee makes full blocks, without pending transactions, until the next
// block's base fee is at least wei. EIP-1559 allows 12.5 % per block, so eightfold
// takes 18 blocks, whose timestamps are a second apart. Later blocks that are less
// than half full let the fee fall again.
func (c *Chain) RaiseBaseFee(wei token.Amount) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due != 0 { // a magic re-organisation must not take all these blocks back
		if err := c.replace(c.due - 1); err != nil {
			return err
		}
	}
	word := wei.Bytes32()
	for target := new(big.Int).SetBytes(word[:]); c.nextBaseFee().Cmp(target) < 0; {
		// EIP-7825 caps the gas of one transaction.
		var txs []*types.DynamicFeeTx
		for left := uint64(gasLimit); left >= params.TxGas; {
			gas := min(left, params.MaxTxGas)
			txs = append(txs, &types.DynamicFeeTx{Gas: gas, To: &burnTarget})
			left -= gas
		}
		if err := c.mineFor(c.burner, txs...); err != nil {
			return err
		}
	}
	return nil
}
