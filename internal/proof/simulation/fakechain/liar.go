package fakechain

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Habit is how a Liar lies. Its lies depend on Seed, the subject and the time only, and can be replayed.
type Habit struct {
	Seed  uint64
	About []string      // of Subjects
	Share int           // of 100 answers about a subject, so many are lies
	Hold  time.Duration // how long an answer about a subject stays the same; 0: each is drawn anew
}

// A Liar is a Node that may lie in each of its answers.
type Liar struct {
	*Node
	mu    sync.Mutex // of the habit, which chance changes while answers are under way
	habit Habit

	held   uint64 // when the branch was drawn
	branch *block // on which the node stays
}

// SetHabit makes l lie so from now on.
func (l *Liar) SetHabit(h Habit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.habit, l.lied = h, l.lied || h.Share > 0
}

func (l *Liar) now() Habit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.habit
}

// Subjects are the parts of answers about which a Liar can lie. "view" is the block from which it answers: an old one,
// one at which it is stuck, or one of a branch of its own. "error" is an error in place of an answer, "time" a late
// answer or none.
var Subjects = []string{"view", "error", "time", "head", "final", "mined", "pending", "balance", "gas", "base fee", "tip", "L1 fee",
	"estimate", "count", "receipts", "blocks", "history", "send"}

// draw returns the chance of a lie about a subject, or nil for the truth.
func (l *Liar) draw(subject string, of ...any) *rand.Rand {
	as := l.now()
	if !slices.Contains(as.About, subject) {
		return nil
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, subject, of, l.period())
	if r := rand.New(rand.NewPCG(as.Seed, h.Sum64())); r.IntN(100) < as.Share {
		return r
	}
	return nil
}

// period numbers the times in which answers stay the same.
func (l *Liar) period() uint64 { return uint64(time.Now().UnixNano()) / uint64(max(1, l.now().Hold)) }

func (l *Liar) number(subject string, n uint64) uint64 {
	if r := l.draw(subject); r != nil {
		lies := []uint64{0, n - min(n, 1), n - min(n, 1+r.Uint64N(40)), n / 2, n + 1, n + 2 + r.Uint64N(40), n * 1000, math.MaxInt64}
		return lies[r.IntN(len(lies))]
	}
	return n
}

func (l *Liar) amount(subject string, a token.Amount) token.Amount {
	if r := l.draw(subject); r != nil {
		more, _ := a.Add(token.Units(1 + r.Uint64N(1_000)))
		lies := []token.Amount{{}, token.Units(1), a.Over(2), a.ScaleUp(3, 2), a.ScaleUp(500, 1), more, token.MaxAmount()}
		return lies[r.IntN(len(lies))]
	}
	return a
}

func (l *Liar) fault(method string, err error, others ...error) error {
	if r := l.draw("error", method); r != nil && err == nil {
		others = append(others, ErrDown, chain.ErrWrongChain, chain.ErrRejected)
		return others[r.IntN(len(others))]
	}
	return err
}

// at returns the node at the block from which it answers.
func (l *Liar) at() *Node {
	r := l.draw("view")
	if r == nil {
		return l.Node
	}
	n := *l.Node
	switch kind := r.IntN(3); {
	case kind == 0:
		n.head = n.head.below(1 + r.Uint64N(30))
		return &n
	case l.branch == nil || l.held != l.period():
		l.held, l.branch = l.period(), n.head
		if kind == 1 {
			base := n.head.below(r.Uint64N(n.chain.Depth + 1))
			l.branch = n.chain.branch(base, n.poolAt(base), 1+r.Uint64N(8))
		}
	}
	n.head = l.branch
	return &n
}

// Delay returns how long the node takes for an answer. Beyond ten seconds, nobody waits for it.
func (l *Liar) Delay() time.Duration {
	if r := l.draw("time"); r != nil {
		return []time.Duration{600 * time.Millisecond, 3 * time.Second, 9 * time.Second, time.Minute}[r.IntN(4)]
	}
	return 0
}

// Fees implements chain.Node.
func (l *Liar) Fees(ctx context.Context) (chain.Market, error) {
	m, err := l.Node.Fees(ctx)
	m.BaseFee, m.Tip, m.L1Fee = l.amount("base fee", m.BaseFee), l.amount("tip", m.Tip), l.amount("L1 fee", m.L1Fee)
	return m, l.fault("Fees", err)
}

