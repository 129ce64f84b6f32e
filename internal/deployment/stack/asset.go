package stack

import (
	"slices"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// An Asset is a token on a chain as merchants see it. Operators call it, with its wallets, nodes and settings, a rail.
type Asset struct {
	ChainID uint64
	Token   token.Token
	Network string // "base-sepolia"
	Closed  bool   // no payment of it is begun
}

// Coin identifies the asset.
func (a Asset) Coin() token.Coin { return token.Coin{ChainID: a.ChainID, Contract: a.Token.Contract} }

// Assets are a stack's assets, in the order in which they were added. The first is the default, for ever.
type Assets []Asset

// Find returns the asset of a coin, or false.
func (a Assets) Find(c token.Coin) (Asset, bool) {
	i := slices.IndexFunc(a, func(a Asset) bool { return a.Coin() == c })
	if i < 0 {
		return Asset{}, false
	}
	return a[i], true
}
