package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

// proposals are those of an instance.
func (c *Cluster) proposals(on instance) *dispatch.Proposals {
	return &dispatch.Proposals{Rails: on.Rails, Events: c, Terms: c.terms, Most: 2, Width: 1, Explain: func(err error) proposal.Refusal {
		if errors.Is(err, dispatch.ErrInProgress) || errors.Is(err, dispatch.ErrUnavailable) || errors.Is(err, dispatch.ErrExpired) {
			return proposal.Refusal{}
		}
		return proposal.Refusal{Code: "refused"}
	}}
}

// Announce implements dispatch.Announcer.
func (c *Cluster) Announce(ctx context.Context, _ webhook.Owner, kind string, _ time.Time, _ any) error {
	return c.scheduler.Around(ctx, interpose.Call{Op: "Announce", Args: kind}, func(context.Context) {})
}

// terms returns a merchant's terms, and tells the acceptor of the answer.
func (c *Cluster) terms(ctx context.Context, merchant string) (apikey.Terms, error) {
	terms := &apikey.Terms{} // of its own: an answer that is lost may still be written
	err := c.scheduler.Around(ctx, interpose.Call{Op: "Terms", Args: merchant}, func(ctx context.Context) {
		if age := time.Since(c.start); age >= c.suspends[0] && age < c.suspends[1] {
			terms.Suspended = "for a while"
		}
		if merchant == c.Own {
			terms.Own = "its own"
		}
		c.model.active[scheduler.ActorOf(ctx)] = terms.Suspended == ""
	})
	return *terms, err
}

// StartReleases starts a run of release-proposals.
func (c *Cluster) StartReleases() {
	c.releases++
	name, on := fmt.Sprint("release", c.releases), c.newInstance()
	ctx, actor := c.scheduler.Actor(name, runTime)
	go func() {
		defer actor.End()
		_, _, err := c.proposals(on).Run(skewedContext{ctx, on.skew})
		if err == nil || !errors.Is(err, scheduler.ErrOver) {
			c.trace(name, "ends, with errors: %t", err != nil)
		}
	}()
}

// A bill is a payment that a merchant proposes.
type bill struct {
	oracle.Order
	proposal.Proposal // its own fields
}

func anyAsset(token.Coin) bool { return true }

func (b bill) name() string { return proposal.ID(b.ID()) }

var (
	proposer = proposal.Author{Key: "key_1", Root: "key_1"}
	rotated  = proposal.Author{Key: "key_2", Root: "key_1"}
	approver = proposal.Author{Key: "key_3", Root: "key_3"}
)

// startProposals has a merchant propose payments in a third of the seeds. Two keys approve each, now and then one of
// them a rotation of the proposer's; some are cancelled, and some requests want to pay under their keys at once.
func (c *Cluster) startProposals(rng *rand.Rand, r Reduction) {
	if rng.IntN(3) > 0 {
		return
	}
	c.proposes = true
	if rng.IntN(3) == 0 {
		from := time.Duration(rng.IntN(200)) * time.Second
		c.suspends = [2]time.Duration{from, from + time.Duration(rng.IntN(200))*time.Second}
	}
	for i := range 1 + rng.IntN(3) {
		b := bill{oracle.Order{Key: fmt.Sprint("proposed", i), To: fakechain.Payee(700 + i), Amount: uint64(300 + i)},
			proposal.Proposal{By: proposer, Required: rng.IntN(3) > 0, Life: time.Duration(1+rng.IntN(8)) * time.Minute}}
		if rng.IntN(2) == 0 {
			b.NotBefore = c.start.Add(time.Duration(30+rng.IntN(400)) * time.Second)
		}
		if len(c.rails) > 1 && rng.IntN(2) == 0 {
			b.Order.Asset = assets[1].Coin()
		}
		b.By.Limits = c.Key
		actors := []struct {
			name string
			do   func(context.Context, *dispatch.Proposals) error
		}{
			{"propose", b.propose}, {"approve-a", b.approve(approver)},
			{"approve-b", b.approve([]proposal.Author{rotated, proposer, approver}[rng.IntN(3)])},
			{"cancel", b.cancel(c)}, {"pay", nil},
		}
		for j, a := range actors {
			late, tries := time.Duration(rng.IntN(100))*time.Second, 1+rng.IntN(12)
			if wanted := j < 2 || rng.IntN(2) == 0; !wanted || r.Clients > 0 && 30+5*i+j >= r.Clients {
				continue
			}
			asked := b
			if len(c.rails) > 1 && a.do == nil && rng.IntN(2) == 0 { // it is another payment than the proposal's
				asked.Order.Asset = map[bool]token.Coin{b.Order.Asset == (token.Coin{}): assets[1].Coin()}[true]
			}
			c.startBill(fmt.Sprintf("client-%s%d", a.name, i), asked, late*time.Duration(min(j, 1)), tries, a.do)
		}
	}
}

