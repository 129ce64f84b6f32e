package operator

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Wallet is `remit wallet`.
type Wallet struct {
	Create  change.Command[walletCreate]  `cmd:"" help:"Make a new key on this machine, store it in a secret of its own and register the wallet. The key is never shown." example:"remit wallet create --stack remit --kms"`
	Import  change.Command[walletImport]  `cmd:"" help:"Store an existing key in a secret of its own and register the wallet, from a file or a prompt." example:"remit wallet import --stack remit --kms alias/payouts-1"`
	List    walletList                    `cmd:"" help:"Show every wallet: balances, nonces, payments in flight, pauses." example:"remit wallet list --stack remit"`
	Balance walletBalance                 `cmd:"" help:"Show each wallet's balances on the chain." example:"remit wallet balance --stack remit"`
	Pause   change.Command[walletPause]   `cmd:"" help:"Stop new payments from a wallet. Signed transactions are still sent." example:"remit wallet pause 0x1111111111111111111111111111111111111111 --reason 'key rotation'"`
	Resume  change.Command[walletResume]  `cmd:"" help:"Let a paused wallet pay again." example:"remit wallet resume --all"`
	Move    change.Command[walletMove]    `cmd:"" help:"Move tokens or ether from a wallet to another, or out of the stack." example:"remit wallet move 0x1111111111111111111111111111111111111111 --to 0x2222222222222222222222222222222222222222 --token 500 --key move-1"`
	Sweep   change.Command[walletSweep]   `cmd:"" help:"Move everything out of a drained wallet." example:"remit wallet sweep 0x1111111111111111111111111111111111111111 --to 0x2222222222222222222222222222222222222222 --key sweep-1"`
	Funding change.Command[walletFunding] `cmd:"" help:"Make a wallet the funding wallet: it refills the others and makes no payments." example:"remit wallet funding 0x1111111111111111111111111111111111111111"`
	Drain   change.Command[walletDrain]   `cmd:"" help:"Stop new payments from a wallet for good; payments under way are finished." example:"remit wallet drain 0x1111111111111111111111111111111111111111"`
	Retire  change.Command[walletRetire]  `cmd:"" help:"Retire a drained wallet for good; its key can be public afterwards." example:"remit wallet retire 0x1111111111111111111111111111111111111111"`
	Rotate  change.Command[walletRotate]  `cmd:"" help:"Replace a wallet: make a new one, move everything there, retire the old one." example:"remit wallet rotate 0x1111111111111111111111111111111111111111 --kms"`
}

type walletCreate struct {
	KMS bool `name:"kms" help:"Make the key in AWS KMS, which signs with it and never shows it."`

	replaces token.Address // the wallet whose place the new one takes; zero: none
}

// Change makes a key, stores it and registers the wallet, in this order. If it stops
// between, the key is stored without a registered wallet: the next command registers that
// wallet too. It makes another key only if the stored key is less than a minute old, because
// another operator's command may still be running.
func (c walletCreate) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if c.KMS {
		return addKMS(d, "", c.replaces)
	}
	left, old, err := d.Unregistered(ctx)
	if err != nil {
		return none, err
	}
	key, err := keyring.Generate(rand.Reader)
	if err != nil {
		return none, err
	}
	switch {
	case old:
		return add(ctx, d, left, nil, c.replaces, "the wallets of which an interrupted command has stored the keys: "+fmt.Sprint(left))
	case len(left) > 0 && !c.replaces.IsZero():
		return none, fmt.Errorf("the keys of %s were stored a moment ago: run this again in five minutes, and it takes what an interrupted "+
			"command has left", left)
	case len(left) > 0:
		return add(ctx, d, left, &key, c.replaces,
			fmt.Sprintf("a new key, and the wallets of which a command has just stored the keys: %s,", left))
	}
	return add(ctx, d, nil, &key, c.replaces, "a new key")
}

type walletImport struct {
	File string `placeholder:"FILE" xor:"key" help:"File that holds the key, and nothing else, in hex. Without it, the command asks for the key and does not show it."`
	KMS  string `name:"kms" placeholder:"KEY" xor:"key" help:"Register the wallet of a key in AWS KMS, by its id, ARN or alias, and let the functions sign with it; repeat it for a grant that is missing. It is of the spec ECC_SECG_P256K1, for signing, and has the tag remit-stack with the name of the stack."`
}

