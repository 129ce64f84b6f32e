package fakechain

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// An Account is the state of one address: how many transactions it sent, its ether in wei, and its units of the token.
type Account struct {
	Nonce      uint64
	Gas, Coins token.Amount
}

// A Rule is how gas is paid.
type Rule struct {
	// Unit is how many wei of gas a unit of the token pays, on a chain whose gas is the token: an account then has one
	// balance. Its Gas is that balance in wei, and its Coins are the whole units of it. Zero: gas is paid in ether.
	Unit uint64
	// Whole has the chain take fees in whole units of the token, rounded up, and show no other balance:
	// nodes give Placeholder for it, as Tempo's do. Otherwise it takes them to the wei, as Arc does.
	Whole bool
}

// Placeholder is every account's balance of ether on nodes of a chain without a coin (docs.tempo.xyz, EVM Differences).
var Placeholder = token.MaxAmount().Over(27)

// one returns the account as the chain keeps it, after a change of the one balance.
func (r Rule) one(a Account) Account {
	if r.Unit > 0 {
		a.Coins = a.Gas.Over(r.Unit)
	}
	return a
}

// of returns amounts of the token and of wei as an Account's Coins and Gas.
func (r Rule) of(coins, wei token.Amount) (token.Amount, token.Amount) {
	if r.Unit == 0 {
		return coins, wei
	}
	wei, _ = coins.Times(r.Unit)
	return token.Amount{}, wei
}

// Fee is the chain's price for a cost of gas.
func (r Rule) Fee(cost token.Amount) token.Amount {
	if r.Whole {
		return cost.ScaleUp(1, r.Unit).ScaleUp(r.Unit, 1)
	}
	return cost
}

func (r Rule) move(accounts map[token.Address]Account, from, to token.Address, amount token.Amount) {
	coins, wei := r.of(amount, token.Amount{})
	source := accounts[from]
	source.Coins, source.Gas = source.Coins.Sub(coins), source.Gas.Sub(wei)
	accounts[from] = r.one(source)
	payee := accounts[to]
	payee.Coins, _ = payee.Coins.Add(coins)
	payee.Gas, _ = payee.Gas.Add(wei)
	accounts[to] = r.one(payee)
}

// A block is one block of a tree: forks share their ancestors.
type block struct {
	number   uint64
	hash     chain.Hash
	parent   *block
	at       time.Time
	receipts []chain.Receipt // of txs, in their order
	txs      []Tx
	accounts map[token.Address]Account // after this block
}

// ancestor returns the block with that number on the branch ending in b, or nil.
func (b *block) ancestor(number uint64) *block {
	for b != nil && b.number > number {
		b = b.parent
	}
	if b == nil || b.number != number {
		return nil
	}
	return b
}

// below returns the block so many blocks below b, at most the first block.
func (b *block) below(depth uint64) *block { return b.ancestor(b.number - min(depth, b.number)) }

// receipt returns the receipt of a transaction on the branch ending in b.
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

// A Recipient is how the token treats transfers to an address.
type Recipient string

// The treatments. EIP-20 lets a token return false instead of reverting.
const (
	Pays         Recipient = ""              // the token moves the money and logs it
	Reverts      Recipient = "reverts"       // the address is on the token's blacklist
	ReturnsFalse Recipient = "returns_false" // status 1, nothing moved, nothing logged
	LogsLess     Recipient = "logs_less"     // the token keeps a fee of one unit
	Guarded      Recipient = "guarded"       // its coins go to Guard, by a policy of its own (Tempo, TIP-1028)
)

// Guard is the contract that holds coins that recipients do not accept.
var Guard = token.Address{0: 0xb1, 1: 0x0c}

// gasUsed is the gas that a transfer of the fake token uses.
const gasUsed = 50_000

// now is the time of a block that is made: whole seconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// extend returns the block that follows parent with txs, which must be executable in this order.
func (c *Chain) extend(parent *block, txs []Tx) *block {
	c.blocks++
	b := &block{number: parent.number + 1, parent: parent, at: now(), txs: txs, accounts: maps.Clone(parent.accounts)}
	binary.BigEndian.PutUint64(b.hash[:], b.number)
	binary.BigEndian.PutUint64(b.hash[8:], c.blocks)
	b.hash[31] = 0xb0
	for _, tx := range txs {
		r, fee := c.execute(b, tx)
		r.Tx, r.Block, r.BlockHash, r.GasUsed = tx.Sign().Hash, b.number, b.hash, min(tx.Gas, c.gasOf(tx))
		r.Fee = &fee
		c.First[r.Tx] = cmp.Or(c.First[r.Tx], c.blocks)
		c.failed[r.Tx] = c.failed[r.Tx] || !r.Succeeded
		if r.Succeeded && c.failed[r.Tx] && c.Mended[r.Tx].IsZero() {
			c.Mended[r.Tx] = b.at
		}
		b.receipts = append(b.receipts, r)
		c.mostMined[tx.From] = max(c.mostMined[tx.From], b.accounts[tx.From].Nonce)
	}
	return b
}

// branch returns the last of so many blocks on top of base, each filled from the pool with the
// transactions that are executable there. It takes the transactions out of the pool.
func (c *Chain) branch(base *block, from pool, blocks uint64) *block {
	for range blocks {
		base = c.extend(base, c.executable(base, from))
		for _, tx := range base.txs {
			delete(from[tx.From], tx.Nonce)
		}
	}
	return base
}

