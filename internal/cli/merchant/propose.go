package merchant

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// propose proposes the rows, each alone or with --batch up to 100 together, under the keys under which the run would
// pay: so it never pays beside its proposals. As with `remit pay`, the first row has number 0.
func (p *payout) propose(ctx context.Context) error {
	if !p.Batch {
		p.size = 1
	}
	if err := p.proposedBefore(ctx); err != nil {
		return fmt.Errorf("nothing was proposed: %w", err)
	}
	if err := p.summary(ctx, p.out); err != nil || p.DryRun {
		return err
	}
	todo := p.rows
	if p.Batch { // proposed batches stay as they are, and new rows make others
		todo = slices.DeleteFunc(slices.Clone(todo), func(r *payRow) bool { return r.status != "" })
	}
	for rows := range slices.Chunk(todo, p.size) {
		r := rows[0]
		key, asked := p.proposal(p.number, rows)
		p.number++
		made, err := retried(ctx, p.Patience, func() (remit.Proposal, error) { return p.api.AttemptProposal(ctx, key, asked) })
		refusal, is := errors.AsType[*remit.Refused](err)
		switch {
		case is && !p.Batch && key != p.batchKey(0) && !shut(refusal):
			p.lost(r, refused, why(refusal))
			fmt.Fprintf(p.out, "line %d is refused: %s\n", r.line, r.problem)
			continue
		case is && refusal.Code == "idempotency_key_reused":
			return fmt.Errorf("line %d: another file or process has proposed in this run; repeat the command", r.line)
		case err != nil:
			return fmt.Errorf("line %d: %w; correct that and repeat: none is proposed twice", r.line, err)
		}
		p.paid(rows, asPayment(made), key)
		text := fmt.Sprintf("line %d, %s: %s is %s %s", r.line, counted(len(rows), "row"), made.ID, r.status, r.problem)
		fmt.Fprintln(p.out, strings.TrimSpace(text))
	}
	ended := p.of(func(r *payRow) bool { return r.status == "failed" || r.status == refused || over(r.status) })
	if ended.rows > 0 {
		return fmt.Errorf("%s refused, failed or ended; correct them, or put them into a file of their own with "+
			"another --run", counted(ended.rows, "row"))
	}
	fmt.Fprintln(p.out, "Each is paid at its time, once another key with the scope payments:approve has approved it:\n"+
		"POST /proposals/prp_…/approve")
	return nil
}

// proposedBefore gives the run's first row the key of number 0, and notes the rows that the run has proposed.
func (p *payout) proposedBefore(ctx context.Context) error {
	held, err := p.proposed(ctx, p.batchKey(0))
	switch {
	case err != nil:
		return err
	case held == nil && !p.NotBefore.IsZero() && p.NotBefore.Before(time.Now()):
		return errors.New("the time of --not-before has passed; leave it out, or give a later one")
	case held == nil:
		p.rows[0].key = p.batchKey(0)
		paid, err := p.under(ctx, p.batchKey(0))
		if len(paid) > 0 {
			err = errors.New("this run has paid without --propose; give the proposals another --run")
		}
		return err
	case !held.NotBefore.Equal(p.NotBefore.Truncate(time.Millisecond)):
		due := strings.Replace(held.NotBefore.Format("for "+time.RFC3339Nano), "for 0001-01-01T00:00:00Z", "without --not-before", 1)
		return fmt.Errorf("this run was proposed %s (%s is %s); repeat it so, or cancel it and take another --run",
			due, held.ID, held.Status)
	}
	if p.Batch && held.Request.Payments != nil {
		for free := p.free(); held != nil && err == nil; held, err = p.proposed(ctx, p.batchKey(p.number)) {
			as := asPayment(*held)
			as.TxHash, as.Failure = held.ID, nil // so each row is taken once, also if it failed
			if err := p.take(as, free); err != nil {
				return err
			}
		}
		return err
	}
	a := held.Request
	i := slices.IndexFunc(p.rows, func(r *payRow) bool {
		return r.pays(a.To, a.Amount) && r.reference == a.Reference && strings.EqualFold(r.asset.Asset, a.Asset)
	})
	if p.Batch || i < 0 {
		return errors.New("this run was begun with --batch, another asset, or a row that is not in the file; " +
			"go on as it was begun")
	}
	p.rows[i].key = p.batchKey(0)
	n := 0
	for made, err := range p.api.Proposals(ctx, url.Values{"limit": {"100"}}) { // the newest first
		if err != nil || made.CreatedAt.Before(held.CreatedAt.Add(-time.Minute)) { // clocks differ
			return err
		}
		if n++; n > 10_000 {
			return errors.New("over 10,000 proposals are newer than this run's first; find the rows that it lacks in " +
				"GET /proposals, and propose these from a file of their own under another --run")
		}
		p.match(asPayment(made))
	}
	return nil
}

// asPayment is a proposal as the payment that it makes, with that one's status, or the proposal's before its release.
func asPayment(held remit.Proposal) remit.Payment {
	r := held.Request
	made := remit.Payment{IdempotencyKey: held.IdempotencyKey, Status: remit.PaymentStatus(held.Status), Asset: r.Asset,
		CreatedAt: held.CreatedAt, To: r.To, Amount: r.Amount, Reference: r.Reference}
	for _, e := range r.Payments {
		made.Payments = append(made.Payments, remit.BatchEntry{To: e.To, Amount: e.Amount, Reference: e.Reference})
	}
	if held.Payment != nil {
		made.Status, made.Failure = held.Payment.Status, held.Payment.Failure
	}
	return made
}

// proposed returns the proposal that holds a key, or held it; nil if there is none.
func (p *payout) proposed(ctx context.Context, key string) (*remit.Proposal, error) {
	for held, err := range p.api.Proposals(ctx, url.Values{"idempotency_key": {key}}) {
		if err != nil {
			return nil, err
		}
		return &held, nil
	}
	return nil, nil
}

// over reports whether a proposal of that status pays no more.
func over(status string) bool { return status == "cancelled" || status == "expired" }

func (p *payout) proposal(number int, rows []*payRow) (key string, asked remit.CreateProposalRequest) {
	asked.NotBefore, asked.Asset = p.NotBefore, &p.coin.Asset
	if p.Batch {
		asked.Reference = fmt.Sprintf(batchReference, number)
		for _, r := range rows {
			o := r.order()
			asked.Payments = append(asked.Payments, remit.ProposedEntry{To: o.To, Amount: o.Amount, Reference: o.Reference})
		}
		return p.batchKey(number), asked
	}
	o := rows[0].order()
	asked.To, asked.Amount, asked.Reference = o.To, o.Amount, o.Reference
	if rows[0].key == p.batchKey(0) {
		asked.Metadata = alone
	}
	return rows[0].key, asked
}