// Change reads a key and stores it.
func (c walletImport) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	switch {
	case c.KMS != "":
		return addKMS(d, c.KMS, token.Address{})
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
	return add(ctx, d, nil, &key, token.Address{}, "the key of "+key.Address().String())
}

// askSecret reads a line from a terminal without showing it, or from a pipe.
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

// adds describes the effect of adding a wallet.
func adds(d *deployed.Deployment, kind string) string {
	return fmt.Sprintf("This adds %s to stack %s. It will pay merchants as soon as it holds %s and gas.\nNobody "+
		"else may use the key from now on.", kind, d.Stack, d.Asset.Symbol)
}

// add stores a key, if there is one, and registers its wallet and all others with stored keys.
// It registers no key that may not be stored; the next command repeats a registration with an
// unknown outcome. The last of the wallets replaces the wallet replaces.
func add(ctx context.Context, d *deployed.Deployment, addresses []token.Address, key *keyring.Key, replaces token.Address,
	kind string) (none change.Change, err error) {
	wallets, err := d.Wallets(ctx)
	if err != nil {
		return none, err
	}
	if key != nil {
		if _, registered := wallets.Find(key.Address()); registered {
			return none, fmt.Errorf("wallet %s is registered already; find it with remit wallet list", key.Address())
		}
		addresses = append(addresses, key.Address())
	}
	return change.Change{Consequences: adds(d, kind), Apply: func(ctx context.Context) (none change.Answer, err error) {
		if key != nil {
			if err := d.PutKey(ctx, *key); err != nil && !errors.Is(err, deployed.ErrKeyStored) {
				return none, fmt.Errorf("storing the key (it may be stored; run remit wallet create in five minutes, which registers it then): %w", err)
			}
		}
		for i, a := range addresses {
			r := wallet.Registration{ID: d.WalletID(a), State: wallet.Active, Key: wallet.InSecret, Since: time.Now()}
			if i == len(addresses)-1 {
				r.Replaces = replaces
			}
			if err := d.Payments.Register(ctx, r); err != nil {
				return none, fmt.Errorf("registering %s, whose key is stored (run remit wallet create in five minutes, which registers it): %w", a, err)
			}
		}
		own := addresses[len(addresses)-1]
		return change.Answer{JSON: map[string]any{"address": own, "registered": addresses},
			Text: fmt.Sprintf("%s\nFund it with %s and gas. Functions notice it within minutes.", own, d.Asset.Symbol)}, nil
	}}, nil
}

// addKMS registers the wallet of a key in KMS. Before that, it makes a key if name is empty,
// and lets the functions sign with it. If it stops after the first, remit wallet import
// --kms does the rest, also for a wallet that is registered. If a call to make a
// key has no answer, the error describes how to find the key.
func addKMS(d *deployed.Deployment, name string, replaces token.Address) (change.Change, error) {
	if d.Account == nil {
		return change.Change{}, errors.New("a stack on this machine has no KMS; remove --kms")
	}
	kind := "the key " + name + " in KMS"
	if name == "" {
		kind = "a new key in KMS, which costs money each month until you schedule its deletion,"
	}
	return change.Change{Consequences: adds(d, kind), Apply: func(ctx context.Context) (none change.Answer, err error) {
		keys := kms.Open(d.Account.AWS)
		if name == "" {
			if name, err = keys.Create(ctx, d.Stack); err != nil {
				return none, fmt.Errorf("%w\nIf a key with the tag %s=%s is there that no wallet of remit wallet list has as its signer, register "+
					"it with remit wallet import --kms, or schedule its deletion", err, kms.Tag, d.Stack)
			}
		}
		r := wallet.Registration{ID: d.WalletID(token.Address{}), State: wallet.Active, Since: time.Now(), Replaces: replaces}
		arn, public, err := keys.Public(ctx, name)
		if err == nil {
			r.Key = wallet.KeyRef(arn)
			r.Address, err = keyring.AddressOf(public)
		}
		if err == nil {
			err = register(ctx, d, r)
		}
		if err != nil {
			return none, fmt.Errorf("registering the key %s (when this is mended: remit wallet import --kms %s): %w", name, name, err)
		}
		return change.Answer{JSON: map[string]any{"address": r.Address, "signer": r.Key},
			Text: fmt.Sprintf("%s\nSigned for by %s.\nFund it with %s and gas. Functions notice it within minutes.", r.Address, r.Key,
				d.Asset.Symbol)}, nil
	}}, nil
}

