package ethrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// errNoHistory reports a node that lacks the state of the queried blocks.
var errNoHistory = errors.New("node lacks the history to tell")

// probes is the number of blocks in one request. A search among b blocks takes log(b)/log(probes+1)
// requests: 4 for the 2^20 blocks of some months.
const probes = 31

// TxAtNonce implements chain.Node. It searches for the block in which the wallet's count passed
// nonce: first back from final in growing steps, so that a node with only recent state can answer
// for recent nonces, then between the two nearest blocks. Each step is one request.
func (n *Node) TxAtNonce(ctx context.Context, wallet token.Address, nonce, final uint64) (chain.Hash, error) {
	hash, err := n.atNonce(ctx, wallet, nonce, final)
	if err != nil {
		return chain.Hash{}, fmt.Errorf("looking for the transaction at nonce %d of %v: %w", nonce, wallet, err)
	}
	return hash, nil
}

func (n *Node) atNonce(ctx context.Context, wallet token.Address, nonce, final uint64) (chain.Hash, error) {
	used, err := n.queryCounts(ctx, wallet, nonce, stepsBack(final), final)
	if err != nil {
		return chain.Hash{}, err
	}
	if used.above == nil {
		return chain.Hash{}, nil // the count at final itself is not past nonce
	}
	for used.below != nil && *used.above-*used.below > 1 {
		narrower, err := n.queryCounts(ctx, wallet, nonce, between(*used.below, *used.above), final)
		if err != nil {
			return chain.Hash{}, err
		}
		if narrower.above != nil {
			used.above = narrower.above
		}
		if narrower.below != nil {
			used.below = narrower.below
		}
	}
	if used.below == nil {
		return chain.Hash{}, fmt.Errorf("%w: %w", errNoHistory, used.unseen)
	}
	return n.transaction(ctx, wallet, nonce, *used.above)
}

// A bracket has the lowest block in which the nonce is known to be used, and the highest in which
// it is known to be unused.
type bracket struct {
	below, above *uint64
	unseen       error // of a block whose count is unknown
}

// queryCounts queries the wallet's count at ascending blocks. It skips blocks whose state the node
// lacks, and returns an error if the node lacks all of them.
func (n *Node) queryCounts(ctx context.Context, wallet token.Address, nonce uint64, blocks []uint64, final uint64) (bracket, error) {
	counts := make([]count, len(blocks))
	var head count
	calls := []query{call("eth_blockNumber", &head)}
	for i, b := range blocks {
		calls = append(calls, call("eth_getTransactionCount", &counts[i], wallet.String(), hexOf(b)))
	}
	calls, err := n.batch(ctx, calls...)
	if err == nil {
		err = firstError(calls[:1])
	}
	if err != nil {
		return bracket{}, err
	}
	if uint64(head) < final {
		return bracket{}, fmt.Errorf("node is at block %d, behind %d: %w", head, final, errNoHistory)
	}
	var seen bracket
	for i, b := range blocks {
		switch {
		case calls[i+1].Error != nil:
			seen.unseen = calls[i+1].Error
		case uint64(counts[i]) > nonce && seen.above == nil:
			seen.above = &b
		case uint64(counts[i]) <= nonce && seen.above != nil:
			return bracket{}, fmt.Errorf("%w: count at block %d is below that at %d", errAnswer, b, *seen.above)
		case uint64(counts[i]) <= nonce:
			seen.below = &b
		}
	}
	last := len(blocks) - 1
	nothing := seen.above == nil && seen.below == nil
	if nothing || blocks[last] == final && calls[last+1].Error != nil {
		return bracket{}, fmt.Errorf("%w: %w", errNoHistory, seen.unseen)
	}
	if seen.below == nil && seen.unseen == nil {
		seen.unseen = errors.New("nonce was used in the first block")
	}
	return seen, nil
}

// stepsBack returns final and the blocks 1, 2, 4, … before it, ascending.
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

// between returns up to probes blocks, evenly spread between below and above.
func between(below, above uint64) []uint64 {
	step := (above-below)/(probes+1) + 1
	var blocks []uint64
	for b := below + step; b < above; b += step {
		blocks = append(blocks, b)
	}
	return blocks
}

// transaction reads the wallet's transaction at nonce from the block.
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
	// An EIP-7702 authorisation signed by the wallet's key also uses up a nonce
	// without a transaction.
	return chain.Hash{}, fmt.Errorf("%w: block %d used the nonce without a transaction of the wallet", errAnswer, number)
}
