package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"remit/internal/chain"
	"remit/internal/keyring"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

type walletPause struct {
	Target
	Address string `arg:"" help:"The wallet."`
	Reason  string `default:"paused by an operator" help:"Why; shown in lists and logs."`
	Yes     bool   `help:"Do not ask."`
}

// Run pauses a wallet.
func (c *walletPause) Run(ctx context.Context, out io.Writer) error {
	if c.Reason == "" {
		return errors.New("--reason is empty: say why, for whoever finds the wallet paused")
	}
	d, id, store, err := c.one(ctx, out, c.Address)
	if err != nil {
		return err
	}
	w, err := store.Wallet(ctx, id)
	if err != nil {
		return fmt.Errorf("%s: %w", id.Address, err)
	}
	what := fmt.Sprintf("No new payment will use wallet %s. What it has signed is still sent and settled.", id.Address)
	if w.Paused != "" {
		what = fmt.Sprintf("Wallet %s is paused already: %s\nThis changes the reason to: %s", id.Address, w.Paused, c.Reason)
	}
	if err := agree(c.Yes, what); err != nil {
		return err
	}
	if err := store.Repause(ctx, id, w.Paused, c.Reason); err != nil { // changes only the reason that was shown
		return err
	}
	return d.show(map[string]any{"address": id.Address, "paused": c.Reason}, "paused")
}

type walletResume struct {
	Target
	Address string `arg:"" help:"The wallet."`
	Yes     bool   `help:"Do not ask."`
}

// Run resumes a wallet, after it has shown the nonces of the chain and of the
// tables.
func (c *walletResume) Run(ctx context.Context, out io.Writer) error {
	d, id, store, err := c.one(ctx, out, c.Address)
	if err != nil {
		return err
	}
	w, err := store.Wallet(ctx, id)
	if err != nil {
		return fmt.Errorf("%s: %w", id.Address, err)
	}
	if w.Paused == "" {
		return d.show(map[string]any{"address": id.Address, "paused": ""}, "it was not paused")
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	asset, err := d.asset()
	if err != nil {
		return err
	}
	views, err := nodes.Views(ctx, id.Address, asset.Contract, chain.ConfirmationRule{})
	if err != nil {
		return err
	}
	mined := views.Leading().Mined
	if mined > w.NextNonce {
		return fmt.Errorf("the chain has %d transactions of %s and the next nonce is %d: wait for check-receipts, and read docs/alarms on wallets that are paused before you resume", mined, id.Address, w.NextNonce)
	}
	err = agree(c.Yes, fmt.Sprintf("Wallet %s is paused: %s\nNext nonce %d, mined %d, %d reservations. Resume only if you know why it was paused: if the tables were restored, or somebody else has the key, payments can be made twice.",
		id.Address, w.Paused, w.NextNonce, mined, len(w.Reservations)))
	if err != nil {
		return err
	}
	if err := store.Repause(ctx, id, w.Paused, ""); err != nil { // clears only the reason that was shown
		return err
	}
	return d.show(map[string]any{"address": id.Address, "paused": ""}, "resumed")
}

type walletDrain struct {
	Target
	Address string `arg:"" help:"The wallet."`
	Undo    bool   `help:"Let new payments use it again."`
	Yes     bool   `help:"Do not ask."`
}

// Run marks a wallet in the secret.
func (c *walletDrain) Run(ctx context.Context, out io.Writer) error {
	d, id, _, err := c.one(ctx, out, c.Address)
	if err != nil {
		return err
	}
	entries, err := d.wallets(ctx)
	if err != nil {
		return err
	}
	if err := drain(entries, id.Address, !c.Undo); err != nil {
		return err
	}
	what := "No new payment will use wallet %s within minutes. Its key stays in the secret: remove it only when `remit wallet list` shows no reservations and no pending transactions."
	if c.Undo {
		what = "New payments will use wallet %s again."
	}
	if err := agree(c.Yes, fmt.Sprintf(what, id.Address)); err != nil {
		return err
	}
	// Read again: changes that others have made meanwhile are kept.
	if entries, err = d.wallets(ctx); err != nil {
		return err
	}
	if err := drain(entries, id.Address, !c.Undo); err != nil {
		return err
	}
	if err := d.putWallets(ctx, entries); err != nil {
		return err
	}
	return d.show(map[string]any{"address": id.Address, "draining": !c.Undo}, "done")
}

// drain sets or clears the mark of an entry that says that it is draining.
func drain(entries []keyring.Entry, address token.Address, draining bool) error {
	i := slices.IndexFunc(entries, func(e keyring.Entry) bool { return e.Key.Address() == address })
	if i < 0 {
		return fmt.Errorf("%s: %w", address, wallet.ErrNoKey)
	}
	entries[i].Draining = draining
	return nil
}

// one opens the deployment and names one of its wallets.
func (t Target) one(ctx context.Context, out io.Writer, address string) (*deployment, wallet.ID, store.Store, error) {
	d, err := t.open(ctx, out)
	if err != nil {
		return nil, wallet.ID{}, nil, err
	}
	a, err := token.ParseAddress(address)
	if err != nil {
		return nil, wallet.ID{}, nil, fmt.Errorf("%s: %w", address, err)
	}
	chainID, err := d.chainID()
	if err != nil {
		return nil, wallet.ID{}, nil, err
	}
	store, err := d.payments()
	return d, wallet.ID{ChainID: chainID, Address: a}, store, err
}
