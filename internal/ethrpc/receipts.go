package ethrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/rpc"

	"remit/internal/chain"
)

// maxBatch is the most elements of one request, the limit of the stricter
// providers (Nethermind 1024, geth 1000, Infura and QuickNode about 100 by plan).
const maxBatch = 100

// Receipts implements chain.Node, in requests of at most 100 hashes. Receipts
// that could be read are returned with the error of those that could not.
func (n *Node) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	var found []chain.Receipt
	var problems []error
	for chunk := range slices.Chunk(hashes, maxBatch) {
		read, err := n.receipts(ctx, chunk)
		found = append(found, read...)
		if err != nil {
			problems = append(problems, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := errors.Join(problems...); err != nil {
		return found, fmt.Errorf("reading %d receipts: %w", len(hashes), err)
	}
	return found, nil
}

// receipts reads one chunk. Of its elements' errors, which tend to be the same,
// it returns the first.
func (n *Node) receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	answers := make([]*receipt, len(hashes))
	calls := make([]rpc.BatchElem, len(hashes))
	for i, h := range hashes {
		calls[i] = call("eth_getTransactionReceipt", &answers[i], h.String())
	}
	calls, err := n.batch(ctx, calls...)
	if err != nil {
		return nil, err
	}
	first := firstError(calls)
	found := make([]chain.Receipt, 0, len(hashes))
	for i, answer := range answers {
		if answer == nil || calls[i].Error != nil {
			continue
		}
		read, mined, err := answer.of(hashes[i])
		if err != nil && first == nil {
			first = err
		}
		if mined {
			found = append(found, read)
		}
	}
	return found, first
}

// BlockHashes implements chain.Node, in requests of at most 100 blocks.
func (n *Node) BlockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	hashes := make([]chain.Hash, 0, len(numbers))
	for chunk := range slices.Chunk(numbers, maxBatch) {
		read, err := n.blockHashes(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("reading %d block hashes: %w", len(numbers), err)
		}
		hashes = append(hashes, read...)
	}
	return hashes, nil
}

func (n *Node) blockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	answers := make([]*header, len(numbers))
	calls := make([]rpc.BatchElem, len(numbers))
	for i, number := range numbers {
		calls[i] = call("eth_getBlockByNumber", &answers[i], hexOf(number), false)
	}
	calls, err := n.batch(ctx, calls...)
	if err == nil {
		err = firstError(calls)
	}
	if err != nil {
		return nil, err
	}
	hashes := make([]chain.Hash, len(numbers))
	for i, answer := range answers {
		if answer == nil {
			continue
		}
		if answer.Number == nil || uint64(*answer.Number) != numbers[i] || answer.Hash == nil {
			return nil, fmt.Errorf("eth_getBlockByNumber: %w: not block %d", errAnswer, numbers[i])
		}
		hashes[i] = *answer.Hash
	}
	return hashes, nil
}
