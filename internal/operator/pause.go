package operator

import (
	"context"
	"errors"
	"fmt"

	"remit/internal/chain"
	"remit/internal/keyring"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A change is the command line of a command that changes one wallet.
type change struct {
	Target
	Address token.Address `arg:"" help:"The wallet."`
	Yes     bool          `help:"Do not ask."`
}

// wallet reads the wallet's record.
func (c *change) wallet(ctx context.Context, d *deployment) (wallet.ID, wallet.Wallet, store.Store, error) {
	id := wallet.ID{ChainID: d.chainID, Address: c.Address}
	store, err := d.payments()
	if err != nil {
		return id, wallet.Wallet{}, nil, err
	}
	w, err := store.Wallet(ctx, id)
	if err != nil {
		err = fmt.Errorf("%s: %w", c.Address, err)
	}
	return id, w, store, err
}

type walletPause struct {
	change
	Reason string `default:"paused by an operator" help:"Why; shown in lists and logs."`
}

// Run pauses a wallet.
func (c *walletPause) Run(ctx context.Context, d *deployment) error {
	if c.Reason == "" {
		return errors.New("--reason is empty: say why, for whoever finds the wallet paused")
	}
	id, w, store, err := c.wallet(ctx, d)
	if err != nil {
		return err
	}
	consequences := fmt.Sprintf("No new payment will use wallet %s. What it has signed is still sent and settled.", c.Address)
	if w.Paused != "" {
		consequences = fmt.Sprintf("Wallet %s is paused already: %s\nThis changes the reason to: %s", c.Address, w.Paused, c.Reason)
	}
	if err := d.agree(c.Yes, consequences); err != nil {
		return err
	}
	if err := store.Repause(ctx, id, w.Paused, c.Reason); err != nil { // changes only the reason that was shown
		return err
	}
	return d.show(map[string]any{"address": c.Address, "paused": c.Reason}, "paused")
}

type walletResume struct{ change }

// Run resumes a wallet, after it has shown the nonces of the chain and of the
// tables.
func (c *walletResume) Run(ctx context.Context, d *deployment) error {
	id, w, store, err := c.wallet(ctx, d)
	if err != nil {
		return err
	}
	resumed := map[string]any{"address": c.Address, "paused": ""}
	if w.Paused == "" {
		return d.show(resumed, "it was not paused")
	}
	nodes, _, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	views, err := nodes.Views(ctx, c.Address, d.asset.Contract, chain.ConfirmationRule{})
	if err != nil {
		return err
	}
	mined := views.Leading().Mined
	if mined > w.NextNonce {
		return fmt.Errorf("the chain has %d transactions of %s and the next nonce is %d: wait for check-receipts, and read docs/alarms on wallets that are paused before you resume", mined, c.Address, w.NextNonce)
	}
	err = d.agree(c.Yes, fmt.Sprintf("Wallet %s is paused: %s\nNext nonce %d, mined %d, %d reservations. Resume only if you know why it was paused: if the tables were restored, or somebody else has the key, payments can be made twice.",
		c.Address, w.Paused, w.NextNonce, mined, len(w.Reservations)))
	if err != nil {
		return err
	}
	if err := store.Repause(ctx, id, w.Paused, ""); err != nil { // clears only the reason that was shown
		return err
	}
	return d.show(resumed, "resumed")
}

type walletDrain struct {
	change
	Undo bool `help:"Let new payments use it again."`
}

// Run marks a wallet in the secret.
func (c *walletDrain) Run(ctx context.Context, d *deployment) error {
	consequences := "No new payment will use wallet %s within minutes. Its key stays in the secret: remove it only when `remit wallet list` shows no reservations and no pending transactions."
	if c.Undo {
		consequences = "New payments will use wallet %s again."
	}
	err := d.changeWallets(ctx, c.Yes, fmt.Sprintf(consequences, c.Address), func(entries []keyring.Entry) ([]keyring.Entry, error) {
		i := indexOf(entries, c.Address)
		if i < 0 {
			return nil, fmt.Errorf("%s: %w", c.Address, wallet.ErrNoKey)
		}
		entries[i].Draining = !c.Undo
		return entries, nil
	})
	if err != nil {
		return err
	}
	return d.show(map[string]any{"address": c.Address, "draining": !c.Undo}, "done")
}
