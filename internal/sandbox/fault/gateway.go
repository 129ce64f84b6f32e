package fault

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Call is a call of JSON-RPC.
type Call struct {
	Version string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id"`
	Method  string            `json:"method"`
	Params  []json.RawMessage `json:"params,omitempty"`
}

// An Answer is the answer to one call: a result or an error.
type Answer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Refusal returns an answer that refuses c.
func (c Call) Refusal(code int, message string) Answer {
	return Answer{Version: "2.0", ID: c.ID, Error: fmt.Appendf(nil, `{"code":%d,"message":%q}`, code, message)}
}

// A Habit is a difference between a real node and the node that Remit's own tests run on. Its zero
// value is a node without such a difference.
type Habit struct {
	// Whole answers a whole request and returns true, or leaves it, with its calls in any order.
	Whole func(w http.ResponseWriter, r *http.Request, calls []Call) bool
	// One answers one call; ask forwards a call to the node.
	One func(ask func(Call) Answer, c Call) Answer
}

// Down is the habit of a node that resets every connection.
func Down() *Habit {
	return &Habit{Whole: func(http.ResponseWriter, *http.Request, []Call) bool { panic(http.ErrAbortHandler) }}
}

// Hanging is the habit of a node that takes requests and never answers: it keeps each for longer
// than Remit waits, and resets its connection.
func Hanging() *Habit {
	return &Habit{Whole: func(_ http.ResponseWriter, r *http.Request, _ []Call) bool {
		select {
		case <-r.Context().Done():
		case <-time.After(12 * time.Second):
		}
		panic(http.ErrAbortHandler)
	}}
}

// Batches is the habit of a node that refuses a request of more calls with an HTTP status.
func Batches(most, status int) *Habit {
	return &Habit{Whole: func(w http.ResponseWriter, _ *http.Request, calls []Call) bool {
		if len(calls) > most {
			http.Error(w, "batch too large", status)
		}
		return len(calls) > most
	}}
}

// Receipts is the habit of a node whose receipts falsify has changed.
func Receipts(falsify func(map[string]any)) *Habit {
	return &Habit{One: func(ask func(Call) Answer, c Call) Answer {
		a := ask(c)
		var receipt map[string]any
		if c.Method == "eth_getTransactionReceipt" && json.Unmarshal(a.Result, &receipt) == nil && receipt != nil {
			falsify(receipt)
			a.Result, _ = json.Marshal(receipt)
		}
		return a
	}}
}

// Reverted is the lie of Receipts that every transaction has reverted.
func Reverted(receipt map[string]any) { receipt["status"] = "0x0" }

// Fork is the habit of a node that is on a branch of its own from the numbered block
// on: its blocks have other hashes there, and none of our transactions.
func Fork(from uint64) *Habit {
	tag := regexp.MustCompile(`^"(latest|pending|0x[0-9a-f]{1,16})"$`)
	return &Habit{One: func(ask func(Call) Answer, c Call) Answer {
		block := strings.HasPrefix(c.Method, "eth_getBlock")
		for i, p := range c.Params {
			if m := tag.FindSubmatch(p); m != nil && !block {
				if n, err := strconv.ParseUint(string(m[1]), 0, 64); err != nil || n >= from {
					c.Params[i] = fmt.Appendf(nil, `"0x%x"`, from-1)
				}
			}
		}
		a := ask(c)
		var item map[string]any
		if json.Unmarshal(a.Result, &item) != nil || item == nil {
			return a
		}
		number := "blockNumber"
		if block {
			number = "number"
		}
		height, _ := item[number].(string)
		switch n, err := strconv.ParseUint(height, 0, 64); {
		case err != nil || n < from:
		case block:
			item["hash"], item["transactions"] = fmt.Sprintf("0x%x", sha256.Sum256(fmt.Append(nil, item["hash"]))), []any{}
			a.Result, _ = json.Marshal(item)
		default:
			a.Result = json.RawMessage("null")
		}
		return a
	}}
}

// A Gateway stands before a node and speaks JSON-RPC with a habit.
type Gateway struct {
	Node  string                // its URL
	Habit atomic.Pointer[Habit] // nil: none
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	calls, batch := []Call{{}}, json.Unmarshal(body, &[]json.RawMessage{}) == nil
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
	if h.Whole != nil && h.Whole(w, r, calls) {
		return
	}
	answers := make([]Answer, len(calls))
	for i, c := range calls {
		if h.One != nil {
			answers[i] = h.One(g.ask, c)
		} else {
			answers[i] = g.ask(c)
		}
	}
	var answer any = answers
	if !batch {
		answer = answers[0]
	}
	_ = json.NewEncoder(w).Encode(answer)
}

var nodeClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func (g *Gateway) ask(c Call) Answer {
	body, _ := json.Marshal(c)
	response, err := nodeClient.Post(g.Node, "application/json", bytes.NewReader(body))
	if err != nil {
		return c.Refusal(-32603, "the node is gone")
	}
	defer func() { _ = response.Body.Close() }()
	var a Answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return c.Refusal(-32603, err.Error())
	}
	if a.ID = c.ID; a.Result == nil && a.Error == nil {
		a.Result = json.RawMessage("null")
	}
	return a
}
