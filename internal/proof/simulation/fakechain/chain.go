// Package fakechain is an EVM chain as far as payments can see: blocks with accounts and receipts, forks, and nodes
// that each have a view and a pool of their own and can go wrong in many ways. It knows no EVM and no signatures, and
// mines nothing by itself. TestConformance of package simulation compares it with a real EVM.
package fakechain

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Chain is a tree of blocks, one branch of which is canonical, and the nodes that see it. Make one with New. It is
// not safe for concurrent use: a simulation lets one effect at a time reach it.
type Chain struct {
	ID      uint64
	Token   token.Address
	BaseFee token.Amount // in wei per gas
	Depth   uint64       // in blocks: no reorg goes deeper
	Epoch   uint64       // blocks that become final together, by a tag; 0: each by itself
	Rule                 // how gas is paid; to be set before Fund
	L1Fee   token.Amount // wei that each transaction pays beside gas (OP stack); wallets need room for it to double
	// That the next block charges each transaction for its data, before it runs (OffchainLabs/nitro, GasChargingHook).
	L1Gas      uint64
	Recipients map[token.Address]Recipient // how the token treats them; absent: Pays
	Dear       map[token.Address]uint64    // gas that a transfer to an address uses beside, such as a contract's
	Blocked    map[token.Address]bool      // whether the token pays nobody from an address now; absent: it always did
	Listed     map[token.Address]bool      // whether every list contract has an address
	Mute       bool                        // no list contract answers
	Nodes      []*Node

	Approved map[token.Address]bool // the wallets whose coins Batcher may spend; nil: every one's

	// PerSender bounds how many transactions of one sender a block holds; 0: all.
	PerSender uint64

	Lied bool // a node has given a receipt that is not true

	First map[chain.Hash]uint64 // when each transaction was first in a block of any branch, in blocks ever made
	// Mended are the times at which transactions that were reverted on one branch first paid on another.
	Mended map[chain.Hash]time.Time

	// Mined, if set, sees every transaction that a block puts on the canonical branch.
	Mined func(Tx)

	tip       *block
	other     *block                   // the end of the branch of nodes that are Elsewhere
	blocks    uint64                   // ever made, on any branch
	mostMined map[token.Address]uint64 // highest count of any block ever made
	funded    map[token.Address]token.Amount
	copies    []Tx // every transaction that a node ever took
	copied    map[chain.Hash]bool
	failed    map[chain.Hash]bool // on any branch
}

// New returns a chain of a few empty blocks, seen by so many nodes.
func New(id uint64, coin token.Address, depth uint64, nodes int) *Chain {
	c := &Chain{ID: id, Token: coin, Depth: depth, BaseFee: token.Units(100), Recipients: map[token.Address]Recipient{},
		Blocked: map[token.Address]bool{}, Listed: map[token.Address]bool{}, Dear: map[token.Address]uint64{},
		tip: &block{at: now(), accounts: map[token.Address]Account{}}, mostMined: map[token.Address]uint64{},
		funded: map[token.Address]token.Amount{}, copied: map[chain.Hash]bool{}, First: map[chain.Hash]uint64{},
		Mended: map[chain.Hash]time.Time{}, failed: map[chain.Hash]bool{}}
	for range depth + 2 {
		c.tip = c.extend(c.tip, nil)
	}
	for i := range nodes {
		c.Nodes = append(c.Nodes, &Node{chain: c, name: fmt.Sprintf("node%d", i), head: c.tip, pool: pool{}})
	}
	return c
}

// Coin returns the token that is paid, with its chain.
func (c *Chain) Coin() token.Coin { return token.Coin{ChainID: c.ID, Contract: c.Token} }

// Fund gives an address units of the token and wei out of nowhere, in every
// block so far, so that no reorg takes them away. Where the token is the gas, wei count for nothing.
func (c *Chain) Fund(a token.Address, coins, wei token.Amount) {
	c.funded[a], _ = c.funded[a].Add(coins)
	coins, wei = c.of(coins, wei)
	give := func(b *block) {
		account := b.accounts[a]
		account.Coins, _ = account.Coins.Add(coins)
		account.Gas, _ = account.Gas.Add(wei)
		b.accounts[a] = c.one(account)
	}
	for b := c.tip; b != nil; b = b.parent {
		give(b)
	}
	for b := c.other; b != nil && c.tip.ancestor(b.number) != b; b = b.parent {
		give(b)
	}
}

// Funded returns the units of the token that Fund ever gave, by address.
func (c *Chain) Funded() map[token.Address]token.Amount { return maps.Clone(c.funded) }

// Account returns the state of an address so many blocks below the canonical tip.
func (c *Chain) Account(a token.Address, depth uint64) Account { return c.tip.below(depth).accounts[a] }

