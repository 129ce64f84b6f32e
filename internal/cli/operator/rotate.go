package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

type walletRotate struct {
	Address token.Address `arg:"" help:"The wallet to replace."`
	KMS     bool          `name:"kms" help:"Make the new key in AWS KMS."`
	Wait    time.Duration `default:"30m" help:"How long to wait for payments under way. Run the command again to continue."`
}

// Change makes the successor, moves half of what the wallet can spend there, and once that
// has arrived drains the wallet, sweeps it and retires it, each by the command of that
// name. A wallet is rotated once in its life, so the keys of its transfers follow from
// its address, and the successor's registration names it: after a crash the same command
// continues, and moves nothing twice.
func (c walletRotate) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	old, _, err := c.find(ctx, d)
	if err != nil {
		return none, err
	}
	const consequences = "A new wallet takes the place of %s: half of what that has goes there, and once it is there no new payment uses " +
		"%[1]s.\nWhen its payments have ended, the rest follows, and its life ends for good. This takes minutes, and no payment waits for it."
	return change.Change{Consequences: fmt.Sprintf(consequences, c.Address), Apply: func(ctx context.Context) (change.Answer, error) {
		if err := c.rotate(ctx, d, old); err != nil { // a refusal is none any more
			return change.Answer{}, fmt.Errorf("%v\nNothing is lost: give the same command again, and it goes on from there",
				err) //nolint:errorlint // no refusal
		}
		_, successor, err := c.find(ctx, d)
		return change.Answered(err, map[string]any{"address": c.Address, "state": wallet.Retired, "successor": successor},
			fmt.Sprintf("%s is retired, and %s has taken its place.", c.Address, successor))
	}}, nil
}

// do makes the change of another command, without asking again.
func do(ctx context.Context, d *deployed.Deployment, line change.Line) error {
	step, err := line.Change(ctx, d)
	if err != nil {
		return err
	}
	_, err = step.Apply(ctx)
	return err
}

// find returns the wallet's registration and its successor, zero if there is none yet. If commands
// at once have made several successors, it returns the one with transfers to it, or else the first.
func (c walletRotate) find(ctx context.Context, d *deployed.Deployment) (old wallet.Registration, successor token.Address,
	err error) {
	wallets, err := d.Wallets(ctx)
	if err != nil {
		return old, successor, err
	}
	old, registered := wallets.Find(c.Address)
	if !registered {
		return old, successor, errUnregistered(c.Address)
	}
	for _, r := range wallets {
		if r.Replaces == c.Address && successor.IsZero() {
			successor = r.Address
		}
	}
	for _, id := range []payment.ID{c.keyOf(d, "fund", d.Asset), c.keyOf(d, "fund", payment.Ether), c.keyOf(d, "sweep", d.Asset),
		c.keyOf(d, "sweep", payment.Ether)} {
		p, err := d.Payments.Payment(ctx, id)
		switch {
		case err == nil:
			return old, p.To, nil
		case !errors.Is(err, store.ErrNotFound):
			return old, successor, err
		}
	}
	return old, successor, nil
}

// keyOf names the payment by which a step moves a coin.
func (c walletRotate) keyOf(d *deployed.Deployment, step string, coin token.Token) payment.ID {
	return payment.KeyID(payment.Operator, d.Mode, c.key(step)+"/"+coin.Symbol)
}

func (c walletRotate) key(step string) string { return "rotate/" + c.Address.String() + "/" + step }

// rotate runs the remaining steps.
func (c walletRotate) rotate(ctx context.Context, d *deployed.Deployment, old wallet.Registration) error {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	_, successor, err := c.find(ctx, d)
	if err == nil && successor.IsZero() && old.State != wallet.Retired {
		if err = do(ctx, d, walletCreate{KMS: c.KMS, replaces: c.Address}); err == nil {
			_, successor, err = c.find(ctx, d)
		}
	}
	if err != nil || old.State == wallet.Retired {
		return err
	}
	to := moving{Address: c.Address, To: successor}
	if old.State == wallet.Active {
		if err := c.fund(ctx, d, to); err != nil {
			return fmt.Errorf("moving half to %s: %w", successor, err)
		}
		if err := do(ctx, d, walletDrain{Address: c.Address}); err != nil {
			return err
		}
	}
	to.Key = c.key("sweep")
	if err := within(ctx, d, func() error { return do(ctx, d, walletSweep{to}) }); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	return within(ctx, d, func() error {
		if err := settled(ctx, d, c.Address, nil); err != nil {
			return err
		}
		return do(ctx, d, walletRetire{Address: c.Address, Unswept: d.Config.GasUnit > 0})
	})
}

// fund moves half of what the wallet can spend, and returns when the successor can
// spend it. A repeated run moves the same amounts.
func (c walletRotate) fund(ctx context.Context, d *deployed.Deployment, to moving) error {
	w, err := d.Payments.Wallet(ctx, d.WalletID(c.Address))
	if errors.Is(err, wallet.ErrUnknown) { // it has never paid, and all that it has can be spent
		var nodes chain.Nodes
		var v chain.View
		if nodes, _, err = d.Nodes(ctx); err == nil {
			v, err = d.View(ctx, nodes, c.Address)
			w.Balance, w.Gas = d.Config.GasUnit.Holds(v.Account)
		}
	}
	if err != nil {
		return err
	}
	to.Key = c.key("fund")
	half := func(coin token.Token, all token.Amount) (token.Amount, error) {
		p, err := d.Payments.Payment(ctx, c.keyOf(d, "fund", coin))
		if errors.Is(err, store.ErrNotFound) {
			return all.Over(2), nil
		}
		return p.Amount, err
	}
	coins, errCoins := half(d.Asset, w.Balance)
	gas, errGas := half(payment.Ether, w.Gas)
	if err := errors.Join(errCoins, errGas); err != nil {
		return err
	}
	move := walletMove{moving: to}
	if !coins.IsZero() {
		move.Token = coins.Tokens(d.Asset.Decimals)
	}
	if !gas.IsZero() {
		move.Ether = gas.Tokens(payment.Ether.Decimals)
	}
	if move.Token+move.Ether == "" {
		return nil
	}
	if err := do(ctx, d, move); err != nil {
		return err
	}
	return within(ctx, d, func() error {
		w, err := d.Payments.Wallet(ctx, d.WalletID(to.To))
		if err != nil && !errors.Is(err, wallet.ErrUnknown) {
			return err
		}
		if w.Balance.IsZero() && !coins.IsZero() || w.Gas.IsZero() && !gas.IsZero() {
			return fmt.Errorf("%w: it has not arrived; if remit export --merchant operator shows that the transfer failed, run remit "+
				"wallet move", settlement.ErrUnsettled)
		}
		return nil
	})
}

// within calls try until it returns another error than settlement.ErrUnsettled or ctx
// ends.
func within(ctx context.Context, d *deployed.Deployment, try func() error) error {
	for {
		err := try()
		if !errors.Is(err, settlement.ErrUnsettled) {
			return err
		}
		if hinted := d.Hint(ctx); hinted != nil {
			return hinted
		}
		if stopped := deployed.Wait(ctx, between); stopped != nil {
			return errors.Join(stopped, err)
		}
	}
}
