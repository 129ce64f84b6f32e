// Package wallet has the commands that make, fund, pause and retire the wallets that pay.
package wallet

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Commands is `remit wallet`.
type Commands struct {
	Create   change.Command[walletCreate]   `cmd:"" help:"Make a key, store it and register the wallet." example:"--kms"`
	Import   change.Command[walletImport]   `cmd:"" help:"Store your own key and register it." example:"--kms alias/a"`
	List     walletList                     `cmd:"" help:"Show balances, nonces and pauses."`
	Balance  walletBalance                  `cmd:"" help:"Show balances on the chain."`
	Pause    change.Command[walletPause]    `cmd:"" help:"Stop new payments for a while." example:"--all --reason x"`
	Resume   change.Command[walletResume]   `cmd:"" help:"Let wallets pay again." example:"--all"`
	Move     change.Command[move]           `cmd:"" help:"Move tokens or ether." example:"0x1… --to 0x2… --token 5 --key a"`
	Sweep    change.Command[sweep]          `cmd:"" help:"Empty a drained wallet." example:"0x1… --to 0x2… --key b"`
	Assign   change.Command[walletAssign]   `cmd:"" help:"Give a drained wallet to a merchant." example:"0x1… --merchant mer_1"`
	Unassign change.Command[walletUnassign] `cmd:"" help:"Take a drained, empty wallet from its merchant." example:"0x1…"`
	Funding  change.Command[walletFunding]  `cmd:"" help:"Let a wallet only refill the others." example:"0x1…"`
	Drain    change.Command[walletDrain]    `cmd:"" help:"Stop new payments for good." example:"0x1…"`
	Retire   change.Command[walletRetire]   `cmd:"" help:"Retire a drained wallet." example:"0x1…"`
}

type walletCreate struct {
	KMS      bool   `name:"kms" help:"Make the key in AWS KMS, which signs with it and never shows it."`
	Merchant string `placeholder:"mer_…" help:"The merchant whose payments alone the wallet makes."`
}

func (walletCreate) Of() (rail token.Address) { return rail }

// Change makes a key, stores it and registers the wallet, in this order. If it stops between, the key is stored without
// a registered wallet: the next command registers that wallet too. It makes another key only if the stored key is less
// than a minute old, because another operator's command may still be running.
func (c walletCreate) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if c.Merchant != "" {
		if err := merchantOf(ctx, d, c.Merchant); err != nil {
			return none, err
		}
	}
	if c.KMS {
		return addKMS(d, "", c.Merchant)
	}
	left, old, err := d.Unregistered(ctx)
	if err != nil {
		return none, err
	}
	key, err := newKey()
	if err != nil {
		return none, err
	}
	switch {
	case len(left) > 0 && c.Merchant != "":
		return none, fmt.Errorf("a command has left keys without a wallet, %s; run remit wallet create without --merchant first", left)
	case c.Merchant != "":
		return add(ctx, d, nil, &key, "a new key for merchant "+c.Merchant, c.Merchant)
	case old:
		return add(ctx, d, left, nil, "the wallets whose keys an interrupted command has stored: "+fmt.Sprint(left), "")
	case len(left) > 0:
		return add(ctx, d, left, &key,
			fmt.Sprintf("a new key, and the wallets whose keys a command has just stored: %s,", left), "")
	}
	return add(ctx, d, nil, &key, "a new key", "")
}

// newKey makes a key of random bytes. One in 2^128 is no key of secp256k1, and an error.
func newKey() (keyring.Key, error) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return keyring.ParseKey(hex.EncodeToString(b[:]))
}

type walletImport struct {
	File string `placeholder:"FILE" xor:"key" help:"File with the key alone, in hex. Without it, the command asks."`
	KMS  string `name:"kms" placeholder:"KEY" xor:"key" help:"A key in KMS, ECC_SECG_P256K1, with the tag remit-stack."`
}

func (walletImport) Of() (rail token.Address) { return rail }

func (c walletImport) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	switch {
	case c.KMS != "":
		return addKMS(d, c.KMS, "")
	case d.Account == nil && c.File == "":
		return none, errors.New("a stack on this machine cannot ask for the key; add --file FILE")
	}
	read := func() ([]byte, error) { return os.ReadFile(c.File) }
	if c.File == "" {
		read = func() ([]byte, error) { return askSecret("Private key (not shown): ") }
	}
	text, err := read()
	if err != nil {
		return none, err
	}
	key, err := keyring.ParseKey(strings.TrimSpace(string(text)))
	if err != nil {
		return none, err
	}
	return add(ctx, d, nil, &key, "the key of "+key.Address().String(), "")
}

func askSecret(prompt string) ([]byte, error) {
	if stdin := int(os.Stdin.Fd()); term.IsTerminal(stdin) {
		fmt.Fprint(os.Stderr, prompt)
		defer fmt.Fprintln(os.Stderr)
		return term.ReadPassword(stdin)
	}
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if len(line) > 0 { // a last line may have no end
		err = nil
	}
	return line, err
}

func adds(d *deployed.Deployment, kind string) string {
	return fmt.Sprintf("This adds %s to stack %s, for %s. It will pay merchants as soon as it holds %s and "+
		"gas.\nNobody else may use the key from now on. If it has paid before, every wallet of the rail is paused.",
		kind, d.Stack, d.Name(), d.Asset.Symbol)
}

