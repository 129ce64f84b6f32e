package wallet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

type walletAssign struct {
	Address  token.Address `arg:"" help:"The wallet, which is drained."`
	Merchant string        `required:"" placeholder:"mer_…" help:"Whose payments alone it makes from now on."`
}

func (c walletAssign) Of() token.Address { return c.Address }

// Change gives the wallet to the merchant, and then the merchant its own wallets alone: a crash between leaves a wallet
// that pays nobody. Run the command again then.
func (c walletAssign) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if err := merchantOf(ctx, d, c.Merchant); err != nil {
		return none, err
	}
	r, w, holds, err := c.drained(ctx, d)
	switch {
	case err != nil:
		return none, err
	case r.Merchant != "" && r.Merchant != c.Merchant:
		return none, fmt.Errorf("wallet %s is of merchant %s; run remit wallet unassign %[1]s first", c.Address, r.Merchant)
	}
	return change.Change{
		Consequences: fmt.Sprintf("Wallet %s makes the payments of merchant %s alone, with the %s that it holds. The merchant pays %s from "+
			"wallets of its own alone from now on, never from the common ones. No refill sends it %[4]s.", c.Address, c.Merchant, holds, d.Asset.Symbol),
		Apply: func(ctx context.Context) (change.Answer, error) {
			if r.State != wallet.Assigned {
				if err := d.Payments.Assign(ctx, w, c.Merchant, time.Now()); err != nil {
					return change.Answer{}, err
				}
			}
			err := owns(ctx, d, c.Merchant)
			return change.Answered(err, map[string]any{"address": c.Address, "state": wallet.Assigned, "merchant": c.Merchant}, "done")
		},
	}, nil
}

type walletUnassign struct {
	Address token.Address `arg:"" help:"The wallet, which is drained and empty, or retired."`
}

func (c walletUnassign) Of() token.Address { return c.Address }

// Change takes the wallet from its merchant, who pays from the common ones if it was the last. That is stored first: a
// crash between leaves a wallet that pays nobody. Run the command again then. An assignment that comes between is
// noticed by its terms.
func (c walletUnassign) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	r, w, holds, err := walletAssign{Address: c.Address}.drained(ctx, d)
	switch {
	case err != nil:
		return none, err
	case r.Merchant == "":
		return none, fmt.Errorf("wallet %s is no merchant's", c.Address)
	case r.State == wallet.Assigned:
		return none, fmt.Errorf("wallet %s is not drained; run remit wallet drain %[1]s first", c.Address)
	case r.State == wallet.Draining && holds != "":
		return none, fmt.Errorf("wallet %s holds %s of its merchant; move it first", c.Address, holds)
	}
	return change.Change{
		Consequences: fmt.Sprintf("Wallet %s is merchant %s's no more, and stays drained. If it is the last, the merchant pays %s from the "+
			"common wallets.", c.Address, r.Merchant, d.Asset.Symbol),
		Apply: func(ctx context.Context) (change.Answer, error) {
			err := disowns(ctx, d, r.Merchant, c.Address)
			if err == nil && r.State == wallet.Draining {
				err = d.Payments.Assign(ctx, w, "", time.Now())
			}
			return change.Answered(err, map[string]any{"address": c.Address, "state": r.State}, "done; remit wallet drain --undo lets it pay for all")
		},
	}, nil
}

