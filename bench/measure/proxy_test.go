package measure_test

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/internal/client"
)

// A mode is the fault that a proxy makes.
type mode int

const (
	pass  mode = iota // none
	down              // connections are reset, new ones too
	slow              // everything arrives late, both ways
	mute              // requests arrive; instead of an answer the connection is reset
	stall             // requests arrive, answers are swallowed, and the client is told only when the mode ends
)

func (m mode) String() string {
	return [...]string{"well again", "down", "slow", "answers lost", "answers held"}[m]
}

// lateness is how long slow holds bytes back, each way.
const lateness = 150 * time.Millisecond

// A proxy stands between the server and a service that it uses over HTTP, and
// misbehaves as networks do. It reads nothing of the messages that it carries.
type proxy struct {
	*httptest.Server
	name, target string
	service      http.Transport
	resets, lost atomic.Int64 // connections reset, and answers that never arrived

	mu    sync.Mutex
	mode  mode
	ended chan struct{} // closed when the mode ends
}

// newProxy listens on a free port for requests to target, until the test ends.
func newProxy(t testing.TB, name, target string) *proxy {
	p := &proxy{name: name, target: strings.TrimPrefix(target, "http://"), ended: make(chan struct{})}
	p.service.MaxIdleConnsPerHost, p.service.DisableCompression = 256, true
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() { p.set(down); p.CloseClientConnections(); p.Close(); p.service.CloseIdleConnections() })
	return p
}

// set ends the mode and begins another.
func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ended)
	p.mode, p.ended = m, make(chan struct{})
}

// meet returns the mode, slowly if it is slow, and a channel that is closed when
// the mode ends.
func (p *proxy) meet() (mode, <-chan struct{}) {
	p.mu.Lock()
	m, ended := p.mode, p.ended
	p.mu.Unlock()
	if m == slow {
		time.Sleep(lateness)
	}
	return m, ended
}

// reset closes the connection to a client as a crash does.
func (p *proxy) reset(w http.ResponseWriter) {
	p.resets.Add(1)
	if client, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = client.(*net.TCPConn).SetLinger(0)
		_ = client.Close()
	}
}

// ServeHTTP carries one request and its answer.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m, _ := p.meet(); m == down {
		p.reset(w)
		return
	}
	r.URL.Scheme, r.URL.Host = "http", p.target
	answer, err := p.service.RoundTrip(r)
	if err != nil {
		p.reset(w)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	switch m, ended := p.meet(); m {
	case pass, slow:
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
		return
	case stall:
		p.lost.Add(1)
		<-ended
	case mute:
		p.lost.Add(1)
	}
	p.reset(w)
}

func TestEveryModeDoesToAServiceWhatItSays(t *testing.T) {
	for _, row := range []struct {
		mode        mode
		told        string // the client's answer, "" for an error
		asked, lost int64  // requests that the service got, and answers that did not arrive
	}{{pass, "done", 1, 0}, {down, "", 0, 0}, {slow, "done", 1, 0}, {mute, "", 1, 1}, {stall, "", 1, 1}} {
		var asked atomic.Int64
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = io.WriteString(w, "done")
		}))
		p := newProxy(t, "service", service.URL)
		p.set(row.mode)
		told := make(chan string, 1)
		go func() {
			answer, _ := (&client.Client{URL: p.URL, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}).Call(t.Context(), "POST", "/", "do")
			told <- string(answer.Body)
		}()
		if row.mode == stall {
			for p.lost.Load() == 0 {
				time.Sleep(time.Millisecond) // until the answer has come and was swallowed
			}
			if len(told) > 0 {
				t.Error("the client was told while answers are held")
			}
			p.set(pass)
		}
		if got := <-told; got != row.told || asked.Load() != row.asked || p.lost.Load() != row.lost || (p.resets.Load() > 0) != (got == "") {
			t.Errorf("%v: answered %q, asked %d times, %d answers lost, %d resets; want %+v", row.mode, got, asked.Load(), p.lost.Load(), p.resets.Load(), row)
		}
		service.Close()
	}
}