// add stores a key, if there is one, and registers its wallet and all others with stored keys. It registers no key that
// may not be stored; the next command repeats a registration with an unknown outcome.
func add(ctx context.Context, d *deployed.Deployment, addresses []token.Address, key *keyring.Key,
	kind, merchant string) (none change.Change, err error) {
	if key != nil {
		switch on, err := d.HolderOf(ctx, key.Address()); {
		case err != nil:
			return none, err
		case on != nil:
			return none, fmt.Errorf("wallet %s is registered already, for %s; find it with remit wallet list", key.Address(), on.Name())
		}
		addresses = append(addresses, key.Address())
	}
	return change.Change{Consequences: adds(d, kind), Apply: func(ctx context.Context) (none change.Answer, err error) {
		if key != nil {
			if err := d.PutKey(ctx, *key, d.Config.Coin()); err != nil && !errors.Is(err, deployed.ErrKeyStored) {
				return none, fmt.Errorf("storing the key (it may be stored; run remit wallet create in five minutes, which registers it then): %w", err)
			}
		}
		for _, a := range addresses {
			r := registration(d, a, merchant)
			r.Key = wallet.InSecret
			if err := d.Payments.Register(ctx, r); err != nil {
				return none, fmt.Errorf("registering %s, whose key is stored (run remit wallet create in five minutes, which registers it): %w", a, err)
			}
		}
		own := addresses[len(addresses)-1]
		if merchant != "" {
			if err := owns(ctx, d, merchant); err != nil {
				return none, fmt.Errorf("%w, as remit wallet assign %s --merchant %s", err, own, merchant)
			}
		}
		return change.Answer{JSON: map[string]any{"address": own, "registered": addresses},
			Text: fmt.Sprintf("%s\nFund it with %s and gas. Functions see it within minutes.", own, d.Asset.Symbol)}, nil
	}}, nil
}

// registration returns that of a new wallet, which is a merchant's or common.
func registration(d *deployed.Deployment, a token.Address, merchant string) wallet.Registration {
	r := wallet.Registration{ID: d.WalletID(a), Token: d.Asset.Contract, State: wallet.Active, Since: time.Now(), Merchant: merchant}
	if merchant != "" {
		r.State = wallet.Assigned
	}
	return r
}

type walletList struct{ deployed.Target }

// A walletRow is one wallet as an operator sees it.
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
	Token        token.Amount   `json:"token_available"`
	Gas          token.Amount   `json:"gas_available"`
	Paused       string         `json:"paused"`
}

func (*walletList) Run(ctx context.Context, d *deployed.Deployment) error {
	var b strings.Builder
	rows := []walletRow{}
	err := d.Each(ctx, func(on *deployed.Deployment) error {
		wallets, err := on.Wallets(ctx)
		fmt.Fprintf(&b, "%-42s  %-8s  %-30s  %10s  %12s  %7s  %18s  %s\n", on.Name(), "STATE", "MERCHANT", "NEXT NONCE",
			"RESERVATIONS", "PENDING", on.Asset.Symbol+" TO SPEND", "PAUSED")
		for _, w := range wallets {
			r := walletRow{Address: w.Address, Rail: on.Name(), State: w.State, Merchant: w.Merchant, Signer: w.Key,
				Since: deployed.Stamp(w.Since)}
			if failed := r.read(ctx, on); failed != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", r.Address, failed))
				continue
			}
			rows = append(rows, r)
			next := "not used"
			if r.NextNonce != nil {
				next = fmt.Sprint(*r.NextNonce)
			}
			fmt.Fprintf(&b, "%s  %-8s  %-30s  %10s  %12d  %7d  %18s  %s\n", r.Address, r.State, cmp.Or(r.Merchant, "-"), next,
				r.Reservations, r.PendingTxs, r.Token.Tokens(on.Asset.Decimals), r.Paused)
		}
		return err
	})
	return errors.Join(d.Show(rows, b.String()), err)
}

// read reads the parts of a row from the tables, which have none for a wallet that has not paid.
func (r *walletRow) read(ctx context.Context, d *deployed.Deployment) error {
	id := d.WalletID(r.Address)
	w, err := d.Payments.Wallet(ctx, id)
	if errors.Is(err, wallet.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	pendingTxs, _, err := d.Payments.PendingTxs(ctx, id, 0)
	r.NextNonce, r.Ceiling, r.Reservations, r.PendingTxs = &w.NextNonce, &w.Ceiling, len(w.Reservations), len(pendingTxs)
	r.Token, r.Gas, r.Paused = w.Balance, w.Gas, w.Paused
	return err
}

type walletBalance struct{ deployed.Target }

func (*walletBalance) Run(ctx context.Context, d *deployed.Deployment) error {
	type row struct {
		Address token.Address `json:"address"`
		Rail    string        `json:"rail"`
		Token   token.Amount  `json:"token"`
		Gas     token.Amount  `json:"gas"`
		Mined   uint64        `json:"mined"`
	}
	rows := []row{}
	var b strings.Builder
	err := d.Each(ctx, func(on *deployed.Deployment) error {
		wallets, err := on.Wallets(ctx)
		nodes, _, unread := on.Nodes(ctx)
		if err := cmp.Or(err, unread); err != nil {
			return err
		}
		for _, w := range wallets {
			v, err := on.View(ctx, nodes, w.Address)
			if err != nil {
				return err
			}
			rows = append(rows, row{w.Address, on.Name(), v.Balance, v.Gas, v.Mined})
			fmt.Fprintf(&b, "%s  %s  %d mined\n", w.Address, on.Holds(v.Account), v.Mined)
		}
		return nil
	})
	return errors.Join(d.Show(rows, b.String()), err)
}
