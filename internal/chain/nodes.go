package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"remit/internal/token"
)

// Nodes are the configured nodes. Each has its own view of the chain: it may
// lag, forget, sit on another fork or be down. A question that any node can
// answer goes to one after the other; an answer that decides about money is
// held against all of them.
type Nodes []Node

// A Provider gives the nodes to ask now: they may change while a process lives.
// Its error means that no node is known.
type Provider interface {
	Nodes(ctx context.Context) (Nodes, error)
}

// Nodes implements Provider for nodes that never change.
func (n Nodes) Nodes(context.Context) (Nodes, error) { return n, nil }

// Fees returns the price of gas in the next block, from the first node that answers, or
// ErrUnavailable.
func (n Nodes) Fees(ctx context.Context) (Market, error) {
	return first(n, func(node Node) (Market, error) { return node.Fees(ctx) })
}

// Estimate returns the gas that the call needs. It returns ErrReverted when a
// node simulated the call and no other says that it passes, and
// ErrUnavailable when none could simulate it.
func (n Nodes) Estimate(ctx context.Context, call Call) (uint64, error) {
	return first(n, func(node Node) (uint64, error) { return node.Estimate(ctx, call) })
}

// first returns the first good answer. A revert is an answer, but the worst
// one: a node that lags may not have seen the wallet's funds yet.
func first[T any](nodes Nodes, ask func(Node) (T, error)) (T, error) {
	var none T
	var reverted error
	var errs []error
	for _, node := range nodes {
		answer, err := ask(node)
		switch {
		case err == nil:
			return answer, nil
		case errors.Is(err, ErrReverted):
			reverted = err
		default:
			errs = append(errs, fmt.Errorf("asking %s: %w", node, err))
		}
	}
	if reverted != nil {
		return none, reverted
	}
	return none, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(errs...))
}

// A View is a wallet as one node sees it.
type View struct {
	Node Node
	Account
}

// Views are the answers of the nodes that gave one, in configured order.
type Views []View

// Views asks every node for its view of a wallet. It returns ErrUnavailable
// when none answers.
func (n Nodes) Views(ctx context.Context, wallet, coin token.Address, confirmationRule ConfirmationRule) (Views, error) {
	accounts, errs := all(n, func(_ int, node Node) (Account, error) { return node.Account(ctx, wallet, coin, confirmationRule) })
	var views Views
	for i, node := range n {
		if errs[i] == nil {
			views = append(views, View{node, accounts[i]})
		}
	}
	if len(views) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(errs...))
	}
	return views, nil
}

// Leading returns the view with the highest count of the wallet's mined
// transactions: the others lag, or are on another fork.
func (v Views) Leading() View {
	leading := v[0]
	for _, view := range v[1:] {
		if view.Mined > leading.Mined || view.Mined == leading.Mined && !leading.Steady {
			leading = view
		}
	}
	return leading
}

// FinalCount returns how many of a wallet's transactions are final on every node
// that gave a view: no re-organisation gives those nonces back.
func (v Views) FinalCount(ctx context.Context, wallet token.Address) (uint64, error) {
	counts, errs := all(v.nodes(), func(i int, node Node) (uint64, error) { return node.Count(ctx, wallet, v[i].Account.Final) })
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("asking what is final of %s: %w", wallet, err)
	}
	return slices.Min(counts), nil
}

// Mined holds the receipts that the nodes have for some transactions.
type Mined struct {
	Final map[Hash]Receipt // mined for good
	Seen  map[Hash]bool    // some node has a receipt, final or not
}

