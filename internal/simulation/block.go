package simulation

import (
	"encoding/binary"
	"maps"
	"sort"

	"remit/internal/chain"
	"remit/internal/token"
)

// An account is what the chain keeps of an address.
type account struct {
	nonce     uint64
	gas, coin token.Amount
}

// A block is one block of a tree: forks share their ancestors.
type block struct {
	number   uint64
	hash     chain.Hash
	parent   *block
	receipts []chain.Receipt
	txs      []envelope
	accounts map[token.Address]account // after this block
}

// ancestor returns the block of that number below b, or nil.
func (b *block) ancestor(number uint64) *block {
	for b != nil && b.number > number {
		b = b.parent
	}
	if b == nil || b.number != number {
		return nil
	}
	return b
}

// receipt returns the receipt that the branch ending in b has for a hash.
func (b *block) receipt(h chain.Hash) (chain.Receipt, bool) {
	for ; b != nil; b = b.parent {
		for _, r := range b.receipts {
			if r.Tx == h {
				return r, true
			}
		}
	}
	return chain.Receipt{}, false
}

// A Recipient says how the token treats transfers to an address.
type Recipient string

// The ways of tokens. EIP-20 lets a token return false instead of reverting.
const (
	Pays         Recipient = ""              // moves the money and logs it
	Reverts      Recipient = "reverts"       // blacklisted
	ReturnsFalse Recipient = "returns_false" // status 1, nothing moved, nothing logged
	LogsLess     Recipient = "logs_less"     // takes a fee from the amount
)

// gasUsed is what a transfer of the fake token costs.
const gasUsed = 50_000

// extend makes the block that follows parent with txs, which must be
// executable in this order.
func (c *Chain) extend(parent *block, txs []envelope) *block {
	c.made++
	b := &block{number: parent.number + 1, parent: parent, accounts: maps.Clone(parent.accounts)}
	binary.BigEndian.PutUint64(b.hash[:], b.number)
	binary.BigEndian.PutUint64(b.hash[8:], c.made)
	b.hash[31] = 0xb0
	for _, tx := range txs {
		r := c.execute(b, tx)
		r.Tx, r.Block, r.BlockHash = tx.sign().Hash, b.number, b.hash
		b.receipts = append(b.receipts, r)
		b.txs = append(b.txs, tx)
		c.most[tx.From] = max(c.most[tx.From], b.accounts[tx.From].nonce)
	}
	return b
}

// execute applies tx to b's accounts.
func (c *Chain) execute(b *block, tx envelope) chain.Receipt {
	from := b.accounts[tx.From]
	from.nonce++
	used := uint64(chain.NoopGas)
	if tx.To == c.Token {
		used = gasUsed
	}
	fee, _ := c.price(tx).Times(used)
	from.gas = from.gas.Sub(fee)
	b.accounts[tx.From] = from
	if tx.To != c.Token {
		return chain.Receipt{Succeeded: true}
	}
	to, amount := recipientOf(tx.Data)
	moved := amount
	switch behaviour := c.Recipients[to]; {
	case behaviour == Reverts, from.coin.Less(amount):
		return chain.Receipt{}
	case behaviour == ReturnsFalse:
		return chain.Receipt{Succeeded: true}
	case behaviour == LogsLess:
		moved = amount.Sub(token.Units(1))
	}
	from.coin = from.coin.Sub(moved)
	b.accounts[tx.From] = from
	payee := b.accounts[to]
	payee.coin, _ = payee.coin.Add(moved)
	b.accounts[to] = payee
	word := moved.Bytes32()
	return chain.Receipt{Succeeded: true, Logs: []chain.Log{{
		Contract: c.Token, Topics: []chain.Hash{transferTopic, topic(tx.From), topic(to)}, Data: word[:],
	}}}
}

// price is what tx pays per gas in the next block.
func (c *Chain) price(tx envelope) token.Amount {
	price, _ := c.BaseFee.Add(tx.Fees.Tip)
	if tx.Fees.Cap.Less(price) {
		return tx.Fees.Cap
	}
	return price
}

// recipientOf reads transfer(address,uint256).
func recipientOf(data []byte) (to token.Address, amount token.Amount) {
	copy(to[:], data[16:36])
	amount, _ = token.AmountFromBytes(data[36:68])
	return to, amount
}

func topic(a token.Address) (h chain.Hash) {
	copy(h[12:], a[:])
	return h
}

// transferTopic is keccak256("Transfer(address,address,uint256)"), EIP-20.
var transferTopic, _ = chain.ParseHash("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")

// executable returns what of a pool can be mined on top of parent, in order.
func (c *Chain) executable(parent *block, pool pool) []envelope {
	var txs []envelope
	for _, from := range pool.senders() {
		a := parent.accounts[from]
		for nonce := a.nonce; c.PerSender == 0 || nonce < a.nonce+c.PerSender; nonce++ {
			tx, ok := pool[from][nonce]
			if !ok || tx.Fees.Cap.Less(c.BaseFee) || a.gas.Less(tx.Cost()) {
				break
			}
			used, _ := c.price(tx).Times(gasUsed)
			a.gas = a.gas.Sub(used)
			txs = append(txs, tx)
		}
	}
	return txs
}

// A pool is what a node would mine: by sender, by nonce.
type pool map[token.Address]map[uint64]envelope

func (p pool) put(tx envelope) {
	if p[tx.From] == nil {
		p[tx.From] = map[uint64]envelope{}
	}
	p[tx.From][tx.Nonce] = tx
}

func (p pool) senders() []token.Address {
	all := make([]token.Address, 0, len(p))
	for a := range p {
		all = append(all, a)
	}
	sort.Slice(all, func(i, j int) bool { return string(all[i][:]) < string(all[j][:]) })
	return all
}
