// Package wallet has the commands that make, fund, pause and retire the wallets that pay.
package wallet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Commands is `remit wallet`.
type Commands struct {
	Create   change.Command[walletCreate]   `cmd:"" help:"Make a key, and register its wallet." example:"--kms"`
	Import   change.Command[walletImport]   `cmd:"" help:"Store your own key and register it." example:"--kms alias/a"`
	List     walletList                     `cmd:"" help:"Show balances, nonces and pauses."`
	Pause    change.Command[walletPause]    `cmd:"" help:"Stop new payments for a while." example:"--all --reason x"`
	Resume   change.Command[walletResume]   `cmd:"" help:"Let wallets pay again." example:"--all"`
	Move     change.Command[move]           `cmd:"" help:"Move coins." example:"0x1… --to 0x2… --token 5 --key a"`
	Sweep    change.Command[sweep]          `cmd:"" help:"Empty a drained wallet." example:"0x1… --to 0x2… --key b"`
	Assign   change.Command[walletAssign]   `cmd:"" help:"Give it to a merchant." example:"0x1… --merchant mer_1"`
	Unassign change.Command[walletUnassign] `cmd:"" help:"Take an empty wallet from its merchant." example:"0x1…"`
	Funding  change.Command[walletFunding]  `cmd:"" help:"Let a wallet only refill the others." example:"0x1…"`
	Drain    change.Command[walletDrain]    `cmd:"" help:"Stop new payments, to sweep and retire it." example:"0x1…"`
	Retire   change.Command[walletRetire]   `cmd:"" help:"Retire a drained wallet." example:"0x1…"`
}

// A one is the command line of a command about one wallet, on the wallet's rail.
type one struct {
	Address token.Address `arg:"" help:"The wallet."`
}

func (c one) Of() token.Address { return c.Address }

// A new wallet is on the rail that --rail names.
type newWallet struct{}

func (newWallet) Of() (rail token.Address) { return rail }

type walletCreate struct {
	newWallet
	KMS      bool   `name:"kms" help:"Make the key in AWS KMS, which signs with it and never shows it."`
	Merchant string `placeholder:"mer_…" help:"The merchant whose payments alone the wallet makes."`
}

// Change makes a key, stores it and registers the wallet, in this order. If it stops between, the next command
// registers the wallet of the stored key too, as draining: it may be a merchant's, or from tables that were lost.
func (c walletCreate) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if c.Merchant != "" {
		if _, err := d.KeysOf(ctx, c.Merchant); err != nil {
			return none, err
		}
	}
	if c.KMS {
		return addKMS(d, "", c.Merchant)
	}
	left, err := d.Unregistered(ctx)
	var random [32]byte
	_, _ = rand.Read(random[:])                                   // never fails
	key, unfit := keyring.ParseKey(hex.EncodeToString(random[:])) // one in 2^128 is no key of secp256k1
	if err = cmp.Or(err, unfit); err != nil {
		return none, err
	}
	return add(ctx, d, key, "a new key", c.Merchant, left)
}

type walletImport struct {
	newWallet
	File string `required:"" placeholder:"FILE" xor:"key" help:"File of the key alone, in hex; /dev/stdin for a pipe."`
	KMS  string `required:"" name:"kms" placeholder:"KEY" xor:"key" help:"Your own key in KMS (docs/operate.md)."`
}

func (c walletImport) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if c.KMS != "" {
		return addKMS(d, c.KMS, "")
	}
	text, err := os.ReadFile(c.File)
	key, unfit := keyring.ParseKey(strings.TrimSpace(string(text)))
	if err = cmp.Or(err, unfit); err != nil {
		return none, err
	}
	return add(ctx, d, key, "the key of "+key.Address().String(), "", nil)
}

func adds(d *deployed.Deployment, kind, merchant string) string {
	text := fmt.Sprintf("It will pay merchants as soon as it holds %s and gas.", d.Asset.Symbol)
	if merchant != "" {
		text = fmt.Sprintf("It is %s's. Send it %s and gas.\n%s", merchant, d.Asset.Symbol, ownAlone(d, merchant))
	}
	return fmt.Sprintf("This adds %s to stack %s, for %s. %s\nNobody else may use the key from now on. If it has paid "+
		"before, every wallet of the rail is paused.", kind, d.Stack, d.Name(), text)
}

