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

// Estimate returns the gas that the call needs. It returns ErrReverted when a
// node simulated the call and no other says that it passes, and
// ErrUnavailable when none could simulate it. It returns ErrListed when the first node
// that answers says so: to refuse a payment moves no money. That one node's word is
// also enough to pay is so because its list is at most as old as its chain, and lists
// follow decrees by days (docs/decisions/0012-screening.md).
func (n Nodes) Estimate(ctx context.Context, call Call) (uint64, error) {
	return first(ctx, n, func(ctx context.Context, node Node) (uint64, error) { return node.Estimate(ctx, call) })
}

// A View is a wallet as one node sees it.
type View struct {
	Node Node
	Account
	blocks *blockHashes // of the node, in the round of the heads; nil: each question is asked
}

// Views are the answers of the nodes that gave one, in configured order.
type Views []View

// A Block is a block of a chain.
type Block struct {
	Number uint64
	Hash   Hash
}

// Heads are the ends of the nodes' chains, each from its own node. Receipts of all its views share the
// block hashes that a node has given: use a Heads for one round only.
type Heads struct {
	nodes  Nodes
	heads  []Head
	errs   []error // of the nodes that gave none
	blocks []*blockHashes
}

// Heads asks every node for the end of its chain, but not one whose circuit breaker
// is open.
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
			views = append(views, View{node, Account{Head: h.heads[i]}, h.blocks[i]})
		}
	}
	return views
}

// Receded reports whether a node that gave its head now calls less final than it did earlier.
func (h Heads) Receded(earlier Heads) bool {
	for _, now := range h.answered() {
		if slices.ContainsFunc(earlier.answered(), func(v View) bool { return v.Node.String() == now.Node.String() && now.Final < v.Final }) {
			return true
		}
	}
	return false
}

// Silent returns the name of each node that gave no valid answer: neither its head, nor that
// it serves another chain; a busy one answers others. A name that several nodes have is silent if none of them gave one,
// and is there for each. It reports false if no node gave any answer.
func (h Heads) Silent() (names []string, ok bool) {
	answered := map[string]bool{}
	for i, node := range h.nodes {
		if h.errs[i] == nil || errors.Is(h.errs[i], ErrWrongChain) || errors.Is(h.errs[i], ErrBusy) {
			answered[node.String()] = true
		}
	}
	for _, node := range h.nodes {
		if !answered[node.String()] {
			names = append(names, node.String())
		}
	}
	return names, len(answered) > 0
}

// Views asks every node that gave its head for its view of a wallet there. It
// returns ErrUnavailable when none answers.
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

// Views asks every node for its head and then for its view of a wallet. It
// returns ErrUnavailable when none answers.
func (n Nodes) Views(ctx context.Context, wallet, coin token.Address, rule ConfirmationRule) (Views, error) {
	return n.Heads(ctx, rule).Views(ctx, wallet, coin)
}

// AllViews is Views for a conclusion that takes every node: if one does not answer, it
// returns ErrUnavailable.
func (n Nodes) AllViews(ctx context.Context, wallet, coin token.Address, rule ConfirmationRule) (Views, error) {
	views, err := n.Views(ctx, wallet, coin, rule)
	if err == nil && len(views) < len(n) {
		err = fmt.Errorf("%w: %d of %d nodes answer, and all must", ErrUnavailable, len(views), len(n))
	}
	return views, err
}

// Latest asks every node for its view of a wallet, without its head: one request
// where Views makes two. Count and balances may be of different blocks, and none
// is known to be final. It returns ErrUnavailable when no node answers.
func (n Nodes) Latest(ctx context.Context, wallet, coin token.Address) (Views, error) {
	return Heads{n, make([]Head, len(n)), make([]error, len(n)), make([]*blockHashes, len(n))}.Views(ctx, wallet, coin)
}

// Leading returns the first view with the highest count of the wallet's mined
// transactions: the others lag, or are on another fork.
func (v Views) Leading() View {
	return slices.MaxFunc(v, func(a, b View) int { return cmp.Compare(a.Mined, b.Mined) })
}

