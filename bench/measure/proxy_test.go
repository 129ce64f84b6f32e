package measure_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// A proxy stands between the server and a service that it uses, and misbehaves
// as networks do. It reads nothing of the bytes that it carries.
type proxy struct {
	name, target string
	listener     net.Listener
	resets, lost atomic.Int64 // connections reset, and answers that never arrived

	mu      sync.Mutex
	mode    mode
	ended   chan struct{} // closed when the mode ends
	clients map[*net.TCPConn]bool
}

// newProxy listens on a free port for connections to target, until the test ends.
func newProxy(t testing.TB, name, target string) *proxy {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{name: name, target: strings.TrimPrefix(target, "http://"), listener: listener, ended: make(chan struct{}), clients: map[*net.TCPConn]bool{}}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.link(client.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); p.set(down) })
	return p
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

// set ends the mode and begins another.
func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ended)
	p.mode, p.ended = m, make(chan struct{})
	for client := range p.clients {
		if m == down {
			p.reset(client)
		}
	}
}

// now returns the mode, and a channel that is closed when it ends.
func (p *proxy) now() (mode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.ended
}

// reset closes a client's connection as a crash does.
func (p *proxy) reset(client *net.TCPConn) {
	p.resets.Add(1)
	_ = client.SetLinger(0)
	_ = client.Close()
}

// link carries one connection until either end is gone.
func (p *proxy) link(client *net.TCPConn) {
	p.mu.Lock()
	p.clients[client] = true
	isDown := p.mode == down
	p.mu.Unlock()
	if isDown {
		p.reset(client)
	} else if server, err := net.Dial("tcp", p.target); err == nil {
		var both sync.WaitGroup
		both.Go(func() { p.carry(client, server.(*net.TCPConn), false) })
		both.Go(func() { p.carry(server.(*net.TCPConn), client, true) })
		both.Wait()
	}
	_ = client.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, client)
}

// carry copies one way; answers says which.
func (p *proxy) carry(from, to *net.TCPConn, answers bool) {
	defer func() { _ = from.Close(); _ = to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		switch m, ended := p.now(); {
		case m == slow:
			time.Sleep(lateness)
		case answers && (m == mute || m == stall):
			p.lost.Add(1)
			if m == stall {
				<-ended
			}
			p.reset(to)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
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
			client, text := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, []byte{}
			if answer, err := client.Post(p.url(), "text/plain", strings.NewReader("do")); err == nil {
				text, _ = io.ReadAll(answer.Body)
				_ = answer.Body.Close()
			}
			told <- string(text)
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
