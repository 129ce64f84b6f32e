package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// ErrDisagree reports nodes with different answers about final blocks.
var ErrDisagree = errors.New("nodes disagree")

// A LoggedTransfer is a transfer that a mined log records.
type LoggedTransfer struct {
	Transfer
	Tx        Hash
	Block     uint64
	BlockHash Hash
	Index     uint64 // the log's index in its block
}

// A MinedTx is a transaction in a block.
type MinedTx struct {
	Hash     Hash
	From, To token.Address // To is zero where a contract was created
	Nonce    uint64
	Value    token.Amount // wei of ether that it moves
	Data     string       // its call data
	Block    uint64
	At       time.Time // of the block, in UTC
	Signed   bool      // the node has shown the signature of From's key; not compared between nodes
}

func (l LoggedTransfer) String() string {
	return fmt.Sprint(l.Amount, " units from ", l.From, " to ", l.To, " by ", l.Tx, " in block ", l.Block, " ", l.BlockHash)
}

// Noop reports whether tx only used up its nonce and moved neither ether nor a token.
func (tx MinedTx) Noop() bool { return tx.To == tx.From && tx.Data == "" && tx.Value.IsZero() }

func (tx MinedTx) String() string {
	return fmt.Sprintf("%s of %s at nonce %d in block %d", tx.Hash, tx.From, tx.Nonce, tx.Block)
}

// FinalOnAll returns the highest block that is final on every node.
func (n Nodes) FinalOnAll(ctx context.Context, rule ConfirmationRule) (uint64, error) {
	h := n.Patient().Heads(ctx, rule)
	if errors.Join(h.errs...) != nil || len(n) == 0 {
		return 0, unavailable(h.errs)
	}
	return slices.Min(h.answered().numbers(func(v View) uint64 { return v.Final })), nil
}

// Transfers returns the transfers of a token out of wallets in the final blocks from first to last.
// Every node must have the same last block and the same transfers. A node that differs is
// ErrDisagree. A missing answer is an error too: the other answers prove nothing.
func (n Nodes) Transfers(ctx context.Context, coin token.Address, wallets []token.Address, first, last uint64) ([]LoggedTransfer, error) {
	if _, err := agreed(ctx, n, fmt.Sprint("block ", last), func(node Node) ([]Hash, error) {
		hashes, err := node.BlockHashes(ctx, []uint64{last})
		if err == nil && slices.Contains(hashes, Hash{}) {
			err = fmt.Errorf("node has no block %d", last)
		}
		return hashes, err
	}); err != nil {
		return nil, err
	}
	return agreed(ctx, n, fmt.Sprintf("the transfers of blocks %d to %d", first, last), func(node Node) ([]LoggedTransfer, error) {
		return node.Transfers(ctx, coin, wallets, first, last)
	})
}

// Transactions returns the transactions of hashes, in their order. Nodes that differ are ErrDisagree.
func (n Nodes) Transactions(ctx context.Context, hashes []Hash) ([]MinedTx, error) {
	return n.TransactionsUntil(ctx, hashes, math.MaxUint64)
}

// TransactionsUntil is Transactions without transactions in blocks after last.
func (n Nodes) TransactionsUntil(ctx context.Context, hashes []Hash, last uint64) ([]MinedTx, error) {
	return agreed(ctx, n, fmt.Sprintf("%d transactions", len(hashes)), func(node Node) ([]MinedTx, error) {
		txs, err := node.Transactions(ctx, hashes)
		for i := range txs {
			txs[i].Signed = false
		}
		return slices.DeleteFunc(txs, func(tx MinedTx) bool { return tx.Block > last }), err
	})
}

// FirstSince returns the first block not older than at, or last+1 if all up to last are older. All nodes must agree.
func (n Nodes) FirstSince(ctx context.Context, at time.Time, last uint64) (uint64, error) {
	var err error
	first := sort.Search(int(last)+1, func(number int) bool {
		var mined time.Time
		if err == nil {
			mined, err = agreedOn(ctx, n, fmt.Sprintf("the time of block %d", number),
				func(node Node) (time.Time, error) { return node.BlockTime(ctx, uint64(number)) })
		}
		return err != nil || !mined.Before(at)
	})
	return uint64(first), err
}

// UserOf returns the transaction that used a wallet's nonce by the block last, if every node names the same.
func (n Nodes) UserOf(ctx context.Context, wallet token.Address, nonce, last uint64) (Hash, error) {
	return agreedOn(ctx, n, fmt.Sprintf("nonce %d of %s", nonce, wallet),
		func(node Node) (Hash, error) { return node.TxAtNonce(ctx, wallet, nonce, last) })
}

// tries is how often a silent node is queried: of the thousands of requests of an audit, some get lost.
const tries = 3

// agreed queries every node and returns the answer on which all agree. subject describes the query in errors.
func agreed[T comparable](ctx context.Context, nodes Nodes, subject string, ask func(Node) ([]T, error)) ([]T, error) {
	answers, errs := all(ctx, nodes.Patient(), func(_ int, node Node) (answer []T, err error) {
		for range tries {
			if answer, err = ask(node); err == nil || errors.Is(err, ErrRejected) {
				break
			}
		}
		return answer, err
	})
	if err := errors.Join(errs...); err != nil || len(nodes) == 0 {
		return nil, fmt.Errorf("asking every node of %s: %w", subject, unavailable(errs))
	}
	for i, answer := range answers {
		if at := differ(answers[0], answer); at >= 0 {
			return nil, fmt.Errorf("%w on %s: %s says %s, %s says %s", ErrDisagree, subject, nodes[0], sayOf(answers[0], at), nodes[i],
				sayOf(answer, at))
		}
	}
	return answers[0], nil
}

func agreedOn[T comparable](ctx context.Context, nodes Nodes, subject string, ask func(Node) (T, error)) (value T, err error) {
	values, err := agreed(ctx, nodes, subject, func(node Node) ([]T, error) {
		value, err := ask(node)
		return []T{value}, err
	})
	if err == nil {
		value = values[0]
	}
	return value, err
}

func differ[T comparable](a, b []T) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

func sayOf[T any](answer []T, i int) string {
	if i >= len(answer) {
		return "nothing"
	}
	return fmt.Sprintf("%+v", answer[i])
}
