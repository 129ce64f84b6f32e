package ethrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// A query is a call of a node's method and its outcome. go-ethereum's rpc would add a megabyte to
// each function that queries nodes, for WebSockets, subscriptions, metrics and OpenTelemetry.
type query struct {
	Method string
	Args   []any
	Result any   // pointer to decode the answer into
	Error  error // an *rpcError if the node sent it
}

// An rpcError is an error object of JSON-RPC 2.0, section 5.1.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

func (e *rpcError) Error() string { return e.Message }

// A batchError is the one error object that answers a whole batch. It is no call's answer, and does not unwrap.
type batchError struct{ told *rpcError }

func (e *batchError) Error() string { return e.told.Message }

// An httpError is an answer whose HTTP status is not 2xx.
type httpError struct {
	Status int
	Body   []byte
}

func (e *httpError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Body) }

var (
	errUnanswered = errors.New("node left a call of the batch unanswered")
	errNoResult   = errors.New("node answered with neither a result nor an error")
)

// message is a request object, section 4.
type message struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params,omitempty"`
}

// answer is a response object, section 5.
type answer struct {
	ID            json.RawMessage `json:"id"`
	Result, Error json.RawMessage
}

// told reads an error object, or a gateway's error that is a text. An error of another form has no words.
func (a answer) told() *rpcError {
	told := new(rpcError)
	if json.Unmarshal(a.Error, &told.Message) != nil {
		_ = json.Unmarshal(a.Error, told)
	}
	return told
}

func (a answer) into(q *query) {
	switch {
	case a.Error != nil && string(a.Error) != "null":
		q.Error = a.told()
	case a.Result == nil:
		q.Error = errNoResult
	default:
		q.Error = json.Unmarshal(a.Result, q.Result)
	}
}

// post sends queries in one HTTP request: several as a batch, and one alone, since some gateways refuse batches of some
// methods. An error means that no query has an answer; otherwise each has its Result or an Error. It returns how long
// the node wants to be left alone, or 0.
func (n *Node) post(ctx context.Context, queries []*query) (time.Duration, error) {
	messages := make([]message, len(queries))
	for i, q := range queries {
		messages[i] = message{"2.0", i + 1, q.Method, q.Args}
	}
	var body any = messages
	if len(queries) == 1 {
		body = messages[0]
	}
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	text, after, err := n.roundTrip(ctx, text)
	if err != nil {
		return after, err
	}
	var one answer
	if len(queries) == 1 {
		err := json.Unmarshal(text, &one)
		if err == nil {
			one.into(queries[0])
		}
		return after, err
	}
	var answers []answer
	if err := json.Unmarshal(text, &answers); err != nil {
		if json.Unmarshal(text, &one) == nil {
			err = &batchError{one.told()}
		}
		return after, err
	}
	unanswered := map[string]*query{}
	for i, q := range queries {
		unanswered[strconv.Itoa(i+1)] = q
	}
	for _, a := range answers {
		if q := unanswered[string(a.ID)]; q != nil {
			a.into(q)
			delete(unanswered, string(a.ID))
		}
	}
	for _, q := range unanswered {
		q.Error = errUnanswered
	}
	return after, nil
}

// roundTrip posts text and returns at most maxResponse bytes of the answer, and its Retry-After in
// seconds (RFC 9110 section 10.2.3; gateways of nodes do not use its other form, a date).
func (n *Node) roundTrip(ctx context.Context, text []byte) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, n.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	// Every request may be repeated, a broadcast too: its bytes are the same. With this key, which it does not send,
	// net/http itself repeats a request whose idle connection turns out to be dead, as after a Lambda's sleep.
	request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "X-Idempotency-Key": {}}
	response, err := n.client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	told, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxResponse)) // all: the connection is used again
	seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16)   // 0 for another form
	after := time.Duration(seconds) * time.Second
	if response.StatusCode/100 != 2 {
		err = &httpError{response.StatusCode, told}
	} else if err == nil && bytes.Count(told, []byte("{"))+bytes.Count(told, []byte(",")) > maxParts {
		err = fmt.Errorf("%w: more than %d parts", errAnswer, maxParts)
	}
	return told, after, err
}
