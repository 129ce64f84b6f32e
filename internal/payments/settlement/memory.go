package settlement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

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

// reread replaces the remembered pending transactions by the stored ones if the final block has moved, if the nodes may
// lack it, or if they count fewer mined transactions than are remembered. It keeps the transactions that this pass
// read: it read them before it queried the accounts.
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

// remember returns the memory for the next round. It keeps this round's progress even after an error: its events are
// published. It keeps no transactions after an error, before a comparison, if some are unreadable, or if the final
// block moved.
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
