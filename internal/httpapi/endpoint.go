// Package httpapi turns HTTP requests into calls on the domain and its answers
// into JSON. The wire format is openapi.yaml; nothing here decides about
// money, and nothing here knows where it runs: the same endpoints serve one
// Lambda function each, or all together behind a Router.
package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"remit/internal/apikey"
)

// An Endpoint serves one Route. As an http.Handler of its own it expects the
// caller to be in the request's context already (apikey.WithPrincipal), put
// there by whoever authenticated it, and refuses everybody if there is none.
type Endpoint struct {
	route Route
	newID func() string
	handle func(*call) (answer, error)
}

// endpoint makes the Endpoint of a constructor's route.
func endpoint(handler string, newID func() string, handle func(*call) (answer, error)) Endpoint {
	return Endpoint{routeOf(handler), newID, handle}
}

// ServeHTTP implements http.Handler.
func (e Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	respond(w, r, []Endpoint{e}, e.newID, func(r *http.Request) (apikey.Principal, error) {
		p, ok := apikey.PrincipalFrom(r.Context())
		if !ok {
			return p, apikey.ErrInvalid
		}
		return p, nil
	})
}

// An Authenticator tells whose a presented key is; *apikey.Authenticator is
// one. apikey.ErrInvalid refuses the key, any other error is our own failure.
type Authenticator interface {
	Authenticate(ctx context.Context, presented string, now time.Time) (apikey.Principal, error)
}

// A Router serves several endpoints and authenticates their callers by the
// x-api-key header, as API Gateway and the authorizer do on AWS.
type Router struct {
	endpoints []Endpoint
	keys      Authenticator
	now       func() time.Time
	newID     func() string
}

// NewRouter returns a router of the given endpoints. newID makes request ids.
func NewRouter(keys Authenticator, now func() time.Time, newID func() string, endpoints ...Endpoint) *Router {
	return &Router{endpoints, keys, now, newID}
}

// ServeHTTP implements http.Handler.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	respond(w, r, rt.endpoints, rt.newID, rt.authenticate)
}

func (rt *Router) authenticate(r *http.Request) (apikey.Principal, error) {
	presented := r.Header.Values("X-Api-Key")
	if len(presented) != 1 {
		return apikey.Principal{}, apikey.ErrInvalid
	}
	return rt.keys.Authenticate(r.Context(), presented[0], rt.now())
}

// A call is a request that has found its endpoint and whose caller is known.
type call struct {
	*http.Request
	caller apikey.Principal
	params map[string]string // of the path
}

// An answer is what an endpoint has to say when all went well.
type answer struct {
	status int
	body   any               // written as JSON, unless it is a page
	header map[string]string // beyond what every response has
}

// A page is a body that is not JSON.
type page struct {
	contentType, cacheControl string
	content                   []byte
}

// exchange answers r. The order of its steps is part of the contract: a route
// that does not exist is told before the key is looked at, and a bad key
// before anything of the request is read.
func respond(w http.ResponseWriter, r *http.Request, endpoints []Endpoint, newID func() string,
	authenticate func(*http.Request) (apikey.Principal, error),
) {
	id := requestID(r, newID)
	w.Header().Set("X-Request-Id", id)
	a, body, err := serve(r, endpoints, authenticate)
	if err != nil {
		p := problemOf(err)
		if p.status >= http.StatusInternalServerError {
			slog.ErrorContext(r.Context(), "request failed", "request_id", id, "status", p.status, "err", err)
		}
		a = p.answer()
		body, _ = json.Marshal(a.body) // text and lists of text
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if p, ok := a.body.(page); ok {
		h.Set("Content-Type", p.contentType)
		h.Set("Cache-Control", p.cacheControl)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	for name, value := range a.header {
		h.Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // nobody is left to tell
}

// attempt finds the endpoint of r, authenticates its caller, lets it answer,
// and serialises what it said. Nothing is written: an endpoint that fails
// half-way, even by a panic, leaves no half answer.
func serve(r *http.Request, endpoints []Endpoint, authenticate func(*http.Request) (apikey.Principal, error),
) (a answer, body []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	e, params, err := find(endpoints, r)
	if err != nil {
		return a, nil, err
	}
	c := &call{Request: r, params: params}
	if e.route.Key {
		if c.caller, err = authenticate(r); err != nil {
			return a, nil, err
		}
	}
	if a, err = e.handle(c); err != nil {
		return a, nil, err
	}
	if p, ok := a.body.(page); ok {
		return a, p.content, nil
	}
	body, err = json.Marshal(a.body)
	return a, body, err
}

// requestID returns the caller's request id if it sent exactly one that is
// well-formed, 1 to 128 letters, digits, ".", "_" and "-"; else a new one.
func requestID(r *http.Request, newID func() string) string {
	if sent := r.Header.Values("X-Request-Id"); len(sent) == 1 && wellFormedID(sent[0]) {
		return sent[0]
	}
	return newID()
}

func wellFormedID(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
