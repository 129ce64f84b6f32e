package dynamo_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
)

// A wire stands between the SDK and DynamoDB Local. It records each request, and may delay it, answer it itself or lose
// the answer. Every read must be strongly consistent but for a query of an index, which cannot be, and which no
// decision about money makes.
type wire struct {
	t *testing.T
	// meddle answers a request, itself or by calling send. A nil meddle sends every request.
	meddle func(op string, send func() (*http.Response, error)) (*http.Response, error)

	mu  sync.Mutex
	ops []string
}

func (w *wire) Do(req *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	w.ops = append(w.ops, op)
	w.mu.Unlock()
	reads := op == "GetItem" || op == "BatchGetItem" || op == "Query"
	if reads && bytes.Contains(body, []byte(`"ConsistentRead":true`)) == bytes.Contains(body, []byte(`"IndexName"`)) {
		w.t.Errorf("%s: %s", op, body)
	}
	send := func() (*http.Response, error) { return http.DefaultClient.Do(req) }
	if w.meddle == nil {
		return send()
	}
	return w.meddle(op, send)
}

// sent returns the operations sent since its last call.
func (w *wire) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ops := w.ops
	w.ops = nil
	return ops
}

// client returns a client of DynamoDB Local that speaks through w and waits at
// most a millisecond before it repeats a call.
func (w *wire) client(t *testing.T) *dynamodb.Client {
	t.Helper()
	w.t = t
	o := dynamotest.Client(t).Options()
	o.HTTPClient = w
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
	return dynamodb.New(o)
}

// lose breaks the connection of the next n requests after DynamoDB has applied them.
func (w *wire) lose(n int) {
	w.meddle = func(_ string, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if n--; n < 0 || err != nil {
			return resp, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, fmt.Errorf("reading the answer: %w", syscall.ECONNRESET)
	}
}

// cancel answers the next n transactions as cancelled for the reasons, without sending them to DynamoDB.
func (w *wire) cancel(n int, reasons ...string) {
	w.meddle = func(op string, send func() (*http.Response, error)) (*http.Response, error) {
		if op != "TransactWriteItems" || n == 0 {
			return send()
		}
		n--
		codes := make([]string, len(reasons))
		for i, r := range reasons {
			codes[i] = fmt.Sprintf(`{"Code":%q}`, r)
		}
		return answer(http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException",`+
			`"Message":"Transaction cancelled, please refer cancellation reasons for specific reasons","CancellationReasons":[`+
			strings.Join(codes, ",")+`]}`), nil
	}
}

// conflict answers the next n requests as refused because of a transaction on
// their item, without sending them to DynamoDB.
func (w *wire) conflict(n int) {
	w.meddle = func(_ string, send func() (*http.Response, error)) (*http.Response, error) {
		if n--; n < 0 {
			return send()
		}
		return answer(http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException",`+
			`"message":"Transaction is ongoing for the item"}`), nil
	}
}

func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
	}
}
