package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// useUp stores a no-op at every nonce that a lost transaction may have and that has no
// pending transaction, and raises next_nonce over them. A crash leaves no-ops that the next run sends.
func (r *run) useUp(ctx context.Context) error {
	for i, id := range r.ids {
		below, noops, err := r.useUpOf(ctx, id)
		if err != nil {
			return fmt.Errorf("using up the nonces of %s: %w", id.Address, err)
		}
		r.below[i], r.report.Noops = below, r.report.Noops+noops
		r.Say("%s: %d no-ops for the nonces below %d", id.Address, noops, below)
	}
	return nil
}

// useUpOf is useUp of one wallet. It returns the nonce below which all are used up, and how many no-ops it stored, in a
// dry run at most stores. A nonce that a payment holds gets one too: its payment may have been made otherwise since.
func (r *run) useUpOf(ctx context.Context, id wallet.ID) (below uint64, noops int, err error) {
	views, settled, err := r.finalEnough(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	w, err := r.Store.Wallet(ctx, id)
	if err != nil && (!r.DryRun || !errors.Is(err, wallet.ErrUnknown)) {
		return 0, 0, err
	}
	signer, err := r.signer(ctx, id)
	ended := w.NextNonce <= settled && len(w.Reservations) == 0 && slices.Contains(r.Wallets, id.Address) &&
		!slices.ContainsFunc(views, func(v chain.View) bool { return v.Pending > settled })
	if errors.Is(err, wallet.ErrNoKey) && ended {
		return settled, 0, r.advance(ctx, id, settled)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("a nonce of it may be under way (put its key back: remit wallet import; or, if it was "+
			"deleted after its last payment, name it with --wallet once that is final): %w", err)
	}
	below = max(views.Leading().Mined+r.Window, w.NextNonce)
	torn, err := r.dropTorn(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	below = max(below, torn)
	nonces := lacking(w, settled, below)
	if r.DryRun {
		return below, len(nonces), nil
	}
	noop, err := r.noop(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	for _, nonce := range nonces {
		signed, err := signer.Sign(ctx, noop, nonce)
		if err == nil {
			err = r.putNoop(ctx, w, noop, signed)
		}
		switch {
		case err == nil:
			noops++
		case !errors.Is(err, store.ErrNonceTaken):
			return 0, 0, err
		}
	}
	return below, noops, r.advance(ctx, id, below)
}

// finalEnough is queryWallet once no more than Window mined transactions are not final on every node: one node that
// calls none final would cost a no-op at each nonce of the wallet's life.
func (r *run) finalEnough(ctx context.Context, id wallet.ID) (views chain.Views, settled uint64, err error) {
	for {
		if views, settled, err = r.queryWallet(ctx, id); err != nil {
			return nil, 0, err
		}
		leading := views.Leading()
		for _, view := range views {
			if leading.Mined-view.Mined > r.Window {
				return nil, 0, fmt.Errorf("%s has %d of its transactions and %s %d: they must agree",
					view.Node, view.Mined, leading.Node, leading.Mined)
			}
		}
		if leading.Mined <= settled+r.Window || r.DryRun {
			return views, settled, nil
		}
		r.Say("waiting: a node calls %d of the %d transactions of %s final", settled, leading.Mined, id.Address)
		r.Wait(ctx, r.BlockTime)
	}
}

// putNoop stores a no-op at a nonce of w, or as one more attempt of a payment that was committed there: then a torn
// copy lacks the pending transaction, with the bytes, and has the nonce reserved still. After a crash between the two
// writes join does the second.
func (r *run) putNoop(ctx context.Context, w wallet.Wallet, noop chain.Tx, signed chain.Signed) error {
	for id, held := range w.Reservations {
		if held.Nonce != signed.Nonce {
			continue
		}
		p, err := r.Store.Payment(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if p.State != payment.Committed || p.Nonce != held.Nonce || p.Wallet != w.Address || p.Tx.ChainID != w.ChainID {
			continue
		}
		if p, err = p.Cancel(signed, noop, r.Now()); err == nil {
			err = r.Store.PutNoop(ctx, store.PendingTxOf(p))
		}
		if err == nil {
			err = r.Store.AddAttempt(ctx, p)
		}
		return err
	}
	return r.Store.PutNoop(ctx, wallet.PendingNoop(w.ID, noop, signed, r.Now()))
}

// dropTorn deletes the wallet's pending transactions whose payments the tables do not have as signed, and returns the
// nonce above the last of them. A commit writes both at once, but a copy may have one alone (Amazon DynamoDB Developer
// Guide, "Amazon DynamoDB Transactions: How it works"), and no round could end it. From then on it is a lost
// transaction: it or a no-op uses up its nonce, and putBack finds it if it was mined. A crash leaves a nonce without a
// transaction, which the next run uses up.
func (r *run) dropTorn(ctx context.Context, id wallet.ID) (below uint64, err error) {
	txs, _, err := r.Store.PendingTxs(ctx, id, 0)
	for _, tx := range txs {
		torn := false
		if err == nil && !tx.Noop() {
			torn, err = r.torn(ctx, tx)
		}
		if err != nil || !torn {
			continue
		}
		below = tx.Nonce + 1
		r.Say("%s: payment %s is not signed: nonce %d counts as lost", id.Address, tx.Payment, tx.Nonce)
		if err = r.reaches(ctx, tx); err == nil && !r.DryRun {
			err = r.Store.DeletePendingTx(ctx, id, tx.Nonce)
		}
	}
	return below, err
}

// reaches returns an error if tx may have been mined before the blocks that the run reads.
func (r *run) reaches(ctx context.Context, tx wallet.PendingTx) error {
	if r.Since == 0 {
		return nil
	}
	first, err := r.nodes.FirstSince(ctx, tx.Since.Add(-time.Minute), r.Since) // clocks differ
	if err == nil && first < r.Since {
		err = fmt.Errorf("it may have been mined from block %d on: use --since %d, or less", first, first)
	}
	return err
}

// torn reports whether a payment whose pending transaction was read is not signed. One that is prepared may be signed
// by now, or a commit may be half visible to reads: torn proves by a write that it is prepared still. It joins the
// attempts of one that is signed.
func (r *run) torn(ctx context.Context, tx wallet.PendingTx) (bool, error) {
	stored, err := r.Store.Payment(ctx, tx.Payment)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return true, nil
	case err == nil && stored.State == payment.Prepared && !r.DryRun:
		err = r.Store.Reassign(ctx, stored, stored.Revision)
	case err == nil && stored.State == payment.Committed && !r.DryRun:
		err = r.join(ctx, tx, stored)
	}
	if errors.Is(err, store.ErrChanged) {
		return false, nil
	}
	return err == nil && !stored.State.Signed(), err
}

// join gives a payment, or its pending transaction, the newest attempt, if the other alone has it in a torn copy: a
// verdict needs every hash, and no attempt could follow.
func (r *run) join(ctx context.Context, tx wallet.PendingTx, p payment.Payment) error {
	own, last := p.Hashes(), len(tx.Hashes)-1
	switch {
	case slices.Equal(own, tx.Hashes[:last]):
		again, as := p.Bump, p.Tx
		if tx.HasNoop { // all attempts after a no-op are no-ops
			again = p.Cancel
		}
		as.Fees, as.Gas = tx.Fees, p.Gas()
		next, err := again(chain.Signed{Nonce: tx.Nonce, Hash: tx.Hash(), Raw: tx.Raw}, as, tx.At)
		if err != nil {
			return err
		}
		return r.Store.AddAttempt(ctx, next)
	case slices.Equal(own[:len(own)-1], tx.Hashes):
		whole := store.PendingTxOf(p)
		whole.Raw = tx.Raw // the newest bytes are lost
		return r.Store.BumpNoop(ctx, whole)
	}
	return nil
}

// queryWallet returns every node's view of a wallet, and how many of its transactions are final on all of them.
func (r *run) queryWallet(ctx context.Context, id wallet.ID) (views chain.Views, settled uint64, err error) {
	if views, err = r.nodes.AllViews(ctx, id.Address, r.Token.Contract, r.ConfirmationRule); err == nil {
		settled, err = views.FinalCount(ctx, id.Address)
	}
	return views, settled, err
}

// signer returns a wallet's signer. In a dry run the wallet may lack the registration that Hold would make.
func (r *run) signer(ctx context.Context, id wallet.ID) (wallet.Signer, error) {
	wallets, err := r.Store.Wallets(ctx, r.Coin())
	if err != nil {
		return nil, err
	}
	registered, found := wallets.Find(id.Address)
	if !found {
		registered = wallet.Registration{ID: id, Key: wallet.InSecret}
	}
	return r.Keys.Signer(ctx, registered)
}

// lacking returns a wallet's nonces that may lack a transaction: from settled up to below, and all reserved ones.
func lacking(w wallet.Wallet, settled, below uint64) []uint64 {
	nonces := map[uint64]struct{}{}
	for nonce := settled; nonce < below; nonce++ {
		nonces[nonce] = struct{}{}
	}
	for _, reservation := range w.Reservations {
		nonces[reservation.Nonce] = struct{}{}
	}
	return slices.Sorted(maps.Keys(nonces))
}

// noop returns a wallet's no-op at the fees of the moment.
func (r *run) noop(ctx context.Context, id wallet.ID) (chain.Tx, error) {
	rules, err := r.rules(ctx)
	if err != nil {
		return chain.Tx{}, err
	}
	market, err := r.nodes.Fees(ctx)
	if err != nil {
		return chain.Tx{}, err
	}
	tx := r.nodes.Noop(ctx, r.ChainID, id.Address, chain.QuoteFees(market.BaseFee, market.Tip, rules.FeeLimit))
	tx.GasUnit = r.GasUnit
	return tx, nil
}

// dearer returns how much more than a pending transaction its next attempt takes, at least: as much
// as a no-op. It is zero while the stored fees can be mined, or the fee limit allows no more.
func (r *run) dearer(ctx context.Context, tx wallet.PendingTx, market chain.Market, limit token.Amount) (coin, gas token.Amount) {
	if !market.Asks(tx.Fees) {
		return coin, gas
	}
	noop := r.nodes.Noop(ctx, r.ChainID, tx.Address, tx.Fees)
	noop.GasUnit = r.GasUnit
	coin, gas = noop.Takes(token.Amount{})
	noop.Fees, _ = tx.Fees.Bump(chain.QuoteFees(market.BaseFee, market.Tip, limit), limit)
	coins, wei := noop.Takes(token.Amount{})
	return coins.Sub(coin), wei.Sub(gas)
}

// advance raises next_nonce. An earlier recovery, lost with the tables, may have begun
// at a count that a re-organisation has taken back: its no-ops reach further.
func (r *run) advance(ctx context.Context, id wallet.ID, below uint64) error {
	if r.DryRun {
		return nil
	}
	return r.Store.Advance(ctx, id, below, below+r.Window)
}

// fund reports how much to send to a wallet that cannot pay for the next attempt at its next nonce: enough for all that
// are stored, at their highest fees, and for that attempt. A no-op that offers more than the market counts at the
// market's price: a lying node may have set its fee, and settlement replaces it when the wallet cannot pay.
func (r *run) fund(ctx context.Context, address token.Address, leading chain.View, txs []wallet.PendingTx) error {
	txs = slices.DeleteFunc(txs, func(tx wallet.PendingTx) bool { return tx.Nonce < leading.Mined })
	if len(txs) == 0 {
		return nil
	}
	rules, err := r.rules(ctx)
	if err != nil {
		return err
	}
	market, err := r.nodes.Fees(ctx)
	if err != nil {
		return err
	}
	noop := r.nodes.Noop(ctx, r.ChainID, address, chain.QuoteFees(market.BaseFee, market.Tip, rules.FeeLimit))
	noop.GasUnit, noop.L1Fee = r.GasUnit, market.L1Reserve(noop)
	for i, tx := range txs {
		if tx.Noop() && noop.Fees.Cap.Less(tx.Fees.Cap) {
			txs[i].Fees = noop.Fees
			txs[i].Amount, txs[i].Gas = noop.Takes(token.Amount{})
		}
	}
	coins, all := r.dearer(ctx, txs[0], market, rules.FeeLimit)
	next, _ := all.Add(txs[0].Gas) // of 2^64 transactions that no chain could pay, less
	moved, _ := coins.Add(txs[0].Amount)
	coin, gas := r.GasUnit.Holds(leading.Account)
	if !gas.Less(next) && (r.GasUnit == 0 || !coin.Less(moved)) {
		return nil
	}
	for _, tx := range txs {
		all, _ = all.Add(tx.Gas)
		coins, _ = coins.Add(tx.Amount)
	}
	asset, lacks := "ether", all.Sub(gas).Tokens(18)
	if r.GasUnit > 0 {
		asset, lacks = r.Token.Symbol, coins.Sub(coin).Tokens(r.Token.Decimals)
	}
	r.Say("waiting for %s: send %s %s to %s, which has too little for the transactions that use up its nonces; what "+
		"they leave stays there", asset, lacks, asset, address)
	return nil
}
