package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A pass handles one wallet in one round. It reads the wallet, then the pending transactions that its run does not
// remember, then the nodes. In this order it finds a reservation or a pending transaction for each unsettled nonce.
// Transactions are stored before a node can count them. A node whose head is older than the tables counts too few.
type pass struct {
	*round
	registered wallet.Registration
	wallet     wallet.Wallet
	pendingTxs []wallet.PendingTx // in nonce order; then the ones that this pass stored
	bumps      load               // the additional gas that this pass's bumps tie up
	stale      bool               // pendingTxs may lack a stored bump
	below      uint64             // the run remembers pending transactions below it
	claimed    time.Time          // the end of the run's last claim on the wallet
	views      chain.Views
	compared   bool             // the wallet was compared with the chain, which is not ahead
	last, seen *wallet.Progress // progress of the last round and of this one; nil: unknown

	// Transactions of the last round on which most nodes agreed, and which a node contradicted.
	disputedBefore []chain.Hash

	mu       sync.Mutex              // guards the rest, and seen, while payments settle side by side
	named    map[string]func() named // by merchant
	report   Report
	disputed []chain.Hash // in this round
}

// handle does everything for one wallet, and fills p.report. It finishes reservations even while no node answers. It
// skips a wallet without work unless idle is true. If resting is true, it ends the run's claim on a wallet that rests.
func (p *pass) handle(ctx context.Context, by string, idle, resting bool) error {
	id := p.registered.ID
	unreadable, err := p.read(ctx)
	if err != nil {
		if errors.Is(err, store.ErrUnreadable) {
			p.report.Unreadable++
		}
		return err
	}
	if p.wallet.Damaged != "" {
		unreadable++
		p.Log.ErrorContext(ctx, "wallet cannot be read in full", "wallet", id.Address, "damaged", p.wallet.Damaged)
	}
	busy := p.busy()
	if !busy && !idle && p.wallet.Damaged == "" {
		return nil
	}
	if busy {
		now := p.Now()
		held, err := p.Store.Claim(ctx, id, by, now, now.Add(claimTime), p.last)
		if err != nil {
			return fmt.Errorf("claiming the wallet: %w", err)
		}
		// A claim longer than any run's was written by a wrong clock, and does not count.
		if !held && !p.wallet.ClaimedUntil.After(now.Add(claimTime+store.Skew)) {
			p.report = Report{ClaimedElsewhere: true}
			return nil
		}
		if held {
			p.claimed = now.Add(claimTime)
		}
	}
	p.report.Unreadable = unreadable
	err = p.steps(ctx)
	switch p.report.Busy = p.busy(); {
	case p.report.Busy && p.rests():
		p.report.Busy, p.report.Resting = false, 1
		if !resting {
			break
		}
		fallthrough
	case busy && !p.report.Busy:
		var unclaimErr error
		p.report.Busy, unclaimErr = p.unclaim(ctx, by)
		err = errors.Join(err, unclaimErr)
	}
	p.report.Pending = len(p.pendingTxs)
	for _, tx := range p.pendingTxs {
		p.report.Oldest = max(p.report.Oldest, p.Now().Sub(tx.Since))
	}
	if p.wallet.Paused != "" {
		p.report.Paused++
	}
	return err
}

// read reads the wallet, then the pending transactions that the run does not remember.
func (p *pass) read(ctx context.Context) (unreadable int, err error) {
	w, err := p.record(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the wallet: %w", err)
	}
	from := p.from(w)
	txs, unreadable, err := p.Store.PendingTxs(ctx, p.registered.ID, from)
	if err != nil {
		return 0, fmt.Errorf("reading its pending transactions: %w", err)
	}
	p.pendingTxs = slices.DeleteFunc(p.pendingTxs, func(tx wallet.PendingTx) bool { return tx.Nonce >= from })
	p.wallet, p.pendingTxs, p.below = w, append(p.pendingTxs, txs...), from
	return unreadable, nil
}

// record returns the wallet's record. A wallet that was never opened has an empty one: it has given out no nonce.
func (p *pass) record(ctx context.Context) (wallet.Wallet, error) {
	w, err := p.Store.Wallet(ctx, p.registered.ID)
	if (!p.registered.Opened || p.registered.State == wallet.Damaged) && errors.Is(err, wallet.ErrUnknown) {
		p.registered.Opened = false
		return wallet.Wallet{ID: p.registered.ID}, nil
	}
	p.registered.Opened = p.registered.Opened || err == nil // a torn copy (one side of a write) may lack it
	return w, err
}

func (p *pass) busy() bool { return len(p.pendingTxs) > 0 || len(p.wallet.Reservations) > 0 }

// far is the lag of the final block above which one check a minute is enough.
const far = 5 * time.Minute

