package wallet

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	room "github.com/remit-payouts/remit/internal/cli/operator/payment"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// Batch is `remit batch`.
type Batch struct {
	Deploy  change.Command[batchDeploy]  `cmd:"" help:"Make the contract that pays batches." example:"0x1… --key a"`
	Approve change.Command[batchApprove] `cmd:"" help:"Give it an allowance." example:"0x1… --amount 5 --key b"`
}

// A calling is the command line of a command that calls a contract from a wallet.
type calling struct {
	Address token.Address `arg:"" help:"The wallet that calls, and pays for the gas."`
	Key     string        `required:"" placeholder:"KEY" help:"Name of this call; nothing happens twice under it."`
}

func (c calling) Of() token.Address { return c.Address }

type batchDeploy struct{ calling }

func (c batchDeploy) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	at := install.Address()
	err = d.EveryNodeHas(ctx, at, disburser.Code())
	if err == nil {
		return change.None(map[string]any{"address": at}, fmt.Sprintf("%s\nThe contract is there, on every node. Set "+
			"it (remit settings set --rail %d BatchContract=%s), and give each wallet's allowance: remit batch approve",
			at, d.Number, at)), nil
	}
	if !errors.Is(err, deployed.ErrNoCode) {
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
		if amount, err = wholes(c.Amount, d.Asset.Decimals); err != nil {
			return none, err
		}
	}
	rules, err := d.Rules(ctx)
	if err != nil {
		return none, err
	}
	at := cmp.Or(rules.BatchContract, install.Address())
	if !amount.IsZero() {
		if err := d.EveryNodeHas(ctx, at, disburser.Code()); err != nil {
			return none, fmt.Errorf("%w; run remit batch deploy first, since nothing was approved", err)
		}
	}
	now, err := d.Allowance(ctx, c.Address, at)
	if err != nil {
		return none, err
	}
	return c.call(ctx, d, d.Asset.Contract, install.Approval(at, amount), "remit batch approve",
		fmt.Sprintf("This lets %s take %s from %s, when this wallet asks it to. Now it may take %s.", at,
			d.Allowed(amount), c.Address, d.Allowed(now)))
}

// call returns the change that calls a contract, up to the commit. Only the transaction's status counts as the result;
// doctor reads from the chain whether the contract exists and the allowance was given.
func (c calling) call(ctx context.Context, d *deployed.Deployment, to token.Address, data []byte,
	why, consequences string) (change.Change, error) {
	t := dispatch.Transfer{Key: c.Key, Mode: d.Mode, From: c.Address, To: to, Ether: true, Call: data, Why: why}
	return carry(ctx, d, c.Key, []dispatch.Transfer{t}, func(p payment.Payment) string {
		return fmt.Sprintf("%s\n%s pays a fee of at most %s.\n", consequences, c.Address, d.Gas(p.Tx.Cost()))
	}, "", func(done []payment.Payment) change.Answer {
		p := done[0]
		text := fmt.Sprintf("%s %s\nremit doctor shows what the chain has.", p.State.Status(), p.TxHash)
		if p.State == payment.Failed {
			text = fmt.Sprintf("failed %s: %s\nGive the command with another --key to try again.", p.TxHash, p.Failure.Message)
		}
		return change.Answer{JSON: room.RowOf(p), Text: text}
	})
}
