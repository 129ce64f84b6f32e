package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ofWallets lists a check of each wallet that is not retired, of the batch contract, and of each allowance for it.
func (e *examination) ofWallets() (all []check) {
	if err := cmp.Or(e.noWallets, e.noNodes); err != nil {
		return []check{{"wallets", always, func(context.Context) (string, error) { return "", err },
			"check your rights on the payments table and the RPC secret"}}
	}
	var allowances []check
	at := e.rules.BatchContract
	for _, r := range e.wallets {
		if r.State != wallet.Retired {
			all = append(all, check{"wallet " + r.Address.String()[:10], always,
				func(ctx context.Context) (string, error) { return e.isFunded(ctx, r) }, "check your rights on the payments table; see nodes"})
		}
		if r.State == wallet.Active {
			allowances = append(allowances, check{"allowance " + r.Address.String()[:10], always,
				func(ctx context.Context) (string, error) { return e.mayBeBatched(ctx, r.Address, at) },
				"remit batch approve " + r.Address.String()})
		}
	}
	if e.noRules != nil || at.IsZero() {
		return all
	}
	return append(append(all, check{"batch contract", always,
		e.everyNode(func(ctx context.Context, node chain.Node, _ string) (string, error) {
			return at.String(), deployed.HasCode(ctx, node, at, disburser.Code())
		}), "remit batch deploy --stack " + e.Stack + "; then set BatchContract to the address that it prints. Until then pay no batches"},
	), allowances...)
}

// isFunded finds a wallet that cannot pay.
func (e *examination) isFunded(ctx context.Context, r wallet.Registration) (string, error) {
	w, unread := e.Payments.Wallet(ctx, r.ID)
	if unread != nil && !errors.Is(unread, wallet.ErrUnknown) {
		return "", unread
	}
	v, err := e.View(ctx, e.nodes, r.Address)
	if err != nil {
		return "", err
	}
	least, _ := token.Units(e.minGasGwei).Times(1_000_000_000) // 64 bits of gwei fit into 256 of wei
	symbol, fix := e.Asset.Symbol, ""
	switch {
	case w.Paused != "":
		err, fix = fmt.Errorf("%w: %s", wallet.ErrPaused, w.Paused), "docs/alarms explains it; then remit wallet resume "
	case unread == nil && v.Mined > w.NextNonce:
		err = fmt.Errorf("%w: %d mined, next nonce %d", wallet.ErrBehind, v.Mined, w.NextNonce)
		fix = "pause every wallet and read docs/alarms: the key is used elsewhere, or the tables were restored: "
	case r.State == wallet.Active && v.Balance.IsZero():
		err, fix = errors.New("holds no "+symbol), "send "+symbol+" to "
	case r.State == wallet.Active && e.Config.GasUnit == 0 && v.Gas.Less(least):
		err, fix = errors.New("holds "+e.Gas(v.Gas)), "send ether for gas to "
	default:
		return e.Holds(v.Account), nil
	}
	return "", problem{error: err, fix: fix + r.Address.String()}
}

// mayBeBatched finds a wallet of which the contract of batches may take nothing.
func (e *examination) mayBeBatched(ctx context.Context, owner, contract token.Address) (string, error) {
	allowed, err := e.Allowance(ctx, owner, contract)
	if err == nil && allowed.IsZero() {
		err = errors.New("the batch contract may take nothing")
	}
	return e.Allowed(allowed), err
}

// activeWallets finds a stack without a wallet that pays, and wallets whose registration is lost.
func (e *examination) activeWallets(ctx context.Context) (string, error) {
	err := e.noWallets
	if err == nil && len(e.wallets.Active()) == 0 {
		err = errors.New("no wallet may pay")
	}
	for _, r := range e.wallets {
		if r.State == wallet.Damaged {
			err = errors.Join(err, fmt.Errorf("the registration of %s cannot be read: docs/alarms/UnreadableAlarm.md", r.Address))
		}
	}
	if err == nil {
		var left []token.Address
		if left, _, err = e.Unregistered(ctx); len(left) > 0 {
			err = fmt.Errorf("the keys of %s are stored, and the wallets not registered", left)
		}
	}
	return fmt.Sprintf("%d wallets, %d active", len(e.wallets), len(e.wallets.Active())), err
}
