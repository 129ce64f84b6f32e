package fakechain

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// ErrDown is the error of every request to a node that is down.
var ErrDown = errors.New("node is down")

// errNoList is the error of a call while no list contract answers.
var errNoList = errors.New("no list is there")

// errNoBlock is the error of a range of blocks that a node does not have.
var errNoBlock = errors.New("node has no such block")

// Faults are the ways in which a node can go wrong. The zero Faults are those of an honest node that follows the chain.
type Faults struct {
	Down         bool        // the node answers nothing
	OtherChain   bool        // it serves another chain
	Lag          uint64      // how many blocks its head is behind
	Stuck        bool        // it keeps the head it has, even when a reorg removes that
	NullReceipts bool        // it finds no transaction by its hash, as while its index lags
	Lies         Lie         // how its receipts are wrong
	Quotes       Nonsense    // how its prices are wrong
	Blind        bool        // it reports that every call passes, with any gas, but of lists it does not lie
	BlackHole    bool        // it acknowledges transactions and drops them
	Full         bool        // its pool takes no transaction
	StrictFees   bool        // it refuses a transaction that the next block would not take
	Deaf         bool        // it hears no gossip of other nodes
	Floor        uint64      // gas that each byte of call data must be given (EIP-7623)
	Answers      chain.Class // it gives this answer to every transaction and takes none; "": it does not
}

// A Lie changes a receipt that a node gives. Nil is none.
type Lie func(chain.Receipt) chain.Receipt

// Lies are the lies that real nodes have told, and others that they could tell.
var Lies = map[string]Lie{
	"another block":       func(r chain.Receipt) chain.Receipt { r.BlockHash[31] ^= 0xff; return r },
	"no logs":             func(r chain.Receipt) chain.Receipt { r.Logs = nil; return r },
	"status turned":       func(r chain.Receipt) chain.Receipt { r.Succeeded = !r.Succeeded; return r },
	"another fee":         func(r chain.Receipt) chain.Receipt { fee := token.Units(1); r.Fee = &fee; return r },
	"no fee":              func(r chain.Receipt) chain.Receipt { r.Fee = nil; return r },
	"another use of gas":  func(r chain.Receipt) chain.Receipt { r.GasUsed++; return r },
	"logs twice":          func(r chain.Receipt) chain.Receipt { r.Logs = slices.Concat(r.Logs, r.Logs); return r },
	"another transaction": func(r chain.Receipt) chain.Receipt { r.Tx[0] ^= 0xff; return r },
}

// Nonsense changes the prices that a node gives. Nil does not.
type Nonsense func(chain.Market) chain.Market

// Nonsenses are prices of a node that is broken, or that wants to be paid.
var Nonsenses = map[string]Nonsense{
	"dear":     func(m chain.Market) chain.Market { m.BaseFee = m.BaseFee.ScaleUp(1000, 1); return m },
	"free":     func(m chain.Market) chain.Market { m.BaseFee = token.Amount{}; return m },
	"dear tip": func(m chain.Market) chain.Market { m.Tip = m.Tip.ScaleUp(1000, 1); return m },
	"no tip":   func(m chain.Market) chain.Market { m.Tip = token.Amount{}; return m },
	"dear L1":  func(m chain.Market) chain.Market { m.L1Fee = token.Units(1_000_000_000); return m },
}

// A Node is one view of a Chain, with a pool of its own.
type Node struct {
	Faults
	chain *Chain
	name  string
	head  *block
	pool  pool

	elsewhere bool // it follows the chain's other branch
	lied      bool // it may have said that a call passes which does not
}

// Lied reports whether it may have said that a call passes which does not: it was blind, or a Liar answered for it.
func (n *Node) Lied() bool { return n.lied }

// tip is the end of the branch that the node follows.
func (n *Node) tip() *block {
	if n.elsewhere {
		return n.chain.other
	}
	return n.chain.tip
}

var _ chain.Node = (*Node)(nil)

// String implements chain.Node.
func (n *Node) String() string { return n.name }

// Follow moves the node's head to the canonical tip, as far as Stuck and Lag let it.
func (n *Node) Follow() {
	if !n.Stuck {
		n.move(n.tip().below(n.Lag))
	}
}

