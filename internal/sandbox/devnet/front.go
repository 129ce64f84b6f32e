package devnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// A front stands before the node's JSON-RPC service and holds requests back while
// the head changes.
type front struct {
	node http.Handler
	gate sync.RWMutex // locked while the head changes
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
	answer := recorder{header: w.Header(), status: http.StatusOK}
	f.forward(&answer, r)
	w.Header().Set("Content-Length", strconv.Itoa(answer.body.Len()))
	w.Header().Del("Transfer-Encoding") // the node sets it on errors, against a compression that is not here
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes()) // fails if the client has gone
}

func (f *front) forward(w http.ResponseWriter, r *http.Request) {
	f.gate.RLock()
	defer f.gate.RUnlock()
	f.node.ServeHTTP(w, r)
}

// plainHost reports whether a Host header is an IP address, localhost or the
// name that containers have for this machine, with or without a port. Other
// names are refused as nodes do: a web page that resolves its own name to
// loopback could otherwise use the chain.
func plainHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return host == "" || host == "localhost" || host == "host.docker.internal" || net.ParseIP(host) != nil
}

// A recorder keeps the answer that a handler writes.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(status int)      { r.status = status }
