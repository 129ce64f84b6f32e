package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// settle counts the mined nonces, and ends every payment whose nonce is final.
func (p *pass) settle(ctx context.Context) error {
	final, early := p.receiptsDue(ctx)
	var receipts chain.Mined
	var err error
	if len(final)+len(early) > 0 {
		var hashes []chain.Hash
		for _, tx := range slices.Concat(final, early) {
			hashes = append(hashes, tx.Hashes...)
		}
		receipts, err = p.views.Receipts(ctx, hashes)
	}
	if len(receipts.Agreed) > 0 && !p.stands(ctx, final, receipts) {
		return nil
	}
	unpublished := p.countMined(ctx, receipts)
	if err == nil {
		err = p.endAll(ctx, final, receipts)
	}
	return errors.Join(err, unpublished)
}

// stands removes from the agreements every node that has taken back a final block. It reports false if too few nodes
// still have the known final block.
func (p *pass) stands(ctx context.Context, final []wallet.PendingTx, receipts chain.Mined) bool {
	look := p.lookAgain(ctx)
	for h, a := range receipts.Agreed {
		a.By = slices.DeleteFunc(a.By, look.recedes)
		receipts.Agreed[h] = a
	}
	for _, view := range p.views {
		if look.recedes(view) {
			view.Doubt(ctx, p.Log, "it takes back a final block", "final", view.Final)
		}
	}
	for _, s := range final {
		if !look.same {
			p.undecided(ctx, s, "too few nodes still have the final block")
		}
	}
	return look.same
}

// receiptsDue returns the pending transactions whose receipts the round needs. The nonces in final may be final: the
// receipts decide. early has mined payments with a no-op among their attempts: payment.mined is due before finality,
// and only a receipt shows which attempt is mined.
func (p *pass) receiptsDue(ctx context.Context) (final, early []wallet.PendingTx) {
	mined := p.Nodes.Mined(p.views)
	if p.lowest() >= mined {
		return nil, nil
	}
	below := p.finalBelow(ctx)
	for _, tx := range p.pendingTxs {
		switch {
		case tx.Nonce < min(below, mined):
			final = append(final, tx)
		case tx.Nonce < mined && tx.HasNoop:
			early = append(early, tx)
		}
	}
	return final, early
}

// finalBelow returns the nonce below which to read receipts: the final count of enough nodes, or the mined count if too
// few answer or the final count is below the lowest pending nonce. Besu answers 0 for a pruned block
// (hyperledger/besu, BlockchainQueries.getTransactionCount): so while nonce 0 is pending, it returns at least 1.
func (p *pass) finalBelow(ctx context.Context) uint64 {
	final, ok := p.Nodes.Used(ctx, p.views, p.wallet.Address, p.final().silent)
	if !ok || final < p.lowest() {
		return p.Nodes.Mined(p.views)
	}
	return max(final, 1)
}

func (p *pass) lowest() uint64 {
	lowest := p.wallet.NextNonce
	for _, tx := range p.pendingTxs {
		lowest = min(lowest, tx.Nonce)
	}
	return lowest
}

