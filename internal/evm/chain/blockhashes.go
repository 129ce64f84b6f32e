package chain

import (
	"cmp"
	"context"
	"sync"
)

// blockHashes caches the block hashes that a node gave since its head was read. Nil caches none.
type blockHashes struct {
	mu    sync.Mutex
	found map[uint64]*blockHash
}

// A blockHash is the answer about one block, once done is closed.
type blockHash struct {
	done chan struct{}
	hash Hash
	err  error
}

// of is Node.BlockHashes, but queries each block once. An error goes to every waiting caller, and is not cached.
func (b *blockHashes) of(ctx context.Context, node Node, numbers []uint64) ([]Hash, error) {
	if b == nil {
		return node.BlockHashes(ctx, numbers)
	}
	var missing []uint64
	answers := make([]*blockHash, len(numbers))
	b.mu.Lock()
	for i, number := range numbers {
		if b.found[number] == nil {
			b.found[number] = &blockHash{done: make(chan struct{})}
			missing = append(missing, number)
		}
		answers[i] = b.found[number]
	}
	b.mu.Unlock()
	if len(missing) > 0 {
		b.ask(ctx, node, missing)
	}
	hashes, err := make([]Hash, len(numbers)), error(nil)
	for i, answer := range answers {
		select {
		case <-answer.done:
			hashes[i], err = answer.hash, cmp.Or(err, answer.err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return hashes, err
}

func (b *blockHashes) ask(ctx context.Context, node Node, numbers []uint64) {
	hashes, err := node.BlockHashes(ctx, numbers)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, number := range numbers {
		answer := b.found[number]
		if answer.err = err; i < len(hashes) {
			answer.hash = hashes[i]
		}
		if err != nil {
			delete(b.found, number)
		}
		close(answer.done)
	}
}
