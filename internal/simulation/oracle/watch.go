package oracle

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"remit/internal/interpose"
	"remit/internal/token"
	"remit/internal/wallet"
)

// moving are the writes that give a nonce an owner, or take one away.
var moving = []string{"Reserve", "Release", "RaiseCeiling", "Commit", "PutNoop", "BumpNoop", "DeletePendingTx"}

// Watching returns around for the tables: after every write that moves a nonce,
// the Oracle checks that each nonce has an owner.
func (o *Oracle) Watching(around interpose.Around) interpose.Around {
	return func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
		return around(ctx, c, func(ctx context.Context) {
			apply(ctx)
			if slices.Contains(moving, c.Op) {
				for _, id := range o.wallets() {
					o.owners(id)
				}
			}
		})
	}
}

// wallets are the wallets that pay, in the order of their addresses.
func (o *Oracle) wallets() (ids []wallet.ID) {
	for _, a := range slices.SortedFunc(maps.Keys(o.Chain.Funded()), func(a, b token.Address) int { return bytes.Compare(a[:], b[:]) }) {
		ids = append(ids, wallet.ID{ChainID: o.Chain.ID, Address: a})
	}
	return ids
}
