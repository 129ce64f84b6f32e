package measure_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/remit-payouts/remit/internal/sandbox/fault"
)

// A habit is a habit of real nodes that the acceptance run pays through.
type habit struct {
	fault.Habit
	Name, Seen string // Seen names nodes that have the habit, "" where none is known

	Twins    bool // every payment is requested twice at once, so that some nonces are left to no-ops
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
	{Name: "21,500 gas for a no-op", Seen: "Arbitrum, zkSync Era and Mantle charge more than 21,000", Twins: true,
		Habit: one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
			const gas = 21_500
			if tx, _ := transactionOf(c); tx != nil && len(tx.Data()) == 0 && tx.Gas() < gas {
				return c.Refusal(-32000, fmt.Sprintf("intrinsic gas too low: have %d, want %d", tx.Gas(), gas))
			}
			var object struct{ Data, Input hexutil.Bytes }
			if c.Method == "eth_estimateGas" && json.Unmarshal(c.Params[0], &object) == nil &&
				len(object.Data)+len(object.Input) == 0 {
				return resultOf(c, `"0x%x"`, gas)
			}
			return ask(c)
		})},
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
			return len(asked) == 1 && !calls.take(0) && tooMany(w, "1")
		},
	}
}

func fewRequests() fault.Habit {
	requests, small := &bucket{rate: 20}, fault.Batches(3, http.StatusRequestEntityTooLarge)
	return whole(func(w http.ResponseWriter, r *http.Request, calls []fault.Call) bool {
		return !requests.take(1) && tooMany(w, "1") || small.Whole(w, r, calls)
	})
}

func tooMany(w http.ResponseWriter, after string) bool {
	w.Header().Set("Retry-After", after)
	http.Error(w, "too many requests", http.StatusTooManyRequests)
	return true
}

type bucket struct {
	rate   float64 // tokens a second
	mu     sync.Mutex
	tokens float64
	filled time.Time
}

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

// holdGap keeps a transaction beyond the sender's next nonce for a second, then refuses it if a gap is left.
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
	t.Cleanup(func() { _ = server.Listener.Close(); server.CloseClientConnections() }) // also of a node that hangs
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

// forgets reports whether this transaction, which comes for the first time, gets lost.
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
