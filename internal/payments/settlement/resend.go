package settlement

import (
	"cmp"
	"context"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// resends is how many of a wallet's transactions a round sends to one node again at most.
const resends = 64

// keepAlive keeps unmined transactions in the nodes' pools, and raises fees that the market has overtaken.
func (p *pass) keepAlive(ctx context.Context) error {
	count := p.Nodes.Mined(p.views)
	waiting := p.waiting(count)
	if len(waiting) == 0 {
		return p.recover(ctx)
	}
	err := p.bumpAll(ctx, waiting, count)
	return cmp.Or(p.resendAll(ctx, waiting), err)
}

func (p *pass) waiting(from uint64) (waiting []wallet.PendingTx) {
	for _, s := range p.pendingTxs {
		if s.Nonce >= from && len(s.Raw) > 0 {
			waiting = append(waiting, s)
		}
	}
	return waiting
}

// replies are the nodes' answers to the bytes that a pass sent again.
type replies struct {
	poor    chain.Views     // nodes that call the wallet out of gas
	refused uint64          // the highest nonce that a poor node refused
	words   string          // the reply of a poor node
	held    map[uint64]bool // nonces that a node has mined, or holds in its pool
	taken   bool            // a node accepted bytes, or knew them
}

// resendAll sends each node the transactions that it counts neither as mined nor in its pool. If enough nodes call the
// wallet out of gas, and no node holds the refused transaction, it pauses the wallet.
func (p *pass) resendAll(ctx context.Context, waiting []wallet.PendingTx) error {
	r := replies{held: map[uint64]bool{}}
	for _, view := range p.views {
		p.resend(ctx, view, waiting, &r)
	}
	if len(r.poor) > 0 && !r.held[r.refused] && p.Nodes.Suffice(len(r.poor)) {
		return p.outOfGas(ctx, r.words)
	}
	for _, view := range r.poor {
		view.Doubt(ctx, p.Log, "it calls a wallet out of gas", "wallet", p.wallet.Address, "nonce", r.refused, "reply", r.words)
	}
	if r.taken {
		return p.recover(ctx)
	}
	return nil
}

// resend sends one node these transactions (at most resends) in nonce order, until the node calls the wallet out of
// gas, a block time has passed, or the run's time ends. It skips transactions younger than a block: a handler may still
// be sending them.
func (p *pass) resend(ctx context.Context, view chain.View, waiting []wallet.PendingTx, r *replies) {
	sent, begin := 0, p.Now()
	for _, s := range waiting {
		pooled := s.Nonce < view.Pending && len(s.Hashes) == 1 // after a bump the pool may hold an older attempt
		if s.Nonce < view.Mined || pooled {
			r.held[s.Nonce] = true
			continue
		}
		if p.age(s.At) < p.BlockTime {
			continue
		}
		if sent++; sent > resends || p.age(begin) > p.BlockTime || p.short(ctx, 0) {
			return
		}
		p.report.Resent++
		reply := p.Nodes.Send(ctx, view.Node, s.Raw)
		switch reply.Class {
		case chain.Funds:
			r.poor, r.refused, r.words = append(r.poor, view), max(r.refused, s.Nonce), reply.Detail
			return
		case chain.Wrong, chain.Replacement:
			p.report.Refused++
			p.Log.ErrorContext(ctx, "broadcast refused", "wallet", s.Address, "payment", s.Payment, "nonce", s.Nonce,
				"node", view.Name(), "class", reply.Class, "reply", reply.Detail)
		case chain.Accepted, chain.Known:
			r.held[s.Nonce], r.taken = true, true
		case chain.Ambiguous:
			if len(p.Nodes) > 2 {
				return // each send may hang
			}
		}
	}
}