// add stores a key, then registers its wallet; and as draining the wallets of keys that other commands have left.
func add(ctx context.Context, d *deployed.Deployment, key keyring.Key, kind, merchant string,
	left []token.Address) (none change.Change, err error) {
	own, text := key.Address(), adds(d, kind, merchant)
	switch on, _, err := d.HolderOf(ctx, own); {
	case err != nil:
		return none, err
	case on != nil:
		return none, fmt.Errorf("%s is registered already, for %s; find it with remit wallet list", own, on.Name())
	case len(left) > 0:
		text += fmt.Sprintf("\nKeys left by an interrupted command are registered too, as draining: %s. Retire "+
			"them, let them pay (remit wallet drain --undo), or give them to a merchant (remit wallet assign).", left)
	}
	return change.Change{Consequences: text, Apply: func(ctx context.Context) (none change.Answer, err error) {
		if err := d.PutKey(ctx, key, d.Config.Coin()); err != nil && !errors.Is(err, deployed.ErrKeyStored) {
			return none, fmt.Errorf("storing the key: %w; %s", err, again)
		}
		for _, a := range append(left, own) {
			r := registration(d, a, merchant)
			if r.Key = wallet.InSecret; a != own {
				r.State, r.Merchant = wallet.Draining, ""
			}
			if err := d.Payments.Register(ctx, r); err != nil {
				return none, fmt.Errorf("registering %s: %w; %s", a, err, again)
			}
		}
		return change.Answered(owns(ctx, d, own, merchant), map[string]any{"address": own, "registered": append(left,
			own)}, fmt.Sprintf("%s\nFund it with %s and gas. Functions see it in minutes.", own, d.Asset.Symbol))
	}}, nil
}

const again = "run remit wallet create again; after a minute it registers this key too, as draining"

func registration(d *deployed.Deployment, a token.Address, merchant string) wallet.Registration {
	r := wallet.Registration{ID: d.WalletID(a), Token: d.Asset.Contract, State: wallet.Active, Since: time.Now()}
	if merchant != "" {
		r.State, r.Merchant = wallet.Assigned, merchant
	}
	return r
}

type walletList struct{ deployed.Target }

type walletRow struct {
	Address      token.Address  `json:"address"`
	Rail         string         `json:"rail"`
	State        wallet.State   `json:"state"`
	Merchant     string         `json:"merchant"` // whose it is; empty: a common one
	Signer       wallet.KeyRef  `json:"signer"`
	Since        deployed.Stamp `json:"since"`
	NextNonce    *uint64        `json:"next_nonce"`
	Ceiling      *uint64        `json:"nonce_ceiling"`
	Reservations int            `json:"reservations"`
	PendingTxs   int            `json:"pending_txs"`
	Token        *token.Amount  `json:"token_available"` // null before the first payment, as the nonces
	Gas          *token.Amount  `json:"gas_available"`   // in wei
	Paused       string         `json:"paused"`
}

func (*walletList) Run(ctx context.Context, d *deployed.Deployment) error {
	var b strings.Builder
	rows := []walletRow{}
	err := d.Each(ctx, func(on *deployed.Deployment) error {
		wallets, err := on.Wallets(ctx)
		const row = "%-42v  %-8v  %-30s  %10s  %12v  %7v  %18s  %14s  %s\n"
		fmt.Fprintf(&b, row, on.Name(), "STATE", "MERCHANT", "NEXT NONCE", "RESERVATIONS", "PENDING",
			on.Asset.Symbol+" TO SPEND", "GAS TO SPEND", "PAUSED")
		for _, w := range wallets {
			r := walletRow{Address: w.Address, Rail: on.Name(), State: w.State, Merchant: w.Merchant, Signer: w.Key,
				Since: deployed.Stamp(w.Since)}
			if failed := r.read(ctx, on); failed != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", r.Address, failed))
				continue
			}
			rows = append(rows, r)
			next, spend, gas := "not read", "not read", "not read"
			if r.NextNonce != nil {
				next, spend = fmt.Sprint(*r.NextNonce), r.Token.Tokens(on.Asset.Decimals)
				gas = r.Gas.Over(1_000_000_000).Tokens(9)
			}
			fmt.Fprintf(&b, row, r.Address, r.State, cmp.Or(r.Merchant, "-"), next, r.Reservations, r.PendingTxs, spend,
				gas, r.Paused)
		}
		return err
	})
	return errors.Join(d.Show(rows, b.String()), err)
}

// read reads a row from the tables: without nonces and coins if it has not paid, or a restore has made its record.
func (r *walletRow) read(ctx context.Context, d *deployed.Deployment) error {
	id := d.WalletID(r.Address)
	w, err := d.Payments.Wallet(ctx, id)
	if r.Paused = w.Paused; errors.Is(err, wallet.ErrUnknown) || err == nil && w.Ceiling == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	txs, _, err := d.Payments.PendingTxs(ctx, id, 0)
	r.NextNonce, r.Ceiling, r.Reservations, r.PendingTxs = &w.NextNonce, &w.Ceiling, len(w.Reservations), len(txs)
	r.Token, r.Gas = &w.Balance, &w.Gas
	return err
}

