package ethrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

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

// raw is an answer as on the wire: {"result": …} or {"error": …}, without the rest. An empty one is never sent.
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
	noWait := func(context.Context, time.Duration) error { return nil }
	return must.Get(ethrpc.Open(url, ethrpc.Config{ChainID: chainID, Wait: noWait}))(t)
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

func gas(gas string) map[string]func(request) raw {
	return map[string]func(request) raw{"eth_estimateGas": always(result(`"` + gas + `"`))}
}

func TestANodeOfAnotherChainIsNeverAskedAgain(t *testing.T) {
	s := serve(t, map[string]func(request) raw{"eth_chainId": always(result(`"0x1"`))})
	node := open(t, s.URL)
	for question, ask := range asked {
		if _, err := ask(t, node); !errors.Is(err, chain.ErrWrongChain) {
			t.Errorf("%s: %v, want ErrWrongChain", question, err)
		}
	}
	if reply := node.Send(t.Context(), signed); reply.Class != chain.Ambiguous {
		t.Errorf("Send: %+v, want ambiguous: its answers are not ours", reply)
	}
	if n := len(s.methods()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestAsksForTheChainAgainUntilItIsToldIt(t *testing.T) {
	answers := gas("0x5208")
	id := failure("-32005", "slow down")
	answers["eth_chainId"] = func(request) raw { return id }
	node := open(t, serve(t, answers).URL)
	if gas, err := node.Estimate(t.Context(), chain.Call{}); err == nil || errors.Is(err, chain.ErrWrongChain) {
		t.Fatalf("Estimate = %d, %v, want another error", gas, err)
	}
	id = result(`"0x14a34"`)
	must.Get(node.Estimate(t.Context(), chain.Call{}))(t)
}

func TestOpensOnlyNodeURLs(t *testing.T) {
	for _, bad := range []string{
		"", "example.org", "ws://example.org/secret-key", "wss://example.org/secret-key", "/var/geth.ipc",
		"http://", "https:///secret-key", "http://example.org:port/secret-key", "://secret-key",
	} {
		_, err := ethrpc.Open(bad, ethrpc.Config{ChainID: 1})
		if !errors.Is(err, ethrpc.ErrURL) {
			t.Errorf("Open(%q): %v, want ErrURL", bad, err)
		} else if strings.Contains(err.Error(), "secret-key") {
			t.Errorf("the error quotes the URL: %v", err)
		}
	}
	if _, err := ethrpc.Open("http://example.org", ethrpc.Config{}); err == nil {
		t.Error("opened a node without a chain id")
	}
	const secret = "https://user:hunter22@mainnet.example.org:8443/v2/0123456789abcdef?apikey=fedcba9876543210#frag"
	if got := must.Get(ethrpc.Open(secret, ethrpc.Config{ChainID: 1}))(t).String(); got != "mainnet.example.org:8443" {
		t.Errorf("String = %q", got)
	}
}

func TestErrorsHoldNoPartOfTheURLButItsHost(t *testing.T) {
	const path = "/v2/0123456789abcdef"
	echo := func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if r.URL.Query().Get("apikey") == "status-fedcba98" {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
		text := fmt.Sprintf("project %s of %s is over its limit", strings.TrimPrefix(r.URL.Path, "/v2/"), r.URL.Query().Get("apikey"))
		if status == http.StatusOK {
			text = `[{"jsonrpc":"2.0","id":1,"result":"0x14a34"},{"jsonrpc":"2.0","id":2,"error":{"code":3,"message":"` + text +
				`","data":"http://` + r.Host + r.RequestURI + `"}}]`
		}
		_, _ = io.WriteString(w, text)
	}
	url := handle(t, echo)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, base := range map[string]string{
		"a refusal that quotes it": url + path + "?apikey=fedcba9876543210",
		"a page that quotes it":    url + path + "?apikey=status-fedcba98",
		"a refused connection":     closed.URL + path + "?apikey=fedcba9876543210",
		"a key of a few letters":   closed.URL + "/k3y",
		"a transport's own words":  "http://unreachable.example" + path,
		"a password":               strings.Replace(closed.URL, "://", "://someuser:hunter2222@", 1) + path,
	} {
		t.Run(name, func(t *testing.T) {
			config := ethrpc.Config{ChainID: chainID}
			if strings.Contains(base, "unreachable") {
				config.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("cannot reach " + base) })
			}
			node := must.Get(ethrpc.Open(base, config))(t)
			_, err := node.Estimate(t.Context(), chain.Call{})
			if err == nil || config.Transport != nil && !strings.Contains(err.Error(), "cannot reach") {
				t.Fatalf("%v, want the reason", err)
			}
			detail := node.Send(t.Context(), signed).Detail
			for _, secret := range []string{"0123456789abcdef", "fedcba98", "hunter2", "someuser", "apikey=", "k3y"} {
				for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, errors.Unwrap(err)), detail, node.String()} {
					if strings.Contains(text, secret) {
						t.Errorf("%q shows %q", text, secret)
					}
				}
			}
		})
	}
}

