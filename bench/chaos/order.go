package chaos

import (
	"fmt"
	"sync"
	"time"
)

// An order is one payment that a client wants made. Its amount is its own, so
// that the transfer can be found on the chain without asking anybody else.
type order struct {
	number int

	mu       sync.Mutex
	hash     string    // of the first 201
	began    time.Time // of the first request
	answered time.Time // of the first 201
	left     bool      // its client gave up without an answer
	changed  []string  // other hashes it was answered with later
}

// base is the amount of order 0.
const base = 1_000_000

func (o *order) key() string    { return fmt.Sprintf("order-%d", o.number) }
func (o *order) amount() uint64 { return base + uint64(o.number) }

// start notes the first request.
func (o *order) start(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		o.began = now
	}
}

// paid notes a 201.
func (o *order) paid(hash string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch o.hash {
	case "":
		o.hash, o.answered = hash, now
	case hash:
	default:
		o.changed = append(o.changed, hash)
	}
}

// abandon notes that nobody will ask again.
func (o *order) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = true
}

// answer returns the hash, empty without a 201.
func (o *order) answer() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hash
}

// A book holds all orders.
type book struct {
	mu  sync.Mutex
	all []*order
}

func (b *book) next() *order {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := &order{number: len(b.all)}
	b.all = append(b.all, o)
	return o
}

func (b *book) orders() []*order {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*order(nil), b.all...)
}

// underWay returns the orders that had been asked for and not answered at a
// moment, but for those that their clients left.
func (b *book) underWay(at time.Time) []*order {
	var found []*order
	for _, o := range b.orders() {
		o.mu.Lock()
		if !o.left && !o.began.IsZero() && !o.began.After(at) && (o.hash == "" || o.answered.After(at)) {
			found = append(found, o)
		}
		o.mu.Unlock()
	}
	return found
}
