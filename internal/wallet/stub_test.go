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

// slots keeps the port's name free for the method.
type slots = wallet.Slots

// slotted is a store of which only the slots are asked.
type slotted struct {
	slots
	stored []wallet.Slot
}

func (s slotted) Slots(context.Context, wallet.ID) ([]wallet.Slot, int, error) {
	return s.stored, 0, nil
}
