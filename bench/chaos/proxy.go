package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Mode is what a proxy does to the connections through it.
type Mode int32

// The modes.
const (
	Pass  Mode = iota // nothing
	Down              // connections are reset, new ones too
	Slow              // everything arrives late, both ways
	Mute              // requests arrive, answers do not: the connection is reset instead
	Stall             // requests arrive, answers are swallowed, and nobody is told until the mode ends
)

var modeNames = map[Mode]string{Pass: "pass", Down: "down", Slow: "slow", Mute: "answers lost", Stall: "answers held"}

// String names the mode.
func (m Mode) String() string { return modeNames[m] }

// lateness is how long Slow holds what passes, each way.
const lateness = 150 * time.Millisecond

// A Proxy stands between the server and a service it uses, and can be made to
// misbehave as networks do. It looks at nothing that passes.
type Proxy struct {
	Name string

	listener net.Listener
	target   string
	mode     atomic.Int32
	resets   atomic.Int64 // connections cut
	lost     atomic.Int64 // answers that never arrived

	mu    sync.Mutex
	links map[*link]bool
}

// A link is one connection through the proxy.
type link struct {
	client, server *net.TCPConn
	swallowed      atomic.Bool // some of an answer: what follows makes no sense any more
}

// NewProxy listens on a free port of loopback for connections to target.
func NewProxy(ctx context.Context, name, target string) (*Proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the proxy of %s: %w", name, err)
	}
	p := &Proxy{Name: name, listener: listener, target: target, links: map[*link]bool{}}
	go p.serve()
	return p, nil
}

// URL is where the proxy serves.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Faults returns how many connections were cut and how many answers lost.
func (p *Proxy) Faults() (resets, lost int64) { return p.resets.Load(), p.lost.Load() }

// Set changes the mode. Connections whose answers were swallowed do not
// survive the change.
func (p *Proxy) Set(m Mode) {
	p.mode.Store(int32(m))
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if m == Down || l.swallowed.Load() {
			p.cut(l)
		}
	}
}

// Close ends the proxy and everything through it.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// cut resets the client's end. The caller need not hold the lock.
func (p *Proxy) cut(l *link) {
	p.resets.Add(1)
	_ = l.client.SetLinger(0) // a reset, not a polite end
	l.close()
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go p.open(conn.(*net.TCPConn))
	}
}

// open connects a client to the target, unless that is down.
func (p *Proxy) open(client *net.TCPConn) {
	if Mode(p.mode.Load()) == Down {
		p.resets.Add(1)
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server.(*net.TCPConn)}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.carry(l, l.client, l.server, false) })
	both.Go(func() { p.carry(l, l.server, l.client, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// carry copies one way until either end is gone. answers says which way.
func (p *Proxy) carry(l *link, from, to *net.TCPConn, answers bool) {
	defer func() {
		held := answers && l.swallowed.Load() && Mode(p.mode.Load()) == Stall
		if !held { // the service may end its side: nobody is told before Set cuts the link
			l.close()
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		switch mode := Mode(p.mode.Load()); {
		case mode == Slow:
			time.Sleep(lateness)
		case answers && mode == Mute:
			p.lost.Add(1)
			p.cut(l)
			return
		case answers && (mode == Stall || l.swallowed.Load()):
			if !l.swallowed.Swap(true) {
				p.lost.Add(1)
			}
			if Mode(p.mode.Load()) != Stall { // Set may have looked before the mark was made
				p.cut(l)
				return
			}
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
