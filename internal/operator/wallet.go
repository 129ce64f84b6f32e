package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"remit/internal/chain"
	"remit/internal/keyring"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Wallet is `remit wallet`.
type Wallet struct {
	Create  walletCreate  `cmd:"" help:"Make a new key on this machine and put it into the wallet secret. The key is never shown."`
	Import  walletImport  `cmd:"" help:"Put an existing key into the wallet secret, from a file or a prompt."`
	List    walletList    `cmd:"" help:"Show every wallet: balances, nonces, what is in flight, pauses."`
	Balance walletBalance `cmd:"" help:"Show what the chain says each wallet holds."`
	Pause   walletPause   `cmd:"" help:"Stop new payments from a wallet. What is signed goes on."`
	Resume  walletResume  `cmd:"" help:"Let a paused wallet pay again."`
	Drain   walletDrain   `cmd:"" help:"Stop new payments from a wallet for good; its key stays until what is under way has ended."`
}

type walletCreate struct {
	Target
	Yes bool `help:"Do not ask."`
}

// Run makes a key and stores it.
func (c *walletCreate) Run(ctx context.Context, out io.Writer) error {
	key, err := keyring.Generate(rand.Reader)
	if err != nil {
		return err
	}
	return c.add(ctx, out, key, c.Yes, "a new key")
}

type walletImport struct {
	Target
	File string `placeholder:"FILE" help:"File that holds the key, and nothing else, in hex. Without it you are asked, and what you type is not shown."`
	Yes  bool   `help:"Do not ask."`
}

// Run reads a key and stores it.
func (c *walletImport) Run(ctx context.Context, out io.Writer) error {
	var text string
	if c.File != "" {
		b, err := os.ReadFile(c.File)
		if err != nil {
			return err
		}
		text = strings.TrimSpace(string(b))
	} else {
		var err error
		if text, err = askSecret("Private key (not shown): "); err != nil {
			return err
		}
	}
	key, err := keyring.ParseKey(text)
	if err != nil {
		return err
	}
	return c.add(ctx, out, key, c.Yes, "an imported key")
}

// add puts a key into the wallet secret.
func (t Target) add(ctx context.Context, out io.Writer, key keyring.Key, yes bool, what string) error {
	d, err := t.open(ctx, out)
	if err != nil {
		return err
	}
	entries, err := d.wallets(ctx)
	if err != nil {
		return err
	}
	if _, err := include(entries, key); err != nil {
		return err
	}
	err = agree(yes, fmt.Sprintf("Stack %s has %d wallets. This adds %s, address %s, which will pay merchants as soon as it holds %s and gas.\nNobody else may use the key from now on.",
		d.Stack, len(entries), what, key.Address(), d.parameters["TokenSymbol"]))
	if err != nil {
		return err
	}
	// Read again: a key that others have added meanwhile must not be lost.
	if entries, err = d.wallets(ctx); err != nil {
		return err
	}
	if entries, err = include(entries, key); err != nil {
		return err
	}
	if err := d.putWallets(ctx, entries); err != nil {
		return err
	}
	return d.show(map[string]any{"address": key.Address()},
		fmt.Sprintf("%s\nFund it with %s and gas. Functions notice it within minutes.", key.Address(), d.parameters["TokenSymbol"]))
}

// include returns entries and the key, which must be new: functions refuse a
// secret that holds a key twice.
func include(entries []keyring.Entry, key keyring.Key) ([]keyring.Entry, error) {
	if slices.ContainsFunc(entries, func(e keyring.Entry) bool { return e.Key.Address() == key.Address() }) {
		return nil, fmt.Errorf("wallet %s is there already", key.Address())
	}
	return append(entries, keyring.Entry{Key: key}), nil
}

type walletList struct{ Target }