type walletDrain struct {
	one
	Undo bool `help:"Let new payments use it again."`
}

func (c walletDrain) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	r, err := working(ctx, d, c.Address)
	paying := wallet.Active
	if r.Merchant != "" {
		paying = wallet.Assigned
	}
	if err != nil || c.Undo {
		return become(d, r, err, wallet.Draining, paying, "New payments will use wallet %s again.")
	}
	warning, err := stops(ctx, d, c.Address)
	return become(d, r, err, paying, wallet.Draining, "No new payment will use wallet %s within minutes. "+
		"Once its payments end, sweep it, then retire or unassign.\n"+warning)
}

// become returns the change of a wallet that was read, unless err, from one state to another.
func become(d *deployed.Deployment, r wallet.Registration, err error, from, to wallet.State, consequences string) (change.Change, error) {
	switch {
	case err != nil:
	case r.State == wallet.Funding && to != wallet.Active:
		err = errFunding(r.Address)
	case r.State != from && (r.State != to || from == wallet.Funding):
		err = fmt.Errorf("wallet %s is %s; choose one that is %s", r.Address, r.State, from)
	}
	consequences = strings.TrimSpace(fmt.Sprintf(consequences, r.Address))
	return change.Write(consequences, fmt.Sprintf("done: %s is %s", r.Address, to), func(ctx context.Context) error {
		err := d.Payments.SetState(ctx, r.ID, from, to, time.Now())
		if err == nil && to == wallet.Assigned { // it may have been about to be unassigned
			err = owns(ctx, d, r.Address, r.Merchant)
		}
		return err
	}), err
}

func working(ctx context.Context, d *deployed.Deployment, a token.Address) (wallet.Registration, error) {
	_, r, err := d.HolderOf(ctx, a)
	if err == nil && r.State == wallet.Retired {
		err = errRetired(a)
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
	Undo bool `help:"Use it for payments again, and not for refills."`
}

func (c walletFunding) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	r, err := working(ctx, d, c.Address)
	if err != nil || c.Undo {
		return become(d, r, err, wallet.Funding, wallet.Active,
			"New payments will use wallet %s again, and nothing refills the others.")
	}
	wallets, err := d.Wallets(ctx)
	if other, more := wallets.Funding(); more && other.Address != c.Address {
		err = errFunding(other.Address)
	}
	warning, unread := stops(ctx, d, c.Address)
	return become(d, r, cmp.Or(err, unread), wallet.Active, wallet.Funding,
		"New payments leave wallet %s within minutes, and it refills the others (RefillToken, RefillEther).\n"+warning)
}

type walletRetire struct {
	one
	Unswept bool `help:"Leave the wallet's tokens behind; nothing can move them afterwards."`
	Stolen  bool `help:"The key is stolen: wait for the stack's own payments, and for none of the thief's."`
}

func (c walletRetire) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	nodes, err := d.Nodes(ctx)
	if err != nil {
		return none, err
	}
	views, err := nodes.AllViews(ctx, c.Address, d.Asset.Contract, d.Config.ConfirmationRule)
	if err != nil {
		return none, err
	}
	held := slices.MaxFunc(views, func(a, b chain.View) int { return a.Balance.Cmp(b.Balance) }) // a wrong node hides it
	holds := d.Holds(held.Account)
	_, r, err := d.HolderOf(ctx, c.Address)
	switch {
	case err != nil:
		return none, err
	case r.State == wallet.Retired && r.Key == wallet.InSecret:
		return change.None(fmt.Sprintf("wallet %s is retired already", c.Address)), nil
	case r.State != wallet.Draining && r.State != wallet.Retired:
		return none, errDraining(c.Address)
	case !held.Balance.IsZero() && !c.Unswept:
		return none, fmt.Errorf("wallet %s holds %s; run remit wallet sweep first (--unswept leaves them for good)", c.Address, holds)
	}
	return change.Write(fmt.Sprintf("This ends the life of wallet %s, for good. It holds "+
		"%s, WHICH REMIT CANNOT MOVE AFTERWARDS.\nNo payment, alarm or check reads it any more, and payments to it are "+
		"refused. Its key stays where it is; the functions may use one in KMS no more.", c.Address, holds), "retired",
		func(ctx context.Context) error {
			parts := settlement.Parts{Store: d.Payments, Nodes: nodes, Log: slog.Default(), Now: time.Now}
			switch err := settlement.New(d.Config, parts).Retire(ctx, r.ID, c.Stolen); {
			case errors.Is(err, settlement.ErrUnsettled), errors.Is(err, store.ErrChanged):
				return fmt.Errorf("%w (nothing was changed; run this again when it has ended)", err)
			case err != nil:
				return err
			}
			return endGrants(ctx, d.Account, r)
		}), nil
}
