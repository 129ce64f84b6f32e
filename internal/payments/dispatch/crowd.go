package dispatch

import (
	"sync"
	"time"
)

// crowdTime is how long a process refuses a merchant without asking again, after every
// wallet has: its flood costs no node and no table a request meanwhile.
const crowdTime = time.Second

// crowdSize is how many merchants a crowd holds. One more empties it: then each is asked for
// once again.
const crowdSize = 1000

// A crowd is the merchants that had too many payments pending, and when. The zero value is
// empty.
type crowd struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (c *crowd) add(merchant string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= crowdSize {
		c.seen = map[string]time.Time{}
	}
	c.seen[merchant] = now
}

func (c *crowd) has(merchant string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.seen[merchant]
	return ok && now.Sub(at).Abs() < crowdTime
}
