package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// ErrDenied reports a recipient on the sanctions list, with chain.ErrListed, or the operator's deny list.
var ErrDenied = fmt.Errorf("%w: it is on a list", ErrRecipient)

// A ruling has the settings and the deny list that a process has read.
type ruling struct {
	stack.Rules
	denied []store.Denial // sorted by recipient
}

// ruling returns the settings and the deny list, read in one request at most settings.MaxAge ago.
// It returns ErrUnavailable if they cannot be read or stop payments.
func (d *Dispatcher) ruling(ctx context.Context) (ruling, error) {
	judge := func(all store.Rules) (store.Rail, error) {
		rail := all.Rail(d.Coin())
		if rail.Unusable != nil {
			return rail, rail.Unusable
		}
		return rail, d.Refused(rail.Settings)
	}
	read := func(ctx context.Context) (store.Rules, error) {
		if d.rails != nil {
			return d.rails.read(ctx)
		}
		all, err := d.Store.Rules(ctx)
		rail, refused := judge(all)
		settings.Note(ctx, d.Log, "payments", rail.Settings.Version, cmp.Or(err, refused))
		return all, err
	}
	all, err := d.rules.Get(ctx, d.Now(), read)
	rail, refused := judge(all)
	if err == nil && refused != nil { // an operator may have confirmed them since
		all, err = read(ctx)
		rail, refused = judge(all)
	}
	if err = cmp.Or(err, refused, d.strange(ctx, all)); err != nil {
		err = errors.Join(ErrUnavailable, err)
	}
	return ruling{d.Rules(rail.Settings), all.Denied}, err
}

// strange returns an error if a chain has nodes and no rail: the tables may have been restored to a time before the
// rail. It reads the rails again first, since a new rail is stored before its nodes.
func (d *Dispatcher) strange(ctx context.Context, all store.Rules) error {
	if d.rails == nil || d.rails.Chains == nil {
		return nil
	}
	chains, err := d.rails.Chains(ctx)
	if err == nil && len(all.Without(chains)) > 0 {
		all, err = d.Store.Rules(ctx)
		if lost := all.Without(chains); err == nil && len(lost) > 0 {
			err = fmt.Errorf("the RPC secret has nodes of chain %d, of which there is no rail; "+
				"add the rail and run remit recover", lost)
		}
	}
	return err
}

// begin returns a sending with the current rules and nodes, or the nodes' error. Without rules, the sending has the
// reason in refused. With several rails it refuses at once while no node answers, so that requests of other rails find
// room.
func (d *Dispatcher) begin(ctx context.Context) (sending, error) {
	rules, refused := d.ruling(ctx)
	nodes, err := d.Nodes.Nodes(ctx)
	if err != nil {
		err = errors.Join(ErrUnavailable, fmt.Errorf("finding nodes: %w", err))
	}
	if err == nil && d.rails != nil && d.rails.several() && nodes.Dead(ctx) {
		err = fmt.Errorf("%w: no node of rail %s has answered", ErrUnavailable, d.Coin())
	}
	return sending{Dispatcher: d, Nodes: nodes, ruling: rules, refused: refused, phases: &phases{now: d.Now, last: d.Now()}}, err
}

// allowed returns ErrDenied for an entry on the deny list, and ErrRecipient for the account that collects gas fees.
func (d sending) allowed(entries ...payment.Entry) error {
	if i := slices.IndexFunc(entries, func(e payment.Entry) bool {
		_, denied := slices.BinarySearchFunc(d.denied, e.To, func(d store.Denial, to token.Address) int { return bytes.Compare(d.To[:], to[:]) })
		return denied
	}); i >= 0 {
		return &chain.EntryError{Index: i, Err: ErrDenied}
	}
	if i := slices.IndexFunc(entries, func(e payment.Entry) bool { return !d.Gas.Account.IsZero() && e.To == d.Gas.Account }); i >= 0 {
		return &chain.EntryError{Index: i, Err: ErrRecipient} // its receipt would not prove the payment
	}
	return nil
}

// screened logs a refusal by a list, for the operator's compliance staff.
func (d sending) screened(ctx context.Context, r payment.Request, refusal error) {
	if errors.Is(refusal, ErrDenied) {
		d.Log.WarnContext(ctx, "recipient refused", "to", r.Outputs()[place(refusal)].To, "merchant", r.Merchant,
			"list", map[bool]string{true: "sanctions", false: "deny"}[errors.Is(refusal, chain.ErrListed)])
	}
}

// screen returns the stored payment p as it would be begun now. It returns an error if a list has
// its recipient or does not answer, or if its transfer does not pass.
func (d sending) screen(ctx context.Context, p payment.Payment) (payment.Payment, error) {
	if err := cmp.Or(d.refused, d.allowed(p.Outputs()...)); err != nil {
		return payment.Payment{}, err
	}
	tx, err := d.simulate(ctx, walletOf(p), p)
	return p.AssignedTo(p.Wallet, tx), err
}
