package dispatch

import (
	"sync"
	"time"
)

// crowdTime is how long a process refuses a merchant at once, after every wallet has refused it: meanwhile its requests
// are neither simulated nor stored.
const crowdTime = time.Second

// crowdSize is the most merchants in a crowd. One more empties it first.
const crowdSize = 1000

// A crowd has the merchants with too many pending payments, and when that was found. The zero value is empty.
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
