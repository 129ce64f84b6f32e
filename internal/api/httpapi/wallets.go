package httpapi

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A walletView is a merchant's own wallet. Without an answer of a node it has no amounts.
type walletView struct {
	Address       token.Address `json:"address"`
	Asset         string        `json:"asset"`
	Balance       *token.Amount `json:"balance"`
	BalanceText   *string       `json:"balance_text"`
	Spendable     *token.Amount `json:"spendable"`
	SpendableText *string       `json:"spendable_text"`
	Status        string        `json:"status"` // active or paused
}

// ListWallets serves GET /wallets.
func ListWallets(assets Assets, nodes Nodes, wallets store.Store) Endpoint {
	return endpoint("ListWallets", func(c *call) (answer, error) {
		all, err := assets.read(c.Context())
		own, group := []*walletView{}, errgroup.Group{}
		group.SetLimit(16) // each asks every node
		for _, a := range all {
			registry, unread := wallets.Wallets(c.Context(), a.Coin())
			if err = errors.Join(err, unread); err != nil {
				break
			}
			for _, r := range registry.Of(c.caller.MerchantID) {
				v := new(walletView)
				own = append(own, v)
				group.Go(func() (err error) {
					*v, err = viewOf(c.Context(), a, r, nodes, wallets)
					return err
				})
			}
		}
		return listing(func(v *walletView) *walletView { return v })(own, errors.Join(err, group.Wait()))
	})
}

// viewOf reads a wallet's record and what it has promised before the nodes: a payment that is mined in between counts
// once or not at all.
func viewOf(ctx context.Context, a stack.Asset, r wallet.Registration, nodes Nodes, wallets store.Store) (v walletView, err error) {
	v = walletView{Address: r.Address, Asset: a.Coin().String(), Status: "paused"}
	w, err := wallets.Wallet(ctx, r.ID)
	if err != nil && !errors.Is(err, wallet.ErrUnknown) {
		return v, err
	}
	if r.State == wallet.Assigned && w.Paused == "" && w.Damaged == "" {
		v.Status = "active"
	}
	tied := map[uint64]token.Amount{}
	for id, held := range w.Reservations {
		p, err := wallets.Payment(ctx, id)
		switch {
		case err == nil:
			tied[held.Nonce] = store.NeedOf(p, held.At).Amount
		case !errors.Is(err, store.ErrNotFound):
			return v, err
		}
	}
	txs, _, err := wallets.PendingTxs(ctx, r.ID, 0)
	if err != nil {
		return v, err
	}
	for _, tx := range txs {
		tied[tx.Nonce] = tx.Amount
	}
	account, err := accountOf(ctx, nodes, r.Address, a.Coin())
	if err != nil {
		return v, nil
	}
	left := account.Balance
	for nonce, amount := range tied {
		if nonce >= account.Mined {
			left = left.Sub(amount)
		}
	}
	balance, spendable := account.Balance.String(), left.String()
	v.Balance, v.BalanceText, v.Spendable, v.SpendableText = &account.Balance, &balance, &left, &spendable
	return v, nil
}
