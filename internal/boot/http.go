package boot

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"remit/internal/apikey"
)

// HTTP runs a function that serves an API Gateway REST API with the handler
// wire builds.
func HTTP(wire func(*Env) http.Handler) { start(wire, Gateway) }

// Gateway adapts h to API Gateway's proxy events. It answers every event; the
// function it returns has no error, since API Gateway would make a body of its
// own out of one.
//
// The request's context carries the apikey.Principal that the authorizer found,
// if it found one. An event that no API Gateway sent is an operator's.
func Gateway(h http.Handler) func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	return func(ctx context.Context, ev events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		w := newAnswer(ev.RequestContext.RequestID)
		r, err := request(ctx, ev)
		if err != nil {
			slog.ErrorContext(ctx, "reading an API Gateway event", "err", err)
			w.fail()
			return w.proxyResponse(), nil
		}
		serve(h, w, r)
		return w.proxyResponse(), nil
	}
}

// ForOperators serves the requests of operators with operators, all others
// with public. An operator's request did not come through API Gateway: the
// operator invoked the function itself, with IAM's leave.
func ForOperators(operators, public http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(operatorKey{}) != nil {
			operators.ServeHTTP(w, r)
			return
		}
		public.ServeHTTP(w, r)
	})
}

type operatorKey struct{}

// serve is h.ServeHTTP, where a panic is an answer 500.
func serve(h http.Handler, w *answer, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(r.Context(), "panic", "panic", p, "stack", string(debug.Stack()))
			w.fail()
		}
	}()
	h.ServeHTTP(w, r)
}

// request makes an http.Request of an event. It first repairs the paths, headers
// and bodies that clients can send and core.RequestAccessor fails on.
func request(ctx context.Context, ev events.APIGatewayProxyRequest) (*http.Request, error) {
	if ev.HTTPMethod == "" {
		ev.HTTPMethod = http.MethodPost // of an operator's bare {"body": …}
	}
	ev.Path = escape(withoutBase(ev.Path, ev.Resource))
	ev.Headers, ev.MultiValueHeaders = nil, headers(ev)
	if ev.IsBase64Encoded {
		if _, err := base64.StdEncoding.DecodeString(ev.Body); err != nil {
			ev.Body, ev.IsBase64Encoded = "\xff", false // no UTF-8, so that the handler refuses it
		}
	}
	var accessor core.RequestAccessor
	r, err := accessor.EventToRequestWithContext(ctx, ev)
	if err != nil {
		return nil, err
	}
	if who, ok := principal(ev.RequestContext.Authorizer); ok {
		r = r.WithContext(apikey.WithPrincipal(r.Context(), who))
	}
	if id := ev.RequestContext.RequestID; id != "" {
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		if len(r.Header.Values("X-Request-Id")) == 0 {
			r.Header.Set("X-Request-Id", id) // one id in the access log, our log and the answer
		}
	}
	if ev.RequestContext.APIID == "" {
		r = r.WithContext(context.WithValue(r.Context(), operatorKey{}, true))
	}
	return r, nil
}

// headers returns all headers of the event as multi-valued ones, the only kind
// that the accessor takes when an event has both. Names that the accessor's own
// older interface believes are dropped.
func headers(ev events.APIGatewayProxyRequest) map[string][]string {
	multi := make(map[string][]string, len(ev.MultiValueHeaders))
	for name, values := range ev.MultiValueHeaders {
		multi[name] = values
	}
	if len(multi) == 0 {
		for name, value := range ev.Headers {
			multi[name] = []string{value}
		}
	}
	for name := range multi {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "X-Golambdaproxy-") {
			delete(multi, name)
		}
	}
	return multi
}

// principal reads the authorizer's context. Only API Gateway can write it. What an
// authorizer wrote that knew no grants, and API Gateway remembers for a while, is
// of a key that may do everything.
func principal(authorizer map[string]any) (apikey.Principal, bool) {
	text := func(name string) string { s, _ := authorizer[name].(string); return s }
	mode, err := apikey.ParseMode(text(contextMode))
	who := apikey.Principal{MerchantID: text(contextMerchant), KeyID: text(contextKey), Mode: mode}
	hash, hashErr := hex.DecodeString(text(contextHash))
	copy(who.Hash[:], hash)
	grantErr := who.Grant.UnmarshalText([]byte(text(contextGrant)))
	terms, termsErr := apikey.ParseTerms(text(contextTerms))
	who.Terms = terms
	return who, errors.Join(err, hashErr, grantErr, termsErr) == nil && who.MerchantID != "" && who.KeyID != ""
}