// rests reports whether all of the wallet's transactions are mined and only wait for a final block that is far behind.
func (p *pass) rests() bool {
	if p.seen == nil || len(p.wallet.Reservations) > 0 || p.report.Unreadable+p.report.Undecided > 0 {
		return false
	}
	near := func(v chain.View) bool {
		return v.Final > v.Number || time.Duration(v.Number-v.Final)*p.BlockTime < far
	}
	return !slices.ContainsFunc(p.views, near) &&
		!slices.ContainsFunc(p.pendingTxs, func(tx wallet.PendingTx) bool { return tx.Nonce >= p.seen.Mined })
}

// unclaim ends the run's claim on a wallet that has nothing to do now, then reads the wallet again. A handler that
// reserved before the claim ended relies on this run; a later one requests a run. After a crash the claim expires, and
// the next minute's run takes the wallet.
func (p *pass) unclaim(ctx context.Context, by string) (busy bool, err error) {
	now := p.Now()
	if _, err := p.Store.Claim(ctx, p.wallet.ID, by, now, now, p.seen); err != nil {
		return true, fmt.Errorf("ending the claim: %w", err)
	}
	fresh, err := p.Store.Wallet(ctx, p.wallet.ID)
	if err != nil {
		return true, fmt.Errorf("reading the wallet again: %w", err)
	}
	return fresh.NextNonce != p.wallet.NextNonce || len(fresh.Reservations) > 0, nil
}

// steps finishes reservations, and settles and keeps alive the other transactions as far as the nodes' answers allow.
func (p *pass) steps(ctx context.Context) error {
	reservationErr := p.finishReservations(ctx)
	views, err := p.heads().Views(ctx, p.wallet.Address, p.Token.Contract)
	if err != nil {
		return errors.Join(reservationErr, err)
	}
	p.views = views
	if err := p.reread(ctx); err != nil {
		return errors.Join(reservationErr, err)
	}
	if wait, err := p.waitForChain(ctx); wait {
		p.seen = &wallet.Progress{} // the nodes may serve another chain
		return errors.Join(reservationErr, err)
	}
	if ahead, err := p.chainAhead(ctx); ahead || err != nil {
		return errors.Join(reservationErr, err)
	}
	if p.compared = !p.Nodes.Alone(len(views)); !p.registered.Opened {
		return reservationErr
	}
	return errors.Join(reservationErr, p.settle(ctx), p.keepAlive(ctx), p.reconcile(ctx))
}

func (p *pass) tally(change func(*Report)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.report)
}

// If this wallet has mined nonces that the tables never gave out, chainAhead pauses every wallet until an operator
// resumes it. Either another program uses its key, or the tables were restored and could pay again from any wallet. It
// pauses none for a recovery's no-ops that the tables lost, or for a count that too few nodes support. chainAhead
// reports true if the wallet must wait for the next round. It raises next_nonce last: after a crash before that, the
// next run does everything again.
func (p *pass) chainAhead(ctx context.Context) (ahead bool, err error) {
	count, sure := p.Nodes.Ahead(ctx, p.Log, p.views, p.wallet.Address, p.wallet.NextNonce)
	fresh := p.wallet
	if count > 0 {
		fresh, err = p.record(ctx) // the pass read it before the nodes answered
	}
	if fresh.NextNonce > p.wallet.NextNonce { // the higher count may be of a payment reserved since
		count, sure = p.Nodes.Ahead(ctx, p.Log, p.views, p.wallet.Address, fresh.NextNonce)
	}
	if fresh.Suspect() { // another run, or recovery, may have raised next_nonce over payments that the tables lack
		p.held.Store(true)
	}
	if err != nil || count <= fresh.NextNonce {
		return false, err
	}
	if !sure {
		return true, p.resendAll(ctx, p.waiting(0))
	}
	of, next := p.wallet.Address, fresh.NextNonce
	if harmless, err := p.onlyNoops(ctx, fresh, count); harmless {
		p.Log.WarnContext(ctx, "no-ops of a lost recovery are mined", "wallet", of, "count", count, "next_nonce", next)
	} else {
		reason := fmt.Sprintf("%s: %d transactions of %s are mined, next nonce is %d", wallet.Suspicion, count, of, next)
		p.Log.ErrorContext(ctx, "every wallet paused", "wallet", of, "reason", reason, "err", err)
		p.report.Suspect++
		if err = p.suspectAll(ctx, reason); err == nil && !p.registered.Opened {
			opened := wallet.Wallet{ID: p.wallet.ID, Merchant: p.registered.Merchant, Paused: reason}
			err = p.Store.Open(ctx, opened, p.Token.Contract) // last: till it has a record, new processes pay nothing
		}
		if err = cmp.Or(err, p.pause(ctx, p.wallet.ID, reason)); err != nil {
			return false, err
		}
	}
	counted := p.Nodes.Counted(p.views, p.final().silent)
	if counted <= next { // too few agree: use up no nonce
		return true, errors.Join(p.settle(ctx), p.resendAll(ctx, p.waiting(0)))
	}
	if err := p.fillGaps(ctx, next, counted); err != nil {
		return false, err
	}
	// Last: once next_nonce is raised, no later run finds those transactions.
	return true, p.Store.Advance(ctx, p.wallet.ID, counted, fresh.NoopsBelow)
}

