package devnet

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// A front stands before the node's JSON-RPC service and tells the one untruth
// of this chain: that a stuck transaction was mined in the latest block.
// Whatever does not mention a stuck transaction's hash goes straight through.
type front struct {
	node http.Handler
	head func() *types.Header

	gate sync.RWMutex // held while the head changes

	mu    sync.RWMutex
	stuck map[common.Hash]bool
}

func newFront(node http.Handler, head func() *types.Header) *front {
	return &front{node: node, head: head, stuck: make(map[common.Hash]bool)}
}

// pretend makes a mined transaction stuck for ever.
func (f *front) pretend(tx common.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck[tx] = true
}

func (f *front) anyStuck() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.stuck) > 0
}

func (f *front) isStuck(tx common.Hash) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.stuck[tx]
}

// ServeHTTP answers one JSON-RPC request or batch.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !plainHost(r.Host) {
		http.Error(w, "invalid host specified", http.StatusForbidden)
		return
	}
	// The whole request is read before the gate, and the answer written after
	// it: a slow client must not hold up the chain.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		status := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	truth := recorder{header: w.Header(), status: http.StatusOK}
	answer := f.answer(&truth, r, body)
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.Header().Del("Transfer-Encoding") // the node sets it on errors, to defeat compression that is not here
	w.WriteHeader(truth.status)
	w.Write(answer) //nolint:errcheck // the client has gone
}

// answer lets the node answer into truth and returns what to tell the client.
func (f *front) answer(truth *recorder, r *http.Request, body []byte) []byte {
	f.gate.RLock()
	defer f.gate.RUnlock()
	f.node.ServeHTTP(truth, r)
	if !f.mentionsStuck(body) {
		return truth.body.Bytes()
	}
	return f.retell(truth.body.Bytes())
}

// plainHost reports whether a Host header is an IP address or localhost, with
// or without a port. Other names are refused as nodes do: a web page that
// resolves its own name to loopback could otherwise use the chain.
func plainHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "" || host == "localhost" || net.ParseIP(trimBrackets(host)) != nil
}

func trimBrackets(host string) string {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}

// mentionsStuck reports whether body contains a stuck transaction's hash as a
// JSON string.
func (f *front) mentionsStuck(body []byte) bool {
	if !f.anyStuck() {
		return false
	}
	const digits = 2 * common.HashLength
	for {
		_, rest, found := bytes.Cut(body, []byte(`"0x`))
		if !found || len(rest) <= digits {
			return false
		}
		var tx common.Hash
		if rest[digits] == '"' {
			if _, err := hex.Decode(tx[:], rest[:digits]); err == nil && f.isStuck(tx) {
				return true
			}
		}
		body = rest
	}
}

// retell returns a reply in which stuck transactions, their receipts and their
// logs are in the latest block.
func (f *front) retell(reply []byte) []byte {
	head := f.head()
	if trimmed := bytes.TrimLeft(reply, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '[' {
		return f.retellOne(reply, head)
	}
	var batch []json.RawMessage
	if json.Unmarshal(reply, &batch) != nil {
		return reply
	}
	for i := range batch {
		batch[i] = f.retellOne(batch[i], head)
	}
	return mustJSON(batch)
}

// retellOne is retell for one reply.
func (f *front) retellOne(reply json.RawMessage, head *types.Header) json.RawMessage {
	var message map[string]json.RawMessage
	if json.Unmarshal(reply, &message) != nil {
		return reply
	}
	var result map[string]json.RawMessage // stays nil for null
	if json.Unmarshal(message["result"], &result) != nil || !f.move(result, head) {
		return reply
	}
	message["result"] = mustJSON(result)
	return mustJSON(message)
}

// move puts a stuck transaction, receipt or log into the block head, and
// reports whether it was one.
func (f *front) move(object map[string]json.RawMessage, head *types.Header) bool {
	var tx common.Hash
	name := object["transactionHash"] // of receipts and logs
	if name == nil {
		name = object["hash"] // of transactions, and of blocks
	}
	if json.Unmarshal(name, &tx) != nil || !f.isStuck(tx) {
		return false
	}
	object["blockNumber"] = mustJSON((*hexutil.Big)(head.Number))
	object["blockHash"] = mustJSON(head.Hash())
	if object["blockTimestamp"] != nil {
		object["blockTimestamp"] = mustJSON(hexutil.Uint64(head.Time))
	}
	var logs []map[string]json.RawMessage
	if json.Unmarshal(object["logs"], &logs) == nil {
		for _, log := range logs {
			f.move(log, head)
		}
		object["logs"] = mustJSON(logs)
	}
	return true
}

// mustJSON encodes what cannot fail to be encoded.
func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("devnet: " + err.Error())
	}
	return b
}

// A recorder keeps what a handler writes.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(status int)      { r.status = status }
