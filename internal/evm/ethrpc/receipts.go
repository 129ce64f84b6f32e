package ethrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// Receipts implements chain.Node. It returns readable receipts with the first error of the others, mostly equal.
func (n *Node) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	answers := make([]*receipt, len(hashes))
	calls := make([]query, len(hashes))
	for i, h := range hashes {
		calls[i] = call("eth_getTransactionReceipt", &answers[i], h.String())
	}
	calls, err := n.batch(ctx, calls...)
	if err != nil {
		return nil, fmt.Errorf("reading %d receipts: %w", len(hashes), err)
	}
	first := firstError(calls)
	found := make([]chain.Receipt, 0, len(hashes))
	for i, answer := range answers {
		if answer == nil || calls[i].Error != nil {
			continue
		}
		read, mined, err := answer.of(hashes[i])
		first = cmp.Or(first, err)
		if mined {
			read.Logs = slices.DeleteFunc(read.Logs, func(l chain.Log) bool {
				t, ok := l.Transfer()
				return ok && n.config.Gas.Moves(t)
			})
			found = append(found, read)
		}
	}
	if first != nil {
		n.warn(ctx, "node's receipts cannot be read: payments wait", "err", first)
		first = fmt.Errorf("reading %d receipts: %w", len(hashes), first)
	}
	return found, first
}

// BlockHashes implements chain.Node. It returns the readable hashes with the error of the others.
func (n *Node) BlockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	answers := make([]*header, len(numbers))
	calls := make([]query, len(numbers))
	for i, number := range numbers {
		calls[i] = call("eth_getBlockByNumber", &answers[i], hexOf(number), false)
	}
	calls, err := n.batch(ctx, calls...)
	if err != nil {
		return nil, fmt.Errorf("reading %d block hashes: %w", len(numbers), err)
	}
	first := firstError(calls)
	hashes := make([]chain.Hash, len(numbers))
	for i, answer := range answers {
		switch {
		case answer == nil || calls[i].Error != nil:
		case answer.Number == nil || uint64(*answer.Number) != numbers[i] || answer.Hash == nil:
			first = cmp.Or(first, fmt.Errorf("eth_getBlockByNumber: %w: not block %d", errAnswer, numbers[i]))
		default:
			hashes[i] = *answer.Hash
		}
	}
	if first != nil {
		first = fmt.Errorf("reading %d block hashes: %w", len(numbers), first)
	}
	return hashes, first
}

// price has a receipt's fields for the cost of gas. Those after the first two are the OP stack's: the layer-1 fee of
// Base, OP Mainnet, Scroll and others, and the operator's fee. Gateways send them as null on other chains, which
// charge for layer 1 in gas (Arbitrum, ZKsync) or in its price (Linea).
type price struct {
	GasUsed  optional `json:"gasUsed"`
	Gas      optional `json:"effectiveGasPrice"`
	L1       optional `json:"l1Fee"`
	Scalar   optional `json:"operatorFeeScalar"`
	Constant optional `json:"operatorFeeConstant"`
	Jovian   optional `json:"daFootprintGasScalar"` // since the fork Jovian
}

// fee returns the sender's cost of gas, nil if the node's words do not give it. The operator's fee follows
// https://specs.optimism.io/protocol/jovian/exec-engine.html#operator-fee, or Isthmus before that fork.
func (p price) fee(gas uint64) *token.Amount {
	unreadable := p.Gas.unreadable || p.L1.unreadable || p.Scalar.unreadable || p.Constant.unreadable
	scalar, small := p.Scalar.Uint64()
	if gas == 0 || !p.Gas.given || unreadable || !small {
		return nil
	}
	fee, err := p.Gas.Times(gas)
	operator, operatorErr := token.Units(gas).Times(scalar)
	if !p.Jovian.given {
		operator = operator.Over(1_000_000)
	} else if operatorErr == nil {
		operator, operatorErr = operator.Times(100)
	}
	errs := []error{err, operatorErr}
	for _, part := range []token.Amount{p.L1.Amount, operator, p.Constant.Amount} {
		fee, err = fee.Add(part)
		errs = append(errs, err)
	}
	if errors.Join(errs...) != nil {
		return nil
	}
	return &fee
}
