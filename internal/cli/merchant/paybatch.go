package merchant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// The batches of a run are numbered from 0, and the number alone gives the Idempotency-Key. A number is used only after
// the number before it: so a run's stored batches, from any process and any file, have the numbers below the first
// unused one, and two processes cannot both pay under one number. Their rows are taken before a batch is planned.
//
// The payment with number 0 fixes the mode of its run: it is a batch, or a single row if every other row is paid under
// a key of its own. No process sends anything else before number 0 is stored, and each goes on in the stored mode.

// paidNobody are the failures of a batch that certainly moved no coin.
var paidNobody = []string{"execution_reverted", "transfer_missing", "nonce_consumed"}

func (p *payout) batchKey(number int) string { return payKey(p.Name+"\x00batch", number) }

// batchReference, with a number, is the reference of a batch. A stored batch without one was redacted or recovered.
const batchReference = "remit pay, batch %d"

// alone is the metadata of a row that is paid alone with number 0. A payment without it was redacted or recovered.
var alone = map[string]string{"remit pay": "first row"}

// look finds the stored payments of the run from the next number on, and removes their rows. It stops at a payment that
// is not signed yet: with an error if patient, otherwise the request with that number finds the outcome.
func (p *payout) look(ctx context.Context, patient bool) error {
	_, err := retried(ctx, p.Patience, func() (bool, error) {
		err := p.find(ctx)
		if inProgress(err) && !patient {
			err = nil
		}
		return err == nil, err
	})
	switch {
	case inProgress(err):
		return fmt.Errorf("batch %d of this run was begun with other rows, or in another mode; run it as it was: %w",
			p.number, err)
	case err != nil || p.Batch || p.number == 0: // nothing is sent before number 0 is stored
		return err
	}
	return p.each(ctx, "Looking up", "", func(ctx context.Context, rows []*payRow) error {
		r := rows[0]
		stored, err := retried(ctx, p.Patience, func() ([]remit.Payment, error) {
			stored, err := p.under(ctx, r.key)
			if inProgress(err) { // the request finds its outcome
				err = nil
			}
			return stored, err
		})
		if err == nil && len(stored) > 0 {
			p.noted(r, stored[0])
		}
		return err
	})
}

func (p *payout) find(ctx context.Context) error {
	free := p.free()
	for {
		found, err := p.under(ctx, p.batchKey(p.number))
		if err != nil || len(found) == 0 {
			return err
		}
		if p.number == 0 {
			if goesOn, err := p.begun(ctx, found[0]); err != nil || !goesOn {
				return err
			}
		}
		if err := p.take(found[0], free); err != nil {
			return err
		}
	}
}

// free returns the rows without a payment, by their content.
func (p *payout) free() map[content][]*payRow {
	free := map[content][]*payRow{}
	for _, r := range p.rows {
		if r.hash == "" {
			c := content{r.to, r.amount, r.reference}
			free[c] = append(free[c], r)
		}
	}
	return free
}

func (p *payout) under(ctx context.Context, key string) (stored []remit.Payment, err error) {
	for one, err := range p.api.List(ctx, url.Values{"idempotency_key": {key}}) {
		if err != nil {
			return nil, fmt.Errorf("reading what this run has paid: %w", err)
		}
		if !strings.EqualFold(one.Asset, p.coin.Asset) {
			return nil, fmt.Errorf("this run has paid %s: give this file another --run; only if it is the same "+
				"payout, add --asset %s", one.Token, one.Asset)
		}
		stored = append(stored, one)
	}
	return stored, nil
}

// begun sets the run to the mode of its first payment, and reports whether that is a batch. Else it takes its row.
func (p *payout) begun(ctx context.Context, first remit.Payment) (batch bool, _ error) {
	p.first = first.TxHash
	words := maps.Equal(first.Metadata, alone)
	if batch = first.Payments != nil; !batch && !words { // perhaps a batch of one, recovered from the chain
		next, err := p.under(ctx, p.batchKey(1))
		if batch = len(next) > 0; err != nil {
			return false, err
		}
	}
	if p.Batch != batch {
		p.Batch = batch
		how := map[bool]string{true: "with", false: "without"}[batch]
		fmt.Fprintf(p.out, "this run was begun %s --batch, and goes on so\n", how)
	}
	if batch {
		return true, nil
	}
	var its []*payRow
	for _, r := range p.rows {
		if r.pays(first.To, first.Amount) && (r.reference == first.Reference || !words) {
			its = append(its, r)
		}
	}
	p.number++
	switch {
	case slices.ContainsFunc(its, func(r *payRow) bool { return r.reference != its[0].reference }):
		_, err := p.stop(its, unknown, "one of these is the run's first row; it lost its reference: see "+first.TxHash)
		return false, err
	case len(its) > 0: // the first of those with the same content, whose own key is never used
		p.paid(its[:1], first, p.batchKey(0))
	default:
		p.lacks(first, p.batchKey(0), remit.BatchEntry{To: first.To, Amount: first.Amount, Reference: first.Reference})
	}
	p.recall()
	return false, nil
}

