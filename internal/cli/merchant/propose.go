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
	paid, err := p.under(ctx, p.batchKey(0))
	if open, is := errors.AsType[*remit.Refused](err); err != nil && (!is || open.Code != "proposal_open") {
		return fmt.Errorf("nothing was proposed: %w", err)
	}
	first, since, size, read := p.rows[0], time.Now(), map[bool]int{true: batchLimit, false: 1}[p.Batch], 0
	if !p.Batch {
		alone := len(paid) > 0 // paid, and not by a proposal
		for held, err := range p.api.Proposals(ctx, url.Values{"idempotency_key": {p.batchKey(0)}}) {
			if err != nil {
				return err
			}
			i := slices.IndexFunc(p.rows, func(r *payRow) bool {
				a := held.Request
				return r.pays(a.To, a.Amount) && r.reference == a.Reference && strings.EqualFold(r.asset.Asset, a.Asset)
			})
			if i < 0 {
				return errors.New("nothing was proposed: this run was begun with --batch, another asset, or a row " +
					"that is not in the file; go on as it was begun")
			}
			first, since, alone = p.rows[i], held.CreatedAt, false
		}
		if alone {
			return errors.New("nothing was proposed: this run has paid without --propose; go on as it was begun")
		}
		first.key = p.batchKey(0)
		for made, err := range p.api.Proposals(ctx, url.Values{"limit": {"100"}}) { // the newest first
			if err != nil {
				return err
			} else if made.CreatedAt.Before(since.Add(-time.Minute)) { // clocks differ
				break
			} else if read++; read > 10_000 {
				break
			}
			if r := made.Request; !over(made) {
				p.match(remit.Payment{IdempotencyKey: made.IdempotencyKey, Status: remit.PaymentStatus(made.Status),
					Asset: r.Asset, CreatedAt: made.CreatedAt, To: r.To, Amount: r.Amount, Reference: r.Reference})
			}
		}
	}
	more := map[bool][]string{true: {"proposals older than your newest 10,000 may hold some of these"}}[read > 10_000]
	if err := p.summary(ctx, p.out, more); err != nil || p.DryRun {
		return err
	}
	refusals := 0
	for number := 0; number*size < len(p.rows) && ctx.Err() == nil; number++ {
		rows := p.rows[number*size : min(len(p.rows), (number+1)*size)]
		key, asked := p.proposal(number, rows, first)
		made, err := retried(ctx, p.Patience, func() (remit.Proposal, error) { return p.api.AttemptProposal(ctx, key, asked) })
		if refusal, is := errors.AsType[*remit.Refused](err); is && !p.Batch && rows[0] != first && !shut(refusal) {
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
	return ctx.Err()
}

// over reports whether a proposal pays no more.
func over(held remit.Proposal) bool {
	return held.Status == remit.ProposalStatusCancelled || held.Status == remit.ProposalStatusExpired
}

// cancelled names the proposal that has used a key up without a payment; empty if none has.
func (p *payout) cancelled(ctx context.Context, key string) string {
	for held, err := range p.api.Proposals(ctx, url.Values{"idempotency_key": {key}}) {
		if err == nil && over(held) {
			return fmt.Sprintf("%s is %s; rows not paid or proposed need a new file and --run", held.ID, held.Status)
		}
	}
	return ""
}

func (p *payout) proposal(number int, rows []*payRow, first *payRow) (key string, asked remit.CreateProposalRequest) {
	asked.NotBefore, asked.Asset = p.NotBefore, p.coin.Asset
	if p.Batch {
		asked.Reference = batchReference(number)
		for _, r := range rows {
			asked.Payments = append(asked.Payments, remit.ProposedEntry{To: r.to.String(), Amount: r.order().Amount, Reference: r.reference})
		}
		return p.batchKey(number), asked
	}
	asked.To, asked.Amount, asked.Reference = rows[0].to.String(), rows[0].order().Amount, rows[0].reference
	if rows[0] == first {
		asked.Metadata = alone
	}
	return rows[0].key, asked
}
