package wallet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/recovery"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

type pausing struct {
	Address token.Address `arg:"" optional:"" help:"The wallet."`
	All     bool          `help:"Every wallet that is not retired."`
}

// A record is a wallet's, on its rail; only with ID and Merchant if missing: wallet.ErrUnknown, store.ErrUnreadable.
type record struct {
	wallet.Wallet
	on      *deployed.Deployment
	missing error
	keeps   string // the reason for which it stays paused
}

// wallets reads the records of the command's wallets. Only with --all may one be missing.
func (c pausing) wallets(ctx context.Context, d *deployed.Deployment) (ws []record, err error) {
	if c.All == (c.Address != token.Address{}) {
		return nil, errors.New("give the address of one wallet, or --all")
	}
	var rails []*deployed.Deployment
	if c.All {
		rails, err = d.Rails(ctx)
	} else if d, err = d.Of(ctx, c.Address); err == nil {
		rails = append(rails, d)
	}
	for _, on := range rails {
		wallets := wallet.Registry{{ID: on.WalletID(c.Address)}}
		if c.All {
			if wallets, err = on.Wallets(ctx); err != nil {
				return nil, err
			}
		}
		for _, r := range wallets {
			if r.State == wallet.Retired || r.Address.IsZero() { // a damaged registration may have no address
				continue
			}
			w, err := d.Payments.Wallet(ctx, r.ID)
			unread := errors.Is(err, wallet.ErrUnknown) || errors.Is(err, store.ErrUnreadable)
			switch {
			case err != nil && (!c.All || !unread):
				return nil, fmt.Errorf("%s: %w", r.Address, err)
			case err != nil:
				w = wallet.Wallet{ID: r.ID, Merchant: r.Merchant}
			case w.Paused == wallet.RetiredReason:
				return nil, errRetired(r.Address)
			}
			ws = append(ws, record{Wallet: w, on: on, missing: err})
		}
	}
	return ws, err
}

func answer(ws []record, did string) change.Answer {
	text := ""
	for _, w := range ws {
		text += fmt.Sprintf("%s  %s\n", w.Address, strings.TrimSuffix("paused: "+w.Paused, "paused: "))
	}
	return change.Answer{Text: text + did}
}

type walletPause struct {
	pausing
	Reason string `default:"paused by an operator" help:"Why; shown in lists and logs, with your name and the time."`
}

// Change pauses wallets. With --all, a wallet that a person has paused keeps its reason, and one under suspicion gets
// this one as well. A wallet without a record gets a record that is behind the chain: in tables from the past it may
// have paid since. An unreadable one is paused over any reason. A crash leaves the others; run the command again.
func (c walletPause) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	ws, err := c.wallets(ctx, d)
	if err != nil {
		return none, err
	}
	consequences := ""
	if !c.All {
		consequences, err = stops(ctx, ws[0].on, c.Address)
	}
	for _, w := range ws {
		switch {
		case w.Paused == "":
			consequences += fmt.Sprintf("No new payment will use wallet %s. Signed ones are still made.\n", w.Address)
		case !c.All:
			consequences += fmt.Sprintf("Wallet %s is paused already: %s\nThis changes the reason to: %s", c.Address,
				w.Paused, w.PausedFor(c.Reason))
		default:
			consequences += fmt.Sprintf("Wallet %s is paused already: %s\n", w.Address, w.Paused)
		}
	}
	return change.Change{Consequences: strings.TrimSuffix(consequences, "\n"),
		Apply: func(ctx context.Context) (change.Answer, error) { return c.pause(ctx, d, ws) }}, err
}

// stops returns a warning, in a line, if a wallet alone pays, or is a merchant's.
func stops(ctx context.Context, d *deployed.Deployment, a token.Address) (warning string, err error) {
	wallets, err := d.Wallets(ctx)
	r, _ := wallets.Find(a)
	paying := slices.DeleteFunc(wallets.Paying(r.Merchant), func(a token.Address) bool {
		w, unread := d.Payments.Wallet(ctx, d.WalletID(a))
		return w.Paused != "" || unread != nil && !errors.Is(unread, wallet.ErrUnknown)
	})
	switch {
	case len(paying) == 1 && paying[0] == a:
		who := cmp.Or(r.Merchant, "merchants without wallets of their own")
		warning = fmt.Sprintf("%s alone pays %s for %s: without it or its coins, payments stop.\n", a, d.Name(), who)
	case r.Merchant != "":
		warning = fmt.Sprintf("%s and its coins are merchant %s's.\n", a, r.Merchant)
	}
	return warning, err
}