func TestBoundsAResponse(t *testing.T) {
	url := handle(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `[{"jsonrpc":"2.0","id":1,"result":"`)
		chunk := strings.Repeat("0", 1<<20)
		for range 2 * ethrpc.MaxResponse >> 20 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	patient := ethrpc.Config{ChainID: 1, Timeout: time.Minute} // so that the size ends the request, not the time
	_, err := must.Get(ethrpc.Open(url, patient))(t).Estimate(t.Context(), chain.Call{})
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v, want an error that says too large", err)
	}
}

// TestBoundsTheParts: parts that are short take far more memory than their text, and logs are compared each with each.
func TestBoundsTheParts(t *testing.T) {
	var body string
	url := handle(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	body = "[" + strings.Repeat("{},", ethrpc.MaxParts/2) + "{}]"
	if _, err := open(t, url).Fees(t.Context()); err == nil || !strings.Contains(err.Error(), "parts") {
		t.Errorf("a flood of objects: %v", err)
	}
	tx := chain.Hash{1}
	for more, want := range []int{1, 0} {
		body = fmt.Sprintf(`[{"id":1,"result":"0x14a34"},{"id":2,"result":{"transactionHash":"%s","status":"0x1","blockNumber":"0x5",`+
			`"blockHash":"%s","logs":[{"topics":[],"data":"0x"}%s]}}]`, tx, chain.Hash{5}, strings.Repeat(`,{"topics":[],"data":"0x"}`, ethrpc.MaxLogs-1+more))
		if got, err := open(t, url).Receipts(t.Context(), []chain.Hash{tx}); len(got) != want {
			t.Errorf("%d logs above the bound: %d receipts, %v", more, len(got), err)
		}
	}
}

func TestQuotesNoMoreThanALineOfAPage(t *testing.T) {
	url := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, strings.Repeat("<p>\r\n\xff bad gateway</p>", 1000))
	})
	_, err := open(t, url).Estimate(t.Context(), chain.Call{})
	if err == nil || len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\r\n") || !utf8.ValidString(err.Error()) ||
		!strings.Contains(err.Error(), "HTTP 502") {
		t.Errorf("error %q, want one line with the status", err)
	}
}

