package settlement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// anyway is how many mined nonces of a wallet have their receipts fetched in each round,
// final or not: for so few it is not worth asking first how many are final, and whatever
// a node answers to that, a round that follows a round ends payments.
const anyway = 8

// settle ends every payment whose nonce is mined for good. Receipts are fetched only
// where a node may call them final, for all attempts at once: where finality takes
// minutes, nearly all that is mined only waits for it.
func (p *pass) settle(ctx context.Context) error {
	count := p.views.Leading().Mined
	var mined []wallet.PendingTx
	var hashes, shown []chain.Hash
	spares := false
	for _, s := range p.pendingTxs {
		if s.Nonce < count {
			mined = append(mined, s)
		}
	}
	before, from := p.sighted()
	if len(mined) > anyway {
		final := p.views.Settled(ctx, p.wallet.Address)
		waiting := slices.Clone(mined[anyway:])
		mined = append(mined[:anyway:anyway], slices.DeleteFunc(mined[anyway:], func(s wallet.PendingTx) bool { return s.Nonce >= final })...)
		for _, s := range waiting { // they end no payment
			if s.Nonce >= max(final, from) && s.Nonce <= from+fresh && s.Nonce < p.least().Mined {
				shown = append(shown, s.Hashes...)
			}
		}
		if spares = p.spares(); spares {
			shown = nil
		}
	}
	for _, s := range mined {
		hashes = append(hashes, s.Hashes...)
	}
	if len(mined) == 0 {
		return p.see(ctx, wallet.Mined{}, chain.Mined{})
	}
	known, err := p.views.Receipts(ctx, hashes, shown...)
	if len(shown) > 0 && ctx.Err() == nil {
		p.shows(!known.Bare)
	}
	if err != nil {
		return err
	}
	if len(known.Agreed) > 0 && !p.still(ctx) {
		return nil
	}
	var unpublished error
	switch {
	case !spares && !known.Bare:
		unpublished = p.see(ctx, before, known)
	case p.blind():
		unpublished = p.see(ctx, wallet.Mined{}, chain.Mined{})
	}
	settled := map[uint64]bool{}
	err = abreast(mined, func(s wallet.PendingTx) error {
		if p.short(ctx, 0) {
			return nil
		}
		done, err := p.settlePendingTx(ctx, s, known)
		if err != nil {
			return fmt.Errorf("settling nonce %d: %w", s.Nonce, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		settled[s.Nonce] = done
		return nil
	})
	p.pendingTxs = slices.DeleteFunc(p.pendingTxs, func(s wallet.PendingTx) bool { return settled[s.Nonce] })
	if p.seen != nil {
		p.seen.Mined = p.seen.Mined.From(p.lowest())
	}
	return errors.Join(err, unpublished)
}

// settlePendingTx judges one mined nonce. It reports false while the chain is not
// final about it.
func (p *pass) settlePendingTx(ctx context.Context, s wallet.PendingTx, known chain.Mined) (bool, error) {
	if s.Noop() && p.reservable(s.Nonce) {
		return false, nil // a handler may still commit its payment there: the pending transaction stops it
	}
	for _, h := range s.Hashes {
		if agreement, ok := known.Agreed[h]; ok {
			return p.end(ctx, s, agreement)
		}
	}
	for _, h := range s.Hashes {
		if dispute, ok := known.Disputed[h]; ok {
			p.undecided(ctx, s, "the nodes differ", "tx", h, "dispute", dispute)
			return false, nil
		}
	}
	if slices.ContainsFunc(s.Hashes, func(h chain.Hash) bool { return known.Seen[h] }) {
		return false, nil // mined, not final
	}
	// The nonce is used and no node has a receipt of ours. That alone proves
	// nothing: indexes lag, forks differ.
	p.undecided(ctx, s, "no node has a receipt")
	if p.stands() != kept {
		return false, nil
	}
	atNonce, err := p.Nodes.TxAtNonce(ctx, p.views, p.wallet.Address, s.Nonce)
	if err != nil || atNonce.IsZero() || slices.Contains(s.Hashes, atNonce) {
		return false, err
	}
	return p.nonceUsed(ctx, s, atNonce)
}

// reservable reports whether a payment held the nonce when the wallet was read,
// or may have reserved it since.
func (p *pass) reservable(nonce uint64) bool {
	held := slices.Collect(maps.Values(p.wallet.Reservations))
	return nonce >= p.wallet.NextNonce || slices.ContainsFunc(held, func(r wallet.Reservation) bool { return r.Nonce == nonce })
}

// nonceUsed ends a payment whose nonce was used by a transaction that is not
// ours, in a final block, on every configured node. Somebody else has the key. A
// crash leaves the pending transaction, and the next run finds and does the same.
func (p *pass) nonceUsed(ctx context.Context, s wallet.PendingTx, atNonce chain.Hash) (bool, error) {
	fresh, err := p.Store.PendingTx(ctx, s.ID, s.Nonce)
	if errors.Is(err, wallet.ErrUnknown) {
		return true, nil // another run ended it
	}
	if err != nil || slices.Contains(fresh.Hashes, atNonce) {
		return false, err // an attempt that was stored after our read
	}
	if s.Noop() {
		// The nonce was to be used up, and is: most likely by an earlier no-op
		// that was settled while a run slept that has then stored another.
		p.Log.WarnContext(ctx, "no-op not needed", "wallet", s.Address, "nonce", s.Nonce, "used_by", atNonce)
		return true, p.Store.DeletePendingTx(ctx, s.ID, s.Nonce)
	}
	if lost, err := p.lostAttempt(ctx, s, atNonce); lost || err != nil {
		return false, err
	}
	reason := fmt.Sprintf("nonce %d was used by %s, which is not ours", s.Nonce, atNonce)
	p.Log.ErrorContext(ctx, "wallet paused", "wallet", s.Address, "payment", s.Payment, "reason", reason)
	p.tally(func(r *Report) { r.Suspect++ })
	if err := p.pause(ctx, s.ID, reason); err != nil {
		return false, err
	}
	return p.end(ctx, s, chain.Agreement{})
}

// lostAttempt stores a transaction as an attempt of the payment whose nonce it used, if it
// does what the payment does: the tables were restored from the past, and have forgotten a
// bump. While the wallet is under suspicion, and where a lost recovery's no-ops reach, a
// no-op counts as one too. The next round settles it. It reports true also while no node
// gives the transaction: then nobody knows what it does.
func (p *pass) lostAttempt(ctx context.Context, s wallet.PendingTx, hash chain.Hash) (bool, error) {
	stored, err := p.Store.Payment(ctx, s.Payment)
	if err != nil || stored.State != payment.Committed {
		return false, err
	}
	mined, err := p.Nodes.Transactions(ctx, []chain.Hash{hash})
	if err != nil || len(mined) == 0 { // an index that lags: absent proves nothing
		return true, err
	}
	again := stored.Bump
	switch {
	case mined[0].To == stored.Tx.To && mined[0].Value == stored.Tx.Value && mined[0].Data == string(stored.Tx.Data):
	case (p.wallet.Suspect() || s.Nonce < p.wallet.NoopsBelow) && mined[0].Noop():
		again = stored.Cancel
	default:
		return false, nil
	}
	tx := stored.Tx
	tx.Fees, tx.Gas = stored.LastAttempt().Fees, stored.Gas()
	found, err := again(chain.Signed{Nonce: s.Nonce, Hash: hash, Raw: s.Raw}, tx, p.Now())
	if err != nil {
		return false, err
	}
	p.Log.WarnContext(ctx, "attempt found that the tables had lost", "wallet", s.Address, "payment", s.Payment, "nonce", s.Nonce, "tx", hash)
	return true, p.Store.AddAttempt(ctx, found)
}

// undecided counts a mined nonce whose end must wait for nodes, and reports why.
func (p *pass) undecided(ctx context.Context, s wallet.PendingTx, why string, attributes ...any) {
	p.tally(func(r *Report) { r.Undecided++ })
	p.Log.WarnContext(ctx, "payment undecided: "+why,
		append([]any{"wallet", s.Address, "payment", s.Payment, "nonce", s.Nonce}, attributes...)...)
}

// decided reports whether enough nodes stand by an agreement for a verdict. If all
// nodes answer and one of them does not call the block final yet, that is no doubt:
// nodes are always some blocks apart.
func (p *pass) decided(ctx context.Context, s wallet.PendingTx, a chain.Agreement, v chain.Verdict) bool {
	if p.stands() <= answered && p.Nodes.Decide(v, a.By, p.silent()) {
		return true
	}
	behind := slices.ContainsFunc(p.views, func(view chain.View) bool { return view.Final < a.Block })
	if len(p.views) < len(p.Nodes) || !behind {
		p.undecided(ctx, s, "too few nodes", "verdict", v, "by", a.By, "nodes", len(p.Nodes))
	}
	return false
}

// end makes the pending transaction's payment final, publishes its event, and only
// then drops the pending transaction. Each step may be repeated: a crash after
// the first leaves a final payment whose pending transaction is still there,
// and the next run publishes the same event and drops it. It reports false while
// too few nodes stand by the agreement, which is zero when a transaction that is
// not ours used the nonce.
func (p *pass) end(ctx context.Context, s wallet.PendingTx, a chain.Agreement) (done bool, err error) {
	if s.Noop() {
		if !p.decided(ctx, s, a, chain.Used) {
			return false, nil
		}
		p.tally(func(r *Report) { r.spend(s, a.Fee) })
		return true, p.Store.DeletePendingTx(ctx, s.ID, s.Nonce)
	}
	final, err := p.finish(ctx, s, a)
	if err != nil || !final.State.Final() {
		return false, err
	}
	e := webhook.Event{
		Merchant: final.Merchant, Mode: final.Mode,
		ID: final.Event.ID, Type: final.Event.Type, At: final.UpdatedAt, Body: final.Event.Body,
	}
	if !final.Onchain.IsZero() && !p.listed(s.Nonce, final.Block) {
		if err := p.publishMined(ctx, e.Merchant, final.ID, final.Onchain, final.Block); err != nil {
			return done, err
		}
	}
	// A payment that was found on the chain has no merchant until a request shows its key.
	if e.Merchant != "" && e.Merchant != payment.Operator {
		if err := p.Events.Publish(ctx, e); err != nil {
			return done, fmt.Errorf("publishing %s: %w", e.ID, err)
		}
	}
	return true, p.Store.DeletePendingTx(ctx, s.ID, s.Nonce)
}

// errForeignTx reports a pending transaction that does not belong to the
// payment it names.
var errForeignTx = errors.New("pending transaction does not match its payment")

// finish returns the pending transaction's payment in its final state, moving
// it there if no other run has; or as it is, if too few nodes agree on its end.
func (p *pass) finish(ctx context.Context, s wallet.PendingTx, a chain.Agreement) (payment.Payment, error) {
	stored, err := p.Store.Payment(ctx, s.Payment)
	if errors.Is(err, store.ErrUnreadable) {
		p.tally(func(r *Report) { r.Unreadable++ })
	}
	switch {
	case err != nil:
		return payment.Payment{}, err
	case stored.Wallet != s.Address || stored.Nonce != s.Nonce || stored.State == payment.Prepared:
		return payment.Payment{}, fmt.Errorf("%w: %s", errForeignTx, s.Payment)
	case stored.State.Final():
		return stored, nil
	}
	final, err := p.judge(ctx, s, stored, a)
	if err != nil || !final.State.Final() {
		return final, err
	}
	err = p.Store.Finish(ctx, final)
	if errors.Is(err, store.ErrChanged) {
		// Another run may have made it final just before us.
		stored, err := p.Store.Payment(ctx, s.Payment)
		if err == nil && !stored.State.Final() {
			err = store.ErrChanged
		}
		return stored, err
	}
	if err != nil {
		return payment.Payment{}, err
	}
	p.Log.InfoContext(ctx, "payment settled", "payment", final.ID, "merchant", final.Merchant, "state", final.State)
	p.tally(func(r *Report) {
		if final.State == payment.Confirmed {
			r.Confirmed++
		} else {
			r.Failed++
		}
		r.ToFinal = append(r.ToFinal, final.UpdatedAt.Sub(final.CreatedAt))
		r.spend(s, final.Fee)
	})
	return final, nil
}

// judge moves a committed payment to the final state that an agreement gives it,
// or returns it as it is if too few nodes stand by that.
func (p *pass) judge(ctx context.Context, s wallet.PendingTx, stored payment.Payment, a chain.Agreement) (payment.Payment, error) {
	if a.Tx.IsZero() {
		return stored.Fail(payment.NonceConsumed, chain.Receipt{}, p.Now())
	}
	verdict := stored.Judge(a.Receipt)
	if !p.decided(ctx, s, a, verdict) {
		return stored, nil
	}
	switch verdict {
	case chain.Transferred:
		return stored.Confirm(a.Receipt, p.Now())
	case chain.Reverted:
		return stored.Fail(payment.ExecutionReverted, a.Receipt, p.Now())
	case chain.AmountDiffers:
		return stored.Fail(payment.AmountDiffers, a.Receipt, p.Now())
	default:
		return stored.Fail(payment.TransferMissing, a.Receipt, p.Now())
	}
}
