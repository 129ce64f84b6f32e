package deployed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ErrNoRail reports a stack without the rail.
var ErrNoRail = errors.New("the stack has no such rail")

// Rails returns the stack as seen by each rail, in the order in which they were added; by one alone if --rail names it.
func (d *Deployment) Rails(ctx context.Context) (all []*Deployment, err error) {
	rules, err := d.Payments.Rules(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the rails: %w", err)
	}
	var names []string
	for i, r := range rules.Rails {
		on, err := d.by(i+1, r)
		if err != nil {
			return nil, err
		}
		names = append(names, on.Name())
		if d.Names(on) {
			all = append(all, on)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w; name one of its own (%s), or run remit rails add", ErrNoRail,
			cmp.Or(strings.Join(names, ", "), "none"))
	}
	return all, nil
}

// Names reports whether --rail names a rail, as it does each if it is empty.
func (d *Deployment) Names(on *Deployment) bool {
	texts := []string{"", strconv.Itoa(on.Number), on.On.Coin.String(), on.Name()}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.EqualFold(text, d.Rail) })
}

// by returns the stack as seen by a rail. Its chain's own values stand in for settings that cannot be obeyed.
func (d *Deployment) by(number int, r store.Rail) (*Deployment, error) {
	on, rail := *d, r.Settings.Rail
	if r.Unusable != nil {
		own, _ := chains.Of(r.Coin.ChainID)
		rail = settings.Rail{ChainID: r.Coin.ChainID, Token: r.Token, Network: own.Network()}
	}
	var err error
	if on.Config, err = chains.Read(d.Mode, rail); err != nil {
		return nil, fmt.Errorf("rail %d: %w", number, err)
	}
	if h, ok := d.Platform.(here); ok {
		own := h.Config
		if r.Coin == own.Coin() {
			on.Config = own
		}
		on.Config.Ephemeral, on.Config.ReservationAge, on.Config.RegistryAge = own.Ephemeral, own.ReservationAge, own.RegistryAge
	}
	on.Number, on.On, on.ChainID, on.Asset = number, r, r.Coin.ChainID, on.Config.Token
	on.Config.Further = number > 1
	return &on, nil
}

// Each does something by each rail (Rails). An error names its rail, and takes no other rail's turn.
func (d *Deployment) Each(ctx context.Context, do func(on *Deployment) error) error {
	rails, err := d.Rails(ctx)
	for _, on := range rails {
		if failed := do(on); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", on.Name(), failed))
		}
	}
	return err
}

// Name is the short name of the rail, such as usdc@base.
func (d *Deployment) Name() string { return strings.ToLower(d.Asset.Symbol) + "@" + d.Config.Network }

// One returns the stack as seen by its only rail, or by the one that --rail names.
func (d *Deployment) One(ctx context.Context) (*Deployment, error) {
	all, err := d.Rails(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		var names []string
		for _, on := range all {
			names = append(names, fmt.Sprintf("%d (%s)", on.Number, on.Name()))
		}
		return nil, fmt.Errorf("the stack has the rails %s; choose one with --rail", strings.Join(names, ", "))
	}
	return all[0], nil
}

// Of returns the stack as seen by the rail that a wallet is registered with; of the zero address, by One.
func (d *Deployment) Of(ctx context.Context, a token.Address) (*Deployment, error) {
	switch on, _, err := d.HolderOf(ctx, a); {
	case a.IsZero():
		return d.One(ctx)
	case on == nil && err == nil:
		return nil, fmt.Errorf("%s is not a wallet of the stack; find it with remit wallet list, or, if it has paid, "+
			"restore its registration (docs/alarms/UnreadableAlarm.md)", a)
	case err == nil && !d.Names(on):
		return nil, fmt.Errorf("%s is a wallet of %s; leave --rail out", a, on.Name())
	default:
		return on, err
	}
}

// HolderOf returns a wallet's registration, and the stack as seen by its rail, whichever --rail names; or nil.
func (d *Deployment) HolderOf(ctx context.Context, a token.Address) (on *Deployment, r wallet.Registration, err error) {
	any := *d
	any.Rail = ""
	all, err := any.Rails(ctx)
	for _, on := range all {
		wallets, err := on.Wallets(ctx)
		if err != nil {
			return nil, r, err
		}
		if r, registered := wallets.Find(a); registered {
			return on, r, nil
		}
	}
	return nil, r, err
}

// MayPay returns why the stack may not pay on a chain, nil if it may: where tokens are money it is live and heard.
func (d *Deployment) MayPay(chainID uint64) error {
	if d.Account == nil {
		return errors.New("a stack on this machine has the rails that it was started with (remit local --rail)")
	}
	p := d.Account.Parameters
	return errors.Join(chains.Deployment{Environment: p["Environment"], Mode: d.Mode, ChainID: chainID,
		AlarmTopic: p["AlarmTopicArn"]}.Open()...)
}
