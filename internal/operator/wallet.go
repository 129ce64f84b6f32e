package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"remit/internal/chain"
	"remit/internal/keyring"
	"remit/internal/kms"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Wallet is `remit wallet`.
type Wallet struct {
	Create  walletCreate  `cmd:"" help:"Make a new key on this machine, store it in a secret of its own and register the wallet. The key is never shown."`
	Import  walletImport  `cmd:"" help:"Store an existing key in a secret of its own and register the wallet, from a file or a prompt."`
	List    walletList    `cmd:"" help:"Show every wallet: balances, nonces, what is in flight, pauses."`
	Balance walletBalance `cmd:"" help:"Show what the chain says each wallet holds."`
	Pause   walletPause   `cmd:"" help:"Stop new payments from a wallet. What is signed goes on."`
	Resume  walletResume  `cmd:"" help:"Let a paused wallet pay again."`
	Move    walletMove    `cmd:"" help:"Move tokens or ether from a wallet to another, or out of the stack."`
	Sweep   walletSweep   `cmd:"" help:"Move all that a drained wallet has."`
	Funding walletFunding `cmd:"" help:"Make a wallet the funding wallet, which refills the others and pays no merchant's payments."`
	Drain   walletDrain   `cmd:"" help:"Stop new payments from a wallet for good; what is under way is finished."`
	Retire  walletRetire  `cmd:"" help:"End the life of a drained wallet: nothing that its key does stops a payment any more."`
	Rotate  walletRotate  `cmd:"" help:"Make a wallet that takes the place of another, move all there, and retire the other."`
}

type walletCreate struct {
	Target
	KMS bool `name:"kms" help:"Make the key in AWS KMS, which signs with it and never shows it."`
	Yes bool `help:"Do not ask."`

	replaces token.Address // the wallet whose place the new one takes; zero: none
}

// Run makes a key, stores it and registers the wallet, in this order. If it stops
// between, the key is stored and nobody knows the address: the next command registers
// that wallet too, and makes another only if the first was at work less than a minute
// ago, since another operator's may be.
func (c *walletCreate) Run(ctx context.Context, d *deployment) error {
	if c.KMS {
		return d.addKMS(ctx, "", c.replaces, c.Yes)
	}
	left, old, err := d.unregistered(ctx)
	if err != nil {
		return err
	}
	key, err := keyring.Generate(rand.Reader)
	if err != nil {
		return err
	}
	switch {
	case old:
		return d.add(ctx, left, nil, c.replaces, c.Yes, "the wallets of which an interrupted command has stored the keys: "+fmt.Sprint(left))
	case len(left) > 0 && !c.replaces.IsZero():
		return fmt.Errorf("the keys of %s were stored a moment ago: run this again in a minute, and it takes what an interrupted "+
			"command has left", left)
	case len(left) > 0:
		return d.add(ctx, left, &key, c.replaces, c.Yes,
			fmt.Sprintf("a new key, and the wallets of which a command has just stored the keys: %s,", left))
	}
	return d.add(ctx, nil, &key, c.replaces, c.Yes, "a new key")
}

// interrupted is how old a key without a registration is that no command is about to
// register any more.
const interrupted = time.Minute

// unregistered returns the wallets whose keys are stored and that are not registered,
// and whether a command that stored one was interrupted.
func (d *deployment) unregistered(ctx context.Context) (left []token.Address, old bool, err error) {
	_, wallets, err := d.wallets(ctx)
	if err != nil {
		return nil, false, err
	}
	keyed, err := d.keyed(ctx)
	for a, since := range keyed {
		if _, registered := wallets.Find(a); !registered {
			left, old = append(left, a), old || time.Since(since) > interrupted
		}
	}
	return left, old, err
}

type walletImport struct {
	Target
	File string `placeholder:"FILE" help:"File that holds the key, and nothing else, in hex. Without it you are asked, and what you type is not shown."`
	KMS  string `name:"kms" placeholder:"KEY" help:"Register the wallet of a key in AWS KMS, by its id, ARN or alias, and let the functions sign with it; repeat it for a grant that is missing. It is of the spec ECC_SECG_P256K1, for signing, and has the tag remit-stack with the name of the stack."`
	Yes  bool   `help:"Do not ask."`
}

