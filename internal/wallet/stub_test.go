package wallet_test

import (
	"context"

	"remit/internal/chain"
	"remit/internal/wallet"
)

// named is a node of which only the name is asked.
type named struct {
	chain.Node
	name string
}

func (n named) String() string { return n.name }

// pending transactions keeps the port's name free for the method.
type pendingTxs = wallet.PendingTxs

// slotted is a store of which only the pending transactions are asked.
type withPendingTxs struct {
	pendingTxs
	stored []wallet.PendingTx
}

func (s withPendingTxs) PendingTxs(context.Context, wallet.ID) ([]wallet.PendingTx, int, error) {
	return s.stored, 0, nil
}
