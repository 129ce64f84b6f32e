package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Nodes are the configured nodes. Each has its own view of the chain: it may lag, forget, be on
// another fork or be down. A query that any node can answer goes to one node after the other. An
// answer that decides about money is compared with all other nodes' answers.
type Nodes []Node

// ErrNoNodes is a Provider's error before an operator has stored the nodes.
var ErrNoNodes = errors.New("no nodes are stored")

// A Provider returns the nodes to use now, at least one: they may change while a process lives.
type Provider interface {
	Nodes(ctx context.Context) (Nodes, error)
}

// Nodes implements Provider for nodes that never change.
func (n Nodes) Nodes(context.Context) (Nodes, error) { return n, nil }

// A View is a wallet's account on one node.
type View struct {
	Node Node
	Account
	blocks *blockHashes // of the node since its head was read; nil: no cache
	name   string       // unlike any other node's; empty: Node.String
}

// Name returns the node's host, with its place in the list if an earlier node has the same host.
func (v View) Name() string { return cmp.Or(v.name, v.Node.String()) }

// Views has the view of each node that answered, in configured order.
type Views []View

// A Block identifies a block.
type Block struct {
	Number uint64
	Hash   Hash
}

// Heads are the ends of the nodes' chains, each from its own node. Its views share a cache of each node's block hashes:
// use a Heads for one round only.
type Heads struct {
	nodes  Nodes
	heads  []Head
	errs   []error // of the nodes that gave none
	blocks []*blockHashes
}

// Heads queries the head of every node whose circuit breaker is closed.
func (n Nodes) Heads(ctx context.Context, rule ConfirmationRule) Heads {
	heads, errs := all(ctx, n, func(_ int, node Node) (Head, error) { return node.Head(ctx, rule) })
	h := Heads{n, heads, errs, make([]*blockHashes, len(n))}
	for i := range n {
		h.blocks[i] = &blockHashes{found: map[uint64]*blockHash{}}
	}
	return h
}

// answered returns the nodes that gave their heads, as views of no wallet.
func (h Heads) answered() (views Views) {
	for i, node := range h.nodes {
		if h.errs[i] == nil {
			views = append(views, View{node, Account{Head: h.heads[i]}, h.blocks[i], h.name(i)})
		}
	}
	return views
}

// name returns the name of the node at a position of the list, unlike any other's: nodes may share a host.
func (h Heads) name(at int) string {
	host := h.nodes[at].String()
	if earlier := slices.IndexFunc(h.nodes, func(n Node) bool { return n.String() == host }); earlier < at {
		return fmt.Sprintf("%s#%d", host, at+1)
	}
	return host
}

// Receded returns the names of the nodes whose final block is lower now than earlier.
func (h Heads) Receded(earlier Heads) (names []string) {
	for i := range h.nodes {
		if h.errs[i] == nil && earlier.errs[i] == nil && h.heads[i].Final < earlier.heads[i].Final {
			names = append(names, h.name(i))
		}
	}
	return names
}

// Silent returns the names of the nodes that gave no valid answer. ErrWrongChain is a valid answer, and so is ErrBusy:
// the node answers other calls. A late node is not silent: we stopped waiting for it. ok is false if no node gave a
// valid answer.
func (h Heads) Silent() (names []string, ok bool) {
	for i, err := range h.errs {
		if err == nil || errors.Is(err, ErrWrongChain) || errors.Is(err, ErrBusy) || h.isLate(i) {
			ok = true
		} else {
			names = append(names, h.name(i))
		}
	}
	return names, ok
}

// Late returns the nodes that are much later than enough others, as views of no wallet.
func (h Heads) Late() (views Views) {
	for i, node := range h.nodes {
		if h.isLate(i) {
			views = append(views, View{Node: node, name: h.name(i)})
		}
	}
	return views
}

func (h Heads) isLate(i int) bool {
	if b := breakerOf(h.nodes[i]); b != nil && errors.Is(h.errs[i], ErrOpen) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.late
	}
	return errors.Is(h.errs[i], errLate)
}

