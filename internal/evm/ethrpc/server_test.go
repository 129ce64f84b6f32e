package ethrpc_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

const chainID = 84532

// A request is one JSON-RPC call as it came.
type request struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// arg returns a parameter that is a string.
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

// A server is a node with a fixed answer for each method. It keeps the calls of
// each HTTP request.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	answers  map[string]func(request) raw
	requests [][]string // methods, per HTTP request
}

// serve starts a node of chainID with the given answers by method. Each of tune
// may change its HTTP server before.
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

// exact compares amounts for go-cmp.
var exact = cmpopts.EquateComparable(token.Amount{})

// A fataler is a *testing.T, or rapid's T.
type fataler interface {
	Helper()
	Cleanup(f func())
	Fatal(args ...any)
}
