package operator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"remit/internal/chain"
	"remit/internal/disburser"
	"remit/internal/dispatch"
	"remit/internal/ethrpc"
	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Batch is `remit batch`.
type Batch struct {
	Deploy  batchDeploy  `cmd:"" help:"Make the contract that pays batches. Its address is the same on every chain."`
	Approve batchApprove `cmd:"" help:"Let that contract take a wallet's tokens, when this wallet asks it to."`
}

// A calling is the command line of a command that calls a contract from a wallet.
type calling struct {
	Target
	Address token.Address `arg:"" help:"The wallet that calls, and pays for the gas."`
	Key     string        `required:"" placeholder:"KEY" help:"A name for what this command does. Given again with the same one it does nothing more, and says how far it is."`
	Yes     bool          `help:"Do not ask."`
}

type batchDeploy struct{ calling }

// Run makes the contract, unless every node has it.
func (c *batchDeploy) Run(ctx context.Context, d *deployment) error {
	at := disburser.Address()
	err := d.everyNodeHas(ctx, at, disburser.Code())
	if err == nil {
		return d.show(map[string]any{"address": at},
			fmt.Sprintf("%s\nThe contract is there, on every node. Set it (remit settings set BatchContract=%s), and give each wallet's "+
				"allowance: remit batch approve", at, at))
	}
	if !errors.Is(err, errNoCode) {
		return err
	}
	if err := d.everyNodeHas(ctx, disburser.Deployer(), disburser.DeployerCode()); err != nil {
		return fmt.Errorf("%w: the deterministic deployer is not on this chain: deploy it as "+
			"https://github.com/Arachnid/deterministic-deployment-proxy says, then give this command again", err)
	}
	return c.call(ctx, d, disburser.Deployer(), disburser.Deployment(), "remit batch deploy",
		fmt.Sprintf("This makes the contract that pays batches at %s. It has no owner and holds nothing.", at))
}

type batchApprove struct {
	calling
	Amount string `required:"" help:"How much the contract may take in all from now on: whole tokens such as 5000, unlimited, or 0 to end it."`
}

// Run gives the allowance, to the contract alone whose code every node has. An allowance
// is ended whatever the nodes say.
func (c *batchApprove) Run(ctx context.Context, d *deployment) (err error) {
	amount := token.Amount{}
	switch c.Amount {
	case "0":
	case "unlimited":
		amount = token.MaxAmount()
	default:
		if amount, err = wholes(c.Amount, d.asset.Decimals); err != nil {
			return err
		}
	}
	at, err := d.batchContract(ctx)
	if err != nil {
		return err
	}
	if !amount.IsZero() {
		if err := d.everyNodeHas(ctx, at, disburser.Code()); err != nil {
			return fmt.Errorf("%w: no allowance is given: remit batch deploy makes the contract", err)
		}
	}
	now, err := d.allowance(ctx, c.Address, at)
	if err != nil {
		return err
	}
	return c.call(ctx, d, d.asset.Contract, disburser.Approval(at, amount), "remit batch approve",
		fmt.Sprintf("This lets %s take %s from %s, when this wallet asks it to. Now it may take %s.", at, d.coins(amount), c.Address,
			d.coins(now)))
}

// coins writes an allowance. Tokens that count an unlimited one down never end it.
func (d *deployment) coins(allowed token.Amount) string {
	if token.MaxAmount().Over(2).Less(allowed) {
		return "any amount of " + d.asset.Symbol
	}
	return allowed.Tokens(d.asset.Decimals) + " " + d.asset.Symbol
}

