package ethrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

var errNoHistory = errors.New("node lacks the history to tell")

// probes is the number of blocks in one request. A search among b blocks takes log(b)/log(probes+1)
// requests: 4 for the 2^20 blocks of some months.
const probes = 31

// TxAtNonce implements chain.Node. It searches for the block in which the wallet's count passed
// nonce: first back from final in growing steps, so that a node with only recent state can answer
// for recent nonces, then between the two nearest blocks. Each step is one request.
func (n *Node) TxAtNonce(ctx context.Context, wallet token.Address, nonce, final uint64) (_ chain.Hash, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("looking for the transaction at nonce %d of %v: %w", nonce, wallet, err)
		}
	}()
	var below, above *uint64 // the nearest blocks in which the nonce is known to be unused, and used
	unseen := errors.New("nonce was used in the first block")
	for blocks := stepsBack(final); len(blocks) > 0; {
		counts, errs, err := n.counts(ctx, wallet, blocks, final)
		if err != nil {
			return chain.Hash{}, err
		}
		used, known := false, false
		for i, b := range blocks {
			switch {
			case errs[i] != nil:
				unseen = errs[i]
				continue
			case uint64(counts[i]) > nonce && !used:
				above, used = &b, true
			case uint64(counts[i]) <= nonce && used:
				return chain.Hash{}, fmt.Errorf("%w: count at block %d is below that at %d", errAnswer, b, *above)
			case uint64(counts[i]) <= nonce:
				below = &b
			}
			known = true
		}
		if last := len(blocks) - 1; !known || blocks[last] == final && errs[last] != nil {
			return chain.Hash{}, fmt.Errorf("%w: %w", errNoHistory, unseen)
		}
		if blocks = nil; above != nil && below != nil {
			blocks = between(*below, *above)
		}
	}
	switch {
	case above == nil:
		return chain.Hash{}, nil // the count at final itself is not past nonce
	case below == nil:
		return chain.Hash{}, fmt.Errorf("%w: %w", errNoHistory, unseen)
	}
	return n.transaction(ctx, wallet, nonce, *above)
}

// counts queries the wallet's count at each of blocks, of which the node may lack the state of some.
func (n *Node) counts(ctx context.Context, wallet token.Address, blocks []uint64, final uint64) ([]count, []error, error) {
	counts, errs := make([]count, len(blocks)), make([]error, len(blocks))
	var head count
	calls := []query{call("eth_blockNumber", &head)}
	for i, b := range blocks {
		calls = append(calls, call("eth_getTransactionCount", &counts[i], wallet.String(), hexOf(b)))
	}
	calls, err := n.batch(ctx, calls...)
	if err == nil {
		err = firstError(calls[:1])
	}
	if err == nil && uint64(head) < final {
		err = fmt.Errorf("node is at block %d, behind %d: %w", head, final, errNoHistory)
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range blocks {
		errs[i] = calls[i+1].Error
	}
	return counts, errs, nil
}

func stepsBack(final uint64) []uint64 {
	blocks := []uint64{final}
	for back := uint64(1); back <= final && len(blocks) <= probes; back *= 2 {
		blocks = append([]uint64{final - back}, blocks...)
	}
	if blocks[0] != 0 && len(blocks) <= probes {
		blocks = append([]uint64{0}, blocks...)
	}
	return blocks
}

func between(below, above uint64) []uint64 {
	step := (above-below)/(probes+1) + 1
	var blocks []uint64
	for b := below + step; b < above; b += step {
		blocks = append(blocks, b)
	}
	return blocks
}

func (n *Node) transaction(ctx context.Context, wallet token.Address, nonce, number uint64) (chain.Hash, error) {
	var found *block
	if err := n.each(ctx, call("eth_getBlockByNumber", &found, hexOf(number), true)); err != nil {
		return chain.Hash{}, err
	}
	if found == nil || found.Number == nil || uint64(*found.Number) != number {
		return chain.Hash{}, fmt.Errorf("%w: not block %d", errAnswer, number)
	}
	for _, tx := range found.Transactions {
		if tx.From != nil && token.Address(*tx.From) == wallet && tx.Nonce != nil && uint64(*tx.Nonce) == nonce && tx.Hash != nil {
			return *tx.Hash, nil
		}
	}
	// An EIP-7702 authorisation signed by the wallet's key also uses up a nonce without a transaction.
	return chain.Hash{}, fmt.Errorf("%w: block %d used the nonce without the wallet's transaction", errAnswer, number)
}
