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

// A request has the rules for its reservations.
type request struct {
	began    time.Time
	maximum  token.Amount // of its key; zero: any
	notAfter time.Time    // zero: any time
	order    oracle.Order
}

type requestKey struct{}

// Post starts a handler of a request on an instance. Its answer comes on the channel unless it dies.
func (c *Cluster) Post(name string, instance int, order oracle.Order) <-chan oracle.Answer {
	ctx, actor := c.scheduler.Actor(name, handlerTime)
	key := c.Key
	if order.From != (token.Address{}) {
		key = payment.KeyLimits{} // operators have none
	}
	began := time.Now()
	on := c.instances[instance%len(c.instances)]
	by := request{began: began, maximum: key.Maximum, order: order}
	r := order.Request()
	key.OwnWallets = c.Own != "" && r.Merchant == c.Own && r.Asset == (token.Coin{})
	r.Key = key
	r.Key.Guard, r.DifferentFrom = order.Guard, order.Different
	if order.Patience > 0 {
		by.notAfter = by.began.Add(order.Patience)
		r.NotAfter = by.notAfter.Add(on.skew) // by the server's clock
	}
	ctx = context.WithValue(ctx, requestKey{}, by)
	answers := make(chan oracle.Answer, 1)
	to := c.at(order.Asset.ChainID)
	committed := to.oracle.Requested(order)
	go func() {
		defer actor.End()
		var result dispatch.Result
		var err error
		if (order.From == token.Address{}) {
			result, err = on.Send(skewedContext{ctx, on.skew}, r)
		} else {
			var d *dispatch.Dispatcher
			if d, err = on.Of(ctx, order.Asset); err == nil {
				result.Payment, err = d.Move(skewedContext{ctx, on.skew}, order.Transfer())
			}
		}
		if actor.Dead() || errors.Is(err, scheduler.ErrOver) {
			return
		}
		c.trace(name, "answers %s %v", result.Payment.State, err)
		answer := oracle.Answer{Order: order, Payment: result.Payment, Err: err}
		to.oracle.Answered(answer, committed)
		to.oracle.Served(name, answer, time.Since(began))
		answers <- answer
	}()
	return answers
}

// StartClient starts a client that posts an order up to tries times, until an
// answer shows that it is committed; a stubborn client asks again even then.
func (c *Cluster) StartClient(name string, order oracle.Order, tries int, stubborn bool) {
	ctx, actor := c.scheduler.Actor(name, 0)
	go func() {
		defer actor.End()
		for try := range tries {
			if answer, ok := c.post(ctx, fmt.Sprintf("%s.%d", name, try), len(name)+try, order); ok && answer.Err == nil && !stubborn {
				return
			}
			c.scheduler.Sleep(ctx, 2*time.Second)
		}
	}()
}

// post makes one request. Both ways are effects: a request may be lost or arrive late, and an answer may never come.
func (c *Cluster) post(ctx context.Context, handler string, instance int, order oracle.Order) (answer oracle.Answer, ok bool) {
	var answers <-chan oracle.Answer
	err := c.scheduler.Around(ctx, interpose.Call{Op: "POST", Args: order.Key}, func(context.Context) {
		answers = c.Post(handler, instance, order)
	})
	if err != nil {
		return oracle.Answer{}, false
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case answer := <-answers:
		err := c.scheduler.Around(ctx, interpose.Call{Op: "answer", Args: order.Key}, func(context.Context) {})
		return answer, err == nil
	case <-waiting.Done():
		return oracle.Answer{}, false
	}
}

// A crowd is merchants that want one small payment each, beside the orders of every seed.
type crowd struct {
	rng       *rand.Rand
	merchants int
	came      int // so many of them
}

