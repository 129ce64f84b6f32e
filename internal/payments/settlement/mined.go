package settlement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A mined is what a run remembers of a wallet from one round to the next: pending
// transactions that are mined and wait for the final block to move. Another process may
// change them meanwhile, as it may between a round's read and its writes: memory is an
// older read, and whatever is done by it a slow round might have done.
type mined struct {
	txs   []wallet.PendingTx // the lowest, of contiguous nonces
	until time.Time          // of the claim under which they were read
	seen  *wallet.Progress   // by the round, which the next claim stores; nil: nothing
}

// recall begins the pass with what its run remembers.
func (p *pass) recall(m mined) {
	p.pendingTxs, p.claimed, p.remembered = m.txs, m.until, m.seen
	if n := len(m.txs); n > 0 {
		p.below = m.txs[n-1].Nonce + 1
	}
}

// from returns the nonce from which the pending transactions of w are read: zero, all of
// them, if another run has claimed it since, or a reservation reaches into memory.
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

// reread replaces what is remembered by what is stored, if the final block has moved, the
// nodes are in doubt of it, or they count less than was mined. It leaves alone what was
// read in this round, before the heads.
func (p *pass) reread(ctx context.Context) error {
	if p.below == 0 || !p.moved() && p.stands() == kept && p.views.Leading().Mined >= p.below {
		return nil
	}
	all, unreadable, err := p.Store.PendingTxs(ctx, p.wallet.ID, 0)
	if err != nil {
		return fmt.Errorf("reading its mined transactions: %w", err)
	}
	mined := func(tx wallet.PendingTx) bool { return tx.Nonce < p.below }
	all = slices.DeleteFunc(all, func(tx wallet.PendingTx) bool { return !mined(tx) })
	p.pendingTxs = append(all, slices.DeleteFunc(p.pendingTxs, mined)...)
	p.report.Unreadable, p.below = max(p.report.Unreadable, unreadable), 0
	return nil
}

// remember returns what the round saw, also before an error, so that the next one does not publish it again; and what
// the next one need not read: nothing, unless all of it could be read, and the final block stands still.
func (p *pass) remember(err error) mined {
	m := mined{seen: p.seen}
	if err != nil || !p.compared || p.report.Unreadable > 0 || p.moved() {
		return m
	}
	n, txs, count := 0, p.pendingTxs, p.views.Leading().Mined
	for n < len(txs) && txs[n].Nonce < count && (n == 0 || txs[n].Nonce == txs[n-1].Nonce+1) {
		n++
	}
	m.txs, m.until = txs[:n:n], p.claimed
	return m
}
