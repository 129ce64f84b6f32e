package wallet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

type walletAssign struct {
	one
	Merchant string `required:"" placeholder:"mer_…" help:"Whose payments alone it makes from now on."`
}

// Change gives the wallet to the merchant, then the merchant its own wallets alone: between, the wallet pays nobody.
func (c walletAssign) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	_, unknown := d.KeysOf(ctx, c.Merchant)
	r, err := working(ctx, d, c.Address)
	switch err = cmp.Or(unknown, err); {
	case err != nil:
		return none, err
	case r.Merchant != "" && r.Merchant != c.Merchant:
		return none, fmt.Errorf("%s is of merchant %s; run remit wallet unassign %[1]s first", c.Address, r.Merchant)
	}
	w, holds, err := idle(ctx, d, r)
	if err != nil {
		return none, err
	}
	return change.Write(fmt.Sprintf("Wallet %s, with %s in it, makes the payments of merchant %s alone.\n%s", c.Address,
		cmp.Or(holds, "nothing"), c.Merchant, ownAlone(d, c.Merchant)),
		"done", func(ctx context.Context) error {
			err := assign(ctx, d, r, w, c.Merchant)
			if err == nil {
				err = owns(ctx, d, c.Address, c.Merchant)
			}
			return err
		}), nil
}

type walletUnassign struct{ one }

// Change takes the wallet from its merchant, who pays from the common ones if it was the last. That is stored first: a
// crash between leaves a wallet that pays nobody. Run the command again then.
func (c walletUnassign) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	_, r, err := d.HolderOf(ctx, c.Address)
	var w wallet.Wallet
	holds, retired := "", r.State == wallet.Retired
	switch {
	case err != nil:
		return none, err
	case r.Merchant == "":
		return none, fmt.Errorf("wallet %s is no merchant's; remit wallet list shows the wallets that are", c.Address)
	case r.State == wallet.Assigned:
		return none, errDraining(c.Address)
	case !retired:
		w, holds, err = idle(ctx, d, r)
	}
	if err == nil && holds != "" {
		err = fmt.Errorf("wallet %s holds %s of its merchant; empty it with remit wallet sweep first", c.Address, holds)
	}
	if err != nil {
		return none, err
	}
	text := "done"
	if !retired {
		text = fmt.Sprintf("done; remit wallet drain --undo %s lets it pay for all", c.Address)
	}
	return change.Write(fmt.Sprintf("Wallet %s is no longer merchant %s's, and stays %s. If it is the last, the "+
		"merchant pays %s from the common wallets.", c.Address, r.Merchant, r.State, d.Asset.Symbol), text,
		func(ctx context.Context) error {
			err := disowns(ctx, d, r)
			if err == nil && !retired {
				err = assign(ctx, d, r, w, "")
			}
			return err
		}), nil
}

// idle returns the record of a wallet with nothing under way, unless it is assigned already, and its coins, if any.
func idle(ctx context.Context, d *deployed.Deployment, r wallet.Registration) (w wallet.Wallet, has string, err error) {
	w, missing := d.Payments.Wallet(ctx, r.ID) // first: Assign then finds a payment that has begun since
	if r.State != wallet.Assigned {
		err = settled(ctx, d, r, nil)
	}
	v, unread := d.View(ctx, r.Address)
	if err = cmp.Or(err, unread); err != nil {
		return w, "", err
	}
	if !v.Balance.IsZero() {
		has = d.Holds(v.Account)
	}
	err = missing
	switch unknown := errors.Is(err, wallet.ErrUnknown); {
	case unknown && v.Mined+v.Pending > 0:
		err = fmt.Errorf("wallet %s has transactions, and no record in the tables; run remit recover", r.Address)
	case unknown:
		w, err = wallet.Wallet{ID: r.ID, Merchant: r.Merchant}, nil
	case err == nil && w.Suspect():
		err = fmt.Errorf("%s is paused for %q; end that first (docs/alarms/WalletPausedAlarm.md)", r.Address, w.Paused)
	}
	return w, has, err
}

// assign gives a wallet to a merchant, "" for all, if its record is still w; without one it gets a record.
func assign(ctx context.Context, d *deployed.Deployment, r wallet.Registration, w wallet.Wallet, to string) error {
	if r.State == wallet.Assigned {
		return nil
	}
	if !r.Opened {
		if err := d.Payments.Open(ctx, w, d.Asset.Contract); err != nil {
			return err
		}
	}
	return d.Payments.Assign(ctx, w, to, time.Now())
}

// reach is longer than a process uses what it has read of a merchant's terms, and than a request lives.
const reach = 35 * time.Second

func ownAlone(d *deployed.Deployment, merchant string) string {
	return fmt.Sprintf("From now on merchant %s pays %s from wallets of its own alone, never from the common ones, "+
		"and no refill sends them %[2]s. It takes %v until all requests obey.", merchant, d.Asset.Symbol, reach)
}

// owns stores that the merchant, if any, of wallet a pays from its own alone, and waits until every request obeys.
func owns(ctx context.Context, d *deployed.Deployment, a token.Address, merchant string) error {
	if merchant == "" {
		return nil
	}
	terms, err := d.Keys.Terms(ctx, merchant)
	if err == nil {
		err = setOwn(ctx, d, merchant, terms, rand.Text())
	}
	if err != nil {
		return fmt.Errorf("the wallet is the merchant's, and its terms are not stored: %v; run this again, as "+
			"remit wallet assign %s --merchant %s", err, a, merchant) // no refusal: not wrapped
	}
	wait := reach
	if terms.Of(d.TermsAsset()).Own != "" || d.Account == nil {
		wait = 2 * time.Second
	}
	settlement.Sleep(ctx, wait)
	return ctx.Err()
}

// disowns has the wallet's merchant pay from the common ones, unless it has another, or its terms changed meanwhile.
func disowns(ctx context.Context, d *deployed.Deployment, r wallet.Registration) error {
	terms, err := d.Keys.Terms(ctx, r.Merchant)
	wallets, unread := d.Wallets(ctx)
	if err = cmp.Or(err, unread); err != nil {
		return err
	}
	if now, _ := wallets.Find(r.Address); now.State == wallet.Assigned {
		return errors.New("the wallet was assigned again meanwhile; drain it first")
	}
	if slices.ContainsFunc(wallets.Of(r.Merchant), func(o wallet.Registration) bool { return o.Address != r.Address }) {
		return nil
	}
	return setOwn(ctx, d, r.Merchant, terms, "")
}

// setOwn changes the merchant's AssetTerms.Own of the rail's asset, if its terms are still those that were read.
func setOwn(ctx context.Context, d *deployed.Deployment, merchant string, read apikey.Terms, own string) error {
	of := read.Of(d.TermsAsset())
	of.Own = own
	return d.Keys.SetTerms(ctx, merchant, read, read.With(d.TermsAsset(), of))
}
