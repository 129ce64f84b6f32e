package fault

import (
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Mode is the fault that a Proxy makes.
type Mode int

// The modes of a Proxy.
const (
	Pass  Mode = iota // none
	Reset             // connections are reset, new ones too
	Slow              // everything arrives late, both ways
	Mute              // requests arrive; instead of an answer the connection is reset
	Stall             // requests arrive, answers are swallowed, and the client gets an error only when the mode ends
	Fail              // requests are answered 500, and do not arrive
)

func (m Mode) String() string {
	return [...]string{"well again", "down", "slow", "answers lost", "answers held", "answers 500"}[m]
}

// lateness is how long Slow holds bytes back, each way.
const lateness = 150 * time.Millisecond

// A Proxy stands between the server and a service that it uses over HTTP, and
// misbehaves as networks do. It reads nothing of the messages that it carries.
type Proxy struct {
	Target       string       // host and port of the service
	Resets, Lost atomic.Int64 // connections reset, and answers that never arrived

	service http.Transport
	mu      sync.Mutex
	mode    Mode
	ended   chan struct{} // closed when the mode ends
}

// NewProxy returns a proxy for requests to the service at a URL.
func NewProxy(target string) *Proxy {
	p := &Proxy{Target: strings.TrimPrefix(target, "http://"), ended: make(chan struct{})}
	p.service.MaxIdleConnsPerHost, p.service.DisableCompression = 256, true
	return p
}

// Close closes the connections to the service.
func (p *Proxy) Close() { p.Set(Reset); p.service.CloseIdleConnections() }

// Set ends the mode and begins another.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ended)
	p.mode, p.ended = m, make(chan struct{})
}

// meet returns the mode, slowly if it is slow, and a channel that is closed when the mode ends.
func (p *Proxy) meet() (Mode, <-chan struct{}) {
	p.mu.Lock()
	m, ended := p.mode, p.ended
	p.mu.Unlock()
	if m == Slow {
		time.Sleep(lateness)
	}
	return m, ended
}

// reset closes the connection to a client as a crash does.
func (p *Proxy) reset(w http.ResponseWriter) {
	p.Resets.Add(1)
	if client, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = client.(*net.TCPConn).SetLinger(0)
		_ = client.Close()
	}
}

// ServeHTTP carries one request and its answer.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch m, _ := p.meet(); m {
	case Reset:
		p.reset(w)
		return
	case Fail:
		http.Error(w, "this receiver is broken", http.StatusInternalServerError)
		return
	}
	r.URL.Scheme, r.URL.Host = "http", p.Target
	answer, err := p.service.RoundTrip(r)
	if err != nil {
		p.reset(w)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	switch m, ended := p.meet(); m {
	case Pass, Slow:
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
		return
	case Stall:
		p.Lost.Add(1)
		<-ended
	case Mute:
		p.Lost.Add(1)
	}
	p.reset(w)
}
