package ethrpc

import (
	"sync"
	"time"
)

// How a pace begins and changes. A provider's limit mostly counts calls per second, however close together.
const (
	slowest = 10.0        // the least initial rate, in calls per second
	doubled = 1.5         // raises the rate until the first refusal, which lowers it so
	raised  = 1.015       // raises it from then on
	lowered = 0.8         // lowers it after a later refusal
	steady  = time.Second // between two raises, with a call that waited in between
)

const (
	// longest is how long a node's Retry-After is believed: daily limits name hours, and lift earlier.
	longest = time.Minute
	// share: calls that yield have one of so many even if the others want all of them.
	share = 4
)

// A pace limits calls to the rate that a node accepts, once the node has refused calls for their
// rate. It begins with the number of calls answered in the second before, and then follows the
// node's rate up and down. It is safe for many goroutines.
type pace struct {
	now func() time.Time

	mu        sync.Mutex
	rate      float64   // calls per second; 0: the node has refused none
	searching bool      // none since the first
	next      time.Time // when the calls that had their turn are paid for at that rate
	pause     time.Time // until when the node wants no calls
	probe     bool      // one call goes first after the pause
	probing   bool      // it is under way
	yielded   time.Time // when calls that yield last had their turn
	changed   time.Time // rate
	cut       time.Time // rate, by a refusal
	waited    bool      // calls have, since it changed

	last     time.Time // answer
	second   time.Time // since when answers are counted
	answered int
}

// turn returns how long calls must wait, and false if that is longer than limit. At most a second's calls go at once.
// Calls that yield must ask again after a wait: others may have gone first.
func (p *pace) turn(calls int, limit time.Duration, yields bool) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, next := p.now(), p.next
	if p.rate > 0 {
		cost := time.Duration(float64(calls) / p.rate * float64(time.Second))
		if full := now.Add(-time.Second); next.Before(full) {
			next = full
		}
		next = next.Add(cost)
		if wait = next.Sub(now); yields {
			wait = min(wait, p.yielded.Add(share*cost).Sub(now))
		}
	}
	if wait = max(0, wait, p.pause.Sub(now)); wait > limit {
		return wait, false
	}
	if p.waited = p.waited || wait > 0; yields && wait > 0 {
		return wait, true
	}
	if p.next = next; yields {
		p.yielded = now
	}
	if p.probe { // the others wait for its answer
		p.probe, p.probing, p.pause = false, true, now.Add(wait+patience)
	}
	if p.waited && now.Sub(p.changed) >= steady && now.After(p.pause) {
		by := raised
		if p.searching {
			by = doubled
		}
		p.rate, p.changed, p.waited = p.rate*by, now, false
	}
	return wait, true
}

// most returns how many of calls one request may have: those of half a second, and one to probe.
func (p *pace) most(calls int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probe {
		return 1
	}
	if p.rate == 0 {
		return calls
	}
	return max(1, min(calls, int(p.rate/2)))
}

func (p *pace) answers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now().Sub(p.last) < patience
}

// note learns from a request that waited for its turn since began. answered calls were answered. If
// others were refused for their rate, the node wants to be left alone for after. The rate falls at
// most once a second, and only by calls whose turn came after it last fell.
func (p *pace) note(began time.Time, answered int, refused bool, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.second) >= time.Second {
		p.second, p.answered = now, 0
	}
	if answered > 0 {
		p.last = now
		if p.probing {
			p.probing, p.pause = false, now
		}
	}
	p.answered += answered
	if !refused {
		return
	}
	if until := now.Add(min(after, longest)); until.After(p.pause) {
		p.pause, p.probe = until, p.probe || after > patience
	}
	p.probing = false
	switch {
	case p.rate == 0:
		p.rate, p.searching, p.next = max(slowest, float64(p.answered)), true, now
	case began.Before(p.cut) || now.Sub(p.cut) < steady:
		return
	case p.searching:
		p.rate, p.searching = max(1, p.rate/doubled), false
	default:
		p.rate = max(1, p.rate*lowered)
	}
	p.changed, p.cut, p.waited = now, now, false
}
