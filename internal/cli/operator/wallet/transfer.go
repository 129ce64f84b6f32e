package wallet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	room "github.com/remit-payouts/remit/internal/cli/operator/payment"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

type moving struct {
	one
	To  token.Address `required:"" placeholder:"ADDRESS" help:"Another wallet, or an address outside the stack."`
	Key string        `required:"" placeholder:"KEY" help:"Name of this transfer; each coin moves once under it."`
}

type move struct {
	moving
	Token string `placeholder:"AMOUNT" help:"How much of the token, in whole tokens such as 12.5, or all."`
	Ether string `placeholder:"AMOUNT" help:"How much ether, such as 0.1."`
}

func (c move) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	var transfers []dispatch.Transfer
	for _, part := range []struct {
		amount string
		coin   token.Token
	}{{c.Token, d.Asset}, {c.Ether, payment.Ether}} {
		t := c.transfer(d, part.coin, "remit wallet move")
		switch {
		case part.amount == "":
			continue
		case t.Ether && part.amount == "all":
			return none, errors.New("--ether all leaves none for fees; give an amount, or drain and sweep the wallet")
		case part.amount != "all":
			if t.Amount, err = wholes(part.amount, part.coin.Decimals); err != nil {
				return none, err
			}
		}
		transfers = append(transfers, t)
	}
	if len(transfers) == 0 {
		return none, errors.New("nothing to move: add --token AMOUNT, --ether AMOUNT, or both")
	}
	return c.move(ctx, d, transfers)
}

type sweep struct{ moving }

// Change moves everything from a drained wallet: the tokens, then the ether, less twice its own highest fee.
func (c sweep) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	const why = "remit wallet sweep"
	transfers := []dispatch.Transfer{c.transfer(d, d.Asset, why), c.transfer(d, payment.Ether, why)}
	if d.Config.GasUnit > 0 {
		transfers = transfers[:1]
	}
	var own []payment.ID
	for _, t := range transfers {
		own = append(own, payment.KeyID(payment.Operator, t.Mode, t.Key))
	}
	r, err := working(ctx, d, c.Address)
	if err = cmp.Or(err, settled(ctx, d, r, own)); err != nil {
		return none, err
	}
	return c.move(ctx, d, transfers)
}

// settled returns an error unless every process knows that the wallet is draining, with no payments but own under way.
func settled(ctx context.Context, d *deployed.Deployment, r wallet.Registration, own []payment.ID) error {
	if r.State != wallet.Draining {
		return errDraining(r.Address)
	}
	if left := cmp.Or(d.Config.RegistryAge, dispatch.RegistryAge) - time.Since(r.Since); left > 0 {
		return fmt.Errorf("requests may pay from %s for %v; run this again then", r.Address, left.Round(time.Second))
	}
	w, err := d.Payments.Wallet(ctx, r.ID)
	if errors.Is(err, wallet.ErrUnknown) {
		return nil
	}
	txs, others, txErr := d.Payments.PendingTxs(ctx, r.ID, 0) // unreadable ones are others
	underWay := slices.Collect(maps.Keys(w.Reservations))
	for _, tx := range txs {
		underWay = append(underWay, tx.Payment)
	}
	others += len(slices.DeleteFunc(underWay, func(id payment.ID) bool { return slices.Contains(own, id) }))
	if err := errors.Join(err, txErr); err != nil || others == 0 {
		return err
	}
	return fmt.Errorf("%s has %d payments under way; wait until remit wallet list shows none", r.Address, others)
}

// transfer is the part of the command that moves one asset, all of it. Its key is the command's with the asset.
func (c moving) transfer(d *deployed.Deployment, coin token.Token, why string) dispatch.Transfer {
	return dispatch.Transfer{Key: c.Key + "/" + coin.Symbol, Mode: d.Mode, From: c.Address, To: c.To,
		Ether: coin == payment.Ether, Why: why}
}

func (c moving) move(ctx context.Context, d *deployed.Deployment, all []dispatch.Transfer) (change.Change, error) {
	on, to, err := d.HolderOf(ctx, c.To)
	last, unread := stops(ctx, d, c.Address)
	switch err = cmp.Or(err, unread); {
	case err != nil:
	case on == nil:
		last += fmt.Sprintf("%s is no wallet of stack %s: what is sent to a wrong address is lost.\n", c.To, d.Stack)
	case to.State == wallet.Retired:
		err = errRetired(c.To)
	case on.Number != d.Number && (!all[0].Ether || on.ChainID != d.ChainID):
		err = fmt.Errorf("%s is a wallet of %s, where this would be stuck; choose one of %s", c.To, on.Name(), d.Name())
	}
	if err != nil {
		return change.Change{}, err
	}
	moved := func(p payment.Payment) string {
		return fmt.Sprintf("%s %s", p.Amount.Tokens(p.Token.Decimals), p.Token.Symbol)
	}
	return carry(ctx, d, c.Key, all, last, func(p payment.Payment) string {
		return fmt.Sprintf("This moves %s from %s to %s, for a fee of at most %s.\n", moved(p), p.Wallet, p.To,
			d.Gas(p.Tx.Cost().Sub(p.Tx.Value)))
	}, func(done []payment.Payment) change.Answer {
		rows, text := []room.Row{}, ""
		for _, p := range done {
			rows = append(rows, room.RowOf(p))
			text += fmt.Sprintf("%s to %s: %s %s\n", moved(p), p.To, p.State.Status(), p.TxHash)
		}
		return change.Answer{JSON: rows, Text: text}
	})
}