// move makes b the node's head: transactions of blocks it leaves go back to its
// pool, and those whose nonce b's branch has used, or whose sender cannot pay for them
// there, leave the pool (go-ethereum, core/txpool/legacypool, demoteUnexecutables).
func (n *Node) move(b *block) { n.pool, n.head = n.poolAt(b), b }

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
		a := b.accounts[from]
		maps.DeleteFunc(txs, func(nonce uint64, tx Tx) bool { return nonce < a.Nonce || a.Gas.Less(n.chain.cost(tx)) })
	}
	return all
}

// Fork puts the node on a branch of its own for good: it leaves the canonical
// branch depth blocks below the tip and goes on with so many blocks of its pool.
func (n *Node) Fork(depth, blocks uint64) {
	base := n.tip().below(depth)
	n.Stuck = true
	n.move(n.chain.branch(base, n.poolAt(base), blocks))
}

// Mined returns how many transactions of an address the node's branch has.
func (n *Node) Mined(a token.Address) uint64 { return n.head.accounts[a].Nonce }

// Heal ends every fault.
func (n *Node) Heal() {
	n.Faults = Faults{}
	n.Follow()
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
	case n.OtherChain:
		return chain.ErrWrongChain
	}
	return nil
}

// Tip is the tip that honest nodes suggest.
var Tip = token.Units(10)

// Fees implements chain.Node.
func (n *Node) Fees(context.Context) (chain.Market, error) {
	market := chain.Market{BaseFee: n.chain.BaseFee, Tip: Tip, L1Fee: n.chain.L1Fee}
	if n.Quotes != nil {
		market = n.Quotes(market)
	}
	return market, n.usable()
}

// Estimate implements chain.Node.
func (n *Node) Estimate(_ context.Context, call chain.Call) (uint64, error) {
	if err := n.usable(); err != nil {
		return 0, err
	}
	if n.head.accounts[call.From].Gas.Less(call.Value) {
		return 0, chain.ErrRejected
	}
	if n.chain.Mute && len(call.Recipients) > 0 {
		return 0, errNoList
	}
	if i := slices.IndexFunc(call.Recipients, func(a token.Address) bool { return n.chain.Listed[a] }); i >= 0 {
		return 0, &chain.EntryError{Index: i, Err: chain.ErrListed}
	}
	if n.Blind {
		n.lied = true
		return max(call.Within, chain.NoopGas), nil
	}
	tx := Tx{From: call.From, Tx: chain.Tx{To: call.To, Data: call.Data, Gas: math.MaxUint64}}
	if tx.To == n.chain.Token || tx.To == Batcher {
		if _, ok := n.chain.transfer(maps.Clone(n.head.accounts), tx); !ok || call.ByCall &&
			n.chain.Recipients[Outputs(tx.Tx)[0].To] == ReturnsFalse {
			return 0, chain.ErrReverted
		}
	}
	gas := max(n.chain.gasOf(tx), n.intrinsic(call.Data))
	if call.ByCall && gas <= call.Within {
		return call.Within, nil
	}
	return gas, nil
}

// intrinsic is the least gas limit with which the node takes a transaction.
func (n *Node) intrinsic(data []byte) uint64 {
	return chain.NoopGas + n.chain.L1Gas + n.Floor*uint64(len(data))
}

// final is the number of the highest block that the node calls final: so many below its own head, or, for a tag, the
// highest that is also Depth below the canonical tip, and ends an epoch.
func (n *Node) final(f chain.ConfirmationRule) uint64 {
	if f.Tag == "" {
		return n.head.number - min(f.Depth, n.head.number)
	}
	tip := n.tip()
	last := tip.below(n.chain.Depth).number
	b := n.head.ancestor(min(n.head.number, last-last%max(n.chain.Epoch, 1)))
	for tip.ancestor(b.number) != b {
		b = b.parent
	}
	return b.number
}

// Head implements chain.Node.
func (n *Node) Head(_ context.Context, rule chain.ConfirmationRule) (chain.Head, error) {
	return chain.Head{Number: n.head.number, Final: n.final(rule)}, n.usable()
}

// Account implements chain.Node.
func (n *Node) Account(_ context.Context, wallet, _ token.Address, head chain.Head) (chain.Account, error) {
	b := n.head
	if head.Number < b.number && head != (chain.Head{}) {
		b = b.ancestor(head.Number)
	}
	a := b.accounts[wallet]
	pending := n.head.accounts[wallet].Nonce
	for {
		if _, ok := n.pool[wallet][pending]; !ok {
			break
		}
		pending++
	}
	if n.chain.Whole {
		a.Gas = Placeholder
	}
	return chain.Account{Head: head, Mined: a.Nonce, Pending: pending, Balance: a.Coins, Gas: a.Gas}, n.usable()
}