func (p *pass) endAll(ctx context.Context, final []wallet.PendingTx, receipts chain.Mined) error {
	ended := map[uint64]bool{}
	err := abreast(final, func(s wallet.PendingTx) error {
		if p.short(ctx, 0) {
			return nil
		}
		done, err := p.settlePendingTx(ctx, s, receipts)
		if err != nil {
			return fmt.Errorf("settling nonce %d: %w", s.Nonce, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		ended[s.Nonce] = done
		return nil
	})
	p.pendingTxs = slices.DeleteFunc(p.pendingTxs, func(s wallet.PendingTx) bool { return ended[s.Nonce] })
	return err
}

// settlePendingTx judges one mined nonce. It reports false while the verdict is open.
func (p *pass) settlePendingTx(ctx context.Context, s wallet.PendingTx, receipts chain.Mined) (bool, error) {
	if s.Noop() && p.reservable(s.Nonce) {
		return false, nil // while the no-op is stored, no handler can commit at the nonce
	}
	var most chain.Agreement // one node may give a receipt of another attempt
	for _, h := range s.Hashes {
		if a, given := receipts.Agreed[h]; given && (most.Tx.IsZero() || len(a.By) > len(most.By)) {
			most = a
		}
	}
	if !most.Tx.IsZero() {
		return p.end(ctx, s, most)
	}
	if slices.ContainsFunc(s.Hashes, func(h chain.Hash) bool { return receipts.Seen[h] > 0 }) {
		return false, nil // mined, not final
	}
	// The nonce is used, and no node has a receipt of ours. That alone proves nothing: indexes lag, forks differ.
	p.undecided(ctx, s, "no node has a receipt")
	if p.final().standing != kept {
		return false, nil
	}
	atNonce, err := p.Nodes.TxAtNonce(ctx, p.views, p.wallet.Address, s.Nonce)
	if err != nil && s.Noop() { // a node may lack old states, and who used the nonce does not matter
		final, unknown := p.views.FinalCount(ctx, p.wallet.Address)
		if err = cmp.Or(unknown, err); unknown == nil && s.Nonce < final {
			return true, p.Store.DeletePendingTx(ctx, s.ID, s.Nonce)
		}
	}
	if err != nil || atNonce.IsZero() || slices.Contains(s.Hashes, atNonce) {
		return false, err
	}
	return p.nonceUsed(ctx, s, atNonce)
}

// reservable reports whether a payment had reserved the nonce when the pass read the wallet, or may have since.
func (p *pass) reservable(nonce uint64) bool {
	for _, r := range p.wallet.Reservations {
		if r.Nonce == nonce {
			return true
		}
	}
	return nonce >= p.wallet.NextNonce
}

// nonceUsed ends a payment if a foreign transaction used its nonce in a final block on every configured node:
// somebody else has the key. A crash leaves the pending transaction, and the next run repeats this.
func (p *pass) nonceUsed(ctx context.Context, s wallet.PendingTx, atNonce chain.Hash) (bool, error) {
	fresh, err := p.Store.PendingTx(ctx, s.ID, s.Nonce)
	if errors.Is(err, wallet.ErrUnknown) {
		return true, nil // another run ended it
	}
	if err != nil || slices.Contains(fresh.Hashes, atNonce) {
		return false, err // an attempt stored after the pass read
	}
	if s.Noop() {
		// The nonce is used up: most likely a slow run stored this no-op after another run had settled the nonce.
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

// lostAttempt reports whether the transaction that used a payment's nonce may be an attempt that restored tables lack:
// no node gives it, it has the payment's call (a bump), or it is a no-op and the wallet is suspect, the nonce is below
// NoopsBelow, or the payment was signed before p.since. It stores a bump or a no-op for the next round. If a torn copy
// lacks all attempts, only a no-op counts, and lostAttempt does not store it: recovery decides.
func (p *pass) lostAttempt(ctx context.Context, s wallet.PendingTx, hash chain.Hash) (bool, error) {
	stored, err := p.Store.Payment(ctx, s.Payment)
	unsigned := len(stored.Hashes()) == 0 // in a torn copy
	if own := slices.Contains(stored.Hashes(), hash); own || err != nil || stored.State != payment.Committed && !unsigned {
		return own, err // in a torn copy, s may lack an attempt
	}
	mined, err := p.Nodes.Transactions(ctx, []chain.Hash{hash})
	if err != nil || len(mined) == 0 { // an index may lag: absence proves nothing
		return true, err
	}
	again := stored.Bump
	noop := mined[0].Noop() && (p.wallet.Suspect() || s.Nonce < p.wallet.NoopsBelow || s.Since.Before(p.since))
	switch {
	case unsigned:
		return noop, nil
	case mined[0].To == stored.Tx.To && mined[0].Value == stored.Tx.Value && mined[0].Data == string(stored.Tx.Data):
	case noop:
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
	p.Log.WarnContext(ctx, "attempt found that the tables had lost", "wallet", s.Address, "payment", s.Payment,
		"nonce", s.Nonce, "tx", hash)
	return true, p.Store.AddAttempt(ctx, found)
}

// undecided counts a mined nonce that waits for the nodes to agree, logs why, and returns false.
func (p *pass) undecided(ctx context.Context, s wallet.PendingTx, why string, attributes ...any) bool {
	p.tally(func(r *Report) { r.Undecided++ })
	p.Log.WarnContext(ctx, "payment undecided: "+why,
		append([]any{"wallet", s.Address, "payment", s.Payment, "nonce", s.Nonce}, attributes...)...)
	return false
}

// decided reports whether enough nodes support an agreement for a verdict. If all answer and one does not call the
// block final yet, it logs nothing: nodes are always some blocks apart. An agreement that a node contradicts must hold
// for two rounds.
func (p *pass) decided(ctx context.Context, s wallet.PendingTx, a chain.Agreement, v chain.Verdict) bool {
	is := p.final().standing <= answered && p.Nodes.Decide(v, a, p.final().silent)
	if is && len(a.Against) > 0 {
		for _, view := range a.Against {
			view.Doubt(ctx, p.Log, "it contradicts a receipt", "tx", a.Tx, "dispute", a.Dispute)
		}
		p.tally(func(*Report) { p.disputed = append(p.disputed, a.Tx) })
		p.dissent.Store(true)
		is = slices.Contains(p.disputedBefore, a.Tx)
	}
	if !is && len(a.Against) > 0 {
		return p.undecided(ctx, s, "the nodes differ", "tx", a.Tx, "dispute", a.Dispute)
	}
	behind := slices.ContainsFunc(p.views, func(view chain.View) bool { return view.Final < a.Block })
	if !is && (len(p.views) < len(p.Nodes) || !behind) {
		p.undecided(ctx, s, "too few nodes", "verdict", v, "by", a.By.Names(), "nodes", len(p.Nodes))
	}
	return is
}

// end makes the pending transaction's payment final, publishes its event, and then deletes the pending transaction. A
// crash after the first step leaves a final payment with its pending transaction, and the next run publishes the same
// event and deletes it. The agreement is zero if a transaction that is not ours used the nonce. end reports false
// while too few nodes support the agreement.
func (p *pass) end(ctx context.Context, s wallet.PendingTx, a chain.Agreement) (done bool, err error) {
	if s.Noop() {
		// A recovery's no-op ends only if no node contradicts it: its end lets the key of a lost payment pay again.
		if len(a.Against) > 0 && (p.wallet.Suspect() || s.Nonce < p.wallet.NoopsBelow) {
			return p.undecided(ctx, s, "the nodes differ", "tx", a.Tx, "dispute", a.Dispute), nil
		}
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
	// A payment that was found on the chain has no merchant until its key is requested.
	if final.Merchant != "" && final.Merchant != payment.Operator {
		if err := p.publish(ctx, final, *final.Event, final.UpdatedAt); err != nil {
			return false, fmt.Errorf("publishing %s: %w", final.Event.ID, err)
		}
	}
	return true, p.Store.DeletePendingTx(ctx, s.ID, s.Nonce)
}

// finish makes the pending transaction's payment final, unless another run has, and returns
// it. If too few nodes agree on its end, it returns the payment as it is.
func (p *pass) finish(ctx context.Context, s wallet.PendingTx, a chain.Agreement) (payment.Payment, error) {
	stored, err := p.Store.Payment(ctx, s.Payment)
	if errors.Is(err, store.ErrUnreadable) {
		p.tally(func(r *Report) { r.Unreadable++ })
	}
	switch {
	case err != nil:
		return payment.Payment{}, err
	case stored.Wallet != s.Address || stored.Nonce != s.Nonce || stored.State == payment.Prepared,
		!a.Tx.IsZero() && !slices.Contains(stored.Hashes(), a.Tx): // a torn copy
		return payment.Payment{}, fmt.Errorf("pending transaction does not match its payment %s", s.Payment)
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

// judge returns a committed payment in the final state that follows from an agreement. It publishes payment.mined
// first, unless that was published. If too few nodes support the agreement, it returns the payment as it is.
func (p *pass) judge(ctx context.Context, s wallet.PendingTx, stored payment.Payment, a chain.Agreement) (payment.Payment, error) {
	verdict := stored.Judge(a.Receipt)
	if !a.Tx.IsZero() && !p.decided(ctx, s, a, verdict) {
		return stored, nil
	}
	if !stored.Cancelled(a.Tx) && (s.Merchant == "" || !p.seen.IsMined(s.Nonce, s.HasNoop)) {
		if _, err := p.publishMined(ctx, stored.Merchant, stored.ID, true); err != nil {
			return stored, err
		}
	}
	if a.Tx.IsZero() {
		return stored.Fail(payment.NonceConsumed, chain.Receipt{}, p.Now())
	}
	if verdict == chain.Transferred {
		return stored.Confirm(a.Receipt, p.Now())
	}
	if verdict == chain.Reverted {
		call := chain.Call{From: s.Address, To: stored.Tx.To, Value: stored.Tx.Value, Data: stored.Tx.Data}
		call.Within, call.Fees = stored.Gas(), stored.LastAttempt().Fees
		a.Reason = p.Nodes.Reason(ctx, call, a.Block)
	}
	return stored.Fail(payment.FailureCode(verdict), a.Receipt, p.Now())
}