func (c walletPause) pause(ctx context.Context, d *deployed.Deployment, ws []record) (none change.Answer, err error) {
	did := map[bool]string{false: "paused", true: "all are paused; one paused before keeps its earlier reason"}[c.All]
	reason := fmt.Sprintf("%s (by %s at %s%s)", c.Reason, change.By(ctx), deployed.Stamp(time.Now()),
		map[bool]string{true: " with --all"}[c.All])
	for i, w := range ws {
		switch {
		case errors.Is(w.missing, wallet.ErrUnknown):
			w.Paused = reason
			if err = d.Payments.Open(ctx, w.Wallet, w.on.Asset.Contract); err == nil {
				w.Wallet, err = d.Payments.Wallet(ctx, w.ID) // a handler may have been first
			}
		case w.missing != nil:
			err = d.Payments.Pause(ctx, w.ID, reason)
			w.Paused, did = reason, did+fmt.Sprintf("; %s is unreadable: docs/alarms/UnreadableAlarm.md", w.Address)
		}
		if _, other := w.Reasons(); err == nil && (!c.All || (wallet.Wallet{Paused: other}).Passing()) {
			now := w.PausedFor(reason)
			err = d.Payments.Repause(ctx, w.ID, w.Paused, now) // only the reason that was shown
			w.Paused = now
		}
		if err != nil {
			return none, after(i, err)
		}
		ws[i] = w
	}
	return answer(ws, did), nil
}

// after returns the error of a command that has changed n wallets: no refusal, which means "nothing was changed".
func after(n int, err error) error {
	if n == 0 {
		return err
	}
	return fmt.Errorf("after %d wallets: %v; run it again", n, err) //nolint:errorlint // no refusal
}

// alone matches the reason of a person who has paused one wallet. pause --all puts "with --all" at its end.
var alone = regexp.MustCompile(`\(by .+ at \S+Z\)$`)

type walletResume struct{ pausing }

// Change shows the nonces of chain and tables, then resumes wallets, or none while the chain is ahead of one. If the
// chain is behind the tables, it only deletes the final block that the nodes lack: the next run of check-receipts
// accepts their chain, and resumes the wallets that fit it. --all leaves unreadable records, and pauses of one wallet.
func (c walletResume) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	all, err := c.wallets(ctx, d)
	if err != nil {
		return none, err
	}
	var ws []record
	left := ""
	for _, w := range all {
		_, other := w.Reasons()
		switch {
		case errors.Is(w.missing, store.ErrUnreadable):
			left += fmt.Sprintf("\n%s is unreadable, and stays: docs/alarms/UnreadableAlarm.md", w.Address)
		case c.All && recovery.Unfinished(w.Wallet):
			w.keeps = w.Paused
			left += fmt.Sprintf("\n%s stays paused: %s; run remit recover (docs/alarms/WalletPausedAlarm.md)", w.Address, w.Paused)
		case c.All && alone.MatchString(other):
			w.keeps = other
			left += fmt.Sprintf("\n%s stays paused: %s; remit wallet resume %[1]s ends that", w.Address, other)
		}
		if w.Paused != w.keeps {
			ws = append(ws, w)
		}
	}
	if len(ws) == 0 {
		return change.None("no pause to end" + left), nil
	}
	consequences, rolledBack := "", false
	for _, w := range ws {
		v, err := w.on.View(ctx, w.Address)
		if err != nil {
			return none, fmt.Errorf("%s: %w; remit wallet resume --all --rail is for other rails", w.on.Name(), err)
		}
		rolledBack = rolledBack || w.RolledBack()
		if v.Mined > w.NextNonce {
			return none, fmt.Errorf("the chain has %d transactions of %s and the next nonce is %d; wait for "+
				"check-receipts, and read docs/alarms before you resume", v.Mined, w.Address, w.NextNonce)
		}
		consequences += fmt.Sprintf("Wallet %s is paused: %s\nNext nonce %d, mined %d, %d reservations.\n", w.Address,
			w.Paused, w.NextNonce, v.Mined, len(w.Reservations))
	}
	if rolledBack {
		consequences += "The nodes lack a block that was final. This takes their chain for the right one: what was " +
			"confirmed on the other is gone; merchants who hear so must not pay again before you know (remit audit).\n"
	}
	consequences += "Resume only if you know why: after a restore, or a theft of the key, it may pay twice." + left
	return change.Change{Consequences: consequences,
		Apply: func(ctx context.Context) (change.Answer, error) { return c.resume(ctx, d, ws, left) }}, nil
}

func (c walletResume) resume(ctx context.Context, d *deployed.Deployment, ws []record,
	left string) (none change.Answer, err error) {
	did := "resumed"
	for i, w := range ws {
		if w.RolledBack() {
			if err := settlement.New(w.on.Config, settlement.Parts{Store: d.Payments}).Accept(ctx); err != nil {
				return none, after(i, err)
			}
			did = "taken: check-receipts resumes the wallets that fit the chain"
			continue
		}
		if err := d.Payments.Repause(ctx, w.ID, w.Paused, w.keeps); err != nil { // only the reason that was shown
			return none, after(i, err)
		}
		ws[i].Paused = w.keeps
	}
	return answer(ws, did+left), nil
}
