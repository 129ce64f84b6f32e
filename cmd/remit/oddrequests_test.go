package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"remit/internal/httpapi"
)

var (
	seed     = flag.Uint64("seed", 2041, "which odd requests TestOddRequests sends")
	requests = flag.Int("requests", 4_000, "how many of them")
	only     = flag.Int("only", -1, "the one of them to send")
)

// TestOddRequests sends a running stack, byte by byte, what no client of good
// will sends, to every route. Whatever it is, the answer is JSON that
// openapi.yaml describes, not a 5xx, and repeats nothing of what was sent.
func TestOddRequests(t *testing.T) {
	p, m := local(t, "--chain-listen", "127.0.0.1:0", "--block-time", "250ms")
	stack := newProbe(m)
	first, last := 0, *requests
	if *only >= 0 {
		first, last = *only, *only+1
	}
	t.Logf("seed %d, requests %d to %d; one of them again with -seed %d -only N", *seed, first, last-1, *seed)
	numbers := make(chan int)
	var wg sync.WaitGroup
	var failed atomic.Int32
	for range 8 {
		wg.Go(func() {
			for i := range numbers {
				odd := stack.request(rand.New(rand.NewPCG(*seed, uint64(i))))
				if err := stack.probe(odd); err != nil {
					failed.Add(1)
					t.Errorf("request %d: %v\nsent: %.1000q", i, err, odd.bytes)
				}
			}
		})
	}
	for i := first; i < last && failed.Load() < 12; i++ {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
	t.Logf("answered: %v", stack.answered)
	if *only < 0 && (stack.answered[200] == 0 || stack.answered[201] == 0 || stack.answered[422] == 0 || stack.answered[0] > *requests/50) {
		t.Error("that is no mixture of requests")
	}
	m.must("GET", "/webhooks", "")
	if err := p.interrupt(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	if log := p.stderr.String(); strings.Contains(log, `"ERROR"`) {
		t.Errorf("the stack logged errors:\n%.3000s", log)
	}
}

// A probe knows what on a stack can be asked for by name.
type probe struct {
	address                string
	key, keyID, hook, hash string
	routes                 []httpapi.Route

	mu       sync.Mutex
	answered map[int]int // requests by the status of their first answer, 0 for none
}

// newProbe makes a merchant with one of everything. The key that requests may
// rotate and revoke is not the one they are made with.
func newProbe(m *merchant) *probe {
	m.t.Helper()
	m.join()
	keys := m.must("GET", "/api-keys", "")["data"].([]any)
	p := &probe{address: strings.TrimPrefix(m.url, "http://"), routes: httpapi.Routes, answered: map[int]int{}}
	p.keyID = keys[0].(map[string]any)["id"].(string)
	m.key = m.must("POST", "/api-keys/"+p.keyID+"/rotate", "{}")["api_key"].(string)
	p.key = m.key
	p.hook = m.must("POST", "/webhooks", `{"url":"http://127.0.0.1:9/"}`)["id"].(string)
	p.hash = m.must("POST", "/send-payment", `{"to":"0x1111111111111111111111111111111111111111","amount":1}`)["tx_hash"].(string)
	return p
}

// probe sends an odd request and judges everything that comes back.
func (p *probe) probe(odd oddRequest) error {
	raw, reset, err := p.send(odd.bytes)
	if err != nil {
		return err
	}
	answers, reading := 0, bufio.NewReader(bytes.NewReader(raw))
	for {
		asked := &http.Request{Method: odd.method, URL: &url.URL{Path: odd.path}, Header: http.Header{}}
		if answers >= odd.copies { // to what was left over of the body
			asked = nil
		}
		status, err := judge(asked, reading, odd)
		if errors.Is(err, io.EOF) || reset && errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w\nanswered: %.2000q", err, raw)
		}
		if answers++; answers == 1 {
			p.count(status)
		}
	}
	if answers == 0 {
		p.count(0)
		if !odd.maybeNone && !reset {
			return errors.New("no answer")
		}
	}
	return nil
}

func (p *probe) count(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered[status]++
}

// send writes request to a connection of its own, says that nothing follows,
// and returns everything that comes back. A server that ends a connection of
// which it has not read all resets it, and what was still on its way is lost.
func (p *probe) send(request []byte) (raw []byte, reset bool, err error) {
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, false, err
	}
	go func() {
		// A refusal may come, and end the connection, before all is written.
		_, _ = conn.Write(request)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	raw, err = io.ReadAll(conn)
	if reset = errors.Is(err, syscall.ECONNRESET); err != nil && !reset {
		return nil, false, fmt.Errorf("no end of the answer: %w", err)
	}
	return raw, reset, nil
}

// judge reads one answer and returns its status; io.EOF if there is none. asked
// is nil if nobody can say what was.
func judge(asked *http.Request, reading *bufio.Reader, odd oddRequest) (int, error) {
	begin, _ := reading.Peek(len("HTTP/1.1 400"))
	if len(begin) == 0 {
		return 0, io.EOF
	}
	if asked != nil && asked.Method == http.MethodHead && string(begin) == "HTTP/1.1 400" {
		asked.Method = http.MethodGet // a HEAD that is malformed has a body
	}
	answer, err := http.ReadResponse(reading, asked)
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, fmt.Errorf("reading the body: %w", err)
	}
	if answer.StatusCode == http.StatusContinue {
		return judge(asked, reading, odd)
	}
	if answer.StatusCode >= 500 {
		return 0, fmt.Errorf("answered %d", answer.StatusCode)
	}
	if echoed := odd.echoed(answer, body); echoed != "" {
		return 0, fmt.Errorf("%s is echoed", echoed)
	}
	if asked == nil { // openapi.yaml cannot be asked for an operation
		if answer.Header.Get("Content-Type") != "application/json" || !json.Valid(body) && len(body) > 0 {
			return 0, errors.New("no JSON is answered to what follows")
		}
		return answer.StatusCode, nil
	}
	c, err := contract()
	if err != nil {
		return 0, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer.StatusCode, c.Check(asked, answer)
}