// Estimate implements chain.Node.
func (l *Liar) Estimate(ctx context.Context, call chain.Call) (uint64, error) {
	gas, err := l.at().Estimate(ctx, call)
	others := []error{chain.ErrReverted, chain.ErrReverted, chain.ErrTooLarge, chain.ErrCode}
	if len(call.Recipients) > 0 {
		others = append(others, &chain.EntryError{Err: chain.ErrListed}, errNoList)
	}
	if gas > call.Within { // an estimate, not the answer to an execution; ethrpc refuses less than NoopGas
		gas = max(chain.NoopGas, l.number("estimate", gas))
	}
	return gas, l.fault("Estimate", err, others...)
}

// Head implements chain.Node.
func (l *Liar) Head(ctx context.Context, rule chain.ConfirmationRule) (chain.Head, error) {
	h, err := l.at().Head(ctx, rule)
	return chain.Head{Number: l.number("head", h.Number), Final: l.number("final", h.Final)}, l.fault("Head", err)
}

// Account implements chain.Node. One lie is to count what is pending as mined.
func (l *Liar) Account(ctx context.Context, wallet, coin token.Address, head chain.Head) (chain.Account, error) {
	a, err := l.at().Account(ctx, wallet, coin, head)
	if r := l.draw("mined", wallet); r != nil && r.IntN(2) == 0 {
		a.Mined = a.Pending
	} else {
		a.Mined = l.number("mined", a.Mined)
	}
	a.Pending, a.Balance, a.Gas = l.number("pending", a.Pending), l.amount("balance", a.Balance), l.amount("gas", a.Gas)
	return a, l.fault("Account", err)
}

// Count implements chain.Node.
func (l *Liar) Count(ctx context.Context, wallet token.Address, number uint64) (uint64, error) {
	count, err := l.at().Count(ctx, wallet, number)
	return l.number("count", count), l.fault("Count", err)
}

// Receipts implements chain.Node.
func (l *Liar) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	found, err := l.at().Receipts(ctx, hashes)
	r := l.draw("receipts")
	if r == nil {
		return found, l.fault("Receipts", err)
	}
	lie := Lies[slices.Sorted(maps.Keys(Lies))[r.IntN(len(Lies))]]
	var lies []chain.Receipt
	for _, receipt := range found {
		if l.chain.Lied = true; r.IntN(3) > 0 {
			lies = append(lies, lie(receipt))
		}
	}
	return lies, l.fault("Receipts", err)
}

// BlockHashes implements chain.Node.
func (l *Liar) BlockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	hashes, err := l.at().BlockHashes(ctx, numbers)
	for i, number := range numbers {
		if r := l.draw("blocks", number); r != nil {
			hashes[i] = []chain.Hash{{}, {1, 2, 3}}[r.IntN(2)]
		}
	}
	return hashes, l.fault("BlockHashes", err)
}

// TxAtNonce implements chain.Node.
func (l *Liar) TxAtNonce(ctx context.Context, wallet token.Address, nonce, final uint64) (chain.Hash, error) {
	h, err := l.at().TxAtNonce(ctx, wallet, nonce, final)
	if r := l.draw("history"); r != nil {
		h = []chain.Hash{{}, {1, 2, 3}}[r.IntN(2)]
	}
	return h, l.fault("TxAtNonce", err)
}

// Transfers implements chain.Node.
func (l *Liar) Transfers(ctx context.Context, coin token.Address, of []token.Address, first, last uint64) ([]chain.LoggedTransfer, error) {
	found, err := l.at().Transfers(ctx, coin, of, first, last)
	if r := l.draw("history"); r != nil {
		found = found[:len(found)*r.IntN(2)/2]
	}
	return found, l.fault("Transfers", err)
}

// Transactions implements chain.Node. A node can hide a transaction, but cannot sign one.
func (l *Liar) Transactions(ctx context.Context, hashes []chain.Hash) ([]chain.MinedTx, error) {
	found, err := l.at().Transactions(ctx, hashes)
	if l.draw("history") != nil {
		found = nil
	}
	return found, l.fault("Transactions", err)
}

// Send implements chain.Node. It may take the transaction and deny that, or the other way about.
func (l *Liar) Send(ctx context.Context, raw []byte) chain.Reply {
	r := l.draw("send")
	if r == nil {
		return l.Node.Send(ctx, raw)
	}
	if r.IntN(2) == 0 {
		l.Node.Send(ctx, raw)
	}
	class := slices.Sorted(slices.Values(chain.Classes()))[r.IntN(len(chain.Classes()))]
	return chain.Reply{Class: class, Detail: "a lie"}
}