// register registers a wallet once the functions may sign with its key in KMS. It is an
// error if it is retired, or registered with another key.
func register(ctx context.Context, d *deployed.Deployment, r wallet.Registration) error {
	wallets, err := d.Wallets(ctx)
	if err != nil {
		return err
	}
	switch there, registered := wallets.Find(r.Address); {
	case registered && there.Key != r.Key:
		return fmt.Errorf("wallet %s is registered with another key, %s; choose another wallet", r.Address, there.Key)
	case there.State == wallet.Retired:
		return fmt.Errorf("wallet %s is retired for good; use another", r.Address)
	}
	all, err := d.Account.Resources(ctx)
	if err != nil {
		return err
	}
	roles, err := d.Account.Signers(all)
	if err != nil {
		return err
	}
	if err := kms.Open(d.Account.AWS).GrantSign(ctx, string(r.Key), d.Stack, roles); err != nil {
		return err
	}
	return d.Payments.Register(ctx, r)
}

// endGrants ends register's grants for a wallet with a key in KMS.
func endGrants(ctx context.Context, a *deployed.Account, r wallet.Registration) error {
	if a == nil || !deployed.InKMS(r.Key) {
		return nil
	}
	if err := kms.Open(a.AWS).EndGrants(ctx, string(r.Key), a.Stack); err != nil {
		return fmt.Errorf("%s is retired, and functions may still sign with its key; run this again with the rights of RemitKeys: %w",
			r.Address, err)
	}
	return nil
}

type walletList struct{ deployed.Target }

// A walletRow is one wallet as an operator sees it.
type walletRow struct {
	Address      token.Address  `json:"address"`
	State        wallet.State   `json:"state"`
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

// Run reads the registry, and the records of the wallets.
func (*walletList) Run(ctx context.Context, d *deployed.Deployment) error {
	wallets, err := d.Wallets(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	rows := []walletRow{}
	fmt.Fprintf(&b, "%-42s  %-8s  %10s  %12s  %7s  %18s  %s\n", "ADDRESS", "STATE", "NEXT NONCE", "RESERVATIONS", "PENDING",
		d.Asset.Symbol+" TO SPEND", "PAUSED")
	for _, w := range wallets {
		r := walletRow{Address: w.Address, State: w.State, Signer: w.Key, Since: deployed.Stamp(w.Since)}
		if err := r.read(ctx, d); err != nil {
			return err
		}
		rows = append(rows, r)
		next := "not used"
		if r.NextNonce != nil {
			next = fmt.Sprint(*r.NextNonce)
		}
		fmt.Fprintf(&b, "%s  %-8s  %10s  %12d  %7d  %18s  %s\n", r.Address, r.State, next, r.Reservations, r.PendingTxs,
			r.Token.Tokens(d.Asset.Decimals), r.Paused)
	}
	return d.Show(rows, b.String())
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

// Run asks the nodes for the balances.
func (*walletBalance) Run(ctx context.Context, d *deployed.Deployment) error {
	wallets, err := d.Wallets(ctx)
	if err != nil {
		return err
	}
	nodes, _, err := d.Nodes(ctx)
	if err != nil {
		return err
	}
	type row struct {
		Address token.Address `json:"address"`
		Token   token.Amount  `json:"token"`
		Gas     token.Amount  `json:"gas"`
		Mined   uint64        `json:"mined"`
	}
	rows := []row{}
	var b strings.Builder
	for _, w := range wallets {
		v, err := d.View(ctx, nodes, w.Address)
		if err != nil {
			return err
		}
		rows = append(rows, row{w.Address, v.Balance, v.Gas, v.Mined})
		fmt.Fprintf(&b, "%s  %s  %d mined\n", w.Address, d.Holds(v.Account), v.Mined)
	}
	return d.Show(rows, b.String())
}
