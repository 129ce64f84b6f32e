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
	if err := p.proposedBefore(ctx); err != nil {
		return fmt.Errorf("nothing was proposed: %w", err)
	}
	size := 1
	if p.Batch {
		size = p.size
	}
	if err := p.summary(ctx, p.out, nil); err != nil || p.DryRun {
		return err
	}
	number, refusals := 0, 0
	for rows := range slices.Chunk(p.rows, size) {
		key, asked := p.proposal(number, rows)
		number++
		made, err := retried(ctx, p.Patience, func() (remit.Proposal, error) { return p.api.AttemptProposal(ctx, key, asked) })
		if refusal, is := errors.AsType[*remit.Refused](err); is && !p.Batch && key != p.batchKey(0) && !shut(refusal) {
			refusals++
			fmt.Fprintf(p.out, "line %d: refused: %s\n", rows[0].line, why(refusal))
			continue
		} else if err != nil {
			return fmt.Errorf("line %d and those behind were not proposed: %w; repeat the command", rows[0].line, err)
		}
		if over(made) {
			refusals += len(rows)
		}
		fmt.Fprintf(p.out, "line %d: %s %s, %s\n", rows[0].line, counted(len(rows), "row"), made.ID, made.Status)
	}
	if refusals > 0 {
		return fmt.Errorf("%s not proposed", counted(refusals, "row"))
	}
	fmt.Fprintln(p.out, "Another key with the scope payments:approve approves each: POST /proposals/prp_…/approve.")
	return nil
}

// proposedBefore gives the run's first row the key of number 0, and notes the rows that the run has proposed.
func (p *payout) proposedBefore(ctx context.Context) error {
	held, err := p.proposed(ctx, p.batchKey(0))
	if err != nil {
		return err
	}
	if held == nil {
		p.rows[0].key = p.batchKey(0)
		paid, err := p.under(ctx, p.batchKey(0))
		if len(paid) > 0 {
			err = errors.New("this run has paid without --propose; go on as it was begun")
		}
		return err
	}
	if p.Batch {
		fmt.Fprintln(p.out, "this run was proposed before: its batches are shown again, and none is proposed twice")
		return nil
	}
	a := held.Request
	i := slices.IndexFunc(p.rows, func(r *payRow) bool {
		return r.pays(a.To, a.Amount) && r.reference == a.Reference && strings.EqualFold(r.asset.Asset, a.Asset)
	})
	if i < 0 {
		return errors.New("this run was begun with --batch, another asset, or a row that is not in the file; " +
			"go on as it was begun")
	}
	p.rows[i].key = p.batchKey(0)
	for made, err := range p.api.Proposals(ctx, url.Values{"limit": {"100"}}) { // the newest first
		if err != nil || made.CreatedAt.Before(held.CreatedAt.Add(-time.Minute)) { // clocks differ
			return err
		}
		if r := made.Request; !over(made) {
			p.match(remit.Payment{IdempotencyKey: made.IdempotencyKey, Status: remit.PaymentStatus(made.Status),
				Asset: r.Asset, CreatedAt: made.CreatedAt, To: r.To, Amount: r.Amount, Reference: r.Reference})
		}
	}
	return nil
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

// over reports whether a proposal pays no more.
func over(held remit.Proposal) bool {
	return held.Status == remit.ProposalStatusCancelled || held.Status == remit.ProposalStatusExpired
}

func (p *payout) proposal(number int, rows []*payRow) (key string, asked remit.CreateProposalRequest) {
	asked.NotBefore, asked.Asset = p.NotBefore, p.coin.Asset
	if p.Batch {
		asked.Reference = batchReference(number)
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
