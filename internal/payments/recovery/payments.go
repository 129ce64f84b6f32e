package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery/onchain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

func (r *run) wallets() (all []token.Address) {
	for _, id := range r.ids {
		all = append(all, id.Address)
	}
	return all
}

// readTransfers finds the transactions that moved coins of the wallets.
func (r *run) readTransfers(ctx context.Context) error {
	r.Say("reading the transfers of blocks %d to %d", r.Since, r.last)
	transfers, err := r.nodes.Transfers(ctx, r.Token.Contract, r.wallets(), min(r.Since, r.last), r.last)
	for _, t := range transfers {
		r.moved = append(r.moved, t.Tx) // the logs of one transaction follow each other
	}
	return err
}

// putBack stores the payments that those transactions made, and that the tables lack.
func (r *run) putBack(ctx context.Context) error {
	for some := range slices.Chunk(slices.Compact(r.moved), 100) {
		txs, err := r.nodes.Transactions(ctx, some)
		if err == nil && len(txs) != len(some) {
			err = fmt.Errorf("the nodes have %d of %d transactions of which they have logs", len(txs), len(some))
		}
		if err != nil {
			return err
		}
		for _, tx := range txs {
			if err := r.putBackOf(ctx, tx); err != nil {
				return fmt.Errorf("putting back the payment of %s: %w", tx.Hash, err)
			}
		}
		r.Say("%d payments known, %d put back, %d transfers without a payment's id", r.report.Known, r.report.Stored, len(r.report.Foreign))
	}
	return nil
}

// putBackOf is putBack of one transaction.
func (r *run) putBackOf(ctx context.Context, tx chain.MinedTx) error {
	ours := slices.Contains(r.wallets(), tx.From)
	found, ok := onchain.Payment(tx, r.ChainID, r.Token, r.Network)
	found.Tx.GasUnit = r.GasUnit
	switch {
	case !ours, !ok:
		r.report.Foreign = append(r.report.Foreign, tx.Hash)
		return nil
	}
	stored, err := r.stored(ctx, found)
	switch {
	case err != nil:
		return err
	case stored.Proposal && !stored.State.Signed() && !stored.State.UsedUp():
		if !r.DryRun {
			stored, err = r.begin(ctx, stored, found)
		}
	case stored.State == payment.Prepared && !stored.Proposal:
	case stored.Onchain == tx.Hash, stored.State == payment.Committed && slices.Contains(stored.Hashes(), tx.Hash):
		r.report.Known++
		if stored.State == payment.Committed && !r.DryRun { // a torn copy lacks the pending transaction
			err = r.Store.PutNoop(ctx, store.PendingTxOf(stored))
		}
		if errors.Is(err, store.ErrNonceTaken) {
			err = nil
		}
		return err
	default:
		r.report.Differ = append(r.report.Differ, found.ID)
		return nil
	}
	if err != nil {
		return err
	}
	if !r.DryRun {
		if err := r.commit(ctx, stored, found, tx); err != nil {
			return err
		}
	}
	r.report.Stored++
	r.report.Sum, err = r.report.Sum.Add(found.Amount)
	return err
}

// stored returns the payment that the tables have in place of found, which it stores if they have none.
func (r *run) stored(ctx context.Context, found payment.Payment) (stored payment.Payment, err error) {
	if r.DryRun {
		stored, err = r.Store.Payment(ctx, found.ID)
		if errors.Is(err, store.ErrNotFound) {
			return found, nil
		}
		return stored, err
	}
	stored, _, err = r.Store.Create(ctx, found)
	return stored, err
}

// begin stores the release of a proposal whose key was used on the chain, and returns the payment, which is the chain's
// even if it pays otherwise: the proposal is younger than the copy then. Without it the key would be used once more. If
// the proposal has changed since it was read, a repeated Run judges it anew.
func (r *run) begin(ctx context.Context, read, found payment.Payment) (payment.Payment, error) {
	held, err := r.Store.Proposal(ctx, found.ID)
	if err != nil {
		return payment.Payment{}, err
	}
	offer := held.Payment
	switch {
	case offer.State != read.State || offer.Revision != read.Revision:
		return payment.Payment{}, store.ErrChanged
	case !offer.Pays(found.Outputs()) || offer.Coin() != found.Coin():
		offer = found // without a fingerprint, no request is answered with it
		offer.Merchant, offer.Mode, offer.IdempotencyKey = read.Merchant, read.Mode, read.IdempotencyKey
	}
	offer.State, offer.BatchContract, offer.Wallet, offer.Tx = payment.Prepared, found.BatchContract, found.Wallet, found.Tx
	offer.CreatedAt, offer.UpdatedAt = found.CreatedAt, found.UpdatedAt
	to := held.Begin(offer)
	return to.Payment, r.Store.Amend(ctx, held, to, store.Guard{})
}

// commit commits a payment that is prepared by the transaction that made it; then it settles as any other. A crash
// leaves a payment that is prepared, which no wallet pays while all are paused.
func (r *run) commit(ctx context.Context, stored, found payment.Payment, tx chain.MinedTx) error {
	if call := stored.Call(tx.From, true); call.To != tx.To || string(call.Data) != tx.Data || stored.Tx.ChainID != r.ChainID {
		// It was discarded since, and its key used for another request or asset, or the stack has another contract.
		err := r.Store.Discard(ctx, stored)
		if err == nil {
			stored, _, err = r.Store.Create(ctx, found)
		}
		if err != nil {
			return err
		}
	}
	if stored.Wallet != tx.From || string(stored.Tx.Data) != tx.Data {
		moved := stored.AssignedTo(tx.From, found.Tx)
		if err := r.Store.Reassign(ctx, moved, stored.Revision); err != nil {
			return err
		}
		stored = moved
	}
	from, err := r.Store.Wallet(ctx, wallet.ID{ChainID: r.ChainID, Address: tx.From})
	if err != nil {
		return err
	}
	stored.WalletOf = from.Merchant
	committed, err := stored.Commit(chain.Signed{Nonce: tx.Nonce, Hash: tx.Hash, Raw: []byte{}}, r.Now())
	if err == nil {
		err = r.Store.Commit(ctx, committed)
	}
	return err
}