// drained returns a wallet without anything under way, and its coins. One that is retired, or assigned already, is
// returned as it is. A wallet that has never paid gets a record, from which nothing is paid before the next run.
func (c walletAssign) drained(ctx context.Context, d *deployed.Deployment) (r wallet.Registration, w wallet.Wallet, holds string, err error) {
	wallets, err := d.Wallets(ctx)
	if err != nil {
		return r, w, "", err
	}
	r, registered := wallets.Find(c.Address)
	switch {
	case !registered:
		return r, w, "", errUnregistered(c.Address)
	case r.State == wallet.Retired && c.Merchant != "":
		return r, w, "", fmt.Errorf("wallet %s is retired for good; use another", c.Address)
	case r.State != wallet.Retired && r.State != wallet.Assigned:
		err = settled(ctx, d, c.Address, nil)
	}
	nodes, _, unread := d.Nodes(ctx)
	if err = cmp.Or(err, unread); err != nil {
		return r, w, "", err
	}
	v, err := d.View(ctx, nodes, c.Address)
	if err != nil {
		return r, w, "", err
	}
	if !v.Balance.IsZero() {
		holds = d.Holds(v.Account)
	}
	w, err = d.Payments.Wallet(ctx, r.ID)
	if errors.Is(err, wallet.ErrUnknown) {
		if v.Mined > 0 || v.Pending > 0 {
			return r, w, "", fmt.Errorf("wallet %s has transactions, and the tables have no record of it; run remit recover", c.Address)
		}
		if err = d.Payments.Open(ctx, wallet.Wallet{ID: r.ID, Merchant: r.Merchant}, d.Asset.Contract); err == nil {
			w, err = d.Payments.Wallet(ctx, r.ID)
		}
	}
	if err == nil && w.Suspect() {
		err = fmt.Errorf("wallet %s is paused for %q; end that first", c.Address, w.Paused)
	}
	return r, w, holds, err
}

func merchantOf(ctx context.Context, d *deployed.Deployment, merchant string) error {
	keys, err := d.Keys.List(ctx, merchant)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("no merchant %q has a key; find the merchant with remit merchants list", merchant)
	}
	return err
}

// rereads is how often terms are read again that another operator has changed.
const rereads = 5

// reach is longer than a process uses what it has read of a merchant's own wallets, and than a request lives that began
// under the terms before.
const reach = 35 * time.Second

// owns stores that the merchant pays the rail's asset from its own wallets alone, under a new text, and waits until
// every request obeys. It comes after the wallet is the merchant's.
func owns(ctx context.Context, d *deployed.Deployment, merchant string) error {
	was, err := setOwn(ctx, d, merchant, func(context.Context) (string, error) { return rand.Text(), nil })
	switch {
	case err != nil:
		return fmt.Errorf("the wallet is the merchant's, and its terms are not stored: %v; run this again", err) //nolint:errorlint // no refusal
	case was != "" || d.Account == nil:
		settlement.Sleep(ctx, 2*time.Second)
	default:
		settlement.Sleep(ctx, reach)
	}
	return nil
}

// disowns stores that the merchant pays from the common wallets, unless it has another than leaving.
func disowns(ctx context.Context, d *deployed.Deployment, merchant string, leaving token.Address) error {
	_, err := setOwn(ctx, d, merchant, func(ctx context.Context) (string, error) { // its terms are read by now
		wallets, err := d.Wallets(ctx)
		for _, r := range wallets.Of(merchant) {
			if r.Address == leaving && r.State == wallet.Assigned {
				return "", errors.New("the wallet was assigned again meanwhile; drain it first")
			} else if r.Address != leaving {
				return keep, nil
			}
		}
		return "", err
	})
	return err
}

// keep leaves the terms as they are.
const keep = "keep"

// setOwn changes the merchant's AssetTerms.Own of the rail's asset to what next returns after the terms were read.
func setOwn(ctx context.Context, d *deployed.Deployment, merchant string, next func(context.Context) (string, error)) (was string, err error) {
	_, standard, err := d.Named(ctx, "")
	for range rereads {
		terms, unread := d.Keys.Terms(ctx, merchant)
		if err = cmp.Or(err, unread); err != nil {
			return "", err
		}
		coin := d.Config.Coin()
		of := terms.Of(coin)
		if coin == standard {
			of = terms.AssetTerms
		}
		was = of.Own
		if of.Own, err = next(ctx); err != nil || of.Own == keep {
			return was, err
		}
		if err = d.Keys.SetTerms(ctx, merchant, terms, terms.With(coin, standard, of)); !errors.Is(err, apikey.ErrTerms) {
			return was, err
		}
		err = nil
	}
	return was, apikey.ErrTerms
}
