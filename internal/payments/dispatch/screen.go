package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// errScreened reports a recipient that the sanctions list or the operator's deny list
// has.
var errScreened = fmt.Errorf("%w: it is on a list", ErrRecipient)

// A ruling is what a process has read of the rules: the settings and the deny list.
type ruling struct {
	stack.Rules
	denied map[token.Address]bool // never changed
	coin   store.Coin             // of the tables
}

// ruling returns the rules that a request is judged by, which were read less than
// settings.MaxAge ago: one request to the store, for settings and deny list. It is
// ErrUnavailable if they cannot be read, or payments are not made by them.
func (d *Dispatcher) ruling(ctx context.Context) (ruling, error) {
	r, err := d.rules.Get(ctx, d.Now(), func(ctx context.Context) (ruling, error) {
		all, err := d.Store.Rules(ctx)
		err = cmp.Or(err, all.Are(d.ours()), all.Unusable)
		if err == nil {
			err = d.Refused(all.Settings)
		}
		settings.Note(ctx, d.Log, "payments", all.Settings.Version, err)
		denied := make(map[token.Address]bool, len(all.Denied))
		for _, denial := range all.Denied {
			denied[denial.To] = true
		}
		return ruling{d.Rules(all.Settings), denied, all.Coin}, err
	})
	if err != nil {
		err = errors.Join(ErrUnavailable, err)
	}
	return r, err
}

// begin returns the Dispatcher at work by the rules and with the nodes of the moment. Its
// error is of the nodes; without rules it has the reason in refused.
func (d *Dispatcher) begin(ctx context.Context) (sending, error) {
	rules, refused := d.ruling(ctx)
	nodes, err := d.Nodes.Nodes(ctx)
	if err != nil {
		err = errors.Join(ErrUnavailable, fmt.Errorf("finding nodes: %w", err))
	}
	return sending{d, nodes, rules, refused, &phases{now: d.Now, last: d.Now()}}, err
}

// allowed returns errScreened for entries of which the operator's deny list has a
// recipient.
func (d sending) allowed(entries ...payment.Entry) error {
	if i := slices.IndexFunc(entries, func(e payment.Entry) bool { return d.denied[e.To] }); i >= 0 {
		return &chain.EntryError{Index: i, Err: errScreened}
	}
	if i := slices.IndexFunc(entries, func(e payment.Entry) bool { return !d.Gas.Account.IsZero() && e.To == d.Gas.Account }); i >= 0 {
		return &chain.EntryError{Index: i, Err: ErrRecipient} // its receipt would not show that it was paid
	}
	return nil
}

// screened notes a refusal by a list, for the people who answer for it.
func (d sending) screened(ctx context.Context, r payment.Request, refusal error) {
	if errors.Is(refusal, errScreened) {
		d.Log.WarnContext(ctx, "recipient refused", "to", r.Outputs()[place(refusal)].To, "merchant", r.Merchant, "list",
			map[bool]string{true: "sanctions", false: "deny"}[errors.Is(refusal, chain.ErrListed)])
	}
}

// screen returns p, which is stored, as it would be begun now, or why it could not be: a
// list has a recipient of it or does not answer, or its transfer does not pass.
func (d sending) screen(ctx context.Context, p payment.Payment) (payment.Payment, error) {
	if err := cmp.Or(d.refused, d.allowed(p.Outputs()...)); err != nil {
		return payment.Payment{}, err
	}
	tx, err := d.simulate(ctx, walletOf(p), p)
	return p.AssignedTo(p.Wallet, tx), err
}
