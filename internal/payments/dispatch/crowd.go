package dispatch

import (
	"sync"
	"time"
)

// crowdTime is how long a process refuses a merchant without asking again, after every
// wallet has: its flood costs no node and no table a request meanwhile.
const crowdTime = time.Second

// A crowd is the merchants that had too many payments pending, and when.
type crowd struct{ seen sync.Map }

func (c *crowd) add(merchant string, now time.Time) { c.seen.Store(merchant, now) }

func (c *crowd) has(merchant string, now time.Time) bool {
	at, ok := c.seen.Load(merchant)
	return ok && now.Sub(at.(time.Time)).Abs() < crowdTime
}