// call shows what a call of a contract will do, asks, and brings it to its commit. It is
// judged by its status alone: whether the contract is there, or the allowance is given,
// doctor reads from the chain.
func (c *calling) call(ctx context.Context, d *deployment, to token.Address, data []byte, why, consequences string) error {
	if c.Key == "" {
		return errors.New("--key is empty: say a name for what this command does, such as batch-2026-11")
	}
	dispatcher, err := d.dispatcher(ctx)
	if err != nil {
		return err
	}
	t := dispatch.Transfer{Key: c.Key, Mode: d.mode, From: c.Address, To: to, Ether: true, Call: data, Why: why}
	p, err := dispatcher.Offer(ctx, t)
	if err != nil {
		return err
	}
	if err := d.agree(c.Yes, fmt.Sprintf("%s\n%s pays a fee of at most %s ether.\nNothing more is done if this is given again with "+
		"--key %s.", consequences, c.Address, p.Tx.Cost().Tokens(18), c.Key)); err != nil {
		return err
	}
	if p, err = d.await(ctx, dispatcher, t); err != nil {
		return fmt.Errorf("%w (give the command again with the same --key to learn more)", err)
	}
	text := fmt.Sprintf("%s %s\nremit doctor says what the chain has.", p.State.Status(), p.TxHash)
	if p.State == payment.Failed {
		text = fmt.Sprintf("%s %s: %s\nGive the command with another --key to try again.", p.State.Status(), p.TxHash, p.Failure.Message)
	}
	return d.show(exportedOf(p), text)
}

// batchContract returns the contract that the stack pays batches through, or where
// remit batch deploy makes it.
func (d *deployment) batchContract(ctx context.Context) (token.Address, error) {
	rules, err := d.ruling(ctx)
	return cmp.Or(rules.BatchContract, disburser.Address()), err
}

// errNoCode reports an address at which a node has no contract.
var errNoCode = errors.New("there is no contract")

// everyNodeHas returns nil if each configured node says that the code is at an address:
// one that does not answer may be the one that knows better. It is errNoCode if no node
// has a contract there.
func (d *deployment) everyNodeHas(ctx context.Context, at token.Address, code []byte) error {
	nodes, _, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	for _, node := range nodes {
		switch err := hasCode(ctx, node, at, code); {
		case errors.Is(err, errNoCode):
			wrong = append(wrong, err)
		case err != nil:
			return err
		}
	}
	if len(wrong) > 0 && len(wrong) < len(nodes) {
		return fmt.Errorf("nodes disagree, or are behind; try again in a minute: %v", wrong)
	}
	return errors.Join(wrong...)
}

func hasCode(ctx context.Context, node chain.Node, at token.Address, code []byte) error {
	got, err := node.(*ethrpc.Node).Code(ctx, at) // nodes opens no others
	switch {
	case err != nil:
		return err
	case len(got) == 0:
		return fmt.Errorf("%s: %w at %s", node, errNoCode, at)
	case !bytes.Equal(got, code):
		return fmt.Errorf("%s: the contract at %s is another one: its code differs", node, at)
	}
	return nil
}

// allowance returns the least that the contract may take of a wallet by any node.
func (d *deployment) allowance(ctx context.Context, owner, contract token.Address) (token.Amount, error) {
	nodes, _, err := d.nodes(ctx)
	least := token.MaxAmount()
	for _, node := range nodes {
		got, nodeErr := node.(*ethrpc.Node).Allowance(ctx, d.asset.Contract, owner, contract)
		if err = errors.Join(err, nodeErr); got.Less(least) {
			least = got
		}
	}
	return least, err
}

// batchesArePaid makes a finding of the contract, and one of each wallet's allowance.
func (e *examination) batchesArePaid(ctx context.Context) {
	rules, err := e.ruling(ctx)
	at := rules.BatchContract
	if err != nil || at.IsZero() {
		return
	}
	e.check(ctx, "batch contract", e.everyNode(func(ctx context.Context, node chain.Node, _ string) (string, error) {
		return at.String(), hasCode(ctx, node, at, disburser.Code())
	}), "remit batch deploy --stack "+e.Stack+"; then set BatchContract to the address that it says. Until then pay no batches")
	rows, err := e.walletRows(ctx)
	if err != nil {
		e.found("batch allowances", "", err, "check your rights on the payments table")
	}
	for _, r := range rows {
		if r.State != wallet.Active {
			continue
		}
		allowed, err := e.allowance(ctx, r.Address, at)
		if err == nil && allowed.IsZero() {
			err = errors.New("the batch contract may take nothing")
		}
		e.found("allowance "+r.Address.String()[:10], e.coins(allowed), err, "remit batch approve "+r.Address.String())
	}
}
