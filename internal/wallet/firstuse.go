package wallet

import (
	"errors"
	"fmt"

	"remit/internal/chain"
	"remit/internal/payment"
)

var (
	// ErrForeign reports a key that another program is using: a node holds
	// transactions of the wallet that are not ours, mined not for good yet or
	// not at all.
	ErrForeign = errors.New("another program uses the wallet's key")
	// ErrBehind reports a wallet whose next nonce is below the chain's count:
	// a foreign transaction, or tables restored from the past.
	ErrBehind = errors.New("the chain is ahead of the wallet's record")
)

// Suspicion begins the reason of every pause for an ErrBehind. As long as one
// wallet is paused for it, a wallet that is seen for the first time is paused
// too: it would make the payments again that the tables know nothing of.
const Suspicion = "chain ahead"

// FirstUse returns the record of a wallet seen for the first time: it starts
// at the chain's count. While a node's pool holds more than is mined, or more is
// mined than the settled count that is final, another program is sending from
// it: ErrForeign. A nonce that a re-organisation gave back would have no owner.
func FirstUse(id ID, views chain.Views, settled, window uint64) (Wallet, error) {
	leading := views.Leading()
	if leading.Mined > settled {
		return Wallet{}, fmt.Errorf("%w: %d transactions of %s are mined, of which %d are final", ErrForeign, leading.Mined, id.Address, settled)
	}
	for _, view := range views {
		if view.Pending > leading.Mined {
			return Wallet{}, fmt.Errorf("%w: %s holds %d of %s, %d are mined", ErrForeign, view.Node, view.Pending, id.Address, leading.Mined)
		}
	}
	return Wallet{
		ID: id, NextNonce: leading.Mined, Ceiling: leading.Mined + window,
		Reservations: map[payment.ID]Reservation{}, Balance: leading.Balance, Gas: leading.Gas,
	}, nil
}
