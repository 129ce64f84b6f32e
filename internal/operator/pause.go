package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"remit/internal/chain"
	"remit/internal/settlement"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A pausing is the command line of a command that pauses wallets or resumes them.
type pausing struct {
	Target
	Address token.Address `arg:"" optional:"" help:"The wallet."`
	All     bool          `help:"Every wallet that is not retired."`
	Yes     bool          `help:"Do not ask."`
}

// wallets reads the records of the wallets that the command is about. Of all
// wallets, one without a record, or with an unreadable one, is there with its ID alone;
// missing has its wallet.ErrUnknown or store.ErrUnreadable.
func (c *pausing) wallets(ctx context.Context, d *deployment) (_ store.Store, ws []wallet.Wallet, missing map[wallet.ID]error, err error) {
	ids := []wallet.ID{{ChainID: d.chainID, Address: c.Address}}
	if c.All == (c.Address != token.Address{}) {
		return nil, nil, nil, errors.New("say the address of one wallet, or --all")
	}
	s, err := d.payments()
	if err == nil && c.All {
		ids, err = d.everyWallet(ctx, s)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	missing = map[wallet.ID]error{}
	for _, id := range ids {
		w, err := s.Wallet(ctx, id)
		unread := errors.Is(err, wallet.ErrUnknown) || errors.Is(err, store.ErrUnreadable)
		if err != nil && (!c.All || !unread) {
			return nil, nil, nil, fmt.Errorf("%s: %w", id.Address, err)
		}
		missing[id], w.ID = err, id
		if w.Paused == wallet.RetiredReason {
			return nil, nil, nil, fmt.Errorf("wallet %s is retired, and stays so", id.Address)
		}
		ws = append(ws, w)
	}
	return s, ws, missing, nil
}

// everyWallet names the wallets that are not retired. A registration without an address
// is none.
func (d *deployment) everyWallet(ctx context.Context, s store.Store) (ids []wallet.ID, err error) {
	wallets, err := s.Wallets(ctx, d.chainID)
	for _, r := range wallets {
		if r.State != wallet.Retired && !r.Address.IsZero() {
			ids = append(ids, r.ID)
		}
	}
	return ids, err
}

// paused shows the wallets of a command and what it did.
func (c *pausing) paused(d *deployment, reason string, ws []wallet.Wallet, did string) error {
	if !c.All {
		return d.show(map[string]any{"address": c.Address, "paused": reason}, did)
	}
	rows, text := []map[string]any{}, ""
	for _, w := range ws {
		rows = append(rows, map[string]any{"address": w.Address, "paused": w.Paused})
		text += fmt.Sprintf("%s  %s\n", w.Address, strings.TrimSuffix("paused: "+w.Paused, "paused: "))
	}
	return d.show(rows, text+did)
}

type walletPause struct {
	pausing
	Reason string `default:"paused by an operator" help:"Why; shown in lists and logs, with your name and the time."`
}

// Run pauses wallets, with the name of the operator and the time behind the reason, so
// that none reads as one of this program's own. With --all, one that is paused keeps its reason, unless that
// pause ends by itself, and one without a record gets one that is behind the chain:
// in tables from the past it may have paid since. One whose record cannot be read is
// paused over any reason. A crash leaves the rest as they were, and the command is run again.
func (c *walletPause) Run(ctx context.Context, d *deployment) error {
	if c.Reason == "" {
		return errors.New("--reason is empty: say why, for whoever finds the wallet paused")
	}
	s, ws, missing, err := c.wallets(ctx, d)
	if err != nil {
		return err
	}
	consequences, did := "", "paused"
	for _, w := range ws {
		switch {
		case w.Paused == "":
			consequences += fmt.Sprintf("No new payment will use wallet %s. What it has signed is still sent and settled.\n", w.Address)
		case !c.All:
			consequences += fmt.Sprintf("Wallet %s is paused already: %s\nThis changes the reason to: %s", c.Address, w.Paused, c.Reason)
		default:
			consequences += fmt.Sprintf("Wallet %s is paused already: %s\n", w.Address, w.Paused)
		}
	}
	if err := d.agree(c.Yes, strings.TrimSuffix(consequences, "\n")); err != nil {
		return err
	}
	who, err := d.who(ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed: asking who you are: %w", err)
	}
	reason := fmt.Sprintf("%s (by %s at %s)", c.Reason, who, stamp(time.Now()))
	for i, w := range ws {
		switch err := missing[w.ID]; {
		case errors.Is(err, wallet.ErrUnknown):
			if err := s.Open(ctx, wallet.Wallet{ID: w.ID, Paused: reason}); err != nil {
				return err
			}
			if w, err = s.Wallet(ctx, w.ID); err != nil { // a handler may have been first
				return err
			}
		case err != nil:
			if err := s.Pause(ctx, w.ID, reason); err != nil {
				return after(i, err)
			}
			w.Paused, did = reason, did+fmt.Sprintf("; the record of %s cannot be read: docs/alarms/UnreadableAlarm.md", w.Address)
		}
		if !c.All || w.Passing() {
			if err := s.Repause(ctx, w.ID, w.Paused, reason); err != nil { // changes only the reason that was shown
				return after(i, err)
			}
			w.Paused = reason
		}
		ws[i] = w
	}
	return c.paused(d, reason, ws, did)
}

// after is the error of a command that has changed n wallets before: then a refusal
// is none any more.
func after(n int, err error) error {
	if n == 0 {
		return err
	}
	return fmt.Errorf("after %d wallets: %v: run it again", n, err) //nolint:errorlint // see Ended
}

type walletResume struct{ pausing }

// Run resumes wallets, after it has shown the nonces of the chain and of the
// tables. It resumes none while the chain is ahead of one. Where the chain is behind the
// tables it only forgets the final block that the nodes lack: the next run of
// check-receipts takes their chain for the right one, and resumes the wallets that fit it.
// With --all, a wallet whose record cannot be read stays as it is.
func (c *walletResume) Run(ctx context.Context, d *deployment) error {
	s, all, missing, err := c.wallets(ctx, d)
	if err != nil {
		return err
	}
	var ws []wallet.Wallet
	left := ""
	for _, w := range all {
		if errors.Is(missing[w.ID], store.ErrUnreadable) {
			left += fmt.Sprintf("; the record of %s cannot be read, and it stays as it is: docs/alarms/UnreadableAlarm.md", w.Address)
		}
		if w.Paused != "" {
			ws = append(ws, w)
		}
	}
	if len(ws) == 0 {
		return c.paused(d, "", nil, "it was not paused"+left)
	}
	nodes, _, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	consequences := ""
	for _, w := range ws {
		views, err := nodes.Views(ctx, w.Address, d.asset.Contract, chain.ConfirmationRule{})
		if err != nil {
			return err
		}
		mined := views.Leading().Mined
		if mined > w.NextNonce {
			return fmt.Errorf("the chain has %d transactions of %s and the next nonce is %d: wait for check-receipts, and read "+
				"docs/alarms on wallets that are paused before you resume", mined, w.Address, w.NextNonce)
		}
		consequences += fmt.Sprintf("Wallet %s is paused: %s\nNext nonce %d, mined %d, %d reservations.\n", w.Address, w.Paused, w.NextNonce,
			mined, len(w.Reservations))
	}
	if slices.ContainsFunc(ws, wallet.Wallet.RolledBack) {
		consequences += "The nodes lack a block that was final. This takes their chain for the right one: what was confirmed on the " +
			"other is gone, and merchants who hear so must not pay again before you know (remit audit).\n"
	}
	consequences += "Resume only if you know why it was paused: if the tables were restored, or somebody else has the key, " +
		"payments can be made twice."
	if err := d.agree(c.Yes, consequences); err != nil {
		return err
	}
	did := "resumed"
	for i, w := range ws {
		if w.RolledBack() {
			if err := settlement.New(d.rules, settlement.Parts{Store: s}).Accept(ctx); err != nil {
				return after(i, err)
			}
			did = "taken: check-receipts resumes the wallets that fit the chain"
			continue
		}
		if err := s.Repause(ctx, w.ID, w.Paused, ""); err != nil { // clears only the reason that was shown
			return after(i, err)
		}
		ws[i].Paused = ""
	}
	return c.paused(d, ws[0].Paused, ws, did+left)
}

type walletDrain struct {
	Target
	Address token.Address `arg:"" help:"The wallet."`
	Yes     bool          `help:"Do not ask."`
	Undo    bool          `help:"Let new payments use it again."`
}

// Run changes the wallet's registration.
func (c *walletDrain) Run(ctx context.Context, d *deployment) error {
	s, wallets, err := d.wallets(ctx)
	if err != nil {
		return err
	}
	if c.Undo {
		return d.become(ctx, s, wallets, c.Address, wallet.Draining, wallet.Active, c.Yes, "New payments will use wallet %s again.")
	}
	return d.become(ctx, s, wallets, c.Address, wallet.Active, wallet.Draining, c.Yes,
		"No new payment will use wallet %s within minutes. What is under way is finished; then remit wallet retire ends its life.")
}

// become brings a wallet from a state to another, if the operator agrees.
func (d *deployment) become(ctx context.Context, s store.Store, wallets wallet.Registry, address token.Address, from, to wallet.State,
	yes bool, consequences string) error {
	switch r, registered := wallets.Find(address); {
	case !registered:
		return fmt.Errorf("%s is no wallet of the stack: remit wallet list shows them", address)
	case r.State == wallet.Retired:
		return fmt.Errorf("wallet %s is retired, and stays so", address)
	case r.State == wallet.Funding && to != wallet.Active:
		return fmt.Errorf("wallet %s is the funding wallet: remit wallet funding --undo %s first", address, address)
	case r.State != from && r.State != to:
		return fmt.Errorf("wallet %s is %s, and must be %s", address, r.State, from)
	}
	if err := d.agree(yes, fmt.Sprintf(consequences, address)); err != nil {
		return err
	}
	if err := s.SetState(ctx, wallet.ID{ChainID: d.chainID, Address: address}, from, to, time.Now()); err != nil {
		return err
	}
	return d.show(map[string]any{"address": address, "state": to}, "done")
}

type walletFunding struct {
	Target
	Address token.Address `arg:"" help:"The wallet, which is active."`
	Yes     bool          `help:"Do not ask."`
	Undo    bool          `help:"Let new payments use it again, and no refill."`
}

// Run changes the wallet's registration.
func (c *walletFunding) Run(ctx context.Context, d *deployment) error {
	s, wallets, err := d.wallets(ctx)
	if err != nil {
		return err
	}
	if c.Undo {
		return d.become(ctx, s, wallets, c.Address, wallet.Funding, wallet.Active, c.Yes,
			"New payments will use wallet %s again, and nothing refills the others.")
	}
	if other, more := wallets.Funding(); more && other.Address != c.Address {
		return fmt.Errorf("%s is the funding wallet: remit wallet funding --undo %s first", other.Address, other.Address)
	}
	return d.become(ctx, s, wallets, c.Address, wallet.Active, wallet.Funding, c.Yes,
		"New payments leave wallet %s within minutes, and it refills the others (RefillToken, RefillEther).")
}

type walletRetire struct {
	Target
	Address token.Address `arg:"" help:"The wallet, which is draining."`
	Unswept bool          `help:"The wallet may still hold tokens. Nothing moves them afterwards."`
	Stolen  bool          `help:"Its key is in other hands, so that what it sends never ends: only payments have to be settled."`
	Yes     bool          `help:"Do not ask."`
}

// Run retires the wallet once all that it has signed has ended.
func (c *walletRetire) Run(ctx context.Context, d *deployment) error {
	s, err := d.payments()
	if err != nil {
		return err
	}
	nodes, _, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	views, err := nodes.Views(ctx, c.Address, d.asset.Contract, chain.ConfirmationRule{})
	if err != nil {
		return err
	}
	held := views.Leading()
	holds := fmt.Sprintf("%s %s and %s ether", held.Balance.Tokens(d.asset.Decimals), d.asset.Symbol, held.Gas.Tokens(18))
	if !held.Balance.IsZero() && !c.Unswept {
		return fmt.Errorf("wallet %s holds %s: move it first, or say --unswept to leave it there", c.Address, holds)
	}
	consequences := "This ends the life of wallet %s, for good. It holds %s.\nNo payment, alarm or check looks at it any more, and " +
		"payments to it are refused. Its key stays where it is; the functions may use one in KMS no more."
	if err := d.agree(c.Yes, fmt.Sprintf(consequences, c.Address, holds)); err != nil {
		return err
	}
	settler := settlement.New(d.rules, settlement.Parts{Store: s, Nodes: nodes, Log: slog.Default(), Now: time.Now})
	switch err := settler.Retire(ctx, wallet.ID{ChainID: d.chainID, Address: c.Address}, c.Stolen); {
	case errors.Is(err, wallet.ErrUnknown):
		return fmt.Errorf("%s is no wallet of the stack: remit wallet list shows them", c.Address)
	case errors.Is(err, settlement.ErrNotDraining):
		return fmt.Errorf("%w: remit wallet drain %s, and wait until remit wallet list shows nothing under way", err, c.Address)
	case errors.Is(err, settlement.ErrUnsettled), errors.Is(err, store.ErrChanged):
		return fmt.Errorf("%w (nothing was changed: run this again when it has ended)", err)
	case err != nil:
		return err
	}
	wallets, err := s.Wallets(ctx, d.chainID)
	if err != nil {
		return err
	}
	if r, _ := wallets.Find(c.Address); r.State == wallet.Retired {
		err = d.endGrants(ctx, r)
	}
	if err != nil {
		return err
	}
	return d.show(map[string]any{"address": c.Address, "state": wallet.Retired}, "retired")
}
