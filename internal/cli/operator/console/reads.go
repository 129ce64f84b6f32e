package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/cli/page"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// readNodes asks every node for its head, all at once.
func (k *console) readNodes(ctx context.Context) error {
	if time.Since(k.opened) > refresh {
		if err := k.budget.room(ctx, 3); err != nil {
			return err
		}
		nodes, _, err := k.Nodes(ctx)
		if err != nil {
			return err
		}
		declared, err := k.Account.Alarms(ctx)
		if err != nil {
			return err
		}
		k.open, k.declared, k.opened = nodes, declared, time.Now()
	}
	if err := k.budget.room(ctx, len(k.open)); err != nil {
		return err
	}
	all := make([]nodeHealth, len(k.open))
	var asked sync.WaitGroup
	for i, node := range k.open {
		asked.Go(func() {
			began := time.Now()
			head, err := node.Head(ctx, k.Config.ConfirmationRule)
			all[i] = nodeHealth{Name: node.String(), Head: head.Number, Final: head.Final, MS: time.Since(began).Milliseconds()}
			if err != nil {
				all[i].Error = err.Error()
			}
		})
	}
	asked.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.view.Nodes = all
	return nil
}

func (k *console) readWallets(ctx context.Context) error {
	if err := k.budget.room(ctx, 1); err != nil {
		return err
	}
	registered, err := k.Wallets(ctx)
	if err != nil {
		return err
	}
	wallets, pending := []page.Wallet{}, []pendingPayment{}
	for _, r := range registered {
		w := page.Wallet{Address: r.Address, State: r.State, Tokens: "0", Wei: "0"}
		if r.State != wallet.Retired {
			if err := k.budget.room(ctx, 2); err != nil {
				return err
			}
			found, err := k.readWallet(ctx, &w)
			if err != nil {
				return err
			}
			pending = append(pending, found...)
		}
		wallets = append(wallets, w)
	}
	slices.SortFunc(pending, func(a, b pendingPayment) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ID, b.ID)) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.view.Wallets, k.view.pending = wallets, pending
	return nil
}

// readWallet fills in w, and returns the payments under way of the wallet.
func (k *console) readWallet(ctx context.Context, w *page.Wallet) (pending []pendingPayment, err error) {
	id := k.WalletID(w.Address)
	record, err := k.Payments.Wallet(ctx, id)
	if errors.Is(err, wallet.ErrUnknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	txs, unreadable, err := k.Payments.PendingTxs(ctx, id, 0)
	w.Tokens, w.Wei, w.Next, w.Reserved, w.Sent, w.Paused = record.Balance.String(), record.Gas.String(), record.NextNonce,
		len(record.Reservations), len(txs)+unreadable, record.Paused
	for _, tx := range txs {
		if !tx.Noop() {
			row := page.Row{ID: tx.Payment, N: tx.Since.UnixMilli(), Begun: tx.Since.UnixMilli(), Amount: tx.Amount.String(),
				State: payment.Committed,
				Hash:  tx.Hashes[0].String(), Wallet: w.Address.String(), Nonce: tx.Nonce, Paid: page.NotCounted}
			row.At[page.Prepared], row.At[page.Committed] = page.Once, row.Begun
			pending = append(pending, pendingPayment{tx.Payment, row.Begun, w.Address, tx.Nonce, row})
		}
	}
	return pending, err
}

func (k *console) readAlarms(ctx context.Context) error {
	if err := k.budget.room(ctx, 1+len(k.declared)/100); err != nil {
		return err
	}
	found, err := k.Account.Alarmed(ctx, k.declared)
	if err != nil {
		return err
	}
	all := []alarm{}
	for _, m := range found {
		all = append(all, alarm{aws.ToString(m.AlarmName), string(m.StateValue), aws.ToTime(m.StateUpdatedTimestamp).UnixMilli(),
			aws.ToString(m.StateReason)})
	}
	slices.SortStableFunc(all, func(a, b alarm) int { return cmp.Compare(a.State, b.State) }) // ALARM is first
	k.mu.Lock()
	defer k.mu.Unlock()
	k.view.Alarms.All, k.view.Alarms.At = all, time.Now().UnixMilli()
	return nil
}