// Views queries a wallet's account on every node that gave its head. It returns ErrUnavailable if no node answers.
func (h Heads) Views(ctx context.Context, wallet, coin token.Address) (Views, error) {
	asked := h.answered()
	accounts, errs := all(ctx, asked.nodes(), func(i int, node Node) (Account, error) {
		return node.Account(ctx, wallet, coin, asked[i].Head)
	})
	var views Views
	for i, view := range asked {
		if view.Account = accounts[i]; errs[i] == nil {
			views = append(views, view)
		}
	}
	if len(views) == 0 {
		return nil, unavailable(slices.Concat(h.errs, errs))
	}
	return views, nil
}

// Views queries every node's head and then its view of a wallet. It returns ErrUnavailable if no node answers.
func (n Nodes) Views(ctx context.Context, wallet, coin token.Address, rule ConfirmationRule) (Views, error) {
	return n.Heads(ctx, rule).Views(ctx, wallet, coin)
}

// AllViews is Views, but returns ErrUnavailable unless every node answers.
func (n Nodes) AllViews(ctx context.Context, wallet, coin token.Address, rule ConfirmationRule) (Views, error) {
	views, err := n.Patient().Views(ctx, wallet, coin, rule)
	if err == nil && len(views) < len(n) {
		err = fmt.Errorf("%w: %d of %d nodes answer, and all must", ErrUnavailable, len(views), len(n))
	}
	return views, err
}

// Latest queries every node's view of a wallet without its head: one request instead of two. Count and balances may
// be of different blocks, and none is known to be final. It returns ErrUnavailable if no node answers.
func (n Nodes) Latest(ctx context.Context, wallet, coin token.Address) (Views, error) {
	return Heads{n, make([]Head, len(n)), make([]error, len(n)), make([]*blockHashes, len(n))}.Views(ctx, wallet, coin)
}

// Leading returns the first view with the highest count of mined transactions, for a recovery, in
// which all nodes must answer. The other nodes lag, or are on another fork.
func (v Views) Leading() View {
	return slices.MaxFunc(v, func(a, b View) int { return cmp.Compare(a.Mined, b.Mined) })
}

// FinalCount returns how many of a wallet's transactions are final on every node with a view.
func (v Views) FinalCount(ctx context.Context, wallet token.Address) (uint64, error) {
	counts, errs := v.finalCounts(ctx, v.nodes().Patient(), wallet)
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("asking what is final of %s: %w", wallet, err)
	}
	return slices.Min(counts), nil
}

// Used returns how many of a wallet's nonces are used up in final blocks, on enough nodes to
// confirm a payment, or 0 and false if too few nodes answer.
func (n Nodes) Used(ctx context.Context, views Views, wallet token.Address, silent int) (uint64, bool) {
	counts, errs := views.finalCounts(ctx, views.nodes(), wallet)
	var said []uint64
	for i := range errs {
		if errs[i] == nil {
			said = append(said, counts[i])
		}
	}
	return n.most(said, silent), enough(len(said), len(n), silent)
}

func (v Views) finalCounts(ctx context.Context, nodes Nodes, wallet token.Address) ([]uint64, []error) {
	return all(ctx, nodes, func(i int, node Node) (uint64, error) { return node.Count(ctx, wallet, v[i].Final) })
}

// Mined has the receipts of some transactions, compared between nodes.
type Mined struct {
	Agreed map[Hash]Agreement // final on some node
	Seen   map[Hash]int       // how many nodes have a receipt, final or not
}

// An Agreement is the final receipt with the most nodes behind it. Its fee is nil unless all give the same: a disputed
// fee delays nothing.
type Agreement struct {
	Receipt
	By      Views  // nodes that call its block final and still have that block
	Against Views  // nodes that differ on it
	Dispute string // how, for logs
}