// execute applies tx to the accounts of b and returns its receipt and its fee.
func (c *Chain) execute(b *block, tx Tx) (r chain.Receipt, fee token.Amount) {
	from := b.accounts[tx.From]
	from.Nonce++
	fee, _ = c.Price(tx).Times(min(tx.Gas, c.gasOf(tx)))
	fee, _ = fee.Add(c.L1Fee)
	taken := c.Fee(fee)
	limit, _ := c.Price(tx).Times(tx.Gas)
	limit, _ = limit.Add(c.L1Fee)
	refund := c.Fee(limit).Sub(taken) // of the one balance; the call runs without it
	if c.Unit == 0 || from.Gas.Less(c.Fee(limit)) {
		refund = token.Amount{}
	}
	from.Gas = from.Gas.Sub(taken).Sub(refund)
	b.accounts[tx.From] = c.one(from)
	defer func() {
		from := b.accounts[tx.From]
		from.Gas, _ = from.Gas.Add(refund)
		b.accounts[tx.From] = c.one(from)
	}()
	if tx.To != c.Token && tx.To != Batcher {
		from.Gas = from.Gas.Sub(tx.Value)
		b.accounts[tx.From] = c.one(from)
		to := b.accounts[tx.To]
		to.Gas, _ = to.Gas.Add(tx.Value)
		b.accounts[tx.To] = c.one(to)
		return chain.Receipt{Succeeded: true}, fee
	}
	after := maps.Clone(b.accounts)
	logs, ok := c.transfer(after, tx)
	if !ok {
		return chain.Receipt{}, fee
	}
	b.accounts = after
	return chain.Receipt{Succeeded: true, Logs: logs}, fee
}

// Batcher is the contract of package disburser on every fake chain.
var Batcher = token.Address{0: 0xba}

// transfer makes the transfers of tx, a call of the token or of Batcher, in accounts, and returns their logs. It
// reports false if one reverts: then nothing has moved, whatever accounts say.
func (c *Chain) transfer(accounts map[token.Address]Account, tx Tx) (logs []chain.Log, ok bool) {
	if _, _, ok := chain.ParseTransfer(tx.Data); !ok && tx.To == c.Token {
		return nil, false
	}
	for _, e := range Outputs(tx.Tx) {
		moved := e.Amount
		switch behaviour := c.Recipients[e.To]; {
		case behaviour == Reverts, c.Blocked[tx.From], accounts[tx.From].Coins.Less(e.Amount), tx.Gas < c.gasOf(tx),
			tx.To == Batcher && c.Approved != nil && !c.Approved[tx.From]:
			return nil, false
		case behaviour == ReturnsFalse && tx.To == Batcher:
			return nil, false // the contract reverts
		case behaviour == ReturnsFalse:
			continue
		case behaviour == LogsLess:
			moved = e.Amount.Sub(token.Units(1))
		}
		to := e.To
		if c.Recipients[to] == Guarded {
			to = Guard
		}
		c.move(accounts, tx.From, to, moved)
		word := moved.Bytes32()
		logs = append(logs, chain.Log{Contract: c.Token, Topics: []chain.Hash{transferTopic, topic(tx.From), topic(to)},
			Data: word[:], Index: uint64(len(logs))})
	}
	return logs, true
}

func (c *Chain) gasOf(tx Tx) uint64 {
	if tx.To != c.Token && tx.To != Batcher {
		return chain.NoopGas + c.L1Gas
	}
	gas := c.L1Gas
	for _, e := range Outputs(tx.Tx) {
		gas += gasUsed + c.Dear[e.To]
	}
	return gas
}

// cost is the balance that the sender of tx needs for the next block.
func (c *Chain) cost(tx Tx) token.Amount {
	tx.L1Fee = c.L1Fee
	return c.Fee(tx.Cost())
}

// Price is the wei that tx pays for a unit of gas in the next block.
func (c *Chain) Price(tx Tx) token.Amount {
	price, _ := c.BaseFee.Add(tx.Fees.Tip)
	if tx.Fees.Cap.Less(price) {
		return tx.Fees.Cap
	}
	return price
}

func topic(a token.Address) (h chain.Hash) {
	copy(h[12:], a[:])
	return h
}

// transferTopic is keccak256("Transfer(address,address,uint256)"), EIP-20.
var transferTopic, _ = chain.ParseHash("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")

// executable returns the transactions of a pool that the block after parent can hold, in order.
func (c *Chain) executable(parent *block, from pool) []Tx {
	var txs []Tx
	for _, sender := range slices.SortedFunc(maps.Keys(from), func(a, b token.Address) int { return slices.Compare(a[:], b[:]) }) {
		a := parent.accounts[sender]
		for nonce := a.Nonce; c.PerSender == 0 || nonce < a.Nonce+c.PerSender; nonce++ {
			tx, ok := from[sender][nonce]
			if !ok || tx.Fees.Cap.Less(c.BaseFee) || a.Gas.Less(c.cost(tx)) || tx.Gas < chain.NoopGas+c.L1Gas {
				break
			}
			used, _ := c.Price(tx).Times(c.gasOf(tx))
			used, _ = used.Add(c.L1Fee)
			a.Gas = a.Gas.Sub(c.Fee(used)).Sub(tx.Value)
			if tx.To == c.Token || tx.To == Batcher {
				for _, e := range Outputs(tx.Tx) {
					_, wei := c.of(e.Amount, token.Amount{})
					a.Gas = a.Gas.Sub(wei) // less than is left where it reverts: the next block takes what follows
				}
			}
			txs = append(txs, tx)
		}
	}
	return txs
}

// A pool holds the transactions that a node would mine, by sender and nonce.
type pool map[token.Address]map[uint64]Tx

func (p pool) put(tx Tx) {
	if p[tx.From] == nil {
		p[tx.From] = map[uint64]Tx{}
	}
	p[tx.From][tx.Nonce] = tx
}
