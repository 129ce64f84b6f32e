package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// balance is the body of GET /balance/{address}.
type balance struct {
	Address     token.Address `json:"address"`
	Balance     token.Amount  `json:"balance"`
	BalanceText string        `json:"balance_text"`
	Token       string        `json:"token"`
	Decimals    int           `json:"decimals"`
	Network     string        `json:"network"`
	BlockNumber uint64        `json:"block_number"`
}

// GetBalance serves GET /balance/{address}. asset is the token whose balance is shown.
func GetBalance(nodes chain.Provider, asset token.Token, network string, rule chain.ConfirmationRule) Endpoint {
	return endpoint("GetBalance", func(c *call) (answer, error) {
		address, err := token.ParseAddress(c.params["address"])
		switch {
		case errors.Is(err, token.ErrChecksum):
			return answer{}, invalids{{"address_checksum", []any{"path", "address"}, checksumMsg}}
		case err != nil:
			return answer{}, invalids{{"address_invalid", []any{"path", "address"}, addressMsg}}
		}
		account, err := accountOf(c.Context(), nodes, address, asset.Contract, rule)
		if err != nil {
			return answer{}, err
		}
		return answer{status: http.StatusOK, body: balance{
			Address: address, Balance: account.Balance, BalanceText: account.Balance.String(), Token: asset.Symbol, Decimals: asset.Decimals,
			Network: network, BlockNumber: account.Number,
		}}, nil
	})
}

// accountOf returns the account whose balance enough nodes reach.
func accountOf(ctx context.Context, provider chain.Provider, address, contract token.Address,
	rule chain.ConfirmationRule) (chain.Account, error) {
	nodes, err := provider.Nodes(ctx)
	if err != nil {
		return chain.Account{}, errors.Join(chain.ErrUnavailable, err)
	}
	view, err := nodes.View(ctx, address, contract, rule)
	return view.Account, err
}
