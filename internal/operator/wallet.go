package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
func (c *walletCreate) Run(ctx context.Context, d *deployment) error {
	key, err := keyring.Generate(rand.Reader)
	if err != nil {
		return err
	}
	return d.add(ctx, key, c.Yes, "a new key")
}

type walletImport struct {
	Target
	File string `placeholder:"FILE" help:"File that holds the key, and nothing else, in hex. Without it you are asked, and what you type is not shown."`
	Yes  bool   `help:"Do not ask."`
}

// Run reads a key and stores it.
func (c *walletImport) Run(ctx context.Context, d *deployment) error {
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
	return d.add(ctx, key, c.Yes, "the key of "+key.Address().String())
}

// add puts a key into the wallet secret. The key must be new: functions refuse a
// secret that holds a key twice.
func (d *deployment) add(ctx context.Context, key keyring.Key, yes bool, kind string) error {
	symbol := d.asset.Symbol
	consequences := fmt.Sprintf("This adds %s to stack %s. It will pay merchants as soon as it holds %s and gas.\nNobody else may use the key from now on.", kind, d.Stack, symbol)
	err := d.changeWallets(ctx, yes, consequences, func(entries []keyring.Entry) ([]keyring.Entry, error) {
		if indexOf(entries, key.Address()) >= 0 {
			return nil, fmt.Errorf("wallet %s is there already", key.Address())
		}
		return append(entries, keyring.Entry{Key: key}), nil
	})
	if err != nil {
		return err
	}
	return d.show(map[string]any{"address": key.Address()}, fmt.Sprintf("%s\nFund it with %s and gas. Functions notice it within minutes.", key.Address(), symbol))
}

// indexOf returns the place of a wallet's key in the wallet secret, -1 for none.
func indexOf(entries []keyring.Entry, address token.Address) int {
	return slices.IndexFunc(entries, func(e keyring.Entry) bool { return e.Key.Address() == address })
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
func (*walletList) Run(ctx context.Context, d *deployment) error {
	rows, err := d.walletRows(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s  %-8s  %10s  %12s  %7s  %18s  %s\n", "ADDRESS", "KEY", "NEXT NONCE", "RESERVATIONS", "PENDING", d.asset.Symbol+" TO SPEND", "PAUSED")
	for _, r := range rows {
		next := "not used"
		if r.NextNonce != nil {
			next = fmt.Sprint(*r.NextNonce)
		}
		fmt.Fprintf(&b, "%s  %-8s  %10s  %12d  %7d  %18s  %s\n", r.Address, r.Key, next, r.Reservations, r.PendingTxs, r.Token.Tokens(d.asset.Decimals), r.Paused)
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
	ids, err := d.everyWallet(ctx, store)
	if err != nil {
		return nil, err
	}
	rows := []walletRow{}
	for _, id := range ids {
		row := walletRow{Address: id.Address, Key: "gone"}
		if i := indexOf(entries, id.Address); i >= 0 {
			row.Key = map[bool]string{false: "active", true: "draining"}[entries[i].Draining]
		}
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
	pendingTxs, _, err := store.PendingTxs(ctx, id)
	r.NextNonce, r.Ceiling, r.Reservations, r.PendingTxs = &w.NextNonce, &w.Ceiling, len(w.Reservations), len(pendingTxs)
	r.Token, r.Gas, r.Paused = w.Balance, w.Gas, w.Paused
	return err
}

type walletBalance struct{ Target }

// Run asks the nodes for the balances.
func (*walletBalance) Run(ctx context.Context, d *deployment) error {
	entries, err := d.wallets(ctx)
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
	for _, e := range entries {
		views, err := nodes.Views(ctx, e.Key.Address(), d.asset.Contract, chain.ConfirmationRule{})
		if err != nil {
			return err
		}
		v := views.Leading()
		rows = append(rows, row{e.Key.Address(), v.Balance, v.Gas, v.Mined})
		fmt.Fprintf(&b, "%s  %s %s  %s ether  %d mined\n", e.Key.Address(), v.Balance.Tokens(d.asset.Decimals), d.asset.Symbol, v.Gas.Tokens(18), v.Mined)
	}
	return d.show(rows, b.String())
}