// crowdOf draws a seed's crowd: of so many merchants, or by chance if that is 0. For more
// payments in flight it changes setup.
func crowdOf(rng *rand.Rand, merchants int, setup *Setup) *crowd {
	if merchants == 0 && rng.IntN(400) == 0 {
		merchants = 100
	}
	if merchants > 0 {
		setup.Window = []uint64{setup.Window, 64, 100}[rng.IntN(3)] // of which a percentage is an exact MerchantCap
		setup.Spare = 2 * setup.Window                              // as much as remit recover
	}
	return &crowd{rng: rng, merchants: merchants}
}

// step has a few more merchants come now and then, and reports whether all have.
func (w *crowd) step(c *Cluster) bool {
	if w.came < w.merchants && w.rng.IntN(160) == 0 {
		for range min(1+w.rng.IntN(20), w.merchants-w.came) {
			w.came++
			order := oracle.Order{Key: fmt.Sprint("crowd", w.came), Merchant: fmt.Sprint("mer_crowd", w.came),
				To: fakechain.Payee(1_000 + w.came), Amount: 1 + w.rng.Uint64N(3)}
			c.StartClient(fmt.Sprint("client-crowd", w.came), order, 1+w.rng.IntN(4), w.rng.IntN(8) == 0)
		}
	}
	return w.came == w.merchants
}

// startRivals has clients with guarded keys pay one amount to one recipient under several Idempotency-Keys, in a
// quarter of the seeds.
func (c *Cluster) startRivals(rng *rand.Rand, r Reduction) {
	if rng.IntN(4) > 0 {
		return
	}
	for i := range 2 + rng.IntN(3) {
		order := oracle.Order{Key: fmt.Sprint("rival", i), To: fakechain.Payee(400), Amount: 30,
			Guard: []time.Duration{time.Minute, 3 * time.Minute, 24 * time.Hour}[rng.IntN(3)]}
		for j := range 1 + rng.IntN(2) {
			if r.Clients == 0 || 20+i*2+j < r.Clients {
				c.StartRival(fmt.Sprintf("client-rival%d%c", i, 'a'+j), order, 1+rng.IntN(12), rng.IntN(3) == 0)
			}
		}
	}
}

// StartRival starts a client that posts an order of a guarded key up to tries times, until it is committed. With
// second it then names the similar payment of a refusal.
func (c *Cluster) StartRival(name string, order oracle.Order, tries int, second bool) {
	ctx, actor := c.scheduler.Actor(name, 0)
	go func() {
		defer actor.End()
		for try := range tries {
			answer, ok := c.post(ctx, fmt.Sprintf("%s.%d", name, try), len(name)+try, order)
			if ok && answer.Err == nil {
				return
			}
			if similar, is := errors.AsType[*dispatch.SimilarError](answer.Err); is && second {
				order.Different = similar.TxHash
			}
			c.scheduler.Sleep(ctx, 7*time.Second)
		}
	}()
}

// askRivals checks, once everything is settled, that no guard holds an amount up.
func (c *Cluster) askRivals() {
	rivals := c.oracle.Rivals()
	for i, o := range rivals {
		o.Key, o.Guard = fmt.Sprint("last-rival", i), time.Minute
		answers := c.Post(o.Key, 0, o)
		c.drain(&faultless{Idle: true}, newTimetable())
		select {
		case a := <-answers:
			if errors.Is(a.Err, dispatch.ErrSimilarPending) && !c.skewed && !c.stolen() { // an operator looks at a robbed wallet first
				c.oracle.Violate(oracle.Settles, "%s waits for a similar payment although all are settled", o.Key)
			}
		default:
		}
	}
	if len(rivals) > 0 {
		c.settle()
	}
}

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
				handler, on := fmt.Sprintf("%s.%d", name, try), c.instances[(len(name)+try)%len(c.instances)]
				ctx, actor := c.scheduler.Actor(handler, handlerTime)
				go func() {
					defer actor.End()
					err := do(skewedContext{ctx, on.skew}, c.proposals(on))
					if !actor.Dead() && !errors.Is(err, scheduler.ErrOver) {
						c.trace(handler, "answers %v", err)
					}
				}()
			})
			c.scheduler.Sleep(ctx, 8*time.Second)
		}
	}()
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
