package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// proposed returns a stored proposal of r by a key.
func (c *check) proposed(r payment.Request, by string, at time.Time) proposal.Proposal {
	c.Helper()
	p := c.proposal(r, by, at)
	if created, err := c.Propose(c.Context(), p); err != nil || !created {
		c.Fatalf("proposing: %v, %v", created, err)
	}
	return p
}

func (c *check) proposal(r payment.Request, by string, at time.Time) proposal.Proposal {
	return proposal.New(proposal.Proposal{By: proposal.Author{Key: by, Root: by}, Required: true, Life: time.Hour, NotBefore: noon}, r,
		usdc, 84532, "base-sepolia", at)
}

// reads checks that p is stored, and returns it as it is.
func (c *check) reads(p proposal.Proposal) proposal.Proposal {
	c.Helper()
	got := must.Get(c.Proposal(c.Context(), p.Payment.ID))(c)
	c.samePayment("its payment", p.Payment, got.Payment)
	c.samePayment("the payment alone", p.Payment, must.Get(c.Payment(c.Context(), p.Payment.ID))(c))
	p.Writes, p.Payment = got.Writes, got.Payment
	c.same("the proposal", p, got)
	return got
}

// amended stores to over from, and returns it.
func (c *check) amended(from, to proposal.Proposal) proposal.Proposal {
	c.Helper()
	c.ok("amending", c.Amend(c.Context(), from, to, store.Guard{}))
	return c.reads(to)
}

// begun returns p with its release begun on a new wallet, not stored.
func (c *check) begun(p proposal.Proposal) proposal.Proposal {
	id := c.walletID()
	next := p.Request()
	next.Key.Guard = 0
	to := payment.New(p.Payment.ID, next, usdc, "base-sepolia", noon.Add(time.Minute))
	if len(to.Entries) > 1 {
		to.BatchContract = token.Address{0xba, 19: 0xba}
	}
	return p.Begin(to.AssignedTo(id.Address, unsigned(id, to, 7)))
}

// due returns the payments of the check's merchant's proposals that are due.
func (c *check) due(now time.Time) (ids []payment.ID) {
	c.Helper()
	for _, d := range must.Get(c.Due(c.Context(), now, 10_000))(c) {
		if d.Merchant == c.merchant && d.Mode == "test" {
			ids = append(ids, d.ID)
			p := must.Get(c.Proposal(c.Context(), d.ID))(c)
			c.same("since when "+string(d.ID)+" is due", d.Since.UnixMilli(), p.Next().UnixMilli())
		}
	}
	return ids
}