// onlyNoops reports whether all transactions of w from its next nonce to below count are no-ops that a lost recovery
// may have signed. Every configured node must agree. An error proves nothing: a node may be silent or behind.
func (p *pass) onlyNoops(ctx context.Context, w wallet.Wallet, count uint64) (bool, error) {
	if count > w.NoopsBelow {
		return false, nil
	}
	last := slices.MinFunc(p.views, func(a, b chain.View) int { return cmp.Compare(a.Number, b.Number) }).Number
	for nonce := w.NextNonce; nonce < count; nonce++ {
		hash, unknown := p.Nodes.UserOf(ctx, w.Address, nonce, last)
		txs, err := p.Nodes.Transactions(ctx, []chain.Hash{hash})
		if err = cmp.Or(unknown, err); err != nil || len(txs) == 0 || !txs[0].Noop() {
			return false, err
		}
	}
	return true, nil
}

// fillGaps stores a no-op at each nonce in [first, below) that is not final. A reorg can remove the transaction there,
// and a nonce without an owner holds up every later payment. If the wallet's key is gone, fillGaps fails until all are
// final.
func (p *pass) fillGaps(ctx context.Context, first, below uint64) error {
	settled, err := p.views.FinalCount(ctx, p.wallet.Address)
	if err == nil && !p.steady(ctx) {
		err = errors.New("nodes call less final than when the round began")
	}
	if err = cmp.Or(err, p.unusable); err != nil {
		return err
	}
	for nonce := max(first, settled); nonce < below; nonce++ {
		if _, err := p.storeNoop(ctx, nonce); err != nil {
			return fmt.Errorf("filling nonce %d: %w", nonce, err)
		}
	}
	return nil
}

// A memory holds a wallet's pending transactions that are mined and only wait for the final block. A run keeps it
// between two rounds, so that the next round need not read them again. They may have changed in the tables meanwhile,
// which does no harm: every write is conditional.
type memory struct {
	txs      []wallet.PendingTx // the lowest ones, at contiguous nonces
	until    time.Time          // the end of the claim under which they were read
	seen     *wallet.Progress   // progress of the last round, stored with the next claim; nil: unknown
	disputed []chain.Hash       // transactions disputed in the last round
}

func (p *pass) recall(m memory) {
	p.pendingTxs, p.claimed, p.last, p.disputedBefore = m.txs, m.until, m.seen, m.disputed
	if n := len(m.txs); n > 0 {
		p.below = m.txs[n-1].Nonce + 1
	}
}

// from returns the nonce from which the pass reads pending transactions. It is 0, which discards the memory, if
// another run has claimed the wallet since, or a reservation's nonce is below p.below.
func (p *pass) from(w wallet.Wallet) uint64 {
	if !w.ClaimedUntil.Equal(p.claimed) {
		return 0
	}
	for _, r := range w.Reservations {
		if r.Nonce < p.below {
			return 0
		}
	}
	return p.below
}

// reread replaces the remembered pending transactions by the stored ones if the final block has moved, if the nodes may
// lack it, or if they count a remembered one as unmined. It keeps the transactions that this pass read
// itself, before it queried the wallet's accounts.
func (p *pass) reread(ctx context.Context) error {
	if p.below == 0 || !p.final().moved && p.final().standing == kept && p.Nodes.Mined(p.views) >= p.below {
		return nil
	}
	all, unreadable, err := p.Store.PendingTxs(ctx, p.wallet.ID, 0)
	if err != nil {
		return fmt.Errorf("reading its mined transactions: %w", err)
	}
	remembered := func(tx wallet.PendingTx) bool { return tx.Nonce < p.below }
	all = slices.DeleteFunc(all, func(tx wallet.PendingTx) bool { return !remembered(tx) })
	p.pendingTxs = append(all, slices.DeleteFunc(p.pendingTxs, remembered)...)
	p.report.Unreadable, p.below = max(p.report.Unreadable, unreadable), 0
	return nil
}

// remember returns the memory for the next round. It keeps the progress even after an error: the round's events are
// published. It drops the transactions after an error, if the wallet was not compared with the chain, if some are
// unreadable, or if the final block moved.
func (p *pass) remember(err error) memory {
	m := memory{seen: p.seen, disputed: p.disputed}
	if err != nil || !p.compared || p.report.Unreadable > 0 || p.final().moved {
		return m
	}
	n, txs, count := 0, p.pendingTxs, p.Nodes.Mined(p.views)
	for n < len(txs) && txs[n].Nonce < count && (n == 0 || txs[n].Nonce == txs[n-1].Nonce+1) {
		n++
	}
	m.txs, m.until = txs[:n:n], p.claimed
	return m
}
