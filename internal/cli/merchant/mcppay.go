package merchant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

type payment struct {
	Intent        string `json:"intent" jsonschema:"what is paid, as the user's records name it: an order id or invoice number. The same after every failure."`
	To            string `json:"to" jsonschema:"recipient: 0x and 40 hex digits, copied, never typed"`
	Amount        string `json:"amount" jsonschema:"in whole tokens, such as 12.50"`
	Reference     string `json:"reference,omitempty" jsonschema:"text to store with the payment"`
	DifferentFrom string `json:"different_from,omitempty" jsonschema:"tx_hash of the similar payment that a first call returned, if the user wants a second one"`
}

// pay pays once for an intent, or answers what the intent has paid, or what looks like the same payment.
func (a *agent) pay(ctx context.Context, in payment) (any, error) {
	amount, err := a.amount(ctx, in.Amount)
	if err != nil {
		return nil, unsent(err)
	}
	order := remit.Order{To: in.To, Amount: amount, Reference: in.Reference}
	note, err := a.notes.lock(ctx, order)
	if err != nil {
		return nil, unsent(err)
	}
	defer note.unlock()
	before, last, err := a.last(ctx, note, in.Intent)
	var own, other *remit.Payment
	if err == nil {
		own, err = a.stored(ctx, in.Intent)
	}
	if err == nil && own == nil {
		other, err = a.similar(ctx, last, order)
	}
	switch {
	case err != nil:
		return nil, unsent(err)
	case signed(own):
		return known(order, *own)
	case other != nil && !strings.EqualFold(string(other.TxHash), in.DifferentFrom):
		return answer(*other, "This call paid nothing: a payment of the same amount to this address has another intent. "+meaning(*other)+
			" Is it the same bill? If the user wants a second payment, call pay with different_from set to this tx_hash.")
	}
	if err := note.write(in.Intent); err != nil {
		return nil, unsent(err)
	}
	p, err := a.api.Pay(note.on(ctx), in.Intent, order)
	refusal, refused := errors.AsType[*remit.Refused](err)
	reused, is := errors.AsType[*remit.IntentReused](err)
	switch {
	case refused && own == nil: // what was taken on may be paid despite a refusal
		_ = note.write(before) // else the next call waits
		return nil, fmt.Errorf("this call started nothing: %w", refusal)
	case is && reused.Stored != nil: // nil: what the intent has taken on is not signed or not readable, but may be paid
		return known(order, *reused.Stored)
	case err != nil:
		return nil, fmt.Errorf("UNKNOWN: the payment may have been made; call pay again with the same intent: %w", err)
	}
	return answer(p, "Accepted, and paid once. "+meaning(p))
}

func unsent(err error) error {
	return fmt.Errorf("this call sent nothing; an earlier one without an answer may have paid: then call pay again with its intent: %w", err)
}

// known is the answer for an intent that has a payment.
func known(order remit.Order, p remit.Payment) (any, error) {
	next := "This call paid nothing more: the intent has this payment. " + meaning(p)
	if p.Payments != nil || !pays(p, order.To, order.Amount) {
		next += " It is NOT of this amount to this address: ask the user, and do not invent another intent."
	}
	return answer(p, next)
}

func signed(p *remit.Payment) bool { return p != nil && p.TxHash != "" }

// last returns the noted intent and its payment, once it is signed; "" and nil once none can come of it any more. Of
// intent itself it also returns a payment that is not signed, which needs another request.
func (a *agent) last(ctx context.Context, n *note, intent string) (string, *remit.Payment, error) {
	for {
		noted, age, err := n.read()
		if err != nil || noted == "" || age > lookBack {
			return "", nil, err
		}
		made, err := a.stored(ctx, noted)
		switch {
		case err != nil || signed(made):
			return noted, made, err
		case age <= lifetime:
			err = pause(ctx, time.Second)
		case made == nil:
			return "", nil, nil
		case noted == intent:
			return noted, made, nil
		default:
			err = errors.New("it is half done")
		}
		if err != nil {
			return "", nil, fmt.Errorf("a payment of this amount to this address is under way; call pay with its intent %q: %w", noted, err)
		}
	}
}

// similar returns the newest payment of the last day with that amount and recipient, nil if there is none. A list may
// still lack the last one.
func (a *agent) similar(ctx context.Context, last *remit.Payment, order remit.Order) (*remit.Payment, error) {
	is := func(p *remit.Payment) bool { return pays(*p, order.To, order.Amount) && !nothingMoved(*p) }
	since := time.Now().Add(-lookBack)
	if last != nil && is(last) {
		since = last.CreatedAt
	} else {
		last = nil
	}
	for p, err := range a.recent(ctx, since) {
		if err != nil || is(&p) && (last == nil || p.CreatedAt.After(since)) {
			return &p, err
		}
	}
	return last, nil
}

// nothingMoved reports that the payment is final and paid nobody.
func nothingMoved(p remit.Payment) bool {
	return p.Status == remit.PaymentStatusFailed && p.Failure != nil && slices.Contains(paidNobody, string(p.Failure.Code))
}

// pays reports whether the payment, or an entry of the batch, has that recipient and amount. "" is any of them.
func pays(p remit.Payment, to string, amount remit.Amount) bool {
	entries := append(p.Payments, remit.BatchEntry{To: p.To, Amount: p.Amount})[:max(1, len(p.Payments))]
	return slices.ContainsFunc(entries, func(e remit.BatchEntry) bool {
		return (to == "" || strings.EqualFold(e.To, to)) && (amount == "" || e.Amount == amount)
	})
}
