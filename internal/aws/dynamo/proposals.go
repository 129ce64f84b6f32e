package dynamo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Propose implements store.Proposals with one transaction: the payment's item, its place in the merchant's list, the
// count of open ones. When the SDK repeats it after a lost answer, its token makes the answer the first one.
func (s *Payments) Propose(ctx context.Context, p proposal.Proposal) (bool, error) {
	created := true
	err := s.transact(ctx, "proposing "+string(p.Payment.ID),
		write{create(encodeProposal(p), store.FitsPayment(p.Payment)), func(attributes) error {
			created = false
			return nil
		}},
		write{place(p), nil},
		write{change{key: openKey(p), do: "ADD open_count :one", when: "attribute_not_exists(open_count) OR open_count < :most",
			values: args{":one": 1, ":most": proposal.MaxOpen}}, is(store.ErrProposals)})
	return created && err == nil, err
}

func encodeProposal(p proposal.Proposal) attributes {
	b, err := json.Marshal(p)
	if err != nil {
		panic("dynamo: encoding texts and numbers: " + err.Error())
	}
	item := encodePayment(p.Payment)
	item["proposal"], item["proposal_writes"] = text(string(b)), encodeValue(p.Writes)
	return item
}

// place writes the place of p in its merchant's list, and in the index as long as something is to be done.
func place(p proposal.Proposal) change {
	set := args{"status": p.Status(), "proposed_by": p.By.Key, attrListPK: nil, attrListSK: nil}
	if next := p.Next(); !next.IsZero() {
		set[attrListPK], set[attrListSK] = duePK, listSK(next, string(p.Payment.ID))
	}
	return change{key: placeKey(p), set: set}
}

func (s *Payments) Proposal(ctx context.Context, id payment.ID) (proposal.Proposal, error) {
	return get(ctx, s.table, paymentKey(id), string(id), store.ErrNotFound, decodeProposal)
}

func decodeProposal(item attributes) (p proposal.Proposal, err error) {
	of, err := decodePayment(item)
	if stored := textOf(item, "proposal"); stored != "" && err == nil {
		if err = json.Unmarshal([]byte(stored), &p); err != nil {
			err = fmt.Errorf("%w: the proposal of %s: %w", store.ErrUnreadable, of.ID, err)
		}
	}
	p.Payment = of
	return p, err
}

// Amend implements store.Proposals with one transaction of the items that change. It stores an unsigned payment as a
// new item, so that nothing of another request's content stays. A signed payment's own attributes stay: settlement
// writes them meanwhile.
func (s *Payments) Amend(ctx context.Context, from, to proposal.Proposal, g store.Guard) error {
	to.Writes = from.Writes + 1
	item, c := encodeProposal(to), change{still: args{attrState: from.Payment.State, "proposal_writes": from.Writes}}
	if from.Payment.State.Signed() {
		c.key, c.set = paymentKey(to.Payment.ID), pick(item, "proposal", "proposal_writes")
	} else {
		c.item, c.still["revision"] = item, text(from.Payment.Revision)
	}
	writes := []write{{c, is(store.ErrChanged)}}
	if from.Next() != to.Next() || from.Status() != to.Status() {
		writes = append(writes, write{place(to), nil})
	}
	if to.Closed && !from.Closed {
		writes = append(writes, write{change{key: openKey(to), do: "ADD open_count :less", values: args{":less": -1}}, nil})
	}
	if g.ID != "" {
		writes = append(writes, putGuard(g, to.Payment))
	}
	return s.transact(ctx, "amending the proposal of "+string(to.Payment.ID), writes...)
}

func (s *Payments) Due(ctx context.Context, now time.Time, limit int) (due []store.DueProposal, err error) {
	for item, err := range s.query(ctx, "reading the due proposals", &dynamodb.QueryInput{
		IndexName: aws.String(indexMerchant), KeyConditionExpression: aws.String("list_pk = :due AND list_sk <= :now"),
		ExpressionAttributeValues: attributes{":due": text(duePK), ":now": text(instant(now) + "~")},
		Limit:                     aws.Int32(int32(min(limit, 1000))),
	}) {
		if err != nil || len(due) == limit {
			return due, err
		}
		position, err := positionOf(item)
		if parts := strings.Split(textOf(item, attrPK), "#"); err == nil && len(parts) == 3 {
			due = append(due, store.DueProposal{Merchant: parts[1], Mode: parts[2], ID: position.ID, Since: position.CreatedAt})
		}
	}
	return due, nil
}

func (s *Payments) ListProposals(ctx context.Context, f store.ProposalFilter) (page []proposal.Proposal, next store.Position, err error) {
	limit, values := pageLimit(f.Limit), attributes{}
	var filter []string
	for name, want := range map[string]string{"status": f.Status, "proposed_by": f.By} {
		if want != "" {
			filter, values[":"+name] = append(filter, fmt.Sprintf("#%s = :%[1]s", name)), text(want)
		}
	}
	places := s.bucket(nil, "pk = :list AND sk", proposalsPK(f.Merchant, f.Mode), store.Filter{From: f.From},
		strings.Join(filter, " AND "), values, limit+1)
	page, next, err = pageOf(ctx, s, []bucket{places}, f.From, limit, limit, decodeProposal, f.Matches)
	if err != nil {
		err = fmt.Errorf("listing the proposals of %s: %w", f.Merchant, err)
	}
	return page, next, err
}
