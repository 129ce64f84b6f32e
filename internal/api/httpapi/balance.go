package httpapi

import (
	"cmp"
	"context"
	"errors"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

type balance struct {
	Address     token.Address `json:"address"`
	Balance     token.Amount  `json:"balance"`
	BalanceText string        `json:"balance_text"`
	Asset       string        `json:"asset"`
	Token       string        `json:"token"`
	Decimals    int           `json:"decimals"`
	Network     string        `json:"network"`
	BlockNumber uint64        `json:"block_number"`
}

// Nodes returns the nodes of an asset.
type Nodes func(context.Context, token.Coin) (chain.Nodes, error)

// GetBalance serves GET /balance/{address}. The newest block counts: no decision depends on a balance that is shown.
func GetBalance(assets Assets, nodes Nodes) Endpoint {
	return endpoint("GetBalance", func(c *call) (answer, error) {
		all, unread := assets.read(c.Context())
		asset := c.query.asset(all)
		address, err := token.ParseAddress(c.params["address"])
		switch {
		case errors.Is(err, token.ErrChecksum):
			c.query.bad.add("address_checksum", checksumMsg, "path", "address")
		case err != nil:
			c.query.bad.add("address_invalid", addressMsg, "path", "address")
		}
		if err := cmp.Or(c.query.err(), unread); err != nil {
			return answer{}, err
		}
		account, err := accountOf(c.Context(), nodes, address, asset.Coin())
		return ok(balance{
			Address: address, Balance: account.Balance, BalanceText: account.Balance.String(),
			Asset: asset.Coin().String(), Token: asset.Token.Symbol, Decimals: asset.Token.Decimals,
			Network: asset.Network, BlockNumber: account.Number,
		}, err)
	})
}

// accountOf returns the account whose balance enough nodes reach.
func accountOf(ctx context.Context, of Nodes, address token.Address, coin token.Coin) (chain.Account, error) {
	nodes, err := of(ctx, coin)
	if err != nil {
		return chain.Account{}, errors.Join(chain.ErrUnavailable, err)
	}
	view, err := nodes.View(ctx, address, coin.Contract, chain.ConfirmationRule{})
	return view.Account, err
}
