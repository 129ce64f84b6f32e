package lab

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// An Event is one event as a Receiver got it.
type Event struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		Hash  string `json:"tx_hash"`
		Block uint64 `json:"block_number"`
	} `json:"data"`

	At    time.Time `json:"-"` // of the first arrival
	Times int       `json:"-"` // arrivals
	body  [sha256.Size]byte
}

// A Receiver is a merchant's webhook endpoint on a port of its own. It remembers
// every event, and which of them the contract forbids.
type Receiver struct {
	*httptest.Server
	answer func(r *http.Request, e Event) int

	mu     sync.Mutex
	events map[string]*Event // by ID
	byHash map[string]*Event // the first event of each payment
	bad    []string
}

// NewReceiver starts a receiver. answer returns the status for an arrival; nil
// stands for 200. The receiver ends with the benchmark.
func NewReceiver(t testing.TB, answer func(r *http.Request, e Event) int) *Receiver {
	r := &Receiver{answer: answer, events: map[string]*Event{}, byHash: map[string]*Event{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

// ServeHTTP takes one webhook.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e := Event{At: time.Now(), Times: 1}
	body, err := io.ReadAll(req.Body)
	if err != nil || json.Unmarshal(body, &e) != nil {
		return // the sender was killed half-way
	}
	e.body = sha256.Sum256(body)
	e = r.take(req.Header.Get("Webhook-Id"), e)
	if r.answer != nil {
		w.WriteHeader(r.answer(req, e))
	}
}

// take notes an arrival and returns the event with its number of arrivals.
func (r *Receiver) take(header string, e Event) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if header != e.ID {
		r.bad = append(r.bad, fmt.Sprintf("webhook-id %s carries event %s", header, e.ID))
	}
	if seen := r.events[e.ID]; seen != nil {
		seen.Times++
		if seen.body != e.body {
			r.bad = append(r.bad, fmt.Sprintf("event %s came with two bodies", e.ID))
		}
		return *seen
	}
	if first := r.byHash[e.Data.Hash]; first != nil {
		r.bad = append(r.bad, fmt.Sprintf("payment %s has events %s and %s", e.Data.Hash, first.ID, e.ID))
	} else {
		r.byHash[e.Data.Hash] = &e
	}
	r.events[e.ID] = &e
	return e
}

// Count returns how many different events have arrived.
func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// Events returns all events in no order, and the faults found in them.
func (r *Receiver) Events() (events []Event, bad []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range maps.Values(r.events) {
		events = append(events, *e)
	}
	return events, slices.Clone(r.bad)
}

// Of returns the event of the payment with that hash, a zero Event if none came.
func (r *Receiver) Of(hash string) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byHash[hash]; e != nil {
		return *e
	}
	return Event{}
}
