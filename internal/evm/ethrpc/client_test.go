package ethrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request whose answer is overdue is sent again, once; the answer that begins first counts.
func TestAnOverdueRequestIsSentAgain(t *testing.T) {
	const hangs, resets = -1, -2 // else how long the answer takes
	for _, c := range []struct {
		name     string
		requests []time.Duration
		took     time.Duration
		fails    bool
	}{
		{"answered in time", []time.Duration{time.Second}, time.Second, false},
		{"the first hangs", []time.Duration{hangs, time.Second}, 3 * time.Second, false},
		{"the first is slow, the second hangs", []time.Duration{5 * time.Second, hangs}, 5 * time.Second, false},
		{"the second is refused, the first slow", []time.Duration{5 * time.Second, resets}, 5 * time.Second, false},
		{"both hang", []time.Duration{hangs, hangs}, 10 * time.Second, true},
		{"refused at once", []time.Duration{resets}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				node := must.Get(ethrpc.Open("http://node.example",
					ethrpc.Config{ChainID: 1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
						var calls []request
						if err := json.NewDecoder(r.Body).Decode(&calls); err != nil || len(calls) != 2 {
							t.Errorf("request of %d calls: %v", len(calls), err)
						}
						switch takes := c.requests[sent.Add(1)-1]; takes {
						case hangs:
							<-r.Context().Done()
							return nil, context.Cause(r.Context())
						case resets:
							return nil, errors.New("connection reset")
						default:
							time.Sleep(takes)
						}
						answer := fmt.Sprintf(`[{"jsonrpc":"2.0","id":%s,"result":"0x1"},{"jsonrpc":"2.0","id":%s,"result":"0x7"}]`, calls[0].ID, calls[1].ID)
						return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, nil
					})}))(t)
				begin := time.Now()
				count, err := node.Count(t.Context(), token.Address{}, 5)
				if took := time.Since(begin); took != c.took || (err != nil) != c.fails || err == nil && count != 7 ||
					int(sent.Load()) != len(c.requests) {
					t.Errorf("%d requests in %v: %v; want %d in %v", sent.Load(), took, err, len(c.requests), c.took)
				}
			})
		})
	}
}

// A metered node answers so many calls a second, and as many at once, each 50 ms later. It
// refuses the others with a Retry-After. eth_chainId is free.
type metered struct {
	rate  float64
	after string // Retry-After

	mu                sync.Mutex
	tokens            float64
	filled            time.Time
	answered, refused float64
}

func (m *metered) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(50 * time.Millisecond)
	type call struct {
		ID     int
		Method string
	}
	calls, header := make([]call, 1), http.Header{}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &calls) != nil {
		_ = json.Unmarshal(body, &calls[0])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.tokens, m.filled = min(m.rate, m.tokens+now.Sub(m.filled).Seconds()*m.rate), now
	var parts []string
	for _, c := range calls {
		answer := `"result":null`
		switch {
		case c.Method == "eth_chainId":
			answer = `"result":"0x1"`
		case m.tokens < 1:
			answer = `"error":{"code":429,"message":"over rate limit"}`
			header.Set("Retry-After", m.after)
			m.refused++
		default:
			m.tokens--
			m.answered++
		}
		parts = append(parts, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, c.ID, answer))
	}
	text := strings.Join(parts, ",")
	if bytes.HasPrefix(body, []byte("[")) {
		text = "[" + text + "]"
	}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

const chainID = 84532

// A request is one JSON-RPC call as it came.
type request struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

func (r request) arg(i int) string {
	var s string
	if i < len(r.Params) {
		_ = json.Unmarshal(r.Params[i], &s)
	}
	return s
}

// raw is an answer as it stands on the wire: {"result": …} or {"error": …},
// without the rest. An empty one is never sent.
type raw string

func result(json string) raw { return raw(`"result":` + json) }

func failure(code, message string) raw {
	text, _ := json.Marshal(message)
	return raw(`"error":{"code":` + code + `,"message":` + string(text) + `}`)
}

// A server is a node with a fixed answer for each method. It keeps the calls of each HTTP request.
type server struct {
	*httptest.Server
	refuse func(w http.ResponseWriter, calls []request) bool // a gateway in front, which may answer instead; nil: none

	mu       sync.Mutex
	answers  map[string]func(request) raw
	requests [][]string // methods, per HTTP request
}

// serve starts a node of chainID with the given answers by method. Each of tune may change its HTTP server before.
func serve(t fataler, answers map[string]func(request) raw, tune ...func(*http.Server)) *server {
	t.Helper()
	s := &server{answers: map[string]func(request) raw{"eth_chainId": always(result(`"0x14a34"`))}}
	maps.Copy(s.answers, answers)
	s.Server = httptest.NewUnstartedServer(s)
	for _, f := range tune {
		f(s.Config)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func always(answer raw) func(request) raw { return func(request) raw { return answer } }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var batch []request
	var one request
	single := json.Unmarshal(body, &batch) != nil
	if single {
		if err := json.Unmarshal(body, &one); err != nil {
			http.Error(w, "not JSON-RPC", http.StatusBadRequest)
			return
		}
		batch = []request{one}
	}
	if s.refuse != nil && s.refuse(w, batch) {
		return
	}
	s.mu.Lock()
	methods := make([]string, len(batch))
	for i, r := range batch {
		methods[i] = r.Method
	}
	s.requests = append(s.requests, methods)
	s.mu.Unlock()
	var parts []string
	for _, r := range batch {
		answer := failure("-32601", "the method "+r.Method+" does not exist/is not available")
		if known, ok := s.answers[r.Method]; ok {
			answer = known(r)
		}
		if answer != "" {
			parts = append(parts, `{"jsonrpc":"2.0","id":`+string(r.ID)+`,`+string(answer)+`}`)
		}
	}
	slices.Reverse(parts) // a server may answer a batch in any order
	w.Header().Set("Content-Type", "application/json")
	if single {
		_, _ = io.WriteString(w, strings.Join(parts, ""))
		return
	}
	_, _ = io.WriteString(w, "["+strings.Join(parts, ",")+"]")
}

// methods returns the methods of each HTTP request so far.
func (s *server) methods() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// handle starts a node that is nothing but f, and returns its URL.
func handle(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func open(t fataler, url string) *ethrpc.Node {
	t.Helper()
	return must.Get(ethrpc.Open(url, ethrpc.Config{ChainID: chainID}))(t)
}

func hash(t *testing.T, s string) chain.Hash {
	t.Helper()
	return must.Get(chain.ParseHash(s))(t)
}

var (
	account = token.Address{0x9d, 0x8a, 0x62, 0xf6, 0x56, 0xa8, 0xd1, 0x61, 0x5c, 0x12, 0x94, 0xfd, 0x71, 0xe9, 0xcf, 0xb3, 0xe4, 0x85,
		0x5a, 0x4f}
	contract = token.Address{0x03, 0x6c, 0xbd, 0x53, 0x84, 0x2c, 0x54, 0x26, 0x63, 0x4e, 0x79, 0x29, 0x54, 0x1e, 0xc2, 0x31, 0x8f, 0x3d,
		0xcf, 0x7e}
)

var exact = cmpopts.EquateComparable(token.Amount{})

// A fataler is a *testing.T, or rapid's T.
type fataler interface {
	Helper()
	Cleanup(f func())
	Fatal(args ...any)
}
