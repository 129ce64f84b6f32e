package measure_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// A rpcCall is one JSON-RPC call.
type rpcCall struct {
	Version string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id"`
	Method  string            `json:"method"`
	Params  []json.RawMessage `json:"params,omitempty"`
}

// A rpcAnswer is the answer to one call: a result or an error.
type rpcAnswer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// refusal returns an answer that refuses c.
func (c rpcCall) refusal(code int, message string) rpcAnswer {
	return rpcAnswer{Version: "2.0", ID: c.ID, Error: fmt.Appendf(nil, `{"code":%d,"message":%q}`, code, message)}
}

// result returns an answer with a result, which is JSON.
func (c rpcCall) result(format string, args ...any) rpcAnswer {
	return rpcAnswer{Version: "2.0", ID: c.ID, Result: fmt.Appendf(nil, format, args...)}
}

// transaction returns the transaction that c sends and its sender; nil for another
// call.
func (c rpcCall) transaction() (*types.Transaction, common.Address) {
	var raw hexutil.Bytes
	tx := new(types.Transaction)
	if c.Method != "eth_sendRawTransaction" || json.Unmarshal(c.Params[0], &raw) != nil || tx.UnmarshalBinary(raw) != nil {
		return nil, common.Address{}
	}
	from, _ := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
	return tx, from
}

// A habit is a way in which a real node differs from the one that Remit's own
// tests run on. Its zero value is a node without any.
type habit struct {
	name, seen string // for the table; seen names nodes that have the habit

	whole   func(g *gateway, w http.ResponseWriter, r *http.Request, calls []rpcCall) bool // answers a whole request, true, or leaves it
	one     func(g *gateway, c rpcCall) rpcAnswer                                          // answers one call
	reverse bool                                                                           // calls of a batch are carried out from the last to the first

	beside bool // an honest node is configured as well
	lies   bool // about receipts: no payment may end before the lies do
	twins  bool // every payment is asked for twice at once, so that some nonces are left to no-ops
}

