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
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A pass handles one wallet once, at the nodes' heads of its round. Its reads come
// in this order: wallet, pending transactions that the run does not remember (mined),
// nodes. So every nonce that was reserved is in the wallet or has a pending transaction.
// A transaction that a node counts at its head was a pending transaction before; heads
// may be older than the tables, and then a node counts less than it could.
type pass struct {
	*Settler
	Nodes       chain.Nodes        // of this round
	heads       func() chain.Heads // theirs
	stands      func() standing    // what they make of the newest final block
	silent      func() int         // how many of them do not count towards what is confirmed
	known       func() chain.Block // the newest final block, the zero Block if none is known
	moved       func() bool        // it was another one a round before
	stack.Rules                    // of this round; zero if unusable
	unusable    error              // why there are none: then nothing is bumped or filled, and no ceiling rises
	registered  wallet.Registration
	wallet      wallet.Wallet
	pendingTxs  []wallet.PendingTx // in nonce order, then the ones this pass stored
	bumps       load               // how much more the bumps of this pass tie up
	below       uint64             // the pending transactions below it are remembered
	claimed     time.Time          // until when the run last claimed the wallet
	views       chain.Views
	compared    bool             // the chain is not ahead of the wallet
	remembered  *wallet.Progress // what the round before saw; nil: nothing, or it is not remembered
	seen        *wallet.Progress // the same of this round

	mu     sync.Mutex // guards report while payments settle side by side
	report Report
}

// over does all there is to do for one wallet, and fills p.report. Reservations
// are finished even while no node answers; payments wait for one.
func (p *pass) over(ctx context.Context, by string, idle bool) error {
	id := p.registered.ID
	unreadable, err := p.read(ctx)
	if errors.Is(err, wallet.ErrUnknown) && p.registered.State == wallet.Damaged {
		return nil // it may never have been opened
	}
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
		if p.remembered == nil && p.wallet.Progress.Head == 0 { // hidden by an earlier version's claim, perhaps
			p.remembered = &wallet.Progress{}
		}
		held, err := p.Store.Claim(ctx, id, by, now, now.Add(claimTime), p.remembered)
		if err != nil {
			return fmt.Errorf("claiming the wallet: %w", err)
		}
		// No run claims a wallet for so long: such a claim is of a wrong clock.
		if !held && !p.wallet.ClaimedUntil.After(now.Add(claimTime+skew)) {
			p.report = Report{ClaimedElsewhere: true}
			return nil
		}
		if held {
			p.claimed = now.Add(claimTime)
		}
	}
	p.report.Unreadable = unreadable
	err = p.steps(ctx)
	p.report.Busy = p.busy()
	if busy && !p.report.Busy {
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

// read reads the wallet, and then the pending transactions that it does not remember. It leaves out
// pending transactions that do not decode.
func (p *pass) read(ctx context.Context) (unreadable int, err error) {
	w, err := p.Store.Wallet(ctx, p.registered.ID)
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

// busy reports whether a nonce of the wallet is reserved or has a pending
// transaction.
func (p *pass) busy() bool { return len(p.pendingTxs) > 0 || len(p.wallet.Reservations) > 0 }

// unclaim ends the run's claim on a wallet that has nothing left to do, and reads the wallet once
// more: a handler that reserved before the claim ended counts on this run, and a handler that
// reserves later drops a hint. A crash leaves a claim that expires, and at most a wallet for the
// next minute's run.
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
	if held, err := p.rolledBack(ctx); held {
		p.seen = &wallet.Progress{} // whatever the nodes show may be of another chain
		return errors.Join(reservationErr, err)
	}
	if ahead, err := p.chainAhead(ctx); ahead || err != nil {
		return errors.Join(reservationErr, err)
	}
	p.compared = true
	return errors.Join(reservationErr, p.settle(ctx), p.keepAlive(ctx), p.reconcile(ctx))
}

// tally changes the report under its lock.
func (p *pass) tally(change func(*Report)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.report)
}

