package chain

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// This file decides which of the nodes' answers Remit believes. The second table names each rule.
//
// One bad node of three must not decide. So believe() sorts the answers, safest first, and returns the last one that
// most configured nodes support: a node supports every balance up to its own. A silent node is one of the bad. Of n
// configured nodes, this answer counts:
//
//	n   all answer   1 silent   2 silent   3 silent   4 silent
//	1   1st
//	2   1st          1st
//	3   2nd          1st        1st
//	4   2nd          1st        1st        1st
//	5   3rd          2nd        1st        1st        1st
//
// An answer is one node's conclusion from one block: an old balance of one node and a new count of
// another would promise coins twice.
//
//	quantity                                                   safe   belief
//	what a wallet may spend of each balance                    low    AtLeast, unless Alone
//	its balances, to diagnose, to show, to limit a fee         low    Account
//	whether it runs low, to refill it, and at which block      -      Seen: enough nodes must show it
//	its mined nonces, to send, to bump, to raise its ceiling   low    Mined; of two nodes the higher
//	its mined nonces, to publish, to fill gaps                 low    Counted; 0 if too few answer
//	its final nonces, to ask for receipts                      low    Used; 0 if too few answer
//	its final nonces, to use up those above                    low    FinalCount: all with a view must answer
//	its nonces, where the tables may be older than the chain   high   Ahead: enough, or one that shows the transaction
//	whether a list has a recipient                             -      Suffice, or one if no other clears it
//	whether a wallet lacks gas for its pending transactions    -      Suffice, unless a node holds them
//	the newest block, to leave out nodes that lag              low    Lags; of two nodes the higher
//	the newest final block                                     low    Standing
//	a receipt                                                  -      Decide
//	base fee, L1 fee                                           high   Fees: the middle, of two middle ones the higher
//	tip                                                        low    Fees: the middle; of three, two that agree
//	gas of a call                                              high   Estimate; of three, two that are alike
//	gas of a transfer at its dearest                           high   WorstCase
func believe[T any](configured int, answers []T, safest func(a, b T) int) T {
	sorted := slices.SortedFunc(slices.Values(answers), safest)
	return sorted[max(0, len(sorted)-configured/2-1)]
}

// enough reports whether n nodes outnumber the others that are not silent. Of three or more configured nodes, n must be
// at least two.
func enough(n, configured, silent int) bool {
	return 2*n > configured-silent && (n >= 2 || configured <= 2)
}

// Suffice reports whether this many nodes may stop a wallet: any one of one or two configured nodes, or more than half
// of three or more.
func (n Nodes) Suffice(nodes int) bool { return len(n) <= 2 || enough(nodes, len(n), 0) }

// Alone reports that one node of three or more gave the only answer, which raises no spendable amount and no ceiling.
func (n Nodes) Alone(answers int) bool { return answers == 1 && len(n) > 2 }

// AtLeast returns the highest amount that enough nodes' conclusions reach; of two nodes, or too few, the lowest.
func AtLeast[T any](n Nodes, conclusions []T, of func(T) token.Amount) token.Amount {
	return of(believe(len(n), conclusions, func(a, b T) int { return of(a).Cmp(of(b)) }))
}

// Account returns the numbers that enough nodes reach. They may be of different nodes: together they are no conclusion.
func (n Nodes) Account(views Views) Account {
	return Account{Mined: n.Mined(views), Pending: n.count(views, func(v View) uint64 { return v.Pending }),
		Balance: AtLeast(n, views, func(v View) token.Amount { return v.Balance }),
		Gas:     AtLeast(n, views, func(v View) token.Amount { return v.Gas })}
}

// View returns the view with the highest token balance that enough nodes reach.
func (n Nodes) View(ctx context.Context, wallet, coin token.Address, rule ConfirmationRule) (View, error) {
	views, err := n.Views(ctx, wallet, coin, rule)
	if err != nil {
		return View{}, err
	}
	return believe(len(n), views, func(a, b View) int { return a.Balance.Cmp(b.Balance) }), nil
}

// Mined returns how many transactions of the views' wallet are mined, final or not, on enough nodes. If too few answer,
// it is the lowest count; of one or two nodes, the highest.
func (n Nodes) Mined(views Views) uint64 {
	return n.count(views, func(v View) uint64 { return v.Mined })
}

// count returns the highest number that enough nodes reach; of one or two nodes, any one is enough.
func (n Nodes) count(views Views, of func(View) uint64) uint64 {
	all := views.numbers(of)
	if len(n) <= 2 {
		return slices.Max(all)
	}
	return believe(len(n), all, cmp.Compare)
}

func (v Views) numbers(of func(View) uint64) []uint64 {
	all := make([]uint64, len(v))
	for i, view := range v {
		all[i] = of(view)
	}
	return all
}

// Counted returns how many of the wallet's transactions are mined, final or not, on as many nodes as a confirmation
// needs. It returns 0 if too few nodes gave a view.
func (n Nodes) Counted(views Views, silent int) uint64 {
	return n.most(views.numbers(func(v View) uint64 { return v.Mined }), silent)
}

