package boot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
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
		w := &answer{requestID: ev.RequestContext.RequestID, header: http.Header{}}
		serve(h, w, request(ctx, ev))
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

func request(ctx context.Context, ev events.APIGatewayProxyRequest) *http.Request {
	if who, ok := principal(ev.RequestContext.Authorizer); ok {
		ctx = apikey.WithPrincipal(ctx, who)
	}
	id := ev.RequestContext.RequestID
	if id != "" {
		ctx = context.WithValue(ctx, requestIDKey{}, id)
	}
	if ev.RequestContext.APIID == "" {
		ctx = context.WithValue(ctx, operatorKey{}, true)
	}
	header := http.Header{}
	for name, values := range multi(ev.MultiValueHeaders, ev.Headers) {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	if id != "" && len(header.Values("X-Request-Id")) == 0 {
		header.Set("X-Request-Id", id) // one id in the access log, our log and the answer
	}
	body := []byte(ev.Body)
	if ev.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(ev.Body); err != nil {
			body = []byte{0xff} // no UTF-8, so that the handler refuses it
		}
	}
	path := "/" + strings.TrimPrefix(withoutBase(ev.Path, ev.Resource), "/")
	target := &url.URL{Path: path, RawQuery: url.Values(multi(ev.MultiValueQueryStringParameters, ev.QueryStringParameters)).Encode()}
	if plain, err := url.PathUnescape(path); err == nil { // otherwise a broken escape, which is text
		target.Path, target.RawPath = plain, path
	}
	r := &http.Request{
		Method:        cmp.Or(strings.ToUpper(ev.HTTPMethod), http.MethodPost), // an operator may send a bare {"body": …}
		URL:           target,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}
	return r.WithContext(ctx)
}

// multi returns headers or query parameters with all values, or the single-valued ones of
// an event that has no others.
func multi(all map[string][]string, single map[string]string) map[string][]string {
	if len(all) > 0 {
		return all
	}
	all = make(map[string][]string, len(single))
	for name, value := range single {
		all[name] = []string{value}
	}
	return all
}

// principal reads the authorizer's context. Only API Gateway can write it.
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