// A content identifies a row, or an entry of a batch, in comparisons.
type content struct {
	to        token.Address
	amount    token.Amount
	reference string
}

// take takes the entries of the batch with the next number out of the rows that are free, which the map holds by their
// content. If the batch was redacted or recovered, any row of the same recipient and amount is taken.
func (p *payout) take(made remit.Payment, free map[content][]*payRow) error {
	entries, key := made.Payments, p.batchKey(p.number)
	if entries == nil { // of one, recovered from the chain
		entries = []remit.BatchEntry{{To: made.To, Amount: made.Amount}}
	}
	if made.Failure != nil && slices.Contains(paidNobody, string(made.Failure.Code)) {
		p.failed = append(p.failed, fmt.Sprintf("batch %d (%s)", p.number, made.Failure.Code))
		p.number++
		return nil
	}
	var paid []*payRow
	for _, e := range entries {
		to, err := token.ParseAddress(e.To)
		amount, wrong := token.ParseAmount(e.Amount.String())
		if err = errors.Join(err, wrong); err != nil {
			return fmt.Errorf("reading an entry of %s to %q: %w", e.Amount, e.To, err)
		}
		rows := free[content{to, amount, e.Reference}]
		if made.Reference == "" {
			rows = p.rows
		}
		i := slices.IndexFunc(rows, func(r *payRow) bool {
			return r.hash == "" && r.to == to && r.amount == amount && !slices.Contains(paid, r)
		})
		if i >= 0 {
			paid = append(paid, rows[i])
		} else {
			p.lacks(made, key, e)
		}
	}
	p.number++
	p.paid(paid, made, key)
	return nil
}

func (p *payout) paid(rows []*payRow, made remit.Payment, key string) {
	for _, r := range rows {
		p.noted(r, made)
		r.key = key
	}
}

// payNumbered pays one batch at a time, or the first row alone. While an outcome is not known, nothing else is sent.
func (p *payout) payNumbered(ctx context.Context) error {
	stale := 0
	for ctx.Err() == nil && (p.Batch || p.number == 0) {
		var rows []*payRow
		left := 0
		for _, r := range p.rows {
			if r.status != "" {
				continue
			}
			if left++; len(rows) == 0 || p.Batch && len(rows) < p.size {
				rows = append(rows, r)
			}
		}
		p.progress("Paying", len(p.rows)-left)
		if left == 0 {
			return nil
		}
		key, order := p.batchKey(p.number), rows[0].order()
		order.Metadata = alone
		asked := any(order)
		if p.Batch {
			b := remit.Batch{Asset: &p.coin.Asset, Reference: fmt.Sprintf(batchReference, p.number)}
			for _, r := range rows {
				o := r.order()
				b.Payments = append(b.Payments, remit.Entry{To: o.To, Amount: o.Amount, Reference: o.Reference})
			}
			asked = b
		}
		made, err := p.ask(ctx, key, asked)
		if err == nil {
			p.number++
			p.paid(rows, made, key)
			stale = 0
		} else if more, err := p.unpaid(ctx, rows, err, &stale); err != nil || !more {
			return err
		}
		if err := p.write(time.Second); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// unpaid reports whether the next batch may be sent after one without a payment. stale counts answers without progress.
func (p *payout) unpaid(ctx context.Context, rows []*payRow, err error, stale *int) (more bool, _ error) {
	refusal, answered := errors.AsType[*remit.Refused](err)
	if !answered {
		return p.stop(rows, unknown, Plain(err))
	}
	switch {
	case shut(refusal):
		return false, fmt.Errorf("%w; use another --key, since this one can pay no row", err)
	case refusal.Code == "idempotency_key_reused": // by another process, or for another file
		before := p.number
		_, was := p.repeats()
		if err = p.look(ctx, true); err != nil {
			return p.stop(rows, unknown, Plain(err))
		} else if _, now := p.repeats(); len(now) > len(was) && !p.Changed {
			return false, errors.New("a row was paid under another reference meanwhile; run the same command again")
		}
		if *stale++; p.number > before {
			*stale = 0
		}
		if *stale == 3 {
			return p.stop(rows, unknown, "its Idempotency-Key has another batch, which cannot be found: "+why(refusal))
		}
	case !p.Batch:
		p.lost(rows[0], refused, why(refusal))
	case refusal.Index >= 0 && refusal.Index < len(rows):
		p.lost(rows[refusal.Index], refused, why(refusal))
	case (refusal.Code == "too_many" || refusal.Status == http.StatusRequestEntityTooLarge) && len(rows) > 1:
		p.size = len(rows) / 2
	case refusal.Code == "batches_not_enabled":
		return p.stop(rows, refused, why(refusal)+" Run the same without --batch.")
	default:
		return p.stop(rows, refused, why(refusal))
	}
	return true, nil
}

// stop ends the run at a batch, whose rows get a status.
func (p *payout) stop(rows []*payRow, status, why string) (more bool, _ error) {
	for _, r := range rows {
		p.lost(r, status, why)
	}
	return false, nil
}