// startBill starts a client that asks for something about a proposal up to tries times, or without do for its payment.
func (c *Cluster) startBill(name string, b bill, late time.Duration, tries int, do func(context.Context, *dispatch.Proposals) error) {
	ctx, actor := c.scheduler.Actor(name, 0)
	c.at(b.Order.Asset.ChainID).oracle.Order(b.Order)
	go func() {
		defer actor.End()
		c.scheduler.Sleep(ctx, late)
		for try := range tries {
			if do == nil {
				_, _ = c.post(ctx, fmt.Sprintf("%s.%d", name, try), len(name)+try, b.Order)
				c.scheduler.Sleep(ctx, 8*time.Second)
				continue
			}
			_ = c.scheduler.Around(ctx, interpose.Call{Op: "POST", Args: b.Key}, func(context.Context) {
				c.serve(fmt.Sprintf("%s.%d", name, try), len(name)+try, do)
			})
			c.scheduler.Sleep(ctx, 8*time.Second)
		}
	}()
}

// serve starts a handler about a proposal on an instance. Its answer comes on the channel unless it dies.
func (c *Cluster) serve(handler string, instance int, do func(context.Context, *dispatch.Proposals) error) <-chan error {
	on, answers := c.instances[instance%len(c.instances)], make(chan error, 1)
	ctx, actor := c.scheduler.Actor(handler, handlerTime)
	go func() {
		defer actor.End()
		err := do(skewedContext{ctx, on.skew}, c.proposals(on))
		if !actor.Dead() && !errors.Is(err, scheduler.ErrOver) {
			c.trace(handler, "answers %v", err)
			answers <- err
		}
	}()
	return answers
}

// Propose has a merchant propose an order that needs no approval.
func (s *Scenario) Propose(o oracle.Order) error {
	s.proposes = true
	return s.ask(s.serve("propose "+o.Key, 0, bill{o, proposal.Proposal{By: proposer, Life: time.Hour}}.propose))
}

// Cancel has the merchant cancel the proposal of an order.
func (s *Scenario) Cancel(o oracle.Order) error {
	return s.ask(s.serve("cancel "+o.Key, 0, bill{Order: o}.cancel(s.Cluster)))
}

func (s *Scenario) ask(answers <-chan error) error {
	s.Until(func() bool { return len(answers) > 0 })
	select {
	case err := <-answers:
		return err
	default:
		return context.DeadlineExceeded
	}
}

func (b bill) propose(ctx context.Context, s *dispatch.Proposals) error {
	r := b.Order.Request()
	r.Key = b.By.Limits
	_, _, err := s.Propose(ctx, b.Proposal, r, true)
	return err
}

func (b bill) approve(by proposal.Author) func(context.Context, *dispatch.Proposals) error {
	by.Limits = b.By.Limits
	return func(ctx context.Context, s *dispatch.Proposals) error {
		_, err := s.Approve(ctx, webhook.Owner{Merchant: "mer_1", Mode: "test"}, b.name(), by, anyAsset)
		return err
	}
}

func (b bill) cancel(c *Cluster) func(context.Context, *dispatch.Proposals) error {
	return func(ctx context.Context, s *dispatch.Proposals) error {
		losses := c.lostSoFar()
		_, err := s.Cancel(ctx, webhook.Owner{Merchant: "mer_1", Mode: "test"}, b.name())
		if err == nil && losses == c.lostSoFar() {
			c.oracle.Cancelled(b.Order)
		}
		return err
	}
}

// lostSoFar returns how often the tables were lost.
func (c *Cluster) lostSoFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.losses
}

// releaseAll has two runs look after every proposal once faults have ended, and no release may be left begun.
func (c *Cluster) releaseAll() {
	if !c.proposes {
		return
	}
	c.suspends = [2]time.Duration{}
	p := &faultless{Idle: true}
	due := newTimetable()
	for range 2 {
		c.elapse(p, due, runEvery)
		c.StartReleases()
		c.drain(p, due)
	}
	c.settle()
	for _, o := range c.orders() {
		held, err := c.Store.Payment(context.Background(), o.ID())
		if err == nil && held.Proposal && held.State == payment.Prepared && !c.skewed && !c.stolen() {
			c.oracle.Violate(oracle.Settles, "the release of %s is still being begun", o.Key)
		}
	}
}
