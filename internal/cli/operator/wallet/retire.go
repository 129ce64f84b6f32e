package wallet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

type walletDrain struct {
	one
	Undo bool `help:"Let new payments use it again."`
}

func (c walletDrain) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	r, err := registered(ctx, d, c.Address)
	paying := wallet.Active
	if r.Merchant != "" {
		paying = wallet.Assigned
	}
	if err != nil || c.Undo {
		return become(d, r, err, wallet.Draining, paying, "New payments will use wallet %s again.")
	}
	return become(d, r, err, paying, wallet.Draining,
		"No new payment will use wallet %s within minutes. When those under way have ended, run remit wallet retire.")
}

// become returns the change of a wallet that was read, unless err, from one state to another.
func become(d *deployed.Deployment, r wallet.Registration, err error, from, to wallet.State, consequences string) (change.Change, error) {
	switch {
	case err != nil:
	case r.State == wallet.Retired:
		err = errRetired(r.Address)
	case r.State == wallet.Funding && to != wallet.Active:
		err = errFunding(r.Address)
	case r.State != from && r.State != to:
		err = fmt.Errorf("wallet %s is %s; choose one that is %s", r.Address, r.State, from)
	}
	return change.Write(fmt.Sprintf(consequences, r.Address), fmt.Sprintf("done: %s is %s", r.Address, to), func(ctx context.Context) error {
		err := d.Payments.SetState(ctx, r.ID, from, to, time.Now())
		if err == nil && to == wallet.Assigned { // it may have been about to be unassigned
			err = owns(ctx, d, r.Merchant)
		}
		return err
	}), err
}

// registered returns the registration of a wallet.
func registered(ctx context.Context, d *deployed.Deployment, a token.Address) (wallet.Registration, error) {
	wallets, err := d.Wallets(ctx)
	r, found := wallets.Find(a)
	if err == nil && !found {
		err = fmt.Errorf("%s is not a wallet of the stack; find it with remit wallet list", a)
	}
	return r, err
}

func errRetired(a token.Address) error {
	return fmt.Errorf("wallet %s is retired for good; use another", a)
}

func errDraining(a token.Address) error {
	return fmt.Errorf("%s is not draining; run remit wallet drain %[1]s first", a)
}

func errFunding(a token.Address) error {
	return fmt.Errorf("%s is the funding wallet; run remit wallet funding --undo %[1]s first", a)
}

type walletFunding struct {
	one
	Undo bool `help:"Let new payments use it again, and no refill."`
}

func (c walletFunding) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	r, err := registered(ctx, d, c.Address)
	if err != nil || c.Undo {
		return become(d, r, err, wallet.Funding, wallet.Active,
			"New payments will use wallet %s again, and nothing refills the others.")
	}
	wallets, err := d.Wallets(ctx)
	if other, more := wallets.Funding(); more && other.Address != c.Address {
		err = errFunding(other.Address)
	}
	return become(d, r, err, wallet.Active, wallet.Funding,
		"New payments leave wallet %s within minutes, and it refills the others (RefillToken, RefillEther).")
}

type walletRetire struct {
	one
	Unswept bool `help:"Leave the wallet's tokens behind; nothing can move them afterwards."`
	Stolen  bool `help:"The key is stolen: wait for the stack's own payments alone; a thief never stops."`
}

func (c walletRetire) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	nodes, err := d.Nodes(ctx)
	if err != nil {
		return none, err
	}
	held, err := d.View(ctx, nodes, c.Address)
	if err != nil {
		return none, err
	}
	holds := d.Holds(held.Account)
	if !held.Balance.IsZero() && !c.Unswept {
		return none, fmt.Errorf("wallet %s holds %s; move it first, or add --unswept", c.Address, holds)
	}
	settler := settlement.New(d.Config, settlement.Parts{Store: d.Payments, Nodes: nodes, Log: slog.Default(), Now: time.Now})
	return change.Write(fmt.Sprintf("This ends the life of wallet %s, for good. It holds "+
		"%s.\nNo payment, alarm or check reads it any more, and payments to it are refused. Its key stays where it is; "+
		"the functions may use one in KMS no more.", c.Address, holds), "retired",
		func(ctx context.Context) error { return c.retire(ctx, d, settler) }), nil
}

func (c walletRetire) retire(ctx context.Context, d *deployed.Deployment, settler *settlement.Settler) error {
	switch err := settler.Retire(ctx, d.WalletID(c.Address), c.Stolen); {
	case errors.Is(err, settlement.ErrNotDraining):
		return fmt.Errorf("%w; run remit wallet drain %s, and wait until nothing is under way", err, c.Address)
	case errors.Is(err, settlement.ErrUnsettled), errors.Is(err, store.ErrChanged):
		return fmt.Errorf("%w (nothing was changed; run this again when it has ended)", err)
	case err != nil:
		return err
	}
	r, err := registered(ctx, d, c.Address)
	if err == nil && r.State == wallet.Retired {
		err = endGrants(ctx, d.Account, r)
	}
	return err
}
