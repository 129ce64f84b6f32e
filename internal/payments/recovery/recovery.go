// Package recovery is the engine of remit recover: it reads the chain back into tables that were lost or restored.
package recovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Recovery puts the payments that the tables have lost back from the chain. First it uses up every nonce that may
// have been signed and that the tables know nothing of. Then all lost transactions are mined or can never be, and the
// wallets' transfers say which payments were made. Hold comes first, then Run, then End; each may be repeated.
type Recovery struct {
	stack.Config
	Store  store.Store
	Keys   wallet.Keys
	Nodes  chain.Provider
	Settle func(ctx context.Context) error // settles every wallet once, idle ones too
	Now    func() time.Time
	Wait   func(ctx context.Context, d time.Duration) // sleeps, or returns early when ctx ends
	Say    func(format string, args ...any)           // reports progress

	Keyed   []token.Address // the wallets that have a key in the secret store, retired ones among them
	Wallets []token.Address // that have paid: in no table, or their keys were deleted after their last payments
	Window  uint64          // how many nonces from a wallet's count on may have been signed
	Since   uint64          // the block from which on payments may be lost
	DryRun  bool            // only counts
}

// A Report counts the acts of a Recovery.
type Report struct {
	Noops   int          `json:"nonces_used_up"`       // in a dry run, the most that would be
	Known   int          `json:"payments_known"`       // transfers of payments that the tables have
	Stored  int          `json:"payments_put_back"`    // that the tables lacked
	Sum     token.Amount `json:"amount_put_back"`      // of those, in the token's smallest unit
	Foreign []chain.Hash `json:"transfers_without_id"` // of a payment
	Differ  []payment.ID `json:"payments_that_differ"` // that the tables know otherwise than the chain
}

// A run is one Run of a Recovery.
type run struct {
	*Recovery
	nodes  chain.Nodes
	final  chain.Block  // the newest that was final before the run
	ids    []wallet.ID  // of the wallets, which are paused
	below  []uint64     // of each, the nonce below which all are used up
	last   uint64       // the last block in which a lost transaction can be
	moved  []chain.Hash // the transactions that moved the token, once for each transfer
	report Report
}

// Run recovers the payments of the wallets that Hold returned, which stay paused. An error leaves the tables as safe as
// they were; the next Run goes on. Each uses up Window nonces of every wallet from its count on.
func (r *Recovery) Run(ctx context.Context, ids []wallet.ID) (Report, error) {
	nodes, err := r.Nodes.Nodes(ctx)
	now := &run{Recovery: r, nodes: nodes, ids: ids, below: make([]uint64, len(ids))}
	step := func(do func(context.Context) error) {
		if err == nil {
			err = do(ctx)
		}
	}
	step(now.noteFinal)
	step(now.checkChain) // on another chain, nonces that are used up may be free on this one
	step(now.useUp)
	step(now.await)
	step(now.readTransfers)
	step(now.checkChain) // or the transfers are of another chain
	step(now.putBack)
	step(now.await)
	step(now.noteFound)
	return now.report, err
}

// noteFound ends the note that the chain was lost: the tables lack no payment of it any more. So a run that finds the
// rail abreast, once its wallets are resumed, lets the others pay.
func (r *run) noteFound(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	for i, id := range r.ids {
		w, err := r.Store.Wallet(ctx, id)
		if err == nil && w.NextNonce > r.below[i] { // a round has seen that, and paused every wallet
			err = fmt.Errorf("a transaction of %s was mined beyond the nonces that were used up", id.Address)
		}
		if err != nil {
			return err
		}
	}
	return store.NoteLost(ctx, r.Store, r.ChainID, time.Time{})
}

// rules returns the rules of the moment, or why there are none.
func (r *Recovery) rules(ctx context.Context) (stack.Rules, error) {
	all, err := r.Store.Rules(ctx)
	rail := all.Rail(r.Coin())
	return r.Rules(rail.Settings), cmp.Or(err, rail.Unusable)
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
		return fmt.Errorf("%w: %d of %d nodes have final block %d, %s; all must (docs/alarms/WalletPausedAlarm.md)",
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
// transactions that are left. It sets last to the last block that any node calls final.
func (r *run) left(ctx context.Context) (left uint64, err error) {
	if err := r.checkChain(ctx); err != nil {
		return 0, err
	}
	r.last = 0
	for i, id := range r.ids {
		views, settled, err := r.queryWallet(ctx, id)
		if err != nil {
			return 0, err
		}
		highest := slices.MaxFunc(views, func(a, b chain.View) int { return cmp.Compare(a.Final, b.Final) })
		r.last = max(r.last, highest.Final) // a node that hides blocks has the lowest
		for _, v := range views {
			if v.Number < highest.Final {
				return 0, fmt.Errorf("%s lacks block %d, which %s calls final", v.Name(), highest.Final, highest.Name())
			}
		}
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
