package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/bench/lab"
	"remit/internal/client"
)

// Habits of clients, in parts of a hundred.
const (
	hasty     = 10 // requests that are given up after a moment, as by a phone that loses its network
	doubled   = 5  // payments asked for by two clients at once
	forgetful = 4  // payments never asked for again after the first failure
	doubtful  = 10 // payments asked for again after they were answered
)

// patience is how long a client waits for an answer unless it is hasty.
const patience = 40 * time.Second

// An order is one payment that a client wants. Its amount is its own, so the
// chain alone tells the order of a transfer. The clients' lock guards it.
type order struct {
	number          int
	hash            string    // of the first 201
	began, answered time.Time // of the first request and of the first 201
	left            bool      // its client gave up without an answer
	changed         []string  // other hashes in later answers
}

func (o *order) key() string    { return fmt.Sprintf("order-%d", o.number) }
func (o *order) amount() uint64 { return lab.Base + uint64(o.number) }

// paid notes a 201.
func (o *order) paid(hash string, now time.Time) {
	if o.hash == "" {
		o.hash, o.answered = hash, now
	} else if o.hash != hash {
		o.changed = append(o.changed, hash)
	}
}

// underWay reports whether the order had been asked for and not answered at a
// moment, and its client goes on asking.
func (o *order) underWay(at time.Time) bool {
	return !o.left && !o.began.IsZero() && !o.began.After(at) && (o.hash == "" || o.answered.After(at))
}

// Clients are the load: merchants' servers that ask for payments and retry until
// they have an answer.
type clients struct {
	merchant           *client.Client
	pace               *time.Ticker // one order each
	requests, failures atomic.Int64

	mu      sync.Mutex
	all     []*order
	refused map[string]int // refusals that no retry changes, and no fault here may cause
}

// orders returns a copy of every order as it is now.
func (c *clients) orders() []order {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]order, len(c.all))
	for i, o := range c.all {
		all[i] = *o
	}
	return all
}

// change changes an order, or the refusals, under the lock.
func (c *clients) change(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// run is one client. It orders until faults ends, and then finishes its last
// payment unless ctx ends.
func (c *clients) run(ctx, faults context.Context, draw *rand.Rand) {
	for {
		select {
		case <-faults.Done():
			return
		case <-c.pace.C:
		}
		c.mu.Lock()
		o := &order{number: len(c.all)}
		c.all = append(c.all, o)
		c.mu.Unlock()
		var both sync.WaitGroup
		if draw.IntN(100) < doubled {
			twin := rand.New(rand.NewPCG(draw.Uint64(), draw.Uint64()))
			both.Go(func() { c.pursue(ctx, o, twin) })
		}
		c.pursue(ctx, o, draw)
		both.Wait()
	}
}

// pursue asks for a payment until it is answered for good.
func (c *clients) pursue(ctx context.Context, o *order, draw *rand.Rand) {
	forget := draw.IntN(100) < forgetful
	for try := 0; ctx.Err() == nil; try++ {
		if c.ask(ctx, o, draw) {
			if draw.IntN(100) < doubtful {
				c.ask(ctx, o, draw)
			}
			return
		}
		if forget {
			break
		}
		lab.Sleep(ctx, time.Duration(50+draw.IntN(200))*time.Millisecond<<min(try, 3))
	}
	c.change(func() { o.left = true })
}

// ask makes one request and reports whether it was answered for good.
func (c *clients) ask(ctx context.Context, o *order, draw *rand.Rand) bool {
	wait := patience
	if draw.IntN(100) < hasty {
		wait = time.Duration(1+draw.IntN(100)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c.requests.Add(1)
	c.change(func() {
		if o.began.IsZero() {
			o.began = time.Now()
		}
	})
	p, err := c.merchant.Send(ctx, client.Order{To: lab.Payee, Amount: json.Number(fmt.Sprint(o.amount()))}, o.key())
	refusal, refused := errors.AsType[*client.Problem](err)
	switch {
	case err == nil:
		c.change(func() { o.paid(p.Hash, time.Now()) })
	case refused && refusal.Status < 500 && refusal.Status != http.StatusConflict:
		c.change(func() { c.refused[fmt.Sprintf("%d %s", refusal.Status, refusal.Code)]++; o.left = true })
	default:
		c.failures.Add(1)
		return false
	}
	return true
}

func TestUnderWayIsAnOrderAskedForAndNotAnsweredAtTheKill(t *testing.T) {
	kill := time.Unix(1000, 0)
	before, after := kill.Add(-time.Second), kill.Add(time.Second)
	for name, row := range map[string]struct {
		order order
		want  bool
	}{
		"answered before":                     {order{began: before, answered: before, hash: "0x1"}, false},
		"answered after":                      {order{began: before, answered: after, hash: "0x1"}, true},
		"never answered, and still asked for": {order{began: before}, true},
		"never answered, left by its client":  {order{began: before, left: true}, false},
		"asked for after":                     {order{began: after, answered: after, hash: "0x1"}, false},
		"not yet asked for":                   {order{}, false},
	} {
		if got := row.order.underWay(kill); got != row.want {
			t.Errorf("%s: under way %v; want %v", name, got, row.want)
		}
	}
}

func TestAnOrderRemembersItsFirstHashAndEveryOther(t *testing.T) {
	o, at := order{number: 1}, time.Unix(1, 0)
	o.paid("0xa", at)
	o.paid("0xa", at.Add(time.Hour))
	o.paid("0xb", at)
	if o.hash != "0xa" || !o.answered.Equal(at) || !slices.Equal(o.changed, []string{"0xb"}) {
		t.Errorf("%+v; want 0xa at first, and 0xb noted", o)
	}
	if other := (order{number: 2}); o.key() == other.key() || o.amount() == other.amount() {
		t.Error("two orders share a key or an amount")
	}
}