// patience is how long a command waits for check-receipts, which runs every minute, to sign the reserved transfers.
const patience, between = 2 * time.Minute, time.Second

// carry returns the change that makes transfers, up to their commits. A sweep moves both assets in full, and skips an
// asset that the wallet lacks. check-receipts makes reserved transfers even if the command is not run again.
func carry(ctx context.Context, d *deployed.Deployment, key string, transfers []dispatch.Transfer, last string,
	show func(payment.Payment) string, answer func([]payment.Payment) change.Answer) (none change.Change, err error) {
	nodes, err := d.Nodes(ctx)
	if err != nil {
		return none, err
	}
	dispatcher := dispatch.New(d.Config, dispatch.Parts{ // which has no keys
		Store: d.Payments, Nodes: nodes, Log: slog.Default(), Now: time.Now, Draw: func(int) int { return 0 },
	})
	optional := func(t dispatch.Transfer, err error) bool {
		return len(transfers) > 1 && t.Amount.IsZero() && errors.Is(err, dispatch.ErrInsufficient)
	}
	w, unread := d.Payments.Wallet(ctx, d.WalletID(transfers[0].From)) // before Offer: a commit ends a reservation
	consequences, more, asks := "", false, false
	var made []payment.Payment
	for _, t := range transfers {
		p, err := dispatcher.Offer(ctx, t)
		_, reserved := w.Holds(p.ID, p.Revision)
		switch {
		case optional(t, err):
			consequences += strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + ".\n"
		case errors.Is(err, dispatch.ErrKeyReused):
			used, unread := d.Payments.Payment(ctx, payment.KeyID(payment.Operator, t.Mode, t.Key))
			return none, cmp.Or(unread, fmt.Errorf("%w:\n%s\nUse another --key only to do more", err,
				strings.TrimSpace(answer([]payment.Payment{used}).Text)))
		case errors.Is(err, chain.ErrListed):
			return none, fmt.Errorf("%s is on the sanctions list (SanctionsList); choose another address", t.To)
		case errors.Is(err, dispatch.ErrDenied):
			return none, fmt.Errorf("%s is on the deny list; to pay it, run remit deny remove %[1]s first", t.To)
		case err != nil:
			_, retired := working(ctx, d, t.From)
			v, unseen := d.View(ctx, t.From)
			short := v.Balance.Less(t.Amount) && !t.Ether || v.Gas.Less(t.Amount) && t.Ether
			if short && unseen == nil {
				err = fmt.Errorf("%s holds %s; move less", t.From, d.Holds(v.Account))
			}
			return none, cmp.Or(retired, err)
		case p.State != payment.Prepared:
			made = append(made, p)
		case reserved:
			consequences += fmt.Sprintf("Already reserved under --key %s: it will be sent.\n%s", key, show(p))
			more = true
		case unread != nil && !errors.Is(unread, wallet.ErrUnknown):
			return none, unread
		default:
			v, unseen := d.View(ctx, t.From)
			if _, wei := p.Tx.Takes(p.Amount); unseen == nil && v.Gas.Less(wei) {
				return none, fmt.Errorf("%s holds %s, and this may take %s: send ether to %[1]s, then run this again",
					t.From, d.Holds(v.Account), d.Gas(wei))
			}
			consequences, more, asks = consequences+show(p), true, true
		}
	}
	if len(made) > 0 {
		was := answer(made)
		was.Text = fmt.Sprintf("Already done under --key %s:\n%s%s", key, was.Text, consequences)
		if consequences = was.Text; !more {
			return change.Change{Answer: was}, nil
		}
	}
	consequences += fmt.Sprintf("%sNothing more is done if exactly this is given again with --key %s.", last, key)
	return change.Change{Agreed: more && !asks, Consequences: consequences, Apply: func(ctx context.Context) (
		none change.Answer, err error) {
		var done []payment.Payment
		for _, t := range transfers {
			switch p, err := await(ctx, d, dispatcher, t); {
			case optional(t, err):
			case errors.Is(err, wallet.ErrPaused) && len(done) == 0:
				return none, fmt.Errorf("%w: %w; end its cause (docs/alarms/WalletPausedAlarm.md, or if "+
					"remit wallet list shows none, UnreadableAlarm.md), then run this again", change.ErrUnchanged, err)
			case err != nil:
				return none, fmt.Errorf("%w (run this again with the same --key to see the outcome)", err)
			default:
				done = append(done, p)
			}
		}
		return answer(done), nil
	}}, nil
}

