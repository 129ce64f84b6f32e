package recovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

func (r *run) findNodes(ctx context.Context) (err error) {
	if r.nodes, err = r.Nodes.Nodes(ctx); err != nil {
		return fmt.Errorf("finding nodes: %w", err)
	}
	return nil
}

// noteFinal finds the newest final block of the tables. If there is none, it stores the one that most nodes call final.
func (r *run) noteFinal(ctx context.Context) error {
	known, err := r.Store.Compared(ctx, r.Coin())
	if err == nil && known.Final.Hash.IsZero() {
		known.Final = r.nodes.Heads(ctx, r.ConfirmationRule).Standing(ctx, chain.Block{}).Newest
		if known.Seen = r.Now(); !r.DryRun {
			err = r.Store.SetCompared(ctx, r.Coin(), known)
		}
	}
	if err != nil {
		return fmt.Errorf("noting the newest final block: %w", err)
	}
	r.final = known.Final
	return nil
}

// checkChain returns an error unless every node has the final block of noteFinal, if there is one.
func (r *run) checkChain(ctx context.Context) error {
	have := r.nodes.Heads(ctx, r.ConfirmationRule).Standing(ctx, r.final).Have
	if !r.final.Hash.IsZero() && have < len(r.nodes) {
		return fmt.Errorf("%w: %d of %d nodes have block %d with hash %s, which was final, and all must (docs/alarms/WalletPausedAlarm.md)",
			chain.ErrUnavailable, have, len(r.nodes), r.final.Number, r.final.Hash)
	}
	return nil
}

// await settles until every nonce below those of the wallets is final on every node, and no reservation or pending
// transaction is left. It notes the last block in which one of the nonces can be. While a node does not answer, it
// waits. A dry run notes the last block of now.
func (r *run) await(ctx context.Context) (err error) {
	if r.DryRun {
		r.last, err = r.nodes.FinalOnAll(ctx, r.ConfirmationRule)
		return err
	}
	for {
		left, err := r.left(ctx)
		err = cmp.Or(err, r.Settle(ctx)) // the round after the last one has set the balances
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.Say("waiting: %v", err)
		case left == 0:
			return nil
		default:
			r.Say("%d nonces and pending transactions to go", left)
		}
		r.Wait(ctx, r.BlockTime)
	}
}

// left counts the nonces that are not final yet, and the reservations and pending
// transactions that are left. It raises last to the last block that every node calls final.
func (r *run) left(ctx context.Context) (left uint64, err error) {
	if err := r.checkChain(ctx); err != nil {
		return 0, err
	}
	for i, id := range r.ids {
		views, settled, err := r.queryWallet(ctx, id)
		if err != nil {
			return 0, err
		}
		lowest := slices.MinFunc(views, func(a, b chain.View) int { return cmp.Compare(a.Final, b.Final) })
		r.last = max(r.last, lowest.Final)
		w, err := r.Store.Wallet(ctx, id)
		if err != nil {
			return 0, err
		}
		txs, unreadable, err := r.Store.PendingTxs(ctx, id, 0)
		if err != nil {
			return 0, err
		}
		left += r.below[i] - min(r.below[i], settled) + uint64(len(w.Reservations)+len(txs)+unreadable)
		if err := r.fund(ctx, id.Address, views.Leading(), txs); err != nil {
			return 0, err
		}
	}
	return left, nil
}
