package settlement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A run keeps a memory of each wallet between two rounds. Its pending transactions are mined, and wait for the
// final block to move: the next round need not read them again. That another process may change the stored ones does no
// harm: each write is conditional.
type memory struct {
	txs      []wallet.PendingTx // the lowest, of contiguous nonces
	until    time.Time          // the end of the claim under which they were read
	seen     *wallet.Progress   // of the last round, for the next claim to store; nil: it saw nothing
	disputed []chain.Hash       // in the last round
}

func (p *pass) recall(m memory) {
	p.pendingTxs, p.claimed, p.last, p.disputedBefore = m.txs, m.until, m.seen, m.disputed
	if n := len(m.txs); n > 0 {
		p.below = m.txs[n-1].Nonce + 1
	}
}

// from returns the nonce from which the pass reads pending transactions. It is 0, which discards the memory, if
// another run has claimed the wallet since, or a reservation is below the remembered nonces.
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

// reread replaces remembered pending transactions by the stored ones, if the final block has moved, the nodes may lack
// it, or they count fewer mined transactions than the memory has. It keeps those that this round has read: it read them
// before the heads.
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

// remember returns the memory for the next round. It keeps this round's progress even after an error, since the events
// have been published. It keeps no transactions after an error, if some could not be read, or if the final block moved.
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