// Decide reports whether enough nodes agree on a receipt to end a payment with verdict v. A moved amount, or a nonce
// used up by a no-op, needs more than half of the nodes that are not silent, and at least two where three or more are
// configured. A contradicted receipt needs more than half of the configured nodes, on two hosts. An amount that has not
// moved needs all nodes, because the merchant then pays again: nodes have served receipts without their logs
// (erigontech/erigon#19406) and with a wrong status (cosmos/ethermint#282). A single configured node decides alone.
func (n Nodes) Decide(v Verdict, a Agreement, silent int) bool {
	switch {
	case v != Transferred && v != Used:
		return len(a.By) >= len(n)
	case len(a.Against) > 0:
		return enough(len(a.By), len(n), 0) && slices.ContainsFunc(a.By, func(v View) bool {
			return v.Node.String() != a.By[0].Node.String()
		})
	}
	return enough(len(a.By), len(n), silent)
}

// Receipts queries every node for the receipts of hashes, and compares them. A node differs if it has another block at
// the receipt's height, has the block but no receipt, or gives a receipt with another status, use of gas or logs. A
// node that lags or gives no answer neither differs nor counts. An error means that no node answered.
func (v Views) Receipts(ctx context.Context, hashes []Hash) (Mined, error) {
	mined := Mined{Agreed: map[Hash]Agreement{}, Seen: map[Hash]int{}}
	testimonies, errs := all(ctx, v.nodes(), func(i int, _ Node) (testimony, error) { return v[i].testify(ctx, hashes) })
	final := map[uint64]struct{}{} // the numbers of blocks with final receipts
	for _, t := range testimonies {
		for _, h := range hashes {
			if _, ok := t.receipts[h]; ok {
				mined.Seen[h]++
			}
			if r, ok := t.final(h); ok {
				final[r.Block] = struct{}{}
			}
		}
	}
	if len(final) == 0 {
		if len(mined.Seen) == 0 && !slices.Contains(errs, nil) {
			return mined, unavailable(errs)
		}
		return mined, nil
	}
	numbers := slices.Sorted(maps.Keys(final))
	all(ctx, v.nodes(), func(i int, node Node) (struct{}, error) {
		hashes, err := v[i].blocks.of(ctx, node, numbers)
		if t := testimonies[i]; t.blocks != nil { // nil: it gave no testimony
			for j := range hashes {
				t.blocks[numbers[j]] = hashes[j]
			}
		}
		return struct{}{}, err
	})
	for _, h := range hashes {
		for _, of := range testimonies {
			if _, ok := of.final(h); !ok {
				continue
			}
			a := compare(of.View, of.receipts[h], testimonies)
			if best, ok := mined.Agreed[h]; len(a.By)+len(a.Against) > 0 && (!ok || len(best.By) < len(a.By)) {
				mined.Agreed[h] = a
			}
		}
	}
	return mined, nil
}

// A testimony is one node's answers about some transactions.
type testimony struct {
	View
	whole    bool // it answered for each of them
	receipts map[Hash]Receipt
	blocks   map[uint64]Hash // hashes by number on its canonical chain; zero: no such block
}

// final returns the node's receipt, and true if its block is final there.
func (t testimony) final(h Hash) (Receipt, bool) {
	r, gave := t.receipts[h]
	return r, gave && r.Block <= t.Final
}

func (v View) testify(ctx context.Context, hashes []Hash) (testimony, error) {
	receipts, err := v.Node.Receipts(ctx, hashes)
	t := testimony{View: v, whole: err == nil, receipts: map[Hash]Receipt{}, blocks: map[uint64]Hash{}}
	for _, r := range receipts {
		t.receipts[r.Tx] = r
	}
	return t, err
}

func compare(of View, receipt Receipt, testimonies []testimony) Agreement {
	a := Agreement{Receipt: receipt}
	for _, t := range testimonies {
		r, gave := t.receipts[receipt.Tx]
		_, final := t.final(receipt.Tx)
		block := t.blocks[receipt.Block]
		says := ""
		switch {
		case gave && !r.same(receipt):
			says = r.String()
		case !block.IsZero() && block != receipt.BlockHash:
			says = "another block: " + block.String()
		case !gave && t.whole && !block.IsZero():
			says = "no receipt"
		case final && !block.IsZero():
			if a.By = append(a.By, t.View); r.Fee == nil || a.Fee != nil && *r.Fee != *a.Fee {
				a.Fee = nil
			}
		}
		if says != "" {
			a.Against = append(a.Against, t.View)
			a.Dispute = cmp.Or(a.Dispute, fmt.Sprintf("%s: %s; %s: %s", of.Name(), receipt, t.Name(), says))
		}
	}
	return a
}

