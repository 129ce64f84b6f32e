package simulation

import (
	"context"
	"errors"
	"maps"

	"remit/internal/chain"
	"remit/internal/token"
)

// ErrDown is what a node that is down fails with.
var ErrDown = errors.New("node is down")

// Moods are the ways in which a node can go wrong. The zero Moods is an honest
// node that follows the chain.
type Moods struct {
	Down         bool        // answers nothing
	Foreign      bool        // serves another chain
	Lag          uint64      // blocks behind
	Stuck        bool        // shows the head it has, even when that is re-organised away
	NullReceipts bool        // has no receipts, as long as its index lags
	Lies         bool        // gives a wrong block hash in receipts
	BlackHole    bool        // acknowledges transactions and drops them
	Full         bool        // takes none
	RejectsGaps  bool        // answers "nonce too high" instead of queueing in silence
	StrictFees   bool        // refuses what the next block would not take
	Deaf         bool        // hears no gossip
	Floor        uint64      // gas that a byte of call data must be given, as since EIP-7623
	Unsteady     bool        // its head moves while an account is read
	Answers      chain.Class // to every transaction, taking none
}

// A Node is one view of a Chain.
type Node struct {
	Moods
	chain *Chain
	name  string
	head  *block
	pool  pool
}

var _ chain.Node = (*Node)(nil)

// String implements chain.Node.
func (n *Node) String() string { return n.name }

// follow takes over the canonical chain, as far as the node's mood lets it.
func (n *Node) follow() {
	if n.Stuck {
		return
	}
	to := n.chain.tip
	n.move(to.ancestor(to.number - min(n.Lag, to.number)))
}

// move makes b the node's head: transactions of blocks it leaves go back to
// its pool, those that b's branch has used leave it.
func (n *Node) move(b *block) {
	n.pool, n.head = n.poolAt(b), b
}

// poolAt returns the node's pool as it would be with b as its head.
func (n *Node) poolAt(b *block) pool {
	all := pool{}
	for from, txs := range n.pool {
		all[from] = maps.Clone(txs)
	}
	for old := n.head; old != nil && b.ancestor(old.number) != old; old = old.parent {
		for _, tx := range old.txs {
			if _, ok := all[tx.From][tx.Nonce]; !ok {
				all.put(tx)
			}
		}
	}
	for from, txs := range all {
		for nonce := range txs {
			if nonce < b.accounts[from].nonce {
				delete(txs, nonce)
			}
		}
	}
	return all
}

// Fork puts the node on a branch of its own: depth blocks of the canonical
// chain are replaced by others that its own pool fills.
func (n *Node) Fork(depth uint64) {
	base := n.chain.tip.ancestor(n.chain.tip.number - min(depth, n.chain.tip.number))
	mined, tip := n.poolAt(base), base
	for range depth {
		next := n.chain.extend(tip, n.chain.executable(tip, mined))
		for _, tx := range next.txs {
			delete(mined[tx.From], tx.Nonce)
		}
		tip = next
	}
	n.Stuck = true
	n.move(tip)
}

// Secede puts the node on a branch of its own that goes on for so many blocks
// beyond the canonical tip, as if there were no other.
func (n *Node) Secede(blocks int) {
	tip, mined := n.head, n.poolAt(n.head)
	for range blocks {
		tip = n.chain.extend(tip, n.chain.executable(tip, mined))
		for _, tx := range tip.txs {
			delete(mined[tx.From], tx.Nonce)
		}
	}
	n.Stuck = true
	n.move(tip)
}

// Pooled returns how many transactions of an address the node would mine.
func (n *Node) Pooled(from token.Address) int {
	return len(n.chain.executable(n.head, n.pool))
}

// Heal makes the node honest.
func (n *Node) Heal() {
	n.Moods = Moods{RejectsGaps: n.RejectsGaps}
	n.follow()
}

// Forget empties the node's pool, as a restart does.
func (n *Node) Forget() { n.pool = pool{} }

// Drop removes one transaction from the pool, as eviction does.
func (n *Node) Drop(from token.Address, nonce uint64) { delete(n.pool[from], nonce) }

// usable reports why the node gives no answer.
func (n *Node) usable() error {
	switch {
	case n.Down:
		return ErrDown
	case n.Foreign:
		return chain.ErrWrongChain
	}
	return nil
}

// Fees implements chain.Node.
func (n *Node) Fees(context.Context) (chain.Market, error) {
	return chain.Market{BaseFee: n.chain.BaseFee, Tip: token.Units(10)}, n.usable()
}

// Estimate implements chain.Node.
func (n *Node) Estimate(_ context.Context, call chain.Call) (uint64, error) {
	if err := n.usable(); err != nil {
		return 0, err
	}
	to, amount := recipientOf(call.Data)
	if n.chain.Recipients[to] == Reverts || n.head.accounts[call.From].coin.Less(amount) {
		return 0, chain.ErrReverted
	}
	return gasUsed, nil
}

