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
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
)

// A habit is a habit of real nodes that the acceptance run pays through.
type habit struct {
	fault.Habit
	Name, Seen string // Seen names nodes that have the habit, "" where none is known

	Beside bool // an honest node is configured as well
	Gone   bool // for good: payments end once it has been silent for the time that the rig sets
	Lies   bool // about receipts: no payment may end before the lies do
	Twins  bool // every payment is requested twice at once, so that some nonces are left to no-ops

	TokenGas bool // only where gas is paid in the token: elsewhere it would hide the balance that pays gas
}

// whole and one are habits of whole requests and of single calls.
func whole(answer func(w http.ResponseWriter, r *http.Request, calls []fault.Call) bool) fault.Habit {
	return fault.Habit{Whole: answer}
}

func one(answer func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer) fault.Habit {
	return fault.Habit{One: answer}
}

// habits are in the order of the table in docs/chains.md.
var habits = []habit{
	{Name: "none"},
	{Name: "10 calls a batch", Seen: "Base's public endpoint",
		Habit: whole(func(w http.ResponseWriter, _ *http.Request, calls []fault.Call) bool {
			if len(calls) <= 10 {
				return false
			}
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32014,"message":"maximum 10 calls in 1 batch"},"id":null}`)
			return true
		})},
	{Name: "3 calls a batch", Seen: "ApeChain's public endpoint; HTTP 413 as OP Mainnet's",
		Habit: *fault.Batches(3, http.StatusRequestEntityTooLarge)},
	{Name: "no batches", Seen: "gateways that forward single calls", Habit: *fault.Batches(1, http.StatusBadRequest)},
	{Name: "receipts without logs", Seen: "Erigon (erigontech/erigon#19406)", Beside: true, Lies: true,
		Habit: *fault.Receipts(func(r map[string]any) { r["logs"] = []any{} })},
	{Name: "receipts with a wrong status", Seen: "Ethermint (cosmos/ethermint#282)", Beside: true, Lies: true,
		Habit: *fault.Receipts(fault.Reverted)},
	{Name: "one base fee instead of two", Seen: "Avalanche's coreth",
		Habit: one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
			a := ask(c)
			var history map[string]any
			if c.Method != "eth_feeHistory" || json.Unmarshal(a.Result, &history) != nil {
				return a
			}
			fees, _ := history["baseFeePerGas"].([]any)
			history["baseFeePerGas"] = fees[:min(1, len(fees))]
			a.Result, _ = json.Marshal(history)
			return a
		})},
	{Name: "21,500 gas for a no-op", Seen: "Arbitrum, zkSync Era and Mantle charge more than 21,000", Habit: one(dearNoop), Twins: true},
	{Name: "a gap is held for one second", Seen: "Arbitrum's sequencer", Habit: one(holdGap)},
	{Name: "latest for pending", Seen: "nodes without a view of the pool",
		Habit: one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
			for i, p := range c.Params {
				if string(p) == `"pending"` {
					c.Params[i] = json.RawMessage(`"latest"`)
				}
			}
			return ask(c)
		})},
	{Name: "batches out of order", Seen: "JSON-RPC 2.0 section 6 allows it",
		Habit: whole(func(_ http.ResponseWriter, _ *http.Request, calls []fault.Call) bool {
			slices.Reverse(calls)
			return false
		})},
	{Name: "100 calls a second", Seen: "public endpoints meter each call of a batch", Habit: metered()},
	{Name: rateLimited, Seen: "free plans", Habit: fewRequests()},
	{Name: "every third request hangs", Seen: "a node whose disk or peer is stuck", Beside: true, Habit: everyThirdHangs()},
	{Name: "one of two nodes down", Seen: "every provider, for hours", Beside: true, Gone: true, Habit: *fault.Down()},
	{Name: "a placeholder for ether", Seen: "Tempo, \"EVM Differences\"", TokenGas: true,
		Habit: one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
			a := ask(c)
			if c.Method == "eth_getBalance" && a.Result != nil {
				a.Result = json.RawMessage(`"0x9612084f0316e0ebd5182f398e5195a51b5ca47667d4c9b26c9b26c9b26c9b2"`)
			}
			return a
		})},
}

func metered() fault.Habit {
	calls := &bucket{rate: 100}
	return fault.Habit{
		One: func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
			if !calls.take(1) {
				return c.Refusal(http.StatusTooManyRequests, "over rate limit")
			}
			return ask(c)
		},
		Whole: func(w http.ResponseWriter, _ *http.Request, asked []fault.Call) bool {
			return len(asked) == 1 && !calls.take(0) && tooMany(w)
		},
	}
}

func fewRequests() fault.Habit {
	requests, small := &bucket{rate: 20}, fault.Batches(3, http.StatusRequestEntityTooLarge)
	return whole(func(w http.ResponseWriter, r *http.Request, calls []fault.Call) bool {
		return !requests.take(1) && tooMany(w) || small.Whole(w, r, calls)
	})
}

func everyThirdHangs() fault.Habit {
	requests, hangs := new(atomic.Int64), fault.Hanging()
	return whole(func(w http.ResponseWriter, r *http.Request, calls []fault.Call) bool {
		return requests.Add(1)%3 == 0 && hangs.Whole(w, r, calls)
	})
}

// tooMany answers 429.
func tooMany(w http.ResponseWriter) bool {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests", http.StatusTooManyRequests)
	return true
}

// A bucket holds the tokens of a second.
type bucket struct {
	rate   float64 // tokens a second
	mu     sync.Mutex
	tokens float64
	filled time.Time
}

// take takes n tokens, if one is left.
func (b *bucket) take(n float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(b.rate, b.tokens+min(1, now.Sub(b.filled).Seconds())*b.rate)
	if b.filled = now; b.tokens < 1 {
		return false
	}
	b.tokens -= n
	return true
}

// transactionOf returns the transaction that c sends and its sender; nil for another call.
func transactionOf(c fault.Call) (*types.Transaction, common.Address) {
	var raw hexutil.Bytes
	tx := new(types.Transaction)
	if c.Method != "eth_sendRawTransaction" || json.Unmarshal(c.Params[0], &raw) != nil || tx.UnmarshalBinary(raw) != nil {
		return nil, common.Address{}
	}
	from, _ := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
	return tx, from
}

func resultOf(c fault.Call, format string, args ...any) fault.Answer {
	return fault.Answer{Version: "2.0", ID: c.ID, Result: fmt.Appendf(nil, format, args...)}
}

// dearNoop wants 21,500 gas for a transfer of nothing.
func dearNoop(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
	const gas = 21_500
	if tx, _ := transactionOf(c); tx != nil && len(tx.Data()) == 0 && tx.Gas() < gas {
		return c.Refusal(-32000, fmt.Sprintf("intrinsic gas too low: have %d, want %d", tx.Gas(), gas))
	}
	var object struct{ Data, Input hexutil.Bytes }
	if c.Method == "eth_estimateGas" && json.Unmarshal(c.Params[0], &object) == nil && len(object.Data)+len(object.Input) == 0 {
		return resultOf(c, `"0x%x"`, gas)
	}
	return ask(c)
}

// holdGap keeps a transaction beyond the sender's next nonce for a second, and
// refuses it when the nonces before it have not come by then.
func holdGap(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
	tx, from := transactionOf(c)
	if tx == nil {
		return ask(c)
	}
	for end := time.Now().Add(time.Second); ; time.Sleep(50 * time.Millisecond) {
		var next hexutil.Uint64
		count := fault.Call{Version: "2.0", ID: json.RawMessage("1"), Method: "eth_getTransactionCount",
			Params: []json.RawMessage{fmt.Appendf(nil, "%q", from), json.RawMessage(`"pending"`)}}
		if _ = json.Unmarshal(ask(count).Result, &next); tx.Nonce() <= uint64(next) {
			return ask(c)
		}
		if time.Now().After(end) {
			return c.Refusal(-32000, fmt.Sprintf("nonce too high: address %s, tx: %d state: %d", from, tx.Nonce(), next))
		}
	}
}

// A gateway is a fault.Gateway that serves. It loses every tenth new transaction, as a node with a
// full pool does: it answers with the hash and forwards nothing.
type gateway struct {
	fault.Gateway
	URL            string
	requests, lost atomic.Int64

	mu   sync.Mutex
	sent map[common.Hash]bool
}

// newGateway serves before the node until the test ends.
func newGateway(t testing.TB, node string, h habit) *gateway {
	t.Helper()
	g := &gateway{Gateway: fault.Gateway{Node: node}, sent: map[common.Hash]bool{}}
	g.adopt(h)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.requests.Add(1)
		g.ServeHTTP(w, r)
	}))
	g.URL = server.URL
	t.Cleanup(func() { _ = server.Listener.Close(); server.CloseClientConnections() }) // without waiting for a node that hangs
	return g
}

// adopt gives the gateway a habit in place of the one before.
func (g *gateway) adopt(h habit) {
	g.Habit.Store(&fault.Habit{Whole: h.Whole, One: func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
		switch tx, _ := transactionOf(c); {
		case tx != nil && g.forgets(tx.Hash()):
			return resultOf(c, "%q", tx.Hash())
		case h.One != nil:
			return h.One(ask, c)
		}
		return ask(c)
	}})
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

// TestEveryHabitDoesWhatItSays asks a node through a gateway of each habit.
func TestEveryHabitDoesWhatItSays(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c struct {
			ID     json.RawMessage
			Method string
			Params []json.RawMessage
		}
		must.OK(t, json.NewDecoder(r.Body).Decode(&c))
		results := map[string]string{"eth_feeHistory": `{"baseFeePerGas":["0x1","0x2"]}`,
			"eth_getTransactionReceipt": `{"status":"0x1","logs":[{}],"blockNumber":"0x20"}`,
			"eth_estimateGas":           `"0x5208"`, "eth_getTransactionCount": strconv.Quote(strings.Trim(string(c.Params[len(c.Params)-1]), `"`)),
			"eth_sendRawTransaction": `"sent"`, "eth_getBalance": `"0x1"`}
		results["eth_getBlockByNumber"] = fmt.Sprintf(`{"number":%s,"hash":"0x00"}`, append(c.Params, json.RawMessage("0"))[0])
		must.Get(fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, results[c.Method]))(t)
	}))
	defer node.Close()
	signer := must.Get(crypto.GenerateKey())(t)
	gap := must.Get(types.SignNewTx(signer, types.LatestSignerForChainID(common.Big1),
		&types.DynamicFeeTx{ChainID: common.Big1, Nonce: math.MaxInt64, To: &common.Address{}, Gas: 21_000}))(t)
	signed := must.Get(gap.MarshalBinary())(t)
	raw := hexutil.Encode(signed)
	ask := map[string]string{ // the calls of a request, with their number where it is not 1
		"none": `["eth_getTransactionCount","0x0","pending"]`, "10 calls a batch": "11", "3 calls a batch": "4", "no batches": "2",
		"receipts without logs": `["eth_getTransactionReceipt","0x1"]`, "receipts with a wrong status": `["eth_getTransactionReceipt","0x1"]`,
		"one base fee instead of two": `["eth_feeHistory","0x1"]`, "21,500 gas for a no-op": `["eth_sendRawTransaction","` + raw + `"]`,
		"a gap is held for one second": `["eth_sendRawTransaction","` + raw + `"]`,
		"latest for pending":           `["eth_getTransactionCount","0x0","pending"]`,
		"batches out of order":         "2", "100 calls a second": "400", "3 calls a batch, 20 requests a second": "4",
		"every third request hangs": "", "a placeholder for ether": `["eth_getBalance","0x0","latest"]`,
	}
	want := map[string]string{
		"none": `200 [{"jsonrpc":"2.0","id":0,"result":"pending"}]`, "10 calls a batch": `200 {"jsonrpc":"2.0","error":{"code":-32014,`,
		"3 calls a batch": "413 batch", "no batches": "400 batch",
		"receipts without logs": `"logs":[]`, "receipts with a wrong status": `"status":"0x0"`,
		"one base fee instead of two": `{"baseFeePerGas":["0x1"]}`,
		"21,500 gas for a no-op":      "intrinsic gas too low: have 21000, want 21500", "a gap is held for one second": "nonce too high",
		"latest for pending": `"result":"latest"`, "a placeholder for ether": `"result":"0x9612084f`,
		"batches out of order": `200 [{"jsonrpc":"2.0","id":1,`, "100 calls a second": `{"code":429,"message":"over rate limit"}}`,
		"3 calls a batch, 20 requests a second": "413 batch",
		"every third request hangs":             "EOF",
	}
	ask["one of two nodes down"], want["one of two nodes down"] = "1", "EOF"
	for _, h := range habits {
		g := &fault.Gateway{Node: node.URL}
		g.Habit.Store(&h.Habit)
		server := httptest.NewServer(g)
		if strings.Contains(h.Name, "hangs") {
			for range 2 {
				must.OK(t, must.Get(http.Post(server.URL, "application/json", strings.NewReader("[]")))(t).Body.Close())
			}
			time.AfterFunc(200*time.Millisecond, server.CloseClientConnections)
		}
		if asked := ask[h.Name]; !strings.HasPrefix(asked, "[") {
			n, _ := strconv.Atoi(asked)
			ask[h.Name] = strings.TrimSuffix(strings.Repeat(`["eth_getTransactionCount","0x0","latest"],`, n), ",")
		}
		calls := []fault.Call{}
		var lines [][]json.RawMessage
		must.OK(t, json.Unmarshal([]byte("["+ask[h.Name]+"]"), &lines))
		for i, line := range lines {
			calls = append(calls, fault.Call{Version: "2.0", ID: fmt.Append(nil, i), Method: strings.Trim(string(line[0]), `"`), Params: line[1:]})
		}
		body, _ := json.Marshal(calls)
		got := ""
		if response, err := http.Post(server.URL, "application/json", bytes.NewReader(body)); err != nil {
			got = err.Error()
		} else {
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			got = fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(text)))
		}
		server.CloseClientConnections()
		_ = server.Listener.Close() // without waiting for a node that hangs
		if !strings.Contains(got, want[h.Name]) || want[h.Name] == "" {
			t.Errorf("%s: answered %.300s, want %s", h.Name, got, want[h.Name])
		}
	}
}