// Count implements chain.Node.
func (n *Node) Count(_ context.Context, wallet token.Address, number uint64) (uint64, error) {
	b := n.head.ancestor(min(number, n.head.number))
	return b.accounts[wallet].Nonce, n.usable()
}

// Receipts implements chain.Node.
func (n *Node) Receipts(_ context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	if err := n.usable(); err != nil || n.NullReceipts {
		return nil, err
	}
	var found []chain.Receipt
	for _, h := range hashes {
		if r, ok := n.head.receipt(h); ok {
			if n.Lies != nil {
				r, n.chain.Lied = n.Lies(r), true
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

// BlockTime implements chain.Node.
func (n *Node) BlockTime(_ context.Context, number uint64) (time.Time, error) {
	if err := n.usable(); err != nil || number > n.head.number {
		return time.Time{}, cmp.Or(err, errNoBlock)
	}
	return n.head.ancestor(number).at, nil
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

// Transfers implements chain.Node.
func (n *Node) Transfers(_ context.Context, coin token.Address, wallets []token.Address, first, last uint64) ([]chain.LoggedTransfer,
	error) {
	if err := n.usable(); err != nil || last > n.head.number {
		return nil, cmp.Or(err, errNoBlock)
	}
	var found []chain.LoggedTransfer
	for b := n.head.ancestor(last); b != nil && b.number >= first; b = b.parent {
		var here []chain.LoggedTransfer
		for _, r := range b.receipts {
			for _, log := range r.Logs {
				if t, ok := log.Transfer(); ok && t.Contract == coin && slices.Contains(wallets, t.From) {
					here = append(here, chain.LoggedTransfer{Transfer: t, Tx: r.Tx, Block: b.number, BlockHash: b.hash, Index: log.Index})
				}
			}
		}
		found = append(here, found...)
	}
	return found, nil
}

// Transactions implements chain.Node.
func (n *Node) Transactions(_ context.Context, hashes []chain.Hash) ([]chain.MinedTx, error) {
	var found []chain.MinedTx
	if n.NullReceipts {
		return nil, n.usable()
	}
	for _, h := range hashes {
		for b := n.head; b != nil; b = b.parent {
			for i, tx := range b.txs {
				if b.receipts[i].Tx == h {
					found = append(found, chain.MinedTx{Hash: h, From: tx.From, To: tx.To, Nonce: tx.Nonce, Value: tx.Value, Data: string(tx.Data),
						Block: b.number, At: b.at, Signed: true})
				}
			}
		}
	}
	return found, n.usable()
}

// Send implements chain.Node.
func (n *Node) Send(_ context.Context, raw []byte) chain.Reply {
	tx, ok := Decode(raw)
	switch {
	case n.Down:
		return chain.Reply{Class: chain.Ambiguous, Detail: ErrDown.Error()}
	case n.OtherChain, !ok, tx.ChainID != n.chain.ID:
		return chain.Reply{Class: chain.Wrong, Detail: "invalid chain id"}
	}
	if tx.Gas < n.intrinsic(tx.Data) {
		return chain.Reply{Class: chain.GasTooLow, Detail: "intrinsic gas too low"}
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

// take offers tx to the pool, which refuses it for geth's reasons in geth's order.
func (n *Node) take(tx Tx) chain.Class {
	a := n.head.accounts[tx.From]
	there, taken := n.pool[tx.From][tx.Nonce]
	switch {
	case taken && there.Sign().Hash == tx.Sign().Hash:
		return chain.Known
	case tx.Nonce < a.Nonce:
		return chain.NonceTooLow
	case n.Full:
		return chain.Full
	case n.StrictFees && tx.Fees.Cap.Less(n.chain.BaseFee):
		return chain.FeeTooLow
	case a.Gas.Less(n.chain.cost(tx)):
		return chain.Funds
	case taken && !replaces(tx, there):
		return chain.Replacement
	case n.BlackHole:
		return chain.Accepted
	}
	n.pool.put(tx)
	return chain.Accepted
}

// replaces reports whether both fees are a tenth higher (geth's PriceBump).
func replaces(tx, there Tx) bool {
	return !tx.Fees.Tip.Less(there.Fees.Tip.ScaleUp(11, 10)) && !tx.Fees.Cap.Less(there.Fees.Cap.ScaleUp(11, 10))
}
