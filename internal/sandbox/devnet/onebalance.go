package devnet

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// gasAccount gets the fees of a chain whose gas is the token.
var gasAccount = token.Address{0: 0x7e, 1: 0x57, 19: 0xfe}

// oneBalance makes the token the gas, as on Arc: balanceOf is the whole units of the balance that eth_getBalance gives
// in 18 decimals, and fees are taken from it to the wei. At the end of each block, transactions of the token's
// owner take whole units of each sender; the fractions that senders owe, or have paid too much, are kept here. Unlike a
// real chain it takes the fee after the transaction, and refuses none that cannot pay it.
type oneBalance struct {
	chain *Chain

	mu   sync.Mutex
	paid map[common.Hash]map[common.Address]*big.Int // the fees of each sender up to a block, in wei
	took map[common.Hash]bool                        // the transactions that take fees
}

// GasRule returns how gas is paid on a chain with TokenGas, whose token is at an address.
func GasRule(contract token.Address) chain.GasRule {
	return chain.GasRule{InToken: true, Token: contract, Account: gasAccount}
}

func (o *oneBalance) unit() *big.Int {
	return bigInt(uint64(GasRule(o.chain.token.Contract).Unit(o.chain.token)))
}

// units returns wei in units of the token, rounded up.
func (o *oneBalance) units(wei *big.Int) *big.Int {
	up := new(big.Int).Add(wei, new(big.Int).Sub(o.unit(), bigInt(1)))
	return up.Div(up, o.unit())
}

func (o *oneBalance) upTo(block common.Hash) map[common.Address]*big.Int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paid[block]
}

// charge returns block with further transactions at its end, which take the fees of the others. A reorg makes those of
// a replaced block pending again: charge leaves them out, and what the owner sent after them. The chain's lock is held.
func (o *oneBalance) charge(parent *types.Header, block *types.Block) (*types.Block, error) {
	c, paid := o.chain, map[common.Address]*big.Int{}
	maps.Copy(paid, o.upTo(parent.Hash()))
	owner, own := common.Address(c.owner.Address), uint64(0)
	signer, again := types.LatestSignerForChainID(bigInt(c.cfg.ChainID)), false
	fresh := slices.DeleteFunc(slices.Clone(block.Transactions()), func(tx *types.Transaction) bool {
		from, _ := types.Sender(signer, tx)
		again = again || o.took[tx.Hash()]
		return again && from == owner
	})
	if again {
		var err error
		if block, err = c.build(parent, block.Time(), fresh); err != nil {
			return nil, err
		}
	}
	due := map[common.Address]*big.Int{}
	receipts := c.eth.BlockChain().GetReceiptsByHash(block.Hash())
	for i, tx := range block.Transactions() {
		from, err := types.Sender(signer, tx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading the sender of %s: %w", tx.Hash(), err)
		case from == owner:
			own++
			continue
		}
		before := paid[from]
		if before == nil {
			before = new(big.Int)
		}
		fee := new(big.Int).Mul(receipts[i].EffectiveGasPrice, bigInt(receipts[i].GasUsed))
		paid[from] = fee.Add(fee, before)
		if more := new(big.Int).Sub(o.units(paid[from]), o.units(before)); more.Sign() > 0 {
			if due[from] != nil {
				more.Add(more, due[from])
			}
			due[from] = more
		}
	}
	if len(due) > 0 {
		state, err := c.eth.BlockChain().StateAt(parent.Root, parent.Number, parent.Time)
		if err != nil {
			return nil, fmt.Errorf("reading block %d: %w", parent.Number, err)
		}
		txs := slices.Clone(block.Transactions())
		nonce := state.GetNonce(owner) + own
		for _, from := range slices.SortedFunc(maps.Keys(due), common.Address.Cmp) {
			approve, err := c.call("approveFor", from, owner, due[from])
			if err != nil {
				return nil, err
			}
			take, err := c.call("transferFrom", from, common.Address(gasAccount), due[from])
			if err != nil {
				return nil, err
			}
			for _, tx := range []*types.DynamicFeeTx{approve, take} {
				signed, err := c.sign(nonce, tx)
				if err != nil {
					return nil, err
				}
				txs, nonce, o.took[signed.Hash()] = append(txs, signed), nonce+1, true
			}
		}
		if block, err = c.build(parent, block.Time(), txs); err != nil {
			return nil, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paid[block.Hash()] = paid
	return block, nil
}

// GetBalance answers eth_getBalance.
func (o *oneBalance) GetBalance(ctx context.Context, a common.Address, at rpc.BlockNumberOrHash) (*hexutil.Big, error) {
	c := o.chain
	header, err := c.eth.APIBackend.HeaderByNumberOrHash(ctx, at)
	if err != nil || header == nil {
		return nil, fmt.Errorf("no such block: %w", err)
	}
	data, err := c.abi.Pack("balanceOf", a)
	if err != nil {
		return nil, err
	}
	contract := common.Address(c.token.Contract)
	word, err := c.client.CallContractAtHash(ctx, ethereum.CallMsg{To: &contract, Data: data}, header.Hash())
	if err != nil {
		return nil, err
	}
	wei := new(big.Int).Mul(new(big.Int).SetBytes(word), o.unit())
	if paid := o.upTo(header.Hash())[a]; paid != nil {
		taken := new(big.Int).Mul(o.units(paid), o.unit())
		wei.Add(wei, taken.Sub(taken, paid))
	}
	return (*hexutil.Big)(wei), nil
}