// habits are those that the acceptance run pays through.
var habits = []habit{
	{name: "none"},
	{name: "10 calls a batch", seen: "Base's public endpoint", whole: func(_ *gateway, w http.ResponseWriter, _ *http.Request, calls []rpcCall) bool {
		if len(calls) <= 10 {
			return false
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32014,"message":"maximum 10 calls in 1 batch"},"id":null}`)
		return true
	}},
	{name: "3 calls a batch", seen: "ApeChain's public endpoint; HTTP 413 as OP Mainnet's", whole: refuseAbove(3, http.StatusRequestEntityTooLarge)},
	{name: "no batches", seen: "gateways that forward single calls", whole: refuseAbove(1, http.StatusBadRequest)},
	{name: "receipts without logs", seen: "Erigon (erigontech/erigon#19406)", beside: true, lies: true, one: receipts(func(r map[string]any) { r["logs"] = []any{} })},
	{name: "receipts with a wrong status", seen: "Ethermint (cosmos/ethermint#282)", beside: true, lies: true, one: receipts(func(r map[string]any) { r["status"] = "0x0" })},
	{name: "one base fee instead of two", seen: "Avalanche's coreth", one: func(g *gateway, c rpcCall) rpcAnswer {
		a := g.ask(c)
		var history map[string]any
		if c.Method != "eth_feeHistory" || json.Unmarshal(a.Result, &history) != nil {
			return a
		}
		fees, _ := history["baseFeePerGas"].([]any)
		history["baseFeePerGas"] = fees[:min(1, len(fees))]
		a.Result, _ = json.Marshal(history)
		return a
	}},
	{name: "21,500 gas for a no-op", seen: "Arbitrum, zkSync Era and Mantle charge more than 21,000", one: dearNoop, twins: true},
	{name: "a gap is held for one second", seen: "Arbitrum's sequencer", one: holdGap},
	{name: "latest for pending", seen: "nodes without a view of the pool", one: func(g *gateway, c rpcCall) rpcAnswer {
		for i, p := range c.Params {
			if string(p) == `"pending"` {
				c.Params[i] = json.RawMessage(`"latest"`)
			}
		}
		return g.ask(c)
	}},
	{name: "batches out of order", seen: "JSON-RPC 2.0 section 6 allows it", reverse: true},
	{name: "100 calls a second", seen: "public endpoints meter each call of a batch", one: func(g *gateway, c rpcCall) rpcAnswer {
		if !g.take(100) {
			return c.refusal(http.StatusTooManyRequests, "over rate limit")
		}
		return g.ask(c)
	}, whole: func(g *gateway, w http.ResponseWriter, _ *http.Request, calls []rpcCall) bool {
		return len(calls) == 1 && !g.has(100) && tooMany(w)
	}},
	{name: "3 calls a batch, 20 requests a second", seen: "free plans", whole: func(g *gateway, w http.ResponseWriter, r *http.Request, calls []rpcCall) bool {
		return !g.take(20) && tooMany(w) || refuseAbove(3, http.StatusRequestEntityTooLarge)(g, w, r, calls)
	}},
	{name: "every third request hangs", seen: "a node whose disk or peer is stuck", beside: true, whole: func(g *gateway, _ http.ResponseWriter, r *http.Request, _ []rpcCall) bool {
		if g.requests.Load()%3 != 0 {
			return false
		}
		select { // for longer than Remit waits for an answer
		case <-r.Context().Done():
		case <-time.After(12 * time.Second):
		}
		panic(http.ErrAbortHandler)
	}},
}

// refuseAbove refuses a request of more calls with an HTTP status.
func refuseAbove(calls, status int) func(*gateway, http.ResponseWriter, *http.Request, []rpcCall) bool {
	return func(_ *gateway, w http.ResponseWriter, _ *http.Request, asked []rpcCall) bool {
		if len(asked) > calls {
			http.Error(w, "batch too large", status)
		}
		return len(asked) > calls
	}
}

// tooMany answers 429.
func tooMany(w http.ResponseWriter) bool {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests", http.StatusTooManyRequests)
	return true
}

// receipts returns an answer in which falsify has changed the receipt.
func receipts(falsify func(map[string]any)) func(*gateway, rpcCall) rpcAnswer {
	return func(g *gateway, c rpcCall) rpcAnswer {
		a := g.ask(c)
		var receipt map[string]any
		if c.Method == "eth_getTransactionReceipt" && json.Unmarshal(a.Result, &receipt) == nil && receipt != nil {
			falsify(receipt)
			a.Result, _ = json.Marshal(receipt)
		}
		return a
	}
}

// dearNoop wants 21,500 gas for a transfer of nothing.
func dearNoop(g *gateway, c rpcCall) rpcAnswer {
	const gas = 21_500
	if tx, _ := c.transaction(); tx != nil && len(tx.Data()) == 0 && tx.Gas() < gas {
		return c.refusal(-32000, fmt.Sprintf("intrinsic gas too low: have %d, want %d", tx.Gas(), gas))
	}
	var object struct{ Data, Input hexutil.Bytes }
	if c.Method == "eth_estimateGas" && json.Unmarshal(c.Params[0], &object) == nil && len(object.Data)+len(object.Input) == 0 {
		return c.result(`"0x%x"`, gas)
	}
	return g.ask(c)
}

// holdGap keeps a transaction beyond the sender's next nonce for a second, and
// refuses it when the nonces before it have not come by then.
func holdGap(g *gateway, c rpcCall) rpcAnswer {
	tx, from := c.transaction()
	if tx == nil {
		return g.ask(c)
	}
	for end := time.Now().Add(time.Second); ; time.Sleep(50 * time.Millisecond) {
		var next hexutil.Uint64
		count := rpcCall{"2.0", json.RawMessage("1"), "eth_getTransactionCount", []json.RawMessage{fmt.Appendf(nil, "%q", from), json.RawMessage(`"pending"`)}}
		if _ = json.Unmarshal(g.ask(count).Result, &next); tx.Nonce() <= uint64(next) {
			return g.ask(c)
		}
		if time.Now().After(end) {
			return c.refusal(-32000, fmt.Sprintf("nonce too high: address %s, tx: %d state: %d", from, tx.Nonce(), next))
		}
	}
}

// A gateway stands before a node and speaks JSON-RPC with a habit. It also forgets
// every tenth transaction when it comes first, as a node does whose pool is full:
// it answers with the hash and hands nothing on.
type gateway struct {
	*httptest.Server
	node     string // URL
	habit    atomic.Pointer[habit]
	requests atomic.Int64
	lost     atomic.Int64 // transactions forgotten

	mu     sync.Mutex
	sent   map[common.Hash]bool
	tokens float64 // of take
	filled time.Time
}

// newGateway serves before the node until the test ends.
func newGateway(t testing.TB, node string, h *habit) *gateway {
	t.Helper()
	g := &gateway{node: node, sent: map[common.Hash]bool{}}
	g.habit.Store(h)
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() { _ = g.Listener.Close(); g.CloseClientConnections() }) // without waiting for a node that hangs
	return g
}

// take takes one of so many tokens a second, if one is left.
func (g *gateway) take(rate float64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.tokens = min(rate, g.tokens+min(1, now.Sub(g.filled).Seconds())*rate)
	if g.filled = now; g.tokens < 1 {
		return false
	}
	g.tokens--
	return true
}

// has is take, but leaves the token.
func (g *gateway) has(rate float64) bool {
	taken := g.take(rate)
	if taken {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tokens++
	}
	return taken
}

// ServeHTTP answers one request.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.requests.Add(1)
	body, _ := io.ReadAll(r.Body)
	calls, batch := []rpcCall{{}}, json.Unmarshal(body, &[]json.RawMessage{}) == nil
	var into any = &calls[0]
	if batch {
		into = &calls
	}
	if err := json.Unmarshal(body, into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h := g.habit.Load()
	w.Header().Set("Content-Type", "application/json")
	if h.whole != nil && h.whole(g, w, r, calls) {
		return
	}
	answers := make([]rpcAnswer, len(calls))
	if h.reverse {
		slices.Reverse(calls)
	}
	for i, c := range calls {
		switch tx, _ := c.transaction(); {
		case tx != nil && g.forgets(tx.Hash()):
			answers[i] = c.result("%q", tx.Hash())
		case h.one != nil:
			answers[i] = h.one(g, c)
		default:
			answers[i] = g.ask(c)
		}
	}
	var answer any = answers
	if !batch {
		answer = answers[0]
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// forgets reports whether this transaction, which comes for the first time, gets
// lost.
func (g *gateway) forgets(tx common.Hash) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	again := g.sent[tx]
	if g.sent[tx] = true; !again && len(g.sent)%10 == 0 {
		g.lost.Add(1)
		return true
	}
	return false
}

// nodeClient carries calls to nodes, with connections for many at once.
var nodeClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// ask hands one call on to the node.
func (g *gateway) ask(c rpcCall) rpcAnswer {
	body, _ := json.Marshal(c)
	response, err := nodeClient.Post(g.node, "application/json", bytes.NewReader(body))
	if err != nil {
		return c.refusal(-32603, "the node is gone")
	}
	defer func() { _ = response.Body.Close() }()
	var a rpcAnswer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return c.refusal(-32603, err.Error())
	}
	if a.ID = c.ID; a.Result == nil && a.Error == nil {
		a.Result = json.RawMessage("null")
	}
	return a
}

// TestEveryHabitDoesWhatItSays asks a node through a gateway of each habit.
func TestEveryHabitDoesWhatItSays(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c rpcCall
		check(t, json.NewDecoder(r.Body).Decode(&c))
		results := map[string]string{"eth_feeHistory": `{"baseFeePerGas":["0x1","0x2"]}`, "eth_getTransactionReceipt": `{"status":"0x1","logs":[{}]}`,
			"eth_estimateGas": `"0x5208"`, "eth_getTransactionCount": strconv.Quote(strings.Trim(string(c.Params[len(c.Params)-1]), `"`)), "eth_sendRawTransaction": `"sent"`}
		check(t, json.NewEncoder(w).Encode(c.result("%s", results[c.Method])))
	}))
	defer node.Close()
	gap := must(types.SignNewTx(must(newKey())(t), types.LatestSignerForChainID(common.Big1), &types.DynamicFeeTx{ChainID: common.Big1, Nonce: math.MaxInt64, To: &common.Address{}, Gas: 21_000}))(t)
	raw := hexutil.Encode(must(gap.MarshalBinary())(t))
	ask := map[string]string{ // the calls of a request, with their number where it is not 1
		"none": `["eth_getTransactionCount","0x0","pending"]`, "10 calls a batch": "11", "3 calls a batch": "4", "no batches": "2",
		"receipts without logs": `["eth_getTransactionReceipt","0x1"]`, "receipts with a wrong status": `["eth_getTransactionReceipt","0x1"]`,
		"one base fee instead of two": `["eth_feeHistory","0x1"]`, "21,500 gas for a no-op": `["eth_sendRawTransaction","` + raw + `"]`,
		"a gap is held for one second": `["eth_sendRawTransaction","` + raw + `"]`, "latest for pending": `["eth_getTransactionCount","0x0","pending"]`,
		"batches out of order": "2", "100 calls a second": "400", "3 calls a batch, 20 requests a second": "4", "every third request hangs": "",
	}
	want := map[string]string{
		"none": `200 [{"jsonrpc":"2.0","id":0,"result":"pending"}]`, "10 calls a batch": `200 {"jsonrpc":"2.0","error":{"code":-32014,`, "3 calls a batch": "413 batch", "no batches": "400 batch",
		"receipts without logs": `"logs":[]`, "receipts with a wrong status": `"status":"0x0"`, "one base fee instead of two": `{"baseFeePerGas":["0x1"]}`,
		"21,500 gas for a no-op": "intrinsic gas too low: have 21000, want 21500", "a gap is held for one second": "nonce too high", "latest for pending": `"result":"latest"`,
		"batches out of order": `200 [{"jsonrpc":"2.0","id":1,`, "100 calls a second": `{"code":429,"message":"over rate limit"}}`, "3 calls a batch, 20 requests a second": "413 batch",
		"every third request hangs": "EOF",
	}
	for _, h := range habits {
		g := newGateway(t, node.URL, &h)
		if h.name == "every third request hangs" {
			g.requests.Store(2)
			time.AfterFunc(200*time.Millisecond, g.CloseClientConnections)
		}
		if asked := ask[h.name]; !strings.HasPrefix(asked, "[") {
			n, _ := strconv.Atoi(asked)
			ask[h.name] = strings.TrimSuffix(strings.Repeat(`["eth_getTransactionCount","0x0","latest"],`, n), ",")
		}
		var calls []rpcCall
		var lines [][]json.RawMessage
		check(t, json.Unmarshal([]byte("["+ask[h.name]+"]"), &lines))
		for i, line := range lines {
			calls = append(calls, rpcCall{"2.0", fmt.Append(nil, i), strings.Trim(string(line[0]), `"`), line[1:]})
		}
		body, _ := json.Marshal(append([]rpcCall{}, calls...))
		got := ""
		if response, err := http.Post(g.URL, "application/json", bytes.NewReader(body)); err != nil {
			got = err.Error()
		} else {
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			got = fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(text)))
		}
		if !strings.Contains(got, want[h.name]) || want[h.name] == "" {
			t.Errorf("%s: answered %.300s, want %s", h.name, got, want[h.name])
		}
	}
	if g := newGateway(t, node.URL, &habits[0]); !g.take(1) || g.take(1) {
		t.Error("a gateway of one call a second takes none, or two")
	}
}