// chainAhead looks for transactions of the wallet that no reservation ever gave a
// nonce to: another program uses its key, or the tables were restored from the
// past. Both may make a payment twice on any wallet, so all of them stop, and
// a person resumes them. The no-ops of a lost recovery stop none. A crash in between
// leaves next_nonce as it was, and the next run does it all again. It reports true if the wallet must wait for
// the next round.
func (p *pass) chainAhead(ctx context.Context) (ahead bool, err error) {
	count := p.views.Leading().Mined
	if count <= p.wallet.NextNonce {
		return false, nil
	}
	fresh, err := p.Store.Wallet(ctx, p.wallet.ID) // it was read before the nodes were asked
	if err != nil || count <= fresh.NextNonce {
		return false, err
	}
	if harmless, err := p.onlyNoops(ctx, fresh, count); harmless {
		p.Log.WarnContext(ctx, "no-ops of a lost recovery are mined", "wallet", p.wallet.Address, "count", count, "next_nonce", fresh.NextNonce)
	} else {
		reason := fmt.Sprintf("%s: %d transactions of %s are mined, next nonce is %d", wallet.Suspicion, count, p.wallet.Address, fresh.NextNonce)
		p.Log.ErrorContext(ctx, "every wallet paused", "wallet", p.wallet.Address, "reason", reason, "err", err)
		p.report.Suspect++
		wallets, err := p.Store.Wallets(ctx, p.ChainID)
		if err != nil {
			return false, err
		}
		for _, r := range wallets.Working(true) {
			if err := p.pause(ctx, r.ID, reason); err != nil && !errors.Is(err, wallet.ErrUnknown) { // without a record it gives nothing
				return false, err
			}
		}
	}
	counted := p.Nodes.Counted(p.views, p.silent())
	if counted <= fresh.NextNonce { // too few nodes say so to use up nonces
		return true, errors.Join(p.settle(ctx), p.resendAll(ctx, p.waiting(0)))
	}
	if err := p.fillGaps(ctx, fresh.NextNonce, counted); err != nil {
		return false, err
	}
	// Last: once next_nonce is raised, no later run finds those transactions again.
	return true, p.Store.Advance(ctx, p.wallet.ID, counted, fresh.NoopsBelow)
}

// pause pauses a wallet for one more reason, which a person must look into. It replaces a reason that it cannot
// read, or that changes each time.
func (p *pass) pause(ctx context.Context, id wallet.ID, reason string) error {
	for tries := 0; ; tries++ {
		w, err := p.Store.Wallet(ctx, id)
		unreadable := errors.Is(err, store.ErrUnreadable)
		if err != nil && !unreadable {
			return err
		}
		to := w.PausedFor(reason)
		if unreadable || tries == 3 {
			return p.Store.Pause(ctx, id, to)
		}
		if to == w.Paused {
			return nil
		}
		if err := p.Store.Repause(ctx, id, w.Paused, to); !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
}

// onlyNoops reports whether all transactions of w from its next nonce up to count are
// no-ops that a lost recovery may have signed, as every configured node has them. An
// error, of a node that is silent or behind, means that this is not known.
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

// fillGaps stores no-ops for the nonces from first up to below that the chain
// may yet give back: a re-organisation can remove the transaction that used
// one, and a nonce without an owner would hold up every payment behind it. For
// a wallet whose key is gone it fails until all of them are final.
func (p *pass) fillGaps(ctx context.Context, first, below uint64) error {
	settled, err := p.views.FinalCount(ctx, p.wallet.Address)
	if err != nil {
		return err
	}
	if p.unusable != nil {
		return p.unusable
	}
	for nonce := max(first, settled); nonce < below; nonce++ {
		if _, err := p.fillNoop(ctx, nonce); err != nil {
			return fmt.Errorf("filling nonce %d: %w", nonce, err)
		}
	}
	return nil
}
