package settlement

import (
	"cmp"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// fresh bounds how many nonces, which were mined since the last round, have their receipts fetched
// for the wallet's progress.
const fresh = 64

// sighted prepares the progress of a round: the mined nonces of the round before that the nodes may
// still have. It returns whether a mined nonce is one whose receipts show if that is so, or that is
// next.
func (p *pass) sighted() (before wallet.Mined, asked func(nonce uint64) bool) {
	before = p.wallet.Progress.Mined
	if p.remembered != nil {
		before = p.remembered.Mined
	}
	least, from := p.least().Mined, p.lowest()
	before = before.From(from)
	last := before.Next() - 1
	pending := slices.ContainsFunc(p.pendingTxs, func(s wallet.PendingTx) bool { return s.Nonce == last })
	if len(before.Runs) == 0 || last >= least || !pending {
		before, last = wallet.Mined{}, from
	}
	return before, func(nonce uint64) bool { return nonce >= last && nonce <= last+fresh && nonce < least }
}

// lowest returns the lowest nonce that has a pending transaction, or the next one.
func (p *pass) lowest() uint64 {
	lowest := p.wallet.NextNonce
	for _, s := range p.pendingTxs {
		lowest = min(lowest, s.Nonce)
	}
	return lowest
}

// least returns the view with the fewest mined transactions.
func (p *pass) least() chain.View {
	return slices.MinFunc(p.views, func(a, b chain.View) int { return cmp.Compare(a.Mined, b.Mined) })
}

// see notes what the nodes show of the wallet: for which nonces every one has a receipt in the same
// block. The last nonce of before stands for those below it, since its block's hash does: while some
// node does not say where it is, the round has seen nothing, and what is stored stays.
func (p *pass) see(before wallet.Mined, known chain.Mined) {
	seen := &wallet.Progress{Mined: before, Head: p.views[0].Number}
	for _, view := range p.views {
		seen.Sent, seen.Head = max(seen.Sent, view.Pending), min(seen.Head, view.Number)
	}
	if p.ConfirmationRule.Tag == "" {
		seen.Depth = &p.ConfirmationRule.Depth
	}
	txs := slices.SortedFunc(slices.Values(p.pendingTxs), func(a, b wallet.PendingTx) int { return cmp.Compare(a.Nonce, b.Nonce) })
	for _, s := range txs {
		in, agreed := placed(s, known)
		switch {
		case len(before.Runs) > 0 && s.Nonce+1 < before.Next():
			continue
		case len(before.Runs) > 0 && s.Nonce+1 == before.Next():
			if !agreed && (!known.Whole || slices.ContainsFunc(s.Hashes, func(h chain.Hash) bool { return known.Seen[h] })) {
				return
			}
			if !before.EndsIn(in) {
				p.see(wallet.Mined{}, known)
				return
			}
			continue
		case !agreed:
			p.seen = seen
			return
		}
		mined, added := seen.Mined.Add(s.Nonce, in)
		if !added {
			break
		}
		seen.Mined = mined
	}
	p.seen = seen
}

// placed returns the block in which every node that gave a view has an attempt at a nonce.
func placed(s wallet.PendingTx, known chain.Mined) (in chain.Block, ok bool) {
	for _, h := range s.Hashes {
		if in, ok = known.In[h]; ok {
			break
		}
	}
	return in, ok
}

// waits notes why the lowest nonce is not mined.
func (p *pass) waits(why payment.Stage) {
	if p.seen != nil {
		p.seen.Waits = why
	}
}
