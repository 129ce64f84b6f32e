package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
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