// FinalCount returns how many of a wallet's transactions are final on every node
// that gave a view: no re-organisation gives those nonces back.
func (v Views) FinalCount(ctx context.Context, wallet token.Address) (uint64, error) {
	counts, errs := v.finalCounts(ctx, wallet)
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("asking what is final of %s: %w", wallet, err)
	}
	return slices.Min(counts), nil
}

// Settled returns how many of a wallet's transactions are final on any node that gave a
// view: no node calls a receipt of a later nonce final. Where a node does not tell, every
// mined one may be.
func (v Views) Settled(ctx context.Context, wallet token.Address) uint64 {
	counts, errs := v.finalCounts(ctx, wallet)
	if errors.Join(errs...) != nil {
		return v.Leading().Mined
	}
	return slices.Max(counts)
}

// Used returns how many of a wallet's nonces enough of the nodes call used up for good
// (Heads.Enough); 0 while too few answer.
func (n Nodes) Used(ctx context.Context, views Views, wallet token.Address, silent int) uint64 {
	counts, errs := views.finalCounts(ctx, wallet)
	for i := range errs {
		if errs[i] != nil {
			counts[i] = 0
		}
	}
	return n.most(counts, silent)
}

// Counted returns how many of the wallet's transactions enough of the nodes have mined, final or not (Heads.Enough);
// 0 while too few gave a view.
func (n Nodes) Counted(views Views, silent int) uint64 {
	var counts []uint64
	for _, view := range views {
		counts = append(counts, view.Mined)
	}
	return n.most(counts, silent)
}

// most returns the highest count that enough of the nodes reach, or 0.
func (n Nodes) most(counts []uint64, silent int) uint64 {
	slices.Sort(counts)
	for i, count := range slices.Backward(counts) {
		if enough(len(counts)-i, len(n), silent) {
			return count
		}
	}
	return 0
}

func (v Views) finalCounts(ctx context.Context, wallet token.Address) ([]uint64, []error) {
	return all(ctx, v.nodes(), func(i int, node Node) (uint64, error) { return node.Count(ctx, wallet, v[i].Final) })
}

// Mined holds the receipts that the nodes gave of some transactions.
type Mined struct {
	Agreed   map[Hash]Agreement // final, and no node contradicts it
	Seen     map[Hash]int       // how many nodes have a receipt, final or not
	Disputed map[Hash]string    // nodes differ on it: which, and how, for logs
}

// An Agreement is a receipt on which nodes agree. By names the nodes that gave it, call its block
// final, and still have that very block. Its fee is nil unless all give the same fee; a missing fee
// delays no payment.
type Agreement struct {
	Receipt
	By []string
}

// Decide reports whether enough of the configured nodes stand by a receipt to end a payment with
// verdict v. A moved amount, or a no-op's used nonce, takes more than half of the nodes that are
// not silent; where three or more nodes are configured it takes at least two. An amount that has
// not moved takes all nodes: the merchant then pays again, and nodes have served receipts without
// their logs (erigontech/erigon#19406) and with a wrong status (cosmos/ethermint#282). If only one
// node is configured, its word decides.
func (n Nodes) Decide(v Verdict, by []string, silent int) bool {
	if v == Transferred || v == Used {
		return enough(len(by), len(n), silent)
	}
	return len(by) >= len(n)
}

// enough reports whether n of the configured nodes outweigh the others that are not silent.
func enough(n, configured, silent int) bool {
	return 2*n > configured-silent && (n >= 2 || configured <= 2)
}

