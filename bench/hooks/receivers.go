package hooks

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"
)

// A kind of endpoint.
type kind int

const (
	healthy  kind = iota // answers at once
	hanging              // takes the request and never answers
	refusing             // nobody listens
)

// A receiver is one endpoint of a merchant, on a port of its own.
type receiver struct {
	kind   kind
	url    string
	server *http.Server

	mu     sync.Mutex
	delays []time.Duration // from the event to the first arrival of it
	seen   map[string]int  // by event
}

func open(ctx context.Context, k kind) (*receiver, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{kind: k, url: "http://" + listener.Addr().String() + "/", seen: map[string]int{}}
	r.server = &http.Server{Handler: r}
	if k == refusing {
		return r, listener.Close()
	}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

// ServeHTTP takes one webhook, or hangs on it.
func (r *receiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	at := time.Now()
	var event struct {
		ID        string    `json:"id"`
		Timestamp time.Time `json:"timestamp"`
	}
	if json.NewDecoder(req.Body).Decode(&event) != nil {
		return
	}
	if r.kind == hanging {
		<-req.Context().Done()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[event.ID]++; r.seen[event.ID] == 1 {
		r.delays = append(r.delays, at.Sub(event.Timestamp))
	}
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.delays)
}