// Names returns the names of the views' nodes.
func (v Views) Names() (names []string) {
	for _, view := range v {
		names = append(names, view.Name())
	}
	return names
}

func (v Views) nodes() Nodes {
	nodes := make(Nodes, len(v))
	for i, view := range v {
		nodes[i] = view.Node
	}
	return nodes
}

// TxAtNonce returns the hash of the transaction that used a wallet's nonce in a final block. It
// returns the zero Hash unless every configured node answers and all name the same transaction.
func (n Nodes) TxAtNonce(ctx context.Context, views Views, wallet token.Address, nonce uint64) (Hash, error) {
	if len(views) != len(n) {
		return Hash{}, nil
	}
	for _, view := range views {
		if view.Mined <= nonce {
			return Hash{}, nil
		}
	}
	hashes, errs := all(ctx, views.nodes().Patient(), func(i int, node Node) (Hash, error) {
		return node.TxAtNonce(ctx, wallet, nonce, views[i].Final)
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

// all queries every node at once and returns the answers in order. Of three or more, it waits for more than half, and
// then at most the duration share for the others. A node whose circuit breaker is open answers ErrOpen. Once ctx has
// ended, no node is queried. Errors name the nodes.
func all[T any](ctx context.Context, nodes Nodes, ask func(i int, node Node) (T, error)) ([]T, []error) {
	wanted := len(nodes)
	if wanted > 2 {
		wanted = wanted/2 + 1
	}
	return gather(ctx, nodes, wanted, share, ask)
}

// hurry is how many good answers a hurried query needs; it then waits at most the duration patience for the others. Of
// three or more, the fastest must not decide alone.
func (n Nodes) hurry() int { return min(2, (len(n)+1)/2) }

// gather is all with other bounds: once wanted nodes have answered well, it waits at most the duration wait for the
// others. Their error is then errLate, and their answers are dropped.
func gather[T any](ctx context.Context, nodes Nodes, wanted int, wait time.Duration, ask func(i int, node Node) (T, error)) ([]T,
	[]error) {
	type answer struct {
		of    int
		value T
		err   error
	}
	values, errs := make([]T, len(nodes)), make([]error, len(nodes))
	if err := ctx.Err(); err != nil {
		for i, node := range nodes {
			errs[i] = asking(node, err)
		}
		return values, errs
	}
	answers, waiting := make(chan answer, len(nodes)), map[int]struct{}{}
	for i, closed := range nodes.closed() {
		if !closed {
			errs[i] = asking(nodes[i], ErrOpen)
			continue
		}
		waiting[i] = struct{}{}
		go func() {
			value, err := timed(ctx, nodes[i], func() (T, error) { return ask(i, nodes[i]) })
			answers <- answer{i, value, err}
		}()
	}
	for late := (<-chan time.Time)(nil); len(waiting) > 0; {
		select {
		case a := <-answers:
			delete(waiting, a.of)
			breakerOf(nodes[a.of]).note(a.err)
			if values[a.of] = a.value; a.err != nil {
				errs[a.of] = asking(nodes[a.of], a.err)
			} else if wanted--; wanted == 0 {
				late = nodes.late(wait)
			}
		case <-late:
			for i := range waiting {
				breakerOf(nodes[i]).note(errLate)
				errs[i] = asking(nodes[i], errLate)
			}
			return values, errs
		}
	}
	return values, errs
}

func asking(node Node, err error) error { return fmt.Errorf("asking %s: %w", node, err) }

func unavailable(errs []error) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(errs...))
}