// most returns the highest count that enough nodes reach, or 0.
func (n Nodes) most(counts []uint64, silent int) uint64 {
	slices.Sort(counts)
	for i, count := range slices.Backward(counts) {
		if enough(len(counts)-i, len(n), silent) {
			return count
		}
	}
	return 0
}

// Ahead returns how many of a wallet's transactions are mined if that is more than next, else 0: more means that the
// tables may be older than the chain, and could pay again. sure means that enough nodes count more, or that one shows
// the transaction at next, which it cannot forge. If a node counts more but shows none, Ahead doubts it, unless the
// nodes that count more would be enough with the silent ones: then Ahead returns the highest count, and sure is false.
func (n Nodes) Ahead(ctx context.Context, log *slog.Logger, views Views, wallet token.Address, next uint64) (count uint64, sure bool) {
	more := slices.DeleteFunc(slices.Clone(views), func(v View) bool { return v.Mined <= next })
	if count = n.Mined(views); count <= next {
		count = 0
	}
	sure = count > 0 && n.Suffice(len(more))
	open := n.Suffice(len(more) + len(n) - len(views)) // silent nodes may count as many
	for _, v := range more {
		if sure {
			break
		}
		switch {
		case v.shows(ctx, wallet, next):
			count, sure = v.Mined, true
		case open:
			count = max(count, v.Mined)
		default:
			v.Doubt(ctx, log, "it counts transactions that it does not show", "wallet", wallet, "count", v.Mined, "next_nonce", next)
		}
	}
	return count, sure
}

// showTime is how long a node may take to show a transaction, with a few requests in a row. A process's first payment
// may wait that long for it, or twice as long if the process also opens wallets.
const showTime = 10 * time.Second

// shows reports whether the view's node has mined a transaction of the wallet's key at nonce.
func (v View) shows(ctx context.Context, wallet token.Address, nonce uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, showTime)
	defer cancel()
	if v.Number == 0 { // a view of Latest
		var err error
		if v.Head, err = v.Node.Head(ctx, ConfirmationRule{}); err != nil {
			return false
		}
	}
	hash, err := v.Node.TxAtNonce(ctx, wallet, nonce, v.Number)
	if err != nil || hash.IsZero() {
		return false
	}
	txs, err := v.Node.Transactions(ctx, []Hash{hash})
	return err == nil && len(txs) == 1 && txs[0].Signed && txs[0].From == wallet && txs[0].Nonce == nonce
}

// maxLag is how many blocks a node may be behind for its balances to count.
const maxLag = 16

// Lags reports whether a view is more than maxLag blocks behind enough nodes: its balances would hide top-ups.
func (n Nodes) Lags(v View, views Views) bool {
	return v.Number+maxLag < n.count(views, func(v View) uint64 { return v.Number })
}

// Seen returns the newest block that enough of these views' nodes have reached, or false if they are too few.
func (n Nodes) Seen(by Views) (block uint64, ok bool) {
	if !enough(len(by), len(n), 0) {
		return 0, false
	}
	return believe(len(n), by.numbers(func(v View) uint64 { return v.Number }), cmp.Compare), true
}

// A Standing counts the nodes' answers about a block that was final, without missing answers.
type Standing struct {
	Have, Other, Lack int   // nodes that have it, have another block in its place, or are below its height
	Newest            Block // it, or its newest descendant that most nodes call final
}

// Most reports whether nodes is more than half of the configured nodes.
func (h Heads) Most(nodes int) bool { return h.Enough(nodes, 0) }

// Enough is Most without the silent nodes; of three or more configured nodes it needs at least two.
func (h Heads) Enough(nodes, silent int) bool { return enough(nodes, len(h.nodes), silent) }

// Standing asks every node that gave its head whether it has a block that was final. Newest is the newest block that
// more than half of the configured nodes call final on top of that block, or the block itself. For the zero Block,
// Standing only finds Newest.
func (h Heads) Standing(ctx context.Context, of Block) Standing {
	s, next := Standing{Newest: of}, of.Number
	views := h.answered()
	byFinal := slices.SortedFunc(slices.Values(views), func(a, b View) int { return cmp.Compare(b.Final, a.Final) })
	if most := len(h.nodes) / 2; len(views) > most {
		next = max(next, byFinal[most].Final)
	}
	numbers := slices.Compact([]uint64{of.Number, next})
	blocks, errs := all(ctx, views.nodes(), func(_ int, node Node) ([]Hash, error) { return node.BlockHashes(ctx, numbers) })
	agreed := map[Hash]int{}
	for i, hashes := range blocks {
		switch {
		case len(hashes) == 0:
			continue
		case of.Hash.IsZero():
		case hashes[0] == of.Hash:
			s.Have++
		case !hashes[0].IsZero():
			s.Other++
			continue
		default:
			if errs[i] == nil && views[i].Number < of.Number {
				s.Lack++
			}
			continue
		}
		if newer := hashes[len(hashes)-1]; !newer.IsZero() && next <= views[i].Final {
			if agreed[newer]++; 2*agreed[newer] > len(h.nodes) {
				s.Newest = Block{next, newer}
			}
		}
	}
	return s
}