// MostMined returns the highest nonce count that an address had in any block of any branch.
func (c *Chain) MostMined(a token.Address) uint64 { return c.mostMined[a] }

// Receipt returns the receipt of a transaction on the canonical branch.
func (c *Chain) Receipt(h chain.Hash) (chain.Receipt, bool) { return c.tip.receipt(h) }

// Mine adds the block that a miner at node would make.
func (c *Chain) Mine(node *Node) {
	if node.elsewhere {
		c.other = c.extend(c.other, c.executable(c.other, node.pool))
		c.Each((*Node).Follow)
		return
	}
	c.advance(c.extend(c.tip, c.executable(c.tip, node.pool)))
}

// Elsewhere has nodes serve another branch as the chain, which leaves the canonical one at a block, be that final,
// and has so many empty blocks. Their pools are empty, as those of nodes of another network.
func (c *Chain) Elsewhere(base, blocks uint64, nodes ...*Node) {
	c.other = c.branch(c.tip.ancestor(base), nil, blocks)
	for _, n := range nodes {
		n.elsewhere, n.head, n.pool = true, c.other, pool{}
	}
}

// Away reports whether a node is Elsewhere.
func (c *Chain) Away() bool {
	return slices.ContainsFunc(c.Nodes, func(n *Node) bool { return n.elsewhere })
}

// Return ends Elsewhere, also for a node that is stuck there.
func (c *Chain) Return() {
	c.Each(func(n *Node) {
		n.Stuck = n.Stuck && !n.elsewhere
		n.elsewhere = false
		n.Follow()
	})
}

// Stay makes the other branch the canonical one, if every node is Elsewhere: the chain has gone
// back below finality. It returns the number of the last block that is left of the old one.
func (c *Chain) Stay() (base uint64, stays bool) {
	if slices.ContainsFunc(c.Nodes, func(n *Node) bool { return !n.elsewhere }) {
		return 0, false
	}
	b := c.other
	for c.tip.ancestor(b.number) != b {
		b = b.parent
	}
	c.advance(c.other)
	c.Each(func(n *Node) {
		n.elsewhere = false
		n.Follow()
	})
	return b.number, true
}

// MineExactly adds a block of these signed transactions.
func (c *Chain) MineExactly(raws ...[]byte) {
	var txs []Tx
	for _, raw := range raws {
		if tx, ok := Decode(raw); ok {
			txs = append(txs, tx)
		}
	}
	c.advance(c.extend(c.tip, txs))
}

// Reorg replaces the newest depth blocks by depth+1 others, which hold the transactions of node's pool. The
// transactions of the old blocks go back to the pools. A depth beyond c.Depth counts as c.Depth.
func (c *Chain) Reorg(depth uint64, node *Node) {
	depth = min(depth, c.Depth, c.tip.number)
	base := c.tip.below(depth)
	c.advance(c.branch(base, node.poolAt(base), depth+1))
}

// Abandon replaces the newest depth blocks by depth+1 empty ones.
func (c *Chain) Abandon(depth uint64) { c.advance(c.branch(c.tip.below(depth), nil, depth+1)) }

// advance makes tip the end of the canonical branch and shows it to the nodes.
func (c *Chain) advance(tip *block) {
	old := c.tip
	c.tip = tip
	if c.Mined != nil {
		for b := tip; b != nil && old.ancestor(b.number) != b; b = b.parent {
			for _, tx := range b.txs {
				c.Mined(tx)
			}
		}
	}
	c.Each((*Node).Follow)
}

// Each calls do for each node.
func (c *Chain) Each(do func(*Node)) {
	for _, n := range c.Nodes {
		do(n)
	}
}

// Replay offers every transaction that a node ever took to every node again, as any stranger with a copy could.
func (c *Chain) Replay() {
	for _, tx := range c.copies {
		c.Each(func(n *Node) { n.take(tx) })
	}
}

// Keep gives a stranger a copy of bytes.
func (c *Chain) Keep(raw []byte) {
	if tx, ok := Decode(raw); ok {
		c.keep(tx)
	}
}

func (c *Chain) keep(tx Tx) {
	if h := tx.Sign().Hash; !c.copied[h] {
		c.copied[h] = true
		c.copies = append(c.copies, tx)
	}
}

// Canonical calls visit for every transaction of the canonical branch, newest block first.
func (c *Chain) Canonical(visit func(Tx, chain.Receipt)) {
	for b := c.tip; b != nil; b = b.parent {
		for i, tx := range b.txs {
			visit(tx, b.receipts[i])
		}
	}
}