// await repeats a transfer until it is committed. A run of check-receipts must see coins that have just arrived first.
func await(ctx context.Context, d *deployed.Deployment, by *dispatch.Dispatcher, t dispatch.Transfer) (payment.Payment, error) {
	for until := time.Now().Add(patience); ; {
		p, err := by.Move(ctx, t)
		unseen := errors.Is(err, wallet.ErrToken) || errors.Is(err, wallet.ErrGas)
		switch late := time.Now().After(until); {
		case err == nil && p.State != payment.Prepared,
			err != nil && !unseen && !errors.Is(err, dispatch.ErrInProgress), late && unseen:
			return p, err
		case late:
			return p, errors.Join(fmt.Errorf("%w: check-receipts has not signed it yet; run this again with "+
				"the same --key", dispatch.ErrInProgress), err)
		}
		if err := d.Hint(ctx); err != nil {
			return p, err
		}
		if settlement.Sleep(ctx, between); ctx.Err() != nil {
			return p, ctx.Err()
		}
	}
}

func wholes(text string, decimals int) (token.Amount, error) {
	amount, err := token.ParseTokens(text, decimals)
	if err != nil || amount.IsZero() {
		err = fmt.Errorf("%q is no amount; use whole tokens, such as 12.5, with at most %d decimals", text, decimals)
	}
	return amount, err
}

// Batch is `remit batch`.
type Batch struct {
	Deploy  change.Command[batchDeploy]  `cmd:"" help:"Make the contract that pays batches." example:"0x1… --key a"`
	Approve change.Command[batchApprove] `cmd:"" help:"Let it pay from a wallet." example:"0x1… --amount 5 --key b"`
}

type calling struct {
	one
	Key string `required:"" placeholder:"KEY" help:"Name of this call; nothing happens twice under it."`
}

type batchDeploy struct{ calling }

func (c batchDeploy) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	at := install.Address()
	switch err = d.EveryNodeHas(ctx, at, disburser.Code()); {
	case err == nil:
		return change.None(fmt.Sprintf("%s\nThe contract is there, on every node. Set "+
			"it (remit settings set --rail %d BatchContract=%s), and give each wallet's allowance: remit batch approve",
			at, d.Number, at)), nil
	case !errors.Is(err, deployed.ErrNoCode):
		return none, err
	}
	if err := d.EveryNodeHas(ctx, install.Deployer(), install.DeployerCode()); err != nil {
		return none, fmt.Errorf("the deterministic deployer is not on this chain: %w; deploy it as "+
			"https://github.com/Arachnid/deterministic-deployment-proxy shows, then run this command again", err)
	}
	return c.call(ctx, d, install.Deployer(), install.Deployment(), "remit batch deploy",
		fmt.Sprintf("This makes the contract that pays batches at %s. It has no owner and holds nothing.", at))
}

type batchApprove struct {
	calling
	Amount string `required:"" help:"Allowance from now on: whole tokens such as 5000, unlimited, or 0 to end it."`
}

// Change gives the allowance to the contract alone whose code every node has. It can end even if nodes disagree.
func (c batchApprove) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	amount := token.Amount{}
	switch c.Amount {
	case "0":
	case "unlimited":
		amount = token.MaxAmount()
	default:
		amount, err = wholes(c.Amount, d.Asset.Decimals)
	}
	rules, unread := d.Rules(ctx)
	if err = cmp.Or(err, unread); err != nil {
		return none, err
	}
	at := cmp.Or(rules.BatchContract, install.Address())
	if err := d.EveryNodeHas(ctx, at, disburser.Code()); err != nil && !amount.IsZero() {
		return none, fmt.Errorf("%w; run remit batch deploy first, since nothing was approved", err)
	}
	now, err := d.Allowance(ctx, c.Address, at)
	if err != nil {
		return none, err
	}
	return c.call(ctx, d, d.Asset.Contract, install.Approval(at, amount), "remit batch approve",
		fmt.Sprintf("This lets %s take %s from %s, when this wallet asks it to. Now it may take %s.", at,
			d.Allowed(amount), c.Address, d.Allowed(now)))
}

// call returns the change that calls a contract. The result is the transaction's status; doctor reads its effect.
func (c calling) call(ctx context.Context, d *deployed.Deployment, to token.Address, data []byte,
	why, consequences string) (change.Change, error) {
	t := dispatch.Transfer{Key: c.Key, Mode: d.Mode, From: c.Address, To: to, Ether: true, Call: data, Why: why}
	return carry(ctx, d, c.Key, []dispatch.Transfer{t}, "", func(p payment.Payment) string {
		return fmt.Sprintf("%s\n%s pays a fee of at most %s.\n", consequences, c.Address, d.Gas(p.Tx.Cost()))
	}, func(done []payment.Payment) change.Answer {
		p := done[0]
		text := fmt.Sprintf("%s %s\nremit doctor shows what the chain has.", p.State.Status(), p.TxHash)
		if p.State == payment.Failed {
			text = fmt.Sprintf("failed %s: %s\nTry again with another --key.", p.TxHash, p.Failure.Message)
		}
		return change.Answer{JSON: room.RowOf(p), Text: text}
	})
}