// Run reads a key and stores it.
func (c *walletImport) Run(ctx context.Context, d *deployment) error {
	switch {
	case c.KMS != "" && c.File != "":
		return errors.New("say --kms or --file: a wallet has one key")
	case c.KMS != "":
		return d.addKMS(ctx, c.KMS, token.Address{}, c.Yes)
	}
	read := func() ([]byte, error) { return os.ReadFile(c.File) }
	if _, here := d.platform.(*conversation); here && c.File == "" {
		return errors.New("say --file FILE: a stack on this machine cannot ask")
	}
	if c.File == "" {
		read = func() ([]byte, error) { return askSecret("Private key (not shown): ") }
	}
	text, err := read()
	if err != nil {
		return err
	}
	key, err := keyring.ParseKey(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return d.add(ctx, nil, &key, token.Address{}, c.Yes, "the key of "+key.Address().String())
}

// add stores a key, if there is one, and registers its wallet and others whose keys are
// stored. A key that is not certainly stored is not registered; one whose registration
// is unknown is registered by the next command. The last of the wallets takes the place
// of replaces.
func (d *deployment) add(ctx context.Context, addresses []token.Address, key *keyring.Key, replaces token.Address, yes bool,
	kind string) error {
	s, wallets, err := d.wallets(ctx)
	if err != nil {
		return err
	}
	if key != nil {
		if _, registered := wallets.Find(key.Address()); registered {
			return fmt.Errorf("wallet %s is there already", key.Address())
		}
		addresses = append(addresses, key.Address())
	}
	symbol := d.asset.Symbol
	if err := d.agree(yes, fmt.Sprintf("This adds %s to stack %s. It will pay merchants as soon as it holds %s and gas.\nNobody "+
		"else may use the key from now on.", kind, d.Stack, symbol)); err != nil {
		return err
	}
	if key != nil {
		if err := d.putKey(ctx, *key); err != nil && !errors.Is(err, errKeyStored) {
			return fmt.Errorf("storing the key (it may be stored; run remit wallet create in a minute, which registers it then): %w", err)
		}
	}
	for i, a := range addresses {
		r := wallet.Registration{ID: wallet.ID{ChainID: d.chainID, Address: a}, State: wallet.Active, Key: wallet.InSecret, Since: time.Now()}
		if i == len(addresses)-1 {
			r.Replaces = replaces
		}
		if err := s.Register(ctx, r); err != nil {
			return fmt.Errorf("registering %s, whose key is stored (run remit wallet create in a minute, which registers it): %w", a, err)
		}
	}
	own := addresses[len(addresses)-1]
	return d.show(map[string]any{"address": own, "registered": addresses},
		fmt.Sprintf("%s\nFund it with %s and gas. Functions notice it within minutes.", own, symbol))
}

// addKMS registers the wallet of a key in KMS, after it has made one if name is empty and
// has let the functions sign with it. If it stops after the first, remit wallet import
// --kms does the rest, also for a wallet that is registered. Whether a key was made in a
// call without an answer is unknown: the error says how to find it.
func (d *deployment) addKMS(ctx context.Context, name string, replaces token.Address, yes bool) error {
	a, onAWS := d.platform.(*account)
	if !onAWS {
		return errors.New("a stack on this machine has no KMS: leave --kms out")
	}
	kind := "the key " + name + " in KMS"
	if name == "" {
		kind = "a new key in KMS, which costs money each month until you schedule its deletion,"
	}
	if err := d.agree(yes, fmt.Sprintf("This adds %s to stack %s. It will pay merchants as soon as it holds %s and gas.\nNobody "+
		"else may use the key from now on.", kind, d.Stack, d.asset.Symbol)); err != nil {
		return err
	}
	keys := kms.Open(a.aws)
	if name == "" {
		made, err := keys.Create(ctx, d.Stack)
		if err != nil {
			return fmt.Errorf("%w\nIf a key with the tag %s=%s is there that no wallet of remit wallet list has as its signer, register "+
				"it with remit wallet import --kms, or schedule its deletion", err, kms.Tag, d.Stack)
		}
		name = made
	}
	r := wallet.Registration{ID: wallet.ID{ChainID: d.chainID}, State: wallet.Active, Since: time.Now(), Replaces: replaces}
	arn, public, err := keys.Public(ctx, name)
	if err == nil {
		r.Key = wallet.KeyRef(arn)
		r.Address, err = keyring.AddressOf(public)
	}
	if err == nil {
		err = d.register(ctx, r, func() error { return a.grantSign(ctx, arn) })
	}
	if err != nil {
		return fmt.Errorf("registering the key %s (when this is mended: remit wallet import --kms %s): %w", name, name, err)
	}
	return d.show(map[string]any{"address": r.Address, "signer": r.Key},
		fmt.Sprintf("%s\nSigned for by %s.\nFund it with %s and gas. Functions notice it within minutes.", r.Address, r.Key, d.asset.Symbol))
}

// register registers a wallet once ready has made its key usable. It is an error if it is
// retired, or registered with another key.
func (d *deployment) register(ctx context.Context, r wallet.Registration, ready func() error) error {
	s, wallets, err := d.wallets(ctx)
	if err != nil {
		return err
	}
	switch there, registered := wallets.Find(r.Address); {
	case registered && there.Key != r.Key:
		return fmt.Errorf("wallet %s is there already, and its key is in another place: %s", r.Address, there.Key)
	case there.State == wallet.Retired:
		return fmt.Errorf("wallet %s is retired, and stays so", r.Address)
	}
	if err := ready(); err != nil {
		return err
	}
	return s.Register(ctx, r)
}

// wallets reads the registry.
func (d *deployment) wallets(ctx context.Context) (store.Store, wallet.Registry, error) {
	s, err := d.payments()
	if err != nil {
		return nil, nil, err
	}
	wallets, err := s.Wallets(ctx, d.chainID)
	return s, wallets, err
}

type walletList struct{ Target }

// A walletRow is one wallet as an operator sees it.
type walletRow struct {
	Address      token.Address `json:"address"`
	State        wallet.State  `json:"state"`
	Signer       wallet.KeyRef `json:"signer"`
	Since        stamp         `json:"since"`
	NextNonce    *uint64       `json:"next_nonce"`
	Ceiling      *uint64       `json:"nonce_ceiling"`
	Reservations int           `json:"reservations"`
	PendingTxs   int           `json:"pending_txs"`
	Token        token.Amount  `json:"token_available"`
	Gas          token.Amount  `json:"gas_available"`
	Paused       string        `json:"paused"`
}

// Run reads the registry, and the records of the wallets.
func (*walletList) Run(ctx context.Context, d *deployment) error {
	rows, err := d.walletRows(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s  %-8s  %10s  %12s  %7s  %18s  %s\n", "ADDRESS", "STATE", "NEXT NONCE", "RESERVATIONS", "PENDING",
		d.asset.Symbol+" TO SPEND", "PAUSED")
	for _, r := range rows {
		next := "not used"
		if r.NextNonce != nil {
			next = fmt.Sprint(*r.NextNonce)
		}
		fmt.Fprintf(&b, "%s  %-8s  %10s  %12d  %7d  %18s  %s\n", r.Address, r.State, next, r.Reservations, r.PendingTxs,
			r.Token.Tokens(d.asset.Decimals), r.Paused)
	}
	return d.show(rows, b.String())
}

// walletRows returns every registered wallet, retired ones too.
func (d *deployment) walletRows(ctx context.Context) ([]walletRow, error) {
	store, wallets, err := d.wallets(ctx)
	if err != nil {
		return nil, err
	}
	rows := []walletRow{}
	for _, r := range wallets {
		row := walletRow{Address: r.Address, State: r.State, Signer: r.Key, Since: stamp(r.Since)}
		if err := row.fill(ctx, store, d.chainID); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// fill reads the parts of a row that the tables hold, none of a wallet that has
// not paid.
func (r *walletRow) fill(ctx context.Context, store store.Store, chainID uint64) error {
	id := wallet.ID{ChainID: chainID, Address: r.Address}
	w, err := store.Wallet(ctx, id)
	if errors.Is(err, wallet.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	pendingTxs, _, err := store.PendingTxs(ctx, id, 0)
	r.NextNonce, r.Ceiling, r.Reservations, r.PendingTxs = &w.NextNonce, &w.Ceiling, len(w.Reservations), len(pendingTxs)
	r.Token, r.Gas, r.Paused = w.Balance, w.Gas, w.Paused
	return err
}

type walletBalance struct{ Target }

// Run asks the nodes for the balances.
func (*walletBalance) Run(ctx context.Context, d *deployment) error {
	_, wallets, err := d.wallets(ctx)
	if err != nil {
		return err
	}
	nodes, _, err := d.nodes(ctx)
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
		views, err := nodes.Views(ctx, w.Address, d.asset.Contract, chain.ConfirmationRule{})
		if err != nil {
			return err
		}
		v := views.Leading()
		rows = append(rows, row{w.Address, v.Balance, v.Gas, v.Mined})
		fmt.Fprintf(&b, "%s  %s %s  %s ether  %d mined\n", w.Address, v.Balance.Tokens(d.asset.Decimals), d.asset.Symbol, v.Gas.Tokens(18),
			v.Mined)
	}
	return d.show(rows, b.String())
}
