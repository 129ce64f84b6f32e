package settlement

import (
	"cmp"
	"context"
	"errors"
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
// block. The last nonce of before stands for those below it, since its block's hash does: while only
// some nodes have it, the round has seen nothing, and what is stored stays. It publishes what
// it adds. An error leaves the nonces before the one whose event failed.
func (p *pass) see(ctx context.Context, before wallet.Mined, known chain.Mined) error {
	seen := &wallet.Progress{Mined: before, Head: p.views[0].Number}
	for _, view := range p.views {
		seen.Sent, seen.Head = max(seen.Sent, view.Pending), min(seen.Head, view.Number)
	}
	if p.ConfirmationRule.Tag == "" {
		seen.Depth = &p.ConfirmationRule.Depth
	}
	least := p.least().Mined
	txs := slices.SortedFunc(slices.Values(p.pendingTxs), func(a, b wallet.PendingTx) int { return cmp.Compare(a.Nonce, b.Nonce) })
	for _, s := range txs {
		attempt, in, agreed := placed(s, known)
		agreed = agreed && s.Nonce < least
		switch {
		case len(before.Runs) > 0 && s.Nonce+1 < before.Next():
			continue
		case len(before.Runs) > 0 && s.Nonce+1 == before.Next():
			if !agreed && slices.ContainsFunc(s.Hashes, func(h chain.Hash) bool { return known.Seen[h] }) {
				return nil
			}
			if !before.EndsIn(in) {
				return p.see(ctx, wallet.Mined{}, known)
			}
			continue
		case !agreed:
			p.seen = seen
			return nil
		}
		mined, added := seen.Mined.Add(s.Nonce, in)
		if !added || p.short(ctx, 0) {
			break
		}
		if err := p.publishMined(ctx, s.Merchant, s.Payment, attempt, in.Number); err != nil {
			p.seen = seen // without it: it is not stored as mined before it is published
			return err
		}
		seen.Mined = mined
	}
	p.seen = seen
	return nil
}

// placed returns the attempt at a nonce, and its block, that every node that gave a view has.
func placed(s wallet.PendingTx, known chain.Mined) (attempt chain.Hash, in chain.Block, ok bool) {
	for _, attempt = range s.Hashes {
		if in, ok = known.In[attempt]; ok {
			break
		}
	}
	return attempt, in, ok
}

// sparing is how long no node is asked for receipts that only show progress, after one has failed at them: what is
// stored stays for that time, and a node that hangs does not cost every round two requests.
const sparing = 30 * time.Second

// spare notes that a node has failed at receipts.
func (s *Settler) spare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = s.Now()
}

// spares reports whether nodes are spared.
func (s *Settler) spares() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.age(s.failed) < sparing
}

// waits notes why the lowest nonce is not mined.
func (p *pass) waits(why payment.Stage) {
	if p.seen != nil {
		p.seen.Waits = why
	}
}

// listed reports whether a nonce was seen as mined, and its event published.
func (p *pass) listed(nonce uint64) bool {
	seen := p.seen
	if seen == nil {
		seen = cmp.Or(p.remembered, &p.wallet.Progress)
	}
	_, ok := seen.Mined.Of(nonce)
	return ok
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
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named[o] = naming{s.Now(), wants}
	return wants, nil
}

// blockTime returns the time of a block by the first node that gives it.
func (p *pass) blockTime(ctx context.Context, block uint64) (time.Time, error) {
	var errs []error
	for _, v := range p.views {
		if v.Number < block {
			continue
		}
		at, err := v.Node.BlockTime(ctx, block)
		if err == nil {
			return at, nil
		}
		errs = append(errs, err)
	}
	return time.Time{}, fmt.Errorf("no node gives the time of block %d: %w", block, errors.Join(errs...))
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
	if err != nil {
		return err
	}
	switch {
	case stored.State == payment.Prepared || len(stored.Attempts) == 0:
		return errForeignTx
	case stored.Cancelled(attempt):
		return nil
	}
	at, err := p.blockTime(ctx, block)
	if err != nil {
		return err
	}
	var depth *uint64
	if p.ConfirmationRule.Tag == "" {
		depth = &p.ConfirmationRule.Depth
	}
	e, err := stored.Mined(block, at, depth)
	if err != nil {
		return fmt.Errorf("writing that %s is mined: %w", id, err)
	}
	return p.Events.Publish(ctx, webhook.Event{Merchant: stored.Merchant, Mode: stored.Mode, ID: e.ID, Type: e.Type, At: at, Body: e.Body})
}
