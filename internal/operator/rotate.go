package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/settlement"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

type walletRotate struct {
	Target
	Address token.Address `arg:"" help:"The wallet whose place a new one takes."`
	KMS     bool          `name:"kms" help:"Make the new key in AWS KMS."`
	Wait    time.Duration `default:"30m" help:"How long to wait for what is under way. Given again, the command goes on from where it was."`
	Yes     bool          `help:"Do not ask."`
}

// Run makes the successor, moves half of what the wallet can spend there, and once that
// has arrived drains the wallet, sweeps it and retires it, each by the command of that
// name. A wallet is rotated once in its life, so the keys of its transfers follow from
// its address, and the successor's registration names it: the same command goes on
// wherever one has stopped, and moves nothing twice.
func (c *walletRotate) Run(ctx context.Context, d *deployment) error {
	s, err := d.payments()
	if err != nil {
		return err
	}
	old, _, err := c.find(ctx, d, s)
	if err != nil {
		return err
	}
	consequences := "A new wallet takes the place of %s: half of what that has goes there, and once it is there no new payment uses %[1]s.\n" +
		"When its payments have ended, the rest follows, and its life ends for good. This takes minutes, and no payment waits for it."
	if err := d.agree(c.Yes, fmt.Sprintf(consequences, c.Address)); err != nil {
		return err
	}
	quiet := *d
	quiet.out, quiet.agree = io.Discard, func(bool, string) error { return nil }
	err = c.rotate(ctx, &quiet, s, old)
	if err != nil { // a refusal is none any more
		return fmt.Errorf("%v\nNothing is lost: give the same command again, and it goes on from there", err) //nolint:errorlint // see Ended
	}
	_, successor, err := c.find(ctx, d, s)
	if err != nil {
		return err
	}
	return d.show(map[string]any{"address": c.Address, "state": wallet.Retired, "successor": successor},
		fmt.Sprintf("%s is retired, and %s has taken its place.", c.Address, successor))
}

// find returns the wallet's registration and its successor, zero if there is none yet.
// Of several, which commands at once have made, it is the one that was sent anything,
// or the first.
func (c *walletRotate) find(ctx context.Context, d *deployment, s store.Store) (old wallet.Registration, successor token.Address,
	err error) {
	wallets, err := s.Wallets(ctx, d.chainID)
	if err != nil {
		return old, successor, err
	}
	old, registered := wallets.Find(c.Address)
	if !registered {
		return old, successor, fmt.Errorf("%s is no wallet of the stack: remit wallet list shows them", c.Address)
	}
	for _, r := range wallets {
		if r.Replaces == c.Address && successor.IsZero() {
			successor = r.Address
		}
	}
	for _, id := range []payment.ID{c.keyOf(d, "fund", d.asset), c.keyOf(d, "fund", payment.Ether), c.keyOf(d, "sweep", d.asset),
		c.keyOf(d, "sweep", payment.Ether)} {
		p, err := s.Payment(ctx, id)
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
func (c *walletRotate) keyOf(d *deployment, step string, coin token.Token) payment.ID {
	return payment.KeyID(payment.Operator, d.mode, c.key(step)+"/"+coin.Symbol)
}

func (c *walletRotate) key(step string) string { return "rotate/" + c.Address.String() + "/" + step }

// rotate does what is left to do.
func (c *walletRotate) rotate(ctx context.Context, d *deployment, s store.Store, old wallet.Registration) error {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	_, successor, err := c.find(ctx, d, s)
	if err == nil && successor.IsZero() && old.State != wallet.Retired {
		if err = (&walletCreate{KMS: c.KMS, replaces: c.Address}).Run(ctx, d); err == nil {
			_, successor, err = c.find(ctx, d, s)
		}
	}
	if err != nil || old.State == wallet.Retired {
		return err
	}
	to := moving{Address: c.Address, To: successor, Yes: true}
	if old.State == wallet.Active {
		if err := c.fund(ctx, d, s, to); err != nil {
			return fmt.Errorf("moving half to %s: %w", successor, err)
		}
		if err := (&walletDrain{Address: c.Address}).Run(ctx, d); err != nil {
			return err
		}
	}
	err = d.within(ctx, func() error {
		return d.settled(ctx, c.Address, []payment.ID{c.keyOf(d, "sweep", d.asset), c.keyOf(d, "sweep", payment.Ether)})
	})
	if err != nil {
		return err
	}
	to.Key = c.key("sweep")
	if err := (&walletSweep{to}).Run(ctx, d); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	return d.within(ctx, func() error {
		if err := d.settled(ctx, c.Address, nil); err != nil {
			return err
		}
		return (&walletRetire{Address: c.Address}).Run(ctx, d)
	})
}

// fund moves half of what the wallet can spend, and returns when the successor can
// spend it. The halves are those of the first time.
func (c *walletRotate) fund(ctx context.Context, d *deployment, s store.Store, to moving) error {
	w, err := s.Wallet(ctx, wallet.ID{ChainID: d.chainID, Address: c.Address})
	if errors.Is(err, wallet.ErrUnknown) { // it has never paid, and all that it has can be spent
		var nodes chain.Nodes
		var views chain.Views
		if nodes, _, err = d.nodes(ctx); err == nil {
			if views, err = nodes.Views(ctx, c.Address, d.asset.Contract, chain.ConfirmationRule{}); err == nil {
				w.Balance, w.Gas = views.Leading().Balance, views.Leading().Gas
			}
		}
	}
	if err != nil {
		return err
	}
	to.Key = c.key("fund")
	half := func(coin token.Token, all token.Amount) (token.Amount, error) {
		p, err := s.Payment(ctx, c.keyOf(d, "fund", coin))
		if errors.Is(err, store.ErrNotFound) {
			return all.Over(2), nil
		}
		return p.Amount, err
	}
	coins, errCoins := half(d.asset, w.Balance)
	gas, errGas := half(payment.Ether, w.Gas)
	if err := errors.Join(errCoins, errGas); err != nil {
		return err
	}
	move := walletMove{moving: to}
	if !coins.IsZero() {
		move.Token = coins.Tokens(d.asset.Decimals)
	}
	if !gas.IsZero() {
		move.Ether = gas.Tokens(payment.Ether.Decimals)
	}
	if move.Token+move.Ether == "" {
		return nil
	}
	if err := move.Run(ctx, d); err != nil {
		return err
	}
	return d.within(ctx, func() error {
		w, err := s.Wallet(ctx, wallet.ID{ChainID: d.chainID, Address: to.To})
		if err != nil && !errors.Is(err, wallet.ErrUnknown) {
			return err
		}
		if w.Balance.IsZero() && !coins.IsZero() || w.Gas.IsZero() && !gas.IsZero() {
			return fmt.Errorf("%w: it has not arrived (if remit export --merchant operator shows that the transfer failed, remit wallet "+
				"move does it)", settlement.ErrUnsettled)
		}
		return nil
	})
}

// within calls do until it returns another error than settlement.ErrUnsettled or ctx
// ends.
func (d *deployment) within(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, settlement.ErrUnsettled) {
			return err
		}
		if hinted := d.hint(ctx); hinted != nil {
			return hinted
		}
		if stopped := pause(ctx, between); stopped != nil {
			return errors.Join(stopped, err)
		}
	}
}
