package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

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

// A Habit is a difference between a real node and the node that Remit's own tests run on. Its zero
// value is a node without such a difference.
type Habit struct {
	Name, Seen string // for people; Seen names nodes that have the habit, "" where none is known

	whole func(g *Gateway, w http.ResponseWriter, r *http.Request, calls []rpcCall) bool // answers a whole request, true, or leaves it
	one   func(g *Gateway, c rpcCall) rpcAnswer                                          // answers one call
	// Calls of a batch are carried out from the last to the first.
	reverse bool

	Beside bool // an honest node is configured as well
	Gone   bool // for good: payments end once it has been silent for the time that the rig sets
	Lies   bool // about receipts: no payment may end before the lies do
	Twins  bool // every payment is requested twice at once, so that some nonces are left to no-ops

	TokenGas bool // only where gas is paid in the token: elsewhere it would hide the balance that pays gas
}

// Habits are the habits that the acceptance run pays through.
var Habits = []Habit{
	{Name: "none"},
	{Name: "10 calls a batch", Seen: "Base's public endpoint",
		whole: func(_ *Gateway, w http.ResponseWriter, _ *http.Request, calls []rpcCall) bool {
			if len(calls) <= 10 {
				return false
			}
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32014,"message":"maximum 10 calls in 1 batch"},"id":null}`)
			return true
		}},
	{Name: "3 calls a batch", Seen: "ApeChain's public endpoint; HTTP 413 as OP Mainnet's",
		whole: refuseAbove(3, http.StatusRequestEntityTooLarge)},
	{Name: "no batches", Seen: "gateways that forward single calls", whole: refuseAbove(1, http.StatusBadRequest)},
	{Name: "receipts without logs", Seen: "Erigon (erigontech/erigon#19406)", Beside: true, Lies: true,
		one: receipts(func(r map[string]any) { r["logs"] = []any{} })},
	{Name: "receipts with a wrong status", Seen: "Ethermint (cosmos/ethermint#282)", Beside: true, Lies: true,
		one: receipts(func(r map[string]any) { r["status"] = "0x0" })},
	{Name: "one base fee instead of two", Seen: "Avalanche's coreth", one: func(g *Gateway, c rpcCall) rpcAnswer {
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
	{Name: "21,500 gas for a no-op", Seen: "Arbitrum, zkSync Era and Mantle charge more than 21,000", one: dearNoop, Twins: true},
	{Name: "a gap is held for one second", Seen: "Arbitrum's sequencer", one: holdGap},
	{Name: "latest for pending", Seen: "nodes without a view of the pool", one: func(g *Gateway, c rpcCall) rpcAnswer {
		for i, p := range c.Params {
			if string(p) == `"pending"` {
				c.Params[i] = json.RawMessage(`"latest"`)
			}
		}
		return g.ask(c)
	}},
	{Name: "batches out of order", Seen: "JSON-RPC 2.0 section 6 allows it", reverse: true},
	{Name: "100 calls a second", Seen: "public endpoints meter each call of a batch", one: func(g *Gateway, c rpcCall) rpcAnswer {
		if !g.take(100) {
			return c.refusal(http.StatusTooManyRequests, "over rate limit")
		}
		return g.ask(c)
	}, whole: func(g *Gateway, w http.ResponseWriter, _ *http.Request, calls []rpcCall) bool {
		return len(calls) == 1 && !g.has(100) && tooMany(w)
	}},
	{Name: "3 calls a batch, 20 requests a second", Seen: "free plans",
		whole: func(g *Gateway, w http.ResponseWriter, r *http.Request, calls []rpcCall) bool {
			return !g.take(20) && tooMany(w) || refuseAbove(3, http.StatusRequestEntityTooLarge)(g, w, r, calls)
		}},
	{Name: "every third request hangs", Seen: "a node whose disk or peer is stuck", Beside: true,
		whole: func(g *Gateway, _ http.ResponseWriter, r *http.Request, _ []rpcCall) bool {
			if g.Requests.Load()%3 != 0 {
				return false
			}
			return hang(r)
		}},
	{Name: "one of two nodes down", Seen: "every provider, for hours", Beside: true, Gone: true, whole: Down().whole},
	{Name: "a placeholder for ether", Seen: "Tempo, \"EVM Differences\"", TokenGas: true, one: func(g *Gateway, c rpcCall) rpcAnswer {
		a := g.ask(c)
		if c.Method == "eth_getBalance" && a.Result != nil {
			a.Result = json.RawMessage(`"0x9612084f0316e0ebd5182f398e5195a51b5ca47667d4c9b26c9b26c9b26c9b2"`)
		}
		return a
	}},
}

// hang keeps a request for longer than Remit waits for an answer, and resets its
// connection.
func hang(r *http.Request) bool {
	select {
	case <-r.Context().Done():
	case <-time.After(12 * time.Second):
	}
	panic(http.ErrAbortHandler)
}

// Down is the habit of a node that resets every connection.
func Down() *Habit {
	return &Habit{Name: "down", whole: func(*Gateway, http.ResponseWriter, *http.Request, []rpcCall) bool { panic(http.ErrAbortHandler) }}
}

// Hanging is the habit of a node that takes requests and never answers.
func Hanging() *Habit {
	return &Habit{Name: "hangs", whole: func(_ *Gateway, _ http.ResponseWriter, r *http.Request, _ []rpcCall) bool { return hang(r) }}
}

// Fork is the habit of a node that is on a branch of its own from the numbered block
// on: its blocks have other hashes there, and none of our transactions.
func Fork(from uint64) *Habit {
	tag := regexp.MustCompile(`^"(latest|pending|0x[0-9a-f]{1,16})"$`)
	return &Habit{Name: "on a fork", one: func(g *Gateway, c rpcCall) rpcAnswer {
		block := strings.HasPrefix(c.Method, "eth_getBlock")
		for i, p := range c.Params {
			if m := tag.FindSubmatch(p); m != nil && !block {
				if n, err := hexutil.DecodeUint64(string(m[1])); err != nil || n >= from {
					c.Params[i] = fmt.Appendf(nil, `"0x%x"`, from-1)
				}
			}
		}
		a := g.ask(c)
		var item map[string]any
		if json.Unmarshal(a.Result, &item) != nil || item == nil {
			return a
		}
		number, height := "blockNumber", ""
		if block {
			number = "number"
		}
		if height, _ = item[number].(string); height == "" {
			return a
		}
		switch n, err := hexutil.DecodeUint64(height); {
		case err != nil || n < from:
		case block:
			hash, _ := item["hash"].(string)
			item["hash"], item["transactions"] = hexutil.Encode(crypto.Keccak256([]byte(hash))), []any{}
			a.Result, _ = json.Marshal(item)
		default:
			a.Result = json.RawMessage("null")
		}
		return a
	}}
}

// HabitNamed returns the habit of that name, nil for none.
func HabitNamed(name string) *Habit {
	for i := range Habits {
		if Habits[i].Name == name {
			return &Habits[i]
		}
	}
	return nil
}

// refuseAbove refuses a request of more calls with an HTTP status.
func refuseAbove(calls, status int) func(*Gateway, http.ResponseWriter, *http.Request, []rpcCall) bool {
	return func(_ *Gateway, w http.ResponseWriter, _ *http.Request, asked []rpcCall) bool {
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
func receipts(falsify func(map[string]any)) func(*Gateway, rpcCall) rpcAnswer {
	return func(g *Gateway, c rpcCall) rpcAnswer {
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
func dearNoop(g *Gateway, c rpcCall) rpcAnswer {
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
func holdGap(g *Gateway, c rpcCall) rpcAnswer {
	tx, from := c.transaction()
	if tx == nil {
		return g.ask(c)
	}
	for end := time.Now().Add(time.Second); ; time.Sleep(50 * time.Millisecond) {
		var next hexutil.Uint64
		count := rpcCall{"2.0", json.RawMessage("1"), "eth_getTransactionCount",
			[]json.RawMessage{fmt.Appendf(nil, "%q", from), json.RawMessage(`"pending"`)}}
		if _ = json.Unmarshal(g.ask(count).Result, &next); tx.Nonce() <= uint64(next) {
			return g.ask(c)
		}
		if time.Now().After(end) {
			return c.refusal(-32000, fmt.Sprintf("nonce too high: address %s, tx: %d state: %d", from, tx.Nonce(), next))
		}
	}
}

// A Gateway stands before a node and speaks JSON-RPC with a habit. It can also lose every
// n-th new transaction, as a node with a full pool does: it answers with the hash and
// forwards nothing.
type Gateway struct {
	Node   string                // its URL
	Habit  atomic.Pointer[Habit] // nil: none
	Forget int                   // which of the first transactions gets lost, such as every 10th; 0: none

	Requests, Lost atomic.Int64 // requests that came, transactions forgotten

	mu     sync.Mutex
	sent   map[common.Hash]bool
	tokens float64 // of take
	filled time.Time
}

// take takes one of so many tokens a second, if one is left.
func (g *Gateway) take(rate float64) bool {
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
func (g *Gateway) has(rate float64) bool {
	taken := g.take(rate)
	if taken {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tokens++
	}
	return taken
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.Requests.Add(1)
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
	h := g.Habit.Load()
	if h == nil {
		h = &Habit{}
	}
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
func (g *Gateway) forgets(tx common.Hash) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sent == nil {
		g.sent = map[common.Hash]bool{}
	}
	again := g.sent[tx]
	if g.sent[tx] = true; !again && g.Forget > 0 && len(g.sent)%g.Forget == 0 {
		g.Lost.Add(1)
		return true
	}
	return false
}

// nodeClient carries calls to nodes, with connections for many at once.
var nodeClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// ask forwards one call to the node.
func (g *Gateway) ask(c rpcCall) rpcAnswer {
	body, _ := json.Marshal(c)
	response, err := nodeClient.Post(g.Node, "application/json", bytes.NewReader(body))
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