// A walletRow is one wallet as an operator sees it.
type walletRow struct {
	Address      token.Address `json:"address"`
	Key          string        `json:"key"` // "active", "draining" or "gone"
	NextNonce    *uint64       `json:"next_nonce"`
	Ceiling      *uint64       `json:"nonce_ceiling"`
	Reservations int           `json:"reservations"`
	PendingTxs   int           `json:"pending_txs"`
	Token        token.Amount  `json:"token_available"`
	Gas          token.Amount  `json:"gas_available"`
	Paused       string        `json:"paused"`
}

// Run joins the tables with the wallet secret.
func (c *walletList) Run(ctx context.Context, out io.Writer) error {
	d, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	rows, err := d.walletRows(ctx)
	if err != nil {
		return err
	}
	asset, err := d.asset()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s  %-8s  %10s  %12s  %7s  %18s  %s\n", "ADDRESS", "KEY", "NEXT NONCE", "RESERVATIONS", "PENDING", asset.Symbol+" TO SPEND", "PAUSED")
	for _, r := range rows {
		next := "not used"
		if r.NextNonce != nil {
			next = fmt.Sprint(*r.NextNonce)
		}
		fmt.Fprintf(&b, "%s  %-8s  %10s  %12d  %7d  %18s  %s\n", r.Address, r.Key, next, r.Reservations, r.PendingTxs, tokens(r.Token, asset.Decimals), r.Paused)
	}
	return d.show(rows, b.String())
}

// walletRows joins the secret's wallets with the tables'.
func (d *deployment) walletRows(ctx context.Context) ([]walletRow, error) {
	entries, err := d.wallets(ctx)
	if err != nil {
		return nil, err
	}
	store, err := d.payments()
	if err != nil {
		return nil, err
	}
	chainID, err := d.chainID()
	if err != nil {
		return nil, err
	}
	state := map[token.Address]string{}
	var addresses []token.Address
	for _, e := range entries {
		state[e.Key.Address()] = map[bool]string{false: "active", true: "draining"}[e.Draining]
		addresses = append(addresses, e.Key.Address())
	}
	wallets, err := store.Wallets(ctx, chainID)
	if err != nil {
		return nil, err
	}
	for _, id := range wallets {
		if state[id.Address] == "" {
			state[id.Address] = "gone"
			addresses = append(addresses, id.Address)
		}
	}
	rows := []walletRow{}
	for _, a := range addresses {
		row, err := walletRowOf(ctx, store, wallet.ID{ChainID: chainID, Address: a})
		if err != nil {
			return nil, err
		}
		row.Key = state[a]
		rows = append(rows, row)
	}
	return rows, nil
}

func walletRowOf(ctx context.Context, store store.Store, id wallet.ID) (walletRow, error) {
	row := walletRow{Address: id.Address}
	w, err := store.Wallet(ctx, id)
	if errors.Is(err, wallet.ErrUnknown) {
		return row, nil
	}
	if err != nil {
		return row, err
	}
	pendingTxs, _, err := store.PendingTxs(ctx, id)
	row.NextNonce, row.Ceiling, row.Reservations, row.PendingTxs = &w.NextNonce, &w.Ceiling, len(w.Reservations), len(pendingTxs)
	row.Token, row.Gas, row.Paused = w.Balance, w.Gas, w.Paused
	return row, err
}

type walletBalance struct{ Target }

// Run asks the nodes for the balances.
func (c *walletBalance) Run(ctx context.Context, out io.Writer) error {
	d, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	entries, err := d.wallets(ctx)
	if err != nil {
		return err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	asset, err := d.asset()
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
	for _, e := range entries {
		views, err := nodes.Views(ctx, e.Key.Address(), asset.Contract, chain.ConfirmationRule{})
		if err != nil {
			return err
		}
		v := views.Leading()
		rows = append(rows, row{e.Key.Address(), v.Balance, v.Gas, v.Mined})
		fmt.Fprintf(&b, "%s  %s %s  %s ether  %d mined\n", e.Key.Address(), tokens(v.Balance, asset.Decimals), asset.Symbol, tokens(v.Gas, 18), v.Mined)
	}
	return d.show(rows, b.String())
}
