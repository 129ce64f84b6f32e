package oracle

import (
	"bytes"
	"maps"
	"slices"

	"remit/internal/token"
	"remit/internal/wallet"
)

// moving are the writes that give a nonce an owner, or take one away.
var moving = []string{"Reserve", "Release", "RaiseCeiling", "Commit", "PutNoop", "BumpNoop", "DeletePendingTx"}

// Stored is to be called after every call of the tables, with its operation. After
// a write that moves a nonce, the Oracle checks that each nonce has an owner.
func (o *Oracle) Stored(op string) {
	if slices.Contains(moving, op) {
		for _, id := range o.wallets() {
			o.owners(id)
		}
	}
}

// wallets are the wallets that pay, in the order of their addresses.
func (o *Oracle) wallets() (ids []wallet.ID) {
	for _, a := range slices.SortedFunc(maps.Keys(o.Chain.Funded()), func(a, b token.Address) int { return bytes.Compare(a[:], b[:]) }) {
		ids = append(ids, wallet.ID{ChainID: o.Chain.ID, Address: a})
	}
	return ids
}
