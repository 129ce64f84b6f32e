package boot

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// internalError is the answer to a request whose handler panicked.
const internalError = `{"detail":"Internal Server Error","code":"internal_error"}`

// An answer is an http.ResponseWriter that behaves as net/http's does: the first WriteHeader counts, later changes of
// the header do not, and a handler that writes nothing has answered 200.
type answer struct {
	requestID string
	header    http.Header // the handler's
	sent      http.Header // as it was at the first WriteHeader; nil before
	status    int
	body      []byte
}

func (w *answer) Header() http.Header { return w.header }

func (w *answer) WriteHeader(status int) {
	if w.sent == nil {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *answer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, b...)
	return len(b), nil
}

// fail makes the answer a 500 and drops all that was written so far.
func (w *answer) fail() {
	w.status, w.body = http.StatusInternalServerError, []byte(internalError)
	w.sent = http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}
	if id := cmp.Or(w.header.Get("X-Request-Id"), w.requestID); id != "" {
		w.sent.Set("X-Request-Id", id)
	}
}

// proxyResponse returns the answer as API Gateway reads it. The content type of an
// answer that names none is JSON, and a body that is no text travels in base64.
func (w *answer) proxyResponse() events.APIGatewayProxyResponse {
	w.WriteHeader(http.StatusOK)
	if w.sent.Get("Content-Type") == "" {
		w.sent.Set("Content-Type", "application/json")
	}
	w.sent.Del("Content-Length") // API Gateway counts, after undoing its encoding
	out := events.APIGatewayProxyResponse{StatusCode: w.status, MultiValueHeaders: w.sent, Body: string(w.body)}
	if !utf8.Valid(w.body) {
		out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(w.body), true
	}
	return out
}