// Receipts asks for the receipts of hashes and judges which are final: the
// node that gave the receipt calls the block final and still has that very
// block at its height, and no node that has the height has another block
// there. A hash that is not in Final is undecided: not mined, not final, or not
// agreed upon. An error means that no node answered.
func (v Views) Receipts(ctx context.Context, hashes []Hash) (Mined, error) {
	mined := Mined{Final: map[Hash]Receipt{}, Seen: map[Hash]bool{}}
	candidates, err := v.candidates(ctx, hashes, mined.Seen)
	if err != nil || len(candidates) == 0 {
		return mined, err
	}
	var numbers []uint64
	for _, c := range candidates {
		if !slices.Contains(numbers, c.Block) {
			numbers = append(numbers, c.Block)
		}
	}
	blocks, errs := all(v.nodes(), func(_ int, node Node) ([]Hash, error) { return node.BlockHashes(ctx, numbers) })
	for i := range blocks {
		if errs[i] != nil || len(blocks[i]) != len(numbers) {
			blocks[i] = make([]Hash, len(numbers))
		}
	}
	for _, c := range candidates {
		if agreed(c, blocks, slices.Index(numbers, c.Block)) {
			mined.Final[c.Tx] = c.Receipt
		}
	}
	return mined, nil
}

// A candidate is a receipt whose block its node calls final.
type candidate struct {
	Receipt
	from int // index of the view that gave it
}

// agreed reports whether c's own node has c's block at its height, whose hash is
// the one at that index of each node's blocks, and no other node contradicts. A
// node without that height does not contradict: it lags.
func agreed(c candidate, blocks [][]Hash, height int) bool {
	for i := range blocks {
		hash := blocks[i][height]
		if hash != c.BlockHash && (i == c.from || !hash.IsZero()) {
			return false
		}
	}
	return true
}

// candidates asks one node after the other for the receipts that the nodes
// before it did not call final.
func (v Views) candidates(ctx context.Context, hashes []Hash, seen map[Hash]bool) ([]candidate, error) {
	wanted := map[Hash]bool{}
	for _, h := range hashes {
		wanted[h] = true
	}
	var found []candidate
	var errs []error
	for i, view := range v {
		if len(wanted) == 0 {
			break
		}
		ask := slices.DeleteFunc(slices.Clone(hashes), func(h Hash) bool { return !wanted[h] })
		receipts, err := view.Node.Receipts(ctx, ask)
		if err != nil {
			errs = append(errs, fmt.Errorf("asking %s: %w", view.Node, err)) // and some of them may be there
		}
		for _, r := range receipts {
			seen[r.Tx] = seen[r.Tx] || wanted[r.Tx]
			if wanted[r.Tx] && r.Block <= view.Account.Final {
				delete(wanted, r.Tx)
				found = append(found, candidate{r, i})
			}
		}
	}
	if len(errs) == len(v) && len(found) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(errs...))
	}
	return found, nil
}

func (v Views) nodes() Nodes {
	nodes := make(Nodes, len(v))
	for i, view := range v {
		nodes[i] = view.Node
	}
	return nodes
}

// TxAtNonce returns the hash of the transaction that used a wallet's nonce in a
// final block, if every configured node has answered and all name the same
// one. It returns the zero Hash as long as there is any doubt: a node that is
// down, lags or disagrees decides nothing.
func (n Nodes) TxAtNonce(ctx context.Context, views Views, wallet token.Address, nonce uint64) (Hash, error) {
	if len(views) != len(n) {
		return Hash{}, nil
	}
	for _, view := range views {
		if view.Mined <= nonce {
			return Hash{}, nil
		}
	}
	hashes, errs := all(views.nodes(), func(i int, node Node) (Hash, error) {
		return node.TxAtNonce(ctx, wallet, nonce, views[i].Account.Final)
	})
	if err := errors.Join(errs...); err != nil {
		return Hash{}, fmt.Errorf("asking who used nonce %d of %s: %w", nonce, wallet, err)
	}
	for _, h := range hashes {
		if h.IsZero() || h != hashes[0] {
			return Hash{}, nil
		}
	}
	return hashes[0], nil
}

// all asks every node at once and returns the answers in order. Its errors name
// the nodes.
func all[T any](nodes Nodes, ask func(i int, node Node) (T, error)) ([]T, []error) {
	answers, errs := make([]T, len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() {
			if answers[i], errs[i] = ask(i, node); errs[i] != nil {
				errs[i] = fmt.Errorf("asking %s: %w", node, errs[i])
			}
		})
	}
	wg.Wait()
	return answers, errs
}