// final is the highest block that the node calls final: by its own head, or,
// for a tag, what everybody agrees on.
func (n *Node) final(f chain.ConfirmationRule) uint64 {
	if f.Tag == "" {
		return n.head.number - min(f.Depth, n.head.number)
	}
	tip := n.chain.tip
	b := n.head.ancestor(min(n.head.number, tip.number-min(n.chain.Depth, tip.number)))
	for tip.ancestor(b.number) != b {
		b = b.parent
	}
	return b.number
}

// Account implements chain.Node.
func (n *Node) Account(_ context.Context, wallet, _ token.Address, f chain.ConfirmationRule) (chain.Account, error) {
	a := n.head.accounts[wallet]
	pending := a.nonce
	for n.pool[wallet] != nil {
		if _, ok := n.pool[wallet][pending]; !ok {
			break
		}
		pending++
	}
	balances := a
	if n.Unsteady && n.head.parent != nil {
		balances = n.head.parent.accounts[wallet] // read before the head moved
	}
	return chain.Account{
		Head: n.head.number, Final: n.final(f), Mined: a.nonce, Pending: pending,
		Token: balances.coin, Gas: balances.gas, Steady: !n.Unsteady,
	}, n.usable()
}

// Count implements chain.Node.
func (n *Node) Count(_ context.Context, wallet token.Address, number uint64) (uint64, error) {
	b := n.head.ancestor(min(number, n.head.number))
	return b.accounts[wallet].nonce, n.usable()
}

// Receipts implements chain.Node.
func (n *Node) Receipts(_ context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	if err := n.usable(); err != nil || n.NullReceipts {
		return nil, err
	}
	var found []chain.Receipt
	for _, h := range hashes {
		if r, ok := n.head.receipt(h); ok {
			if n.Lies {
				r.BlockHash[31] ^= 0xff
			}
			found = append(found, r)
		}
	}
	return found, nil
}

// BlockHashes implements chain.Node.
func (n *Node) BlockHashes(_ context.Context, numbers []uint64) ([]chain.Hash, error) {
	hashes := make([]chain.Hash, len(numbers))
	for i, number := range numbers {
		if b := n.head.ancestor(number); b != nil {
			hashes[i] = b.hash
		}
	}
	return hashes, n.usable()
}

// TxAtNonce implements chain.Node.
func (n *Node) TxAtNonce(_ context.Context, wallet token.Address, nonce, final uint64) (chain.Hash, error) {
	if err := n.usable(); err != nil {
		return chain.Hash{}, err
	}
	for b := n.head.ancestor(min(final, n.head.number)); b != nil; b = b.parent {
		for i, tx := range b.txs {
			if tx.From == wallet && tx.Nonce == nonce {
				return b.receipts[i].Tx, nil
			}
		}
	}
	return chain.Hash{}, nil
}

// Send implements chain.Node.
func (n *Node) Send(_ context.Context, raw []byte) chain.Reply {
	tx, ok := decode(raw)
	switch {
	case n.Down:
		return chain.Reply{Class: chain.Ambiguous, Detail: ErrDown.Error()}
	case n.Foreign, !ok, tx.ChainID != n.chain.ID:
		return chain.Reply{Class: chain.Wrong, Detail: "invalid chain id"}
	}
	if tx.Gas < chain.NoopGas+n.Floor*uint64(len(tx.Data)) {
		return chain.Reply{Class: chain.Wrong, Detail: "intrinsic gas too low"}
	}
	if n.Answers != "" {
		return chain.Reply{Class: n.Answers, Detail: string(n.Answers)}
	}
	class := n.take(tx)
	if class.Held() {
		n.chain.keep(tx)
		for _, other := range n.chain.Nodes {
			if other != n && !other.Deaf && !other.Down && !n.BlackHole {
				other.take(tx)
			}
		}
	}
	return chain.Reply{Class: class, Detail: string(class)}
}

// take is the pool's admission, as geth's: each class of refusal in its order.
func (n *Node) take(tx envelope) chain.Class {
	a := n.head.accounts[tx.From]
	there, taken := n.pool[tx.From][tx.Nonce]
	switch {
	case taken && there.sign().Hash == tx.sign().Hash:
		return chain.Known
	case tx.Nonce < a.nonce:
		return chain.NonceTooLow
	case n.Full:
		return chain.Full
	case n.StrictFees && tx.Fees.Cap.Less(n.chain.BaseFee):
		return chain.FeeTooLow
	case a.gas.Less(tx.Cost()):
		return chain.Funds
	case taken && !replaces(tx, there):
		return chain.Replacement
	case n.RejectsGaps && n.misses(tx.From, a.nonce, tx.Nonce):
		return chain.Gap
	case n.BlackHole:
		return chain.Accepted
	}
	n.pool.put(tx)
	return chain.Accepted
}

// misses reports whether the pool lacks a nonce between two.
func (n *Node) misses(from token.Address, first, below uint64) bool {
	for nonce := first; nonce < below; nonce++ {
		if _, ok := n.pool[from][nonce]; !ok {
			return true
		}
	}
	return false
}

// replaces reports whether both fees are a tenth higher (geth's PriceBump).
func replaces(tx, there envelope) bool {
	return !tx.Fees.Tip.Less(there.Fees.Tip.ScaleUp(11, 10)) && !tx.Fees.Cap.Less(there.Fees.Cap.ScaleUp(11, 10))
}