// Steal signs a transfer with a wallet's key, as a thief of the key would, and
// gives it to the nodes. It pays higher fees than the service does.
func (c *Chain) Steal(from token.Address, nonce uint64, amount token.Amount) chain.Hash {
	tx := Tx{From: from, Nonce: nonce, Tx: chain.Tx{ChainID: c.ID, To: c.Token,
		Data: chain.TransferData(token.Address{0: 0xbb}, amount), Gas: 100_000,
		Fees: chain.Fees{Tip: token.Units(5_000), Cap: token.Units(50_000)}}}
	c.Each(func(n *Node) { n.take(tx) })
	return tx.Sign().Hash
}

// A Tx is a signed transaction of the fake chain. A key in memory gives a content and a nonce one signed form; the
// signatures of others have a Salt, which is never the same.
type Tx struct {
	chain.Tx
	From  token.Address
	Nonce uint64
	Salt  uint64
}

// A head is all that a signed transaction has before its call data.
type head struct {
	From, To            token.Address
	ChainID, Nonce, Gas uint64
	Salt                uint64
	Value, Tip, Cap     [32]byte
}

// Sign returns the bytes of tx and their hash.
func (tx Tx) Sign() chain.Signed {
	h := head{tx.From, tx.To, tx.ChainID, tx.Nonce, tx.Gas, tx.Salt, tx.Value.Bytes32(), tx.Fees.Tip.Bytes32(), tx.Fees.Cap.Bytes32()}
	raw, _ := binary.Append(nil, binary.BigEndian, h) // its fields have fixed sizes
	raw = append(raw, tx.Data...)
	return chain.Signed{Nonce: tx.Nonce, Hash: sha256.Sum256(raw), Raw: raw}
}

// Decode reads the bytes that Sign writes. It reports false for bytes that are too short.
func Decode(raw []byte) (tx Tx, ok bool) {
	var h head
	n, err := binary.Decode(raw, binary.BigEndian, &h)
	if err != nil {
		return tx, false
	}
	tx = Tx{From: h.From, Nonce: h.Nonce, Salt: h.Salt, Tx: chain.Tx{ChainID: h.ChainID, To: h.To, Gas: h.Gas, Data: raw[n:]}}
	tx.Value, _ = token.AmountFromBytes(h.Value[:])
	tx.Fees.Tip, _ = token.AmountFromBytes(h.Tip[:])
	tx.Fees.Cap, _ = token.AmountFromBytes(h.Cap[:])
	return tx, true
}

// Outputs returns the payments of a call of the token or of Batcher.
func Outputs(tx chain.Tx) []disburser.Entry {
	if tx.To == Batcher {
		_, entries, _, _ := disburser.Parse(tx.Data)
		return entries
	}
	t, _, _ := chain.ParseTransfer(tx.Data)
	return []disburser.Entry{{To: t.To, Amount: t.Amount}}
}

// ErrSecret is the error of every call of Keys while the secret store is down.
var ErrSecret = errors.New("secret store is down")

// Wallet is the address of the n-th wallet that pays.
func Wallet(n int) token.Address { return token.Address{0: 0xaa, 19: byte(n)} }

// Payee is the address of the n-th payee. Each payment has its own, so the chain alone shows which were made.
func Payee(n int) token.Address {
	return token.Address{0: 0xee, 17: byte(n >> 16), 18: byte(n >> 8), 19: byte(n)}
}

// Keys are the keys of wallets, as the secret store holds them. A test may add keys and take the secret store down at
// any time. The zero Keys hold none. Keys are safe for concurrent use.
type Keys struct {
	mu   sync.Mutex
	all  []token.Address
	down bool
}

var _ wallet.Keys = (*Keys)(nil)

// Add stores the key of a wallet.
func (k *Keys) Add(a token.Address) { k.change(func() { k.all = append(k.all, a) }) }

// All returns the wallets that have a key, also while the secret store is down.
func (k *Keys) All() (all []token.Address) {
	k.change(func() { all = slices.Clone(k.all) })
	return all
}

// Down takes the secret store down, so that every call fails with ErrSecret, or brings it back.
func (k *Keys) Down(down bool) { k.change(func() { k.down = down }) }

func (k *Keys) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Signer implements wallet.Keys.
func (k *Keys) Signer(_ context.Context, r wallet.Registration) (wallet.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.down:
		return nil, ErrSecret
	case !slices.Contains(k.all, r.Address):
		return nil, wallet.ErrNoKey
	}
	return signer(r.Address), nil
}

type signer token.Address

func (signer) Ready(context.Context) error { return nil }

func (s signer) Sign(_ context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	return Tx{Tx: tx, From: token.Address(s), Nonce: nonce}.Sign(), nil
}
