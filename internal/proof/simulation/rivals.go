package simulation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
)

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
