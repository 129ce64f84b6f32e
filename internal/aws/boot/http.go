package boot

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// Gateway adapts h to API Gateway's proxy events. h answers its own panics.
//
// The request's context carries the apikey.Principal that the authorizer found,
// if it found one. An event that no API Gateway sent is an operator's.
func Gateway(h http.Handler) func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	os.Unsetenv(core.CustomHostVariable) // the library would put it before every URL
	return func(ctx context.Context, ev events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		r, err := request(ctx, ev)
		if err != nil {
			return events.APIGatewayProxyResponse{}, fmt.Errorf("reading the event: %w", err)
		}
		w := core.NewProxyResponseWriter()
		w.WriteHeader(http.StatusOK) // unless the handler writes another
		h.ServeHTTP(w, r)
		w.Header().Del("Content-Length") // API Gateway counts, after undoing its encoding
		return w.GetProxyResponse()
	}
}

// ForOperators serves the requests of operators with operators, all others with public. An operator's request did not
// come through API Gateway: the operator invoked the function itself, with IAM's leave.
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

func request(ctx context.Context, ev events.APIGatewayProxyRequest) (*http.Request, error) {
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
	r, err := fromEvent(ev)
	if err != nil {
		return nil, err
	}
	if id != "" && len(r.Header.Values("X-Request-Id")) == 0 {
		r.Header.Set("X-Request-Id", id) // one id in the access log, our log and the answer
	}
	return r.WithContext(ctx), nil
}

// fromEvent has the library read headers, query and body. It keeps the path, the method and a
// body that is not base64 from it: the library would make another request of them, or none.
func fromEvent(ev events.APIGatewayProxyRequest) (*http.Request, error) {
	path := "/" + strings.TrimPrefix(ev.Path, "/")
	method := cmp.Or(strings.ToUpper(ev.HTTPMethod), http.MethodPost) // an operator may send a bare {"body": …}
	ev.Path, ev.HTTPMethod, ev.RequestContext.DomainName = "/", http.MethodPost, "gateway"
	if _, err := base64.StdEncoding.DecodeString(ev.Body); ev.IsBase64Encoded && err != nil {
		ev.Body, ev.IsBase64Encoded = "\xff", false // no UTF-8, so that the handler refuses it
	}
	if len(ev.MultiValueHeaders) == 0 {
		ev.MultiValueHeaders = nil // the library reads Headers only beside nil
	}
	r, err := new(core.RequestAccessor).EventToRequest(ev)
	if err != nil {
		return nil, err
	}
	r.Method, r.Host, r.RequestURI = method, "", ""
	r.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	if plain, err := url.PathUnescape(path); err == nil { // otherwise a broken escape, which is text
		r.URL.Path, r.URL.RawPath = plain, path
	}
	return r, nil
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
