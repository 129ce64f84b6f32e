package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"sync"
)

// refuses is how many of a hundred events the receiver answers 500 to the
// first time, so that retries are part of the test.
const refuses = 5

// A receiver is the merchant's webhook endpoint. It remembers every event.
type receiver struct {
	server *http.Server
	url    string

	mu     sync.Mutex
	events map[string]*received // by webhook-id
	byHash map[string]string    // event id by the payment's tx_hash
	bad    []string             // what must not happen
}

// received is what arrived under one event id.
type received struct {
	body  [sha256.Size]byte
	kind  string
	times int
}

func newReceiver(ctx context.Context) (*receiver, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the webhook receiver: %w", err)
	}
	r := &receiver{url: "http://" + listener.Addr().String() + "/hook", events: map[string]*received{}, byHash: map[string]string{}}
	r.server = &http.Server{Handler: r}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

// ServeHTTP takes one webhook.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id := req.Header.Get("Webhook-Id")
	body, err := io.ReadAll(req.Body)
	var event struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			Hash string `json:"tx_hash"`
		} `json:"data"`
	}
	if err != nil || json.Unmarshal(body, &event) != nil {
		return // the sender was killed half-way
	}
	if !r.take(id, event.ID, event.Type, event.Data.Hash, sha256.Sum256(body)) {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// take notes an event and reports whether to accept it.
func (r *receiver) take(id, named, kind, hash string, sum [sha256.Size]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != named {
		r.bad = append(r.bad, fmt.Sprintf("webhook-id %s carries event %s", id, named))
	}
	seen := r.events[id]
	if seen == nil {
		r.events[id] = &received{body: sum, kind: kind, times: 1}
		if other, ok := r.byHash[hash]; ok && other != id {
			r.bad = append(r.bad, fmt.Sprintf("payment %s has events %s and %s", hash, other, id))
		}
		r.byHash[hash] = id
		h := fnv.New32a()
		_, _ = h.Write([]byte(id))
		return h.Sum32()%100 >= refuses
	}
	seen.times++
	if seen.body != sum {
		r.bad = append(r.bad, fmt.Sprintf("event %s came with two bodies", id))
	}
	return true
}

// eventOf returns the kind of event that a payment was announced with.
func (r *receiver) eventOf(hash string) (kind string, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.events[r.byHash[hash]]
	if e == nil {
		return "", 0
	}
	return e.kind, e.times
}