var proposalPromises = []promise[*check]{
	{"a proposal takes a free key", func(c *check) {
		for _, r := range []payment.Request{c.request(token.Units(5)), c.batch(1), c.batch(3)} {
			p := c.proposed(r, "key_1", noon)
			c.reads(p)
			again := must.Get(c.Propose(c.Context(), c.proposal(r, "key_2", noon)))(c)
			stored, created, err := c.Create(c.Context(), offer(c.walletID(), noon, r))
			if err != nil || created || again || stored.State != payment.Proposed || !stored.Proposal {
				c.Errorf("the key was free: %v, %v, %+v, %v", again, created, stored, err)
			}
			c.reads(p)
		}
		paid := c.created(c.walletID())
		other := c.proposal(c.request(token.Units(1)), "key_1", noon)
		other.Payment.ID = paid.ID
		if created, err := c.Propose(c.Context(), other); created || err != nil {
			c.Errorf("a used key: %v, %v", created, err)
		}
		c.same("a payment without one", proposal.Proposal{Payment: paid}, must.Get(c.Proposal(c.Context(), paid.ID))(c))
		_, err := c.Proposal(c.Context(), "pay_none")
		c.refused("an unknown one", err, store.ErrNotFound)
	}},
	{"nothing but an amendment moves a payment that a proposal holds, until it is prepared", func(c *check) {
		p := c.proposed(c.request(token.Units(5)), "key_1", noon)
		inert := func(p proposal.Proposal) {
			c.Helper()
			moved := p.Payment
			moved.State, moved.Wallet = payment.Prepared, token.Address{1}
			c.refused("discarding", c.Discard(c.Context(), p.Payment), store.ErrChanged)
			c.refused("reassigning", c.Reassign(c.Context(), moved, p.Payment.Revision), store.ErrChanged)
			committed := must.Get(moved.Commit(signed(p.Payment.Revision, 3, token.Units(1)), noon))(c)
			c.refused("committing", c.Commit(c.Context(), committed), store.ErrChanged)
			c.reads(p)
		}
		inert(p)
		held := c.amended(p, c.begun(p))
		c.refused("discarding what is begun", c.Discard(c.Context(), held.Payment), store.ErrChanged)
		held = c.amended(held, held.Refused(proposal.Refusal{Code: "insufficient_funds", Message: "none"}, noon.Add(time.Minute)))
		inert(held)
		again := c.amended(held, c.begun(held))
		if again.Payment.Revision == held.Payment.Revision {
			c.Error("a second release has the first one's revision")
		}
		inert(c.amended(again, again.End(payment.Cancelled, noon)))
	}},
	{"an amendment stores the whole payment, and leaves nothing of the one before", func(c *check) {
		p := c.proposed(c.batch(3), "key_1", noon)
		other := payment.Request{Merchant: c.merchant, Mode: "test", IdempotencyKey: p.Payment.IdempotencyKey, To: token.Address{1},
			Amount: token.Units(5)}
		to := c.amended(p, c.begun(c.proposal(other, "key_1", noon)))
		c.amended(to, c.begun(p))
	}},
	{"a released proposal's payment is one like any other", func(c *check) {
		for _, r := range []payment.Request{c.request(token.Units(5)), c.batch(1), c.batch(3)} {
			p := c.proposed(r, "key_1", noon)
			p = c.amended(p, c.begun(p))
			paid := p.Payment
			p.Payment = c.confirmed(c.committed(paid, 3))
			p.Payment.Revision = must.Get(c.Payment(c.Context(), paid.ID))(c).Revision
			p = c.reads(p)
			closed := p
			closed.Closed, closed.Event = true, ""
			c.amended(p, closed)
			c.same("due", []payment.ID(nil), c.due(noon.Add(time.Hour)))
		}
	}},
	{"an amendment holds only for the proposal, the state and the revision that were read", func(c *check) {
		read := c.proposed(c.request(token.Units(5)), "key_1", noon)
		held := c.amended(read, c.begun(read))
		c.refused("of an older one", c.Amend(c.Context(), read, read.End(payment.Cancelled, noon), store.Guard{}), store.ErrChanged)
		for _, change := range []func(*proposal.Proposal){
			func(p *proposal.Proposal) { p.Payment.State = payment.Proposed },
			func(p *proposal.Proposal) { p.Payment.Revision = "another" },
			func(p *proposal.Proposal) { p.Writes++ },
		} {
			other := held
			change(&other)
			c.refused("of another", c.Amend(c.Context(), other, held.End(payment.Cancelled, noon), store.Guard{}), store.ErrChanged)
		}
		c.winner(5, store.ErrChanged, func(ctx context.Context, i int) error {
			return patiently(func() error {
				return c.Amend(ctx, held, held.Approve(proposal.Author{Key: string(rune('a' + i))}, noon), store.Guard{})
			})
		})
		moved := held.Payment.AssignedTo(token.Address{1}, held.Payment.Tx)
		c.ok("reassigning", c.Reassign(c.Context(), moved, held.Payment.Revision))
		held = must.Get(c.Proposal(c.Context(), read.Payment.ID))(c)
		committed := c.committed(held.Payment, 4)
		c.refused("of a payment that is signed", c.Amend(c.Context(), held, held.Refused(proposal.Refusal{Code: "x"}, noon), store.Guard{}),
			store.ErrChanged)
		c.same("the payment's state", committed.State, must.Get(c.Payment(c.Context(), committed.ID))(c).State)
	}},
	{"a release and its guard are stored together, or neither is", func(c *check) {
		g, other := c.guarded()
		p := c.proposed(c.request(token.Units(5)), "key_1", noon)
		_, _, err := c.CreateGuarded(c.Context(), other, g)
		c.ok("another payment", err)
		to := c.begun(p)
		to.Payment.Guarded = true
		c.refused("with an older guard", c.Amend(c.Context(), p, to, g), store.ErrChanged)
		c.reads(p)
		g = c.guards(g.ID, other.ID)
		c.ok("with the guard", c.Amend(c.Context(), p, to, g))
		c.reads(to)
		c.guards(g.ID, other.ID, p.Payment.ID)
	}},
	{"proposals are due when something is to be done, the earliest first", func(c *check) {
		var all []proposal.Proposal
		for i := range 4 {
			p := c.proposed(c.request(token.Units(5)), "key_1", noon.Add(time.Duration(3-i)*time.Second))
			all = append(all, p)
		}
		ids := func(some ...proposal.Proposal) (ids []payment.ID) {
			for _, p := range some {
				ids = append(ids, p.Payment.ID)
			}
			return ids
		}
		c.same("with events", ids(all[3], all[2], all[1]), c.due(noon.Add(2*time.Second)))
		for i, p := range all {
			p.Event = ""
			all[i] = c.amended(all[i], p)
		}
		c.same("awaiting approval", ids(), c.due(noon.Add(59*time.Minute)))
		c.same("after their end", ids(all[3], all[2], all[1], all[0]), c.due(noon.Add(61*time.Minute)))
		to := all[0].Approve(proposal.Author{Key: "key_2"}, noon.Add(time.Minute))
		to.Event = ""
		all[0] = c.amended(all[0], to)
		c.same("before it is due", ids(), c.due(noon.Add(59*time.Second)))
		c.same("due", ids(all[0]), c.due(noon.Add(time.Minute)))
		all[0] = c.amended(all[0], all[0].Refused(proposal.Refusal{Code: "x"}, noon.Add(time.Minute)))
		c.same("refused", ids(), c.due(noon.Add(time.Minute+59*time.Second)))
		c.same("tried again", ids(all[0]), c.due(noon.Add(2*time.Minute)))
		all[0] = c.amended(all[0], all[0].End(payment.Cancelled, noon.Add(2*time.Minute)))
		c.same("its end", ids(all[0]), c.due(noon.Add(2*time.Minute)))
		end := all[0]
		end.Event, end.Closed = "", true
		c.amended(all[0], end)
		c.same("closed", ids(), c.due(noon.Add(2*time.Minute)))
		if some := must.Get(c.Due(c.Context(), noon.Add(24*time.Hour), 2))(c); len(some) != 2 {
			c.Errorf("%d are named, at most 2 were asked for", len(some))
		}
	}},
	{"a merchant has at most so many open proposals", func(c *check) {
		first := c.proposed(c.request(token.Units(5)), "key_1", noon)
		for range proposal.MaxOpen - 1 {
			c.proposed(c.request(token.Units(5)), "key_1", noon)
		}
		more := c.proposal(c.request(token.Units(5)), "key_1", noon)
		_, err := c.Propose(c.Context(), more)
		c.refused("one more", err, store.ErrProposals)
		c.missing(more.Payment.ID)
		if created, err := c.Propose(c.Context(), first); created || err != nil {
			c.Errorf("a used key comes before the limit: %v, %v", created, err)
		}
		end := c.amended(first, first.End(payment.Expired, noon))
		_, err = c.Propose(c.Context(), more)
		c.refused("before it is closed", err, store.ErrProposals)
		closed := end
		closed.Closed = true
		c.amended(end, closed)
		if created, err := c.Propose(c.Context(), more); !created || err != nil {
			c.Errorf("after an end: %v, %v", created, err)
		}
	}},
	{"proposals are listed newest first, and by status and key", func(c *check) {
		var all []proposal.Proposal
		for i := range 5 {
			p := c.proposed(c.request(token.Units(5)), []string{"key_1", "key_2"}[i%2], noon.Add(time.Duration(i/2)*time.Second))
			all = append(all, p)
		}
		all[1] = c.amended(all[1], all[1].End(payment.Cancelled, noon))
		all[2] = c.amended(all[2], all[2].Approve(proposal.Author{Key: "key_3"}, noon))
		slices.SortFunc(all, func(a, b proposal.Proposal) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Payment.ID, a.Payment.ID))
		})
		for _, limit := range []int{1, 2, 5, 100} {
			for _, f := range []store.ProposalFilter{
				{}, {Status: proposal.StatusCancelled}, {Status: proposal.StatusAwaiting}, {By: "key_2"},
				{By: "key_1", Status: proposal.StatusScheduled},
			} {
				f.Merchant, f.Mode, f.Limit = c.merchant, "test", limit
				var got, want []proposal.Proposal
				for _, p := range all {
					if f.Matches(p) {
						want = append(want, p)
					}
				}
				for rounds := 0; rounds < 9; rounds++ {
					page, next, err := c.ListProposals(c.Context(), f)
					c.ok("listing", err)
					if len(page) > limit {
						c.Errorf("a page of %d, at most %d", len(page), limit)
					}
					if got, f.From = append(got, page...), next; next.IsZero() {
						break
					}
				}
				for i := range got {
					got[i].Writes = want[min(i, len(want)-1)].Writes
				}
				c.same("the list", want, got)
			}
		}
	}},
}