// Receipts asks every node for the receipts of hashes and compares them. A
// receipt is agreed on if a node calls its block final and no other differs:
// none has another block at that height, or has the block and no receipt of
// the transaction, or one with another status, another use of gas or other
// logs. A node that lags or does not answer does not differ, and does not
// count. An error means that no node answered.
func (v Views) Receipts(ctx context.Context, hashes []Hash) (Mined, error) {
	mined := Mined{Agreed: map[Hash]Agreement{}, Seen: map[Hash]int{}, Disputed: map[Hash]string{}}
	testimonies, errs := all(ctx, v.nodes(), func(i int, _ Node) (testimony, error) { return v[i].testify(ctx, hashes) })
	final := map[uint64]struct{}{} // the numbers of their blocks
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
		if t := testimonies[i]; t.blocks != nil { // else it was not asked for receipts, and says nothing
			for j := range hashes {
				t.blocks[numbers[j]] = hashes[j]
			}
		}
		return struct{}{}, err
	})
	for _, h := range hashes {
		if agreement, dispute := compare(h, testimonies); dispute != "" {
			mined.Disputed[h] = dispute
		} else if len(agreement.By) > 0 {
			mined.Agreed[h] = agreement
		}
	}
	return mined, nil
}

// A testimony is one node's answers about some transactions.
type testimony struct {
	View
	whole    bool // it answered for each of them
	receipts map[Hash]Receipt
	blocks   map[uint64]Hash // of its canonical chain, zero where it has none
}

// final returns the receipt that the node gave, if it calls its block final.
func (t testimony) final(h Hash) (Receipt, bool) {
	r, gave := t.receipts[h]
	return r, gave && r.Block <= t.Final
}

// testify reads receipts from the view's node.
func (v View) testify(ctx context.Context, hashes []Hash) (testimony, error) {
	receipts, err := v.Node.Receipts(ctx, hashes)
	t := testimony{View: v, whole: err == nil, receipts: map[Hash]Receipt{}, blocks: map[uint64]Hash{}}
	for _, r := range receipts {
		t.receipts[r.Tx] = r
	}
	return t, err
}

// compare compares the receipts of one transaction with each other and with the
// blocks of every node. It returns the receipt and the nodes that stand by
// it, none while no node calls it final; or how two nodes differ.
func compare(h Hash, testimonies []testimony) (Agreement, string) {
	first := slices.IndexFunc(testimonies, func(t testimony) bool {
		_, ok := t.final(h)
		return ok
	})
	if first < 0 {
		return Agreement{}, ""
	}
	agreement := Agreement{Receipt: testimonies[first].receipts[h]}
	for _, t := range testimonies {
		r, gave := t.receipts[h]
		_, final := t.final(h)
		block := t.blocks[agreement.Block]
		says := ""
		switch {
		case gave && !r.same(agreement.Receipt):
			says = r.String()
		case !block.IsZero() && block != agreement.BlockHash:
			says = "another block: " + block.String()
		case !gave && t.whole && !block.IsZero():
			says = "no receipt"
		case final && !block.IsZero():
			agreement.By = append(agreement.By, t.Node.String())
			if r.Fee == nil || agreement.Fee != nil && *r.Fee != *agreement.Fee {
				agreement.Fee = nil
			}
		}
		if says != "" {
			return Agreement{}, fmt.Sprintf("%s: %s; %s: %s", testimonies[first].Node, agreement.Receipt, t.Node, says)
		}
	}
	return agreement, ""
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
	hashes, errs := all(ctx, views.nodes(), func(i int, node Node) (Hash, error) {
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

// all asks every node at once and returns the answers in order. A node whose
// circuit breaker is open answers with ErrOpen. Once ctx has ended, no node is asked.
// Errors name the nodes.
func all[T any](ctx context.Context, nodes Nodes, ask func(i int, node Node) (T, error)) ([]T, []error) {
	return gather(ctx, nodes, false, ask)
}

// gather is all. In a hurry it waits only a little for other nodes once one has given
// an answer; the error of those is errLate.
func gather[T any](ctx context.Context, nodes Nodes, hurry bool, ask func(i int, node Node) (T, error)) ([]T, []error) {
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
			value, err := timed(nodes[i], func() (T, error) { return ask(i, nodes[i]) })
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
			} else if hurry && late == nil {
				late = nodes.late()
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

// asking adds the node's name to err.
func asking(node Node, err error) error { return fmt.Errorf("asking %s: %w", node, err) }

// unavailable is the error of a question that no node answered.
func unavailable(errs []error) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(errs...))
}
