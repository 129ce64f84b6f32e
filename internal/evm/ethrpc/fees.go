package ethrpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// gasPriceOracle is the OP stack's GasPriceOracle, a contract at the same address on each of its chains
// (ethereum-optimism/specs, protocol/predeploys.md).
var gasPriceOracle = token.Address{0: 0x42, 19: 0x0f}

func oracleCall(result *hexutil.Bytes, method string, n uint64) query {
	word := token.Units(n).Bytes32()
	object := callObject{To: gasPriceOracle.String(), Data: append(token.Selector(method), word[:]...)}
	return call("eth_call", result, object, "latest")
}

// l1Fee adds the oracle's answers. An unknown fee is an error, not zero: a wallet needs it to send signed transactions.
func l1Fee(words ...hexutil.Bytes) (sum token.Amount, err error) {
	for _, word := range words {
		if len(word) != 32 {
			return sum, fmt.Errorf("%w: %d bytes of the OP stack's gas price oracle at %v", errAnswer, len(word), gasPriceOracle)
		}
		fee, err := token.AmountFromBytes(word)
		if err != nil {
			return sum, err
		}
		if sum, err = sum.Add(fee); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// Fees implements chain.Node. Calls within a second share an answer. Without a tip, it takes the last block's median.
func (n *Node) Fees(ctx context.Context) (chain.Market, error) {
	asked := n.market.DoChan("", func() (any, error) {
		if kept := n.kept.Load(); kept != nil && n.config.Now().Sub(kept.at) < time.Second {
			return kept.Market, nil
		}
		market, err := n.fees(context.WithoutCancel(ctx)) // others wait for it too
		if err == nil {
			n.kept.Store(&quoted{market, n.config.Now()})
		}
		return market, err
	})
	select {
	case <-ctx.Done():
		return chain.Market{}, ctx.Err()
	case answer := <-asked:
		return answer.Val.(chain.Market), answer.Err
	}
}

type quoted struct {
	chain.Market
	at time.Time
}

func (n *Node) fees(ctx context.Context) (chain.Market, error) {
	var history struct {
		BaseFee []quantity `json:"baseFeePerGas"` // of each block, and of the next one
	}
	var tip quantity
	calls := []query{
		call("eth_maxPriorityFeePerGas", &tip),
		call("eth_feeHistory", &history, "0x1", "latest", []int{}),
	}
	var l1, operator hexutil.Bytes
	if n.config.L1Fee {
		calls = append(calls, oracleCall(&l1, "getL1FeeUpperBound(uint256)", chain.QuotedSize), // since Fjord
			oracleCall(&operator, "getOperatorFee(uint256)", chain.QuotedGas)) // since Isthmus
	}
	calls, err := n.batch(ctx, calls...)
	if err == nil {
		err = firstError(calls[1:])
	}
	if n := len(history.BaseFee); err == nil && n != 1 && n != 2 {
		err = fmt.Errorf("eth_feeHistory: %w: %d base fees for one block and the next", errAnswer, n)
	}
	if err != nil {
		return chain.Market{}, fmt.Errorf("reading fees: %w", err)
	}
	market := chain.Market{BaseFee: history.BaseFee[len(history.BaseFee)-1].Amount, Tip: tip.Amount}
	if len(history.BaseFee) == 1 {
		// Avalanche's coreth leaves the next block's out: an eighth is the most
		// that it can be higher (EIP-1559, BASE_FEE_MAX_CHANGE_DENOMINATOR).
		market.BaseFee = market.BaseFee.ScaleUp(9, 8)
	}
	if n.config.L1Fee {
		if market.L1Fee, err = l1Fee(l1, operator); err != nil {
			return chain.Market{}, fmt.Errorf("reading fees: %w", err)
		}
	}
	if unsuggested := calls[0].Error; unsuggested != nil {
		var paid struct {
			Reward [][]quantity `json:"reward"` // of each block, each percentile
		}
		err := n.each(ctx, call("eth_feeHistory", &paid, "0x1", "latest", []int{50}))
		if err != nil || len(paid.Reward) != 1 || len(paid.Reward[0]) != 1 {
			return chain.Market{}, fmt.Errorf("reading fees: eth_maxPriorityFeePerGas: %w", errors.Join(unsuggested, err))
		}
		market.Tip = paid.Reward[0][0].Amount
	}
	return market, nil
}
