package httpapi

import (
	"context"
	"errors"
	"math"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

// Assets reads the assets of the stack.
type Assets func(context.Context) (stack.Assets, error)

// read returns the assets, at least one, or dispatch.ErrUnavailable.
func (a Assets) read(ctx context.Context) (stack.Assets, error) {
	all, err := a(ctx)
	if err != nil || len(all) == 0 {
		return nil, errors.Join(dispatch.ErrUnavailable, errNoAssets, err)
	}
	return all, nil
}

var errNoAssets = errors.New("no assets of the stack are known")

// ofPayment is read for a request that pays. Without the assets it cannot be compared with a payment that is stored
// under its key, so it must not be answered that nothing was started.
func (a Assets) ofPayment(c *call) (stack.Assets, error) {
	all, err := a.read(c.Context())
	if err != nil && len(c.Header.Values("Idempotency-Key")) > 0 {
		return nil, errors.New(err.Error())
	}
	return all, err
}

type assetView struct {
	Asset    string        `json:"asset"`
	Network  string        `json:"network"`
	ChainID  uint64        `json:"chain_id"`
	Token    string        `json:"token"`
	Contract token.Address `json:"contract"`
	Decimals int           `json:"decimals"`
	Default  bool          `json:"default"`
	Open     bool          `json:"open"`
}

// ListAssets serves GET /assets.
func ListAssets(assets Assets) Endpoint {
	return endpoint("ListAssets", func(c *call) (answer, error) {
		all, err := assets.read(c.Context())
		return listing(func(a stack.Asset) assetView {
			return assetView{a.Coin().String(), a.Network, a.ChainID, a.Token.Symbol, a.Token.Contract,
				a.Token.Decimals, a.Coin() == all[0].Coin(), !a.Closed}
		})(all, err)
	})
}

// asset reads which of all assets is meant, the default if the field is absent. It is none if they could not be read.
func (f *form) asset(all stack.Assets) stack.Asset {
	name, ok := f.text("asset", 0, math.MaxInt)
	if all == nil {
		return stack.Asset{}
	}
	if !ok {
		return all[0]
	}
	coin, valid := token.ParseCoin(name)
	a, found := all.Find(coin)
	if !valid || !found {
		f.refuse("asset", "asset_unknown", "Must be the asset of an entry of GET /assets")
	}
	return a
}