func TestBoundsTheTimeOfARequestWithItsBody(t *testing.T) {
	for _, row := range []struct{ name, begin string }{
		{"no answer at all", ""},
		{"half an answer", `[{"jsonrpc":"2.0","id":1,`},
	} {
		t.Run(row.name, func(t *testing.T) {
			release := make(chan struct{})
			url := handle(t, func(w http.ResponseWriter, _ *http.Request) {
				if row.begin != "" {
					_, _ = io.WriteString(w, row.begin)
					_ = http.NewResponseController(w).Flush()
				}
				<-release
			})
			defer close(release)
			node := must.Get(ethrpc.Open(url, ethrpc.Config{ChainID: chainID, Timeout: 20 * time.Millisecond}))(t)
			if _, err := node.Estimate(t.Context(), chain.Call{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want DeadlineExceeded", err)
			}
			if reply := node.Send(t.Context(), signed); reply.Class != chain.Ambiguous || !strings.Contains(reply.Detail, "deadline") {
				t.Errorf("Send: %+v, want ambiguous", reply)
			}
		})
	}
}

func TestTakesNoProxyFromTheEnvironment(t *testing.T) {
	if transport := ethrpc.NewTransport(); transport.Proxy != nil || transport.MaxIdleConnsPerHost < 128 {
		t.Errorf("proxy set: %v, idle connections per host: %d", transport.Proxy != nil, transport.MaxIdleConnsPerHost)
	}
}

func TestRepeatsARequestOnAKeptConnectionThatDied(t *testing.T) {
	// Hangs up, without an answer, on the second request of a connection, as a load balancer does
	// with a connection that was idle too long.
	type servedKey struct{}
	s := serve(t, gas("0x5208"), func(front *http.Server) {
		node := front.Handler
		front.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, servedKey{}, new(atomic.Int32))
		}
		front.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if served, _ := r.Context().Value(servedKey{}).(*atomic.Int32); served.Add(1) == 2 {
				panic(http.ErrAbortHandler)
			}
			node.ServeHTTP(w, r)
		})
	})
	node := open(t, s.URL)
	for i := range 3 {
		if _, err := node.Estimate(t.Context(), chain.Call{}); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

// ten is the head at which accounts are read, with 3 mined, 5 pending, 7 USDC and 2^70 wei.
func ten() map[string]func(request) raw {
	return map[string]func(request) raw{
		"eth_blockNumber": always(result(`"0xa"`)),
		"eth_getTransactionCount": func(r request) raw {
			if r.arg(1) == "pending" {
				return result(`"0x5"`)
			}
			return result(`"0x3"`)
		},
		"eth_call":       always(result(`"0x` + strings.Repeat("0", 58) + `6acfc0"`)),
		"eth_getBalance": always(result(`"0x400000000000000000"`)),
	}
}

func TestADepthIsFinalBelowTheHead(t *testing.T) {
	for depth, want := range map[uint64]uint64{0: 10, 4: 6, 10: 0, 11: 0, 1<<64 - 1: 0} {
		if got := must.Get(open(t, serve(t, ten()).URL).Head(t.Context(), chain.ConfirmationRule{Depth: depth}))(t); got.Final != want {
			t.Errorf("depth %d: final block %d, want %d", depth, got.Final, want)
		}
	}
}

// TestNamesANodeWithoutAFinalBlock: once a minute, with the tag.
func TestNamesANodeWithoutAFinalBlock(t *testing.T) {
	answers := ten()
	tagged := failure("-32603", "Internal error")
	answers["eth_getBlockByNumber"] = func(request) raw { return tagged }
	answers["eth_getTransactionReceipt"] = always(result(`{"transactionHash":"` + signedHash + `","blockNumber":"0x1","blockHash":"` +
		signedHash + `"}`))
	var log strings.Builder
	now := time.Now()
	node := must.Get(ethrpc.Open(serve(t, answers).URL, ethrpc.Config{ChainID: chainID,
		Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	for i := range 100 {
		if i == 50 {
			tagged = result("null")
		}
		_, _ = node.Head(t.Context(), chain.ConfirmationRule{Tag: "finalized"})
		_, _ = node.Receipts(t.Context(), []chain.Hash{hash(t, signedHash)})
		now = now.Add(2 * time.Second)
	}
	for text, want := range map[string]int{"node has no final block": 4, "cannot be read": 4, "level=WARN": 8,
		"node=" + node.String(): 8, "tag=finalized": 4, "Internal error": 2} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%q is logged %d times in 200 s, want %d:\n%s", text, got, want, &log)
		}
	}
}
