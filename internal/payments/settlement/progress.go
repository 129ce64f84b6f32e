package settlement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// fresh bounds how many nonces, which were mined since the last round, have their receipts fetched
// for the wallet's progress.
const fresh = 64

// sighted prepares the progress of a round: the mined nonces of the round before that the nodes may
// still have, and the nonce from which receipts show if that is so, and what is next.
func (p *pass) sighted() (before wallet.Mined, from uint64) {
	before = cmp.Or(p.remembered, &p.wallet.Progress).Mined
	next := before.Next()
	pending := slices.ContainsFunc(p.pendingTxs, func(s wallet.PendingTx) bool { return s.Nonce+1 == next })
	if !pending || next > p.least().Mined {
		return wallet.Mined{}, p.lowest()
	}
	return before, next - 1
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
// block. The last nonce of before stands for those below it, since its block's hash does: while only
// some nodes have it, the round has seen nothing, and what is stored stays. It publishes what
// it adds. An error leaves the nonces before the one whose event failed.
func (p *pass) see(ctx context.Context, before wallet.Mined, known chain.Mined) error {
	seen := &wallet.Progress{Mined: before, Head: p.views[0].Number, Depth: p.depth()}
	for _, view := range p.views {
		seen.Sent, seen.Head = max(seen.Sent, view.Pending), min(seen.Head, view.Number)
	}
	txs := slices.SortedFunc(slices.Values(p.pendingTxs), func(a, b wallet.PendingTx) int { return cmp.Compare(a.Nonce, b.Nonce) })
	if i := slices.IndexFunc(txs, func(s wallet.PendingTx) bool { return s.Nonce+1 == before.Next() }); i >= 0 {
		_, in, agreed := p.placed(txs[i], known)
		switch {
		case !agreed && slices.ContainsFunc(txs[i].Hashes, func(h chain.Hash) bool { return known.Seen[h] }):
			return nil
		case before.EndsIn(in):
			txs = txs[i+1:]
		default:
			seen.Mined = wallet.Mined{}
		}
	}
	p.seen = seen
	for _, s := range txs {
		attempt, in, agreed := p.placed(s, known)
		mined, added := seen.Mined.Add(s.Nonce, in)
		if !agreed || !added || p.short(ctx, 0) {
			return nil
		}
		if err := p.publishMined(ctx, s.Merchant, s.Payment, attempt, in.Number); err != nil {
			return err
		}
		seen.Mined = mined // now that it is published
	}
	return nil
}

// placed returns the attempt at a nonce, and its block, that every node that gave a view has and counts.
func (p *pass) placed(s wallet.PendingTx, known chain.Mined) (attempt chain.Hash, in chain.Block, agreed bool) {
	i := slices.IndexFunc(s.Hashes, func(h chain.Hash) bool { return known.In[h] != chain.Block{} })
	if i < 0 {
		return chain.Hash{}, chain.Block{}, false
	}
	return s.Hashes[i], known.In[s.Hashes[i]], s.Nonce < p.least().Mined
}

// depth returns the depth of the confirmation rule, nil if the rule is a tag.
func (p *pass) depth() *uint64 {
	if p.ConfirmationRule.Tag != "" {
		return nil
	}
	return &p.ConfirmationRule.Depth
}

// After a node has failed at receipts that only show progress, no node is asked for them for the time of sparing, so that
// a hanging node does not cost every round two requests. Stored progress is kept for the time of stale.
const (
	sparing = 30 * time.Second
	stale   = time.Minute
)

// shows notes whether all nodes gave the receipts that only show progress.
func (s *Settler) shows(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = s.Now()
	if all {
		s.failed, s.failing = time.Time{}, time.Time{}
	} else if s.failing.IsZero() {
		s.failing = s.failed
	}
}

// spares reports whether nodes are spared.
func (s *Settler) spares() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.age(s.failed) < sparing
}

// blind reports whether nodes have failed for so long that what is stored may hold no more.
func (s *Settler) blind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.failing.IsZero() && s.age(s.failing) >= stale
}

// waits notes why the lowest nonce is not mined.
func (p *pass) waits(why payment.Stage) {
	if p.seen != nil {
		p.seen.Waits = why
	}
}

// listed reports whether a nonce was seen as mined in a block, and its event published.
func (p *pass) listed(nonce, block uint64) bool {
	in, ok := cmp.Or(p.seen, p.remembered, &p.wallet.Progress).Mined.Of(nonce)
	return ok && in == block
}

// namedFor is how long a process believes which merchants want payment.mined.
const namedFor = time.Minute

// A naming is whether a merchant wanted payment.mined at a time.
type naming struct {
	at    time.Time
	wants bool
}

// wanted reports whether a merchant wants payment.mined. It reads that at most once in namedFor,
// but where several wallets pay for the merchant at once.
func (s *Settler) wanted(ctx context.Context, o webhook.Owner) (bool, error) {
	s.mu.Lock()
	known := s.named[o]
	s.mu.Unlock()
	if age := s.Now().Sub(known.at); age >= 0 && age < namedFor {
		return known.wants, nil
	}
	wants, err := s.Events.Named(ctx, o, webhook.PaymentMined)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.named[o] = naming{s.Now(), wants}
	}
	return wants, err
}

// blockTime returns the time of a block by the first node that has it.
func (p *pass) blockTime(ctx context.Context, block uint64) (at time.Time, err error) {
	for _, v := range p.views {
		if at, err = v.Node.BlockTime(ctx, block); err == nil {
			return at, nil
		}
	}
	return at, fmt.Errorf("no node gives the time of block %d: %w", block, err)
}

// publishMined publishes that an attempt at a payment is mined in a block, if its merchant wants to
// know and it is no no-op. It may be repeated: the same block makes the same event.
func (p *pass) publishMined(ctx context.Context, merchant string, id payment.ID, attempt chain.Hash, block uint64) error {
	if id == "" || merchant == "" || merchant == payment.Operator {
		return nil
	}
	if wants, err := p.wanted(ctx, webhook.Owner{Merchant: merchant, Mode: p.Mode}); err != nil || !wants {
		return err
	}
	stored, err := p.Store.Payment(ctx, id)
	switch {
	case err != nil:
		return err
	case stored.State == payment.Prepared || len(stored.Attempts) == 0:
		return errForeignTx
	case stored.Cancelled(attempt):
		return nil
	}
	at, err := p.blockTime(ctx, block)
	if err != nil {
		return err
	}
	e, err := stored.Mined(block, at, p.depth())
	if err != nil {
		return fmt.Errorf("writing that %s is mined: %w", id, err)
	}
	return p.Events.Publish(ctx, webhook.Event{Merchant: stored.Merchant, Mode: stored.Mode, ID: e.ID, Type: e.Type, At: at, Body: e.Body})
}
