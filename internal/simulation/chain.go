package simulation

import (
	"fmt"

	"remit/internal/chain"
	"remit/internal/token"
)

// A Chain is an EVM chain as far as payments can tell: a tree of blocks, one
// branch of which is canonical, and nodes that each have their own view of it
// and their own pool. It mines nothing by itself. It is not safe for concurrent
// use: the World lets one effect at a time at it.
type Chain struct {
	ID         uint64
	Token      token.Address
	BaseFee    token.Amount
	Depth      uint64 // of the finality rule: no reorg goes deeper
	Recipients map[token.Address]Recipient
	Nodes      []*Node

	// PerSender bounds how many transactions of one sender a block takes; 0: all.
	PerSender uint64

	// Mined, if set, sees every transaction as a block takes it.
	Mined func(from token.Address, nonce uint64, hash chain.Hash)

	tip  *block
	made uint64
	most map[token.Address]uint64 // highest count of any block ever made
	seen []envelope               // every transaction a node ever took: anybody may keep a copy
	kept map[chain.Hash]bool
}

// NewChain returns a chain of a few empty blocks, seen by so many nodes.
func NewChain(id uint64, coin token.Address, depth uint64, nodes int) *Chain {
	c := &Chain{
		ID: id, Token: coin, Depth: depth, BaseFee: token.Units(100), Recipients: map[token.Address]Recipient{},
		tip: &block{accounts: map[token.Address]account{}}, kept: map[chain.Hash]bool{}, most: map[token.Address]uint64{},
	}
	for range depth + 2 {
		c.tip = c.extend(c.tip, nil)
	}
	for i := range nodes {
		c.Nodes = append(c.Nodes, &Node{chain: c, name: fmt.Sprintf("node%d", i), head: c.tip, pool: pool{}})
	}
	return c
}

// Fund gives an address coins and ether out of nowhere, in every block so far,
// so that no reorg takes them away.
func (c *Chain) Fund(a token.Address, coin, gas token.Amount) {
	for b := c.tip; b != nil; b = b.parent {
		funded := b.accounts[a]
		funded.coin, _ = funded.coin.Add(coin)
		funded.gas, _ = funded.gas.Add(gas)
		b.accounts[a] = funded
	}
}

// Drain takes all ether from an address.
func (c *Chain) Drain(a token.Address) {
	for b := c.tip; b != nil; b = b.parent {
		drained := b.accounts[a]
		drained.gas = token.Amount{}
		b.accounts[a] = drained
	}
}

// Count is the number of transactions that the canonical chain has of a
// wallet, depth blocks below its tip.
func (c *Chain) Count(a token.Address, depth uint64) uint64 {
	b := c.tip.ancestor(c.tip.number - min(depth, c.tip.number))
	return b.accounts[a].nonce
}

// Head is the number of the canonical tip.
func (c *Chain) Head() uint64 { return c.tip.number }

// Mine adds the block that a miner at node would make.
func (c *Chain) Mine(node *Node) {
	c.advance(c.extend(c.tip, c.executable(c.tip, node.pool)))
}

// MineExactly adds a block of these signed transactions.
func (c *Chain) MineExactly(raws ...[]byte) {
	var txs []envelope
	for _, raw := range raws {
		if tx, ok := decode(raw); ok {
			txs = append(txs, tx)
		}
	}
	c.advance(c.extend(c.tip, txs))
}

// Reorg replaces the newest depth blocks by depth+1 others. What was in them
// goes back to the pools; node's pool decides what the new ones hold.
func (c *Chain) Reorg(depth uint64, node *Node) {
	depth = min(depth, c.Depth, c.tip.number)
	base := c.tip.ancestor(c.tip.number - depth)
	if base == nil {
		return
	}
	mined := node.poolAt(base)
	tip := base
	for range depth + 1 {
		next := c.extend(tip, c.executable(tip, mined))
		for _, tx := range next.txs {
			delete(mined[tx.From], tx.Nonce)
		}
		tip = next
	}
	c.advance(tip)
}

// Abandon replaces the newest depth blocks by depth+1 empty ones.
func (c *Chain) Abandon(depth uint64) {
	tip := c.tip.ancestor(c.tip.number - min(depth, c.tip.number))
	for range depth + 1 {
		tip = c.extend(tip, nil)
	}
	c.advance(tip)
}

// advance makes tip the canonical branch, and shows it to the nodes that
// follow.
func (c *Chain) advance(tip *block) {
	old := c.tip
	c.tip = tip
	if c.Mined != nil {
		for b := tip; b != nil && old.ancestor(b.number) != b; b = b.parent {
			for i, tx := range b.txs {
				c.Mined(tx.From, tx.Nonce, b.receipts[i].Tx)
			}
		}
	}
	for _, n := range c.Nodes {
		n.follow()
	}
}

// Replay offers every transaction ever seen to every node again: whoever has
// kept a copy can.
func (c *Chain) Replay() {
	for _, tx := range c.seen {
		for _, n := range c.Nodes {
			n.take(tx)
		}
	}
}

// keep remembers a transaction that a node took.
func (c *Chain) keep(tx envelope) {
	if h := tx.sign().Hash; !c.kept[h] {
		c.kept[h] = true
		c.seen = append(c.seen, tx)
	}
}

// Canonical calls visit for every transaction of the canonical chain, oldest
// first.
func (c *Chain) Canonical(visit func(from token.Address, nonce uint64, data []byte, r chain.Receipt)) {
	var branch []*block
	for b := c.tip; b != nil; b = b.parent {
		if len(b.txs) > 0 {
			branch = append(branch, b)
		}
	}
	for i := len(branch) - 1; i >= 0; i-- {
		for j, tx := range branch[i].txs {
			visit(tx.From, tx.Nonce, tx.Data, branch[i].receipts[j])
		}
	}
}

// Foreign signs a transaction of a wallet's key that the service knows nothing
// of, at a nonce, and gives it to the nodes. It pays more than ours would.
func (c *Chain) Foreign(from token.Address, nonce uint64, amount token.Amount) chain.Hash {
	tx := envelope{From: from, Nonce: nonce, Tx: chain.Tx{
		ChainID: c.ID, To: c.Token, Data: chain.TransferData(token.Address{0: 0xbb}, amount), Gas: 100_000,
		Fees: chain.Fees{Tip: token.Units(5_000), Cap: token.Units(50_000)},
	}}
	for _, n := range c.Nodes {
		n.take(tx)
	}
	return tx.sign().Hash
}
