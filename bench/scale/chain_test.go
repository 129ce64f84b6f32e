package scale_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/plan"
	"remit/internal/simulation/fakechain"
	"remit/internal/token"
)

// A ledger is a chain with a block of so much gas every so often. Its nodes share what they
// know, hold so many transactions of a sender and take so many calls a second. It is made
// for many transactions: package fakechain, which goes wrong in every way, reads all of
// them for each question. It answers only what a chain on which all goes well is asked.
type ledger struct {
	contract token.Address
	limits   limits

	mu       sync.Mutex
	number   uint64
	full     int // blocks that had no gas left for a transaction that waited
	senders  []*sender
	of       map[token.Address]*sender
	receipts map[chain.Hash]chain.Receipt
	mined    map[payment.ID]int // how often each was
	calls    *bucket
	asked    [2]float64 // calls of payments, and of rounds
	coins    uint64     // of each wallet
}

// topUp doubles the coins of every wallet.
func (c *ledger) topUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coins *= 2
}

// A node is one provider's, which may be lost: then it answers nothing.
type node struct {
	chain.Node
	*ledger
	name string
	lost atomic.Bool
}

type sender struct {
	token.Address
	mined  uint64
	counts []uint64 // mined, after each block
	pool   map[uint64]fakechain.Tx
}

func newLedger(contract token.Address, l limits, wallets []token.Address) *ledger {
	c := &ledger{contract: contract, limits: l, of: map[token.Address]*sender{}, receipts: map[chain.Hash]chain.Receipt{}, mined: map[payment.ID]int{}, calls: newBucket(l.calls, 1), coins: 1 << 60}
	for _, a := range wallets {
		s := &sender{Address: a, pool: map[uint64]fakechain.Tx{}, counts: []uint64{0}}
		c.senders, c.of[a] = append(c.senders, s), s
	}
	return c
}

// mine adds a block, and takes one transaction of each sender after the other.
func (c *ledger) mine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	gas := c.limits.gas
	for again := true; again; {
		again = false
		for _, s := range c.senders {
			tx, waits := s.pool[s.mined]
			if !waits {
				continue
			}
			if gas < plan.PaymentGas {
				c.full++
				again = false
				break
			}
			gas, again = gas-plan.PaymentGas, true
			delete(s.pool, s.mined)
			s.mined++
			c.execute(tx)
		}
	}
	for _, s := range c.senders {
		s.counts = append(s.counts, s.mined)
	}
}

func (c *ledger) execute(tx fakechain.Tx) {
	t, memo, _ := chain.ParseTransfer(tx.Data)
	c.mined[payment.MemoID(memo)]++
	topics, word, fee := chain.TransferTopics([]token.Address{tx.From}), t.Amount.Bytes32(), token.Units(plan.PaymentGas)
	topics[1] = append(topics[1], chain.TransferTopics([]token.Address{t.To})[1]...)
	h := tx.Sign().Hash
	c.receipts[h] = chain.Receipt{Tx: h, Succeeded: true, Block: c.number, BlockHash: hashOf(c.number), GasUsed: plan.PaymentGas, Fee: &fee,
		Logs: []chain.Log{{Contract: c.contract, Topics: slices.Concat(topics[0], topics[1]), Data: word[:]}}}
}

func hashOf(number uint64) (h chain.Hash) {
	binary.BigEndian.PutUint64(h[:], number+1)
	return h
}

func (c *ledger) final() uint64 {
	last := c.number - min(c.number, c.limits.depth)
	return last - last%c.limits.epoch
}

// call waits for the node's turn, and then for its answer. A caller waits no longer for its
// turn than a client of a node does for an answer.
func (c *node) call(ctx context.Context, n float64, kind int) error {
	c.mu.Lock()
	wait := time.Duration(0)
	if c.lost.Load() {
		wait = time.Minute
	} else if c.calls.rate > 0 {
		wait = c.calls.owe(n)
	}
	c.asked[kind] += n
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(wait, 10*time.Second) + 50*time.Millisecond): // as far as the benchmarks' node
	}
	if wait > 10*time.Second {
		return errors.New("429 Too Many Requests")
	}
	c.mu.Lock()
	return nil
}

// A call is of a payment, or of a round of settling, whatever that finds.
const (
	ofPayment = iota
	ofRound
)

// ask is a request of n calls, which answer makes with the ledger locked.
func ask[T any](ctx context.Context, c *node, n float64, kind int, answer func() T) (T, error) {
	var none T
	if err := c.call(ctx, n, kind); err != nil {
		return none, err
	}
	defer c.mu.Unlock()
	return answer(), nil
}

func (c *node) String() string { return c.name }

func (c *node) Fees(ctx context.Context) (chain.Market, error) {
	return ask(ctx, c, 1, ofPayment, func() chain.Market { return chain.Market{BaseFee: token.Units(100), Tip: token.Units(10)} })
}

func (c *node) Estimate(ctx context.Context, _ chain.Call) (uint64, error) {
	return ask(ctx, c, 1, ofPayment, func() uint64 { return plan.PaymentGas })
}

func (c *node) Head(ctx context.Context, _ chain.ConfirmationRule) (chain.Head, error) {
	return ask(ctx, c, 2, ofRound, func() chain.Head { return chain.Head{Number: c.number, Final: c.final()} })
}

func (c *node) Account(ctx context.Context, a, _ token.Address, head chain.Head) (chain.Account, error) {
	return ask(ctx, c, 4, ofRound, func() chain.Account {
		s, number := c.of[a], head.Number
		if head == (chain.Head{}) {
			number = c.number
		}
		pending := s.mined
		for _, held := s.pool[pending]; held; _, held = s.pool[pending] {
			pending++
		}
		return chain.Account{Head: head, Mined: s.counts[number], Pending: pending, Balance: token.Units(c.coins), Gas: token.Units(1 << 60)}
	})
}

func (c *node) Count(ctx context.Context, a token.Address, number uint64) (uint64, error) {
	return ask(ctx, c, 1, ofRound, func() uint64 { return c.of[a].counts[number] })
}

func (c *node) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	kind := ofPayment
	if len(hashes) <= plan.ReceiptsAnyway {
		kind = ofRound
	}
	return ask(ctx, c, float64(len(hashes)), kind, func() (found []chain.Receipt) {
		for _, h := range hashes {
			if r, mined := c.receipts[h]; mined {
				found = append(found, r)
			}
		}
		return found
	})
}

func (c *node) BlockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	return ask(ctx, c, float64(len(numbers)), ofPayment, func() (hashes []chain.Hash) {
		for _, n := range numbers {
			hashes = append(hashes, hashOf(n))
		}
		return hashes
	})
}

func (c *node) Send(ctx context.Context, raw []byte) chain.Reply {
	class, err := ask(ctx, c, 1, ofPayment, func() chain.Class {
		tx, _ := fakechain.Decode(raw)
		s := c.of[tx.From]
		switch _, held := s.pool[tx.Nonce]; {
		case held:
			return chain.Known
		case tx.Nonce < s.mined:
			return chain.NonceTooLow
		case len(s.pool) >= c.limits.pool && tx.Nonce > s.mined: // the next one is always let in (reth, ensure_valid of its pool)
			return chain.Full
		}
		s.pool[tx.Nonce] = tx
		return chain.Accepted
	})
	if err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error()}
	}
	return chain.Reply{Class: class}
}
