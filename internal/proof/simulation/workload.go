package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
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
