// Package httpapi turns HTTP requests into calls on the domain and its answers into JSON. The wire format is
// openapi.yaml. The package decides nothing about money and does not know where it runs: the same endpoints serve one
// Lambda function each, or all together (NewRouter).
package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

// An Endpoint serves one Route. As an http.Handler by itself it expects that an authorizer has put the caller into
// the request's context (apikey.WithPrincipal), and refuses every request without one.
type Endpoint struct {
	route   Route
	handle  func(*call) (answer, error)
	meter   Meter  // of refusals; nil: none
	version string // of the function that serves it
	others  []Endpoint
	current func(context.Context, apikey.Principal) (apikey.Principal, error) // nil: the authorizer's word holds
}

// With returns e as the http.Handler of another route too: one function may serve both.
func (e Endpoint) With(other Endpoint) Endpoint {
	e.others = append(e.others, other)
	return e
}

// A Meter collects metrics; *emf.Meter is one.
type Meter interface {
	AddOf(dimension, of, name string, value float64)
	Flush() error
}

// Metered returns e that logs refusals, and meters RequestsFailed of the stack and, for canaries, of the version:
// answers of 500, and payments left half way. Nodes, wallets, settings and repetitions fail no version.
func (e Endpoint) Metered(m Meter, version string) Endpoint {
	e.meter, e.version = m, version
	return e
}

// Current returns e that reads its callers' keys and terms again, as now tells the time: a key that was revoked and a
// merchant that was suspended stop at once, not when the authorizer's answer is forgotten.
func (e Endpoint) Current(keys apikey.Finder, now func() time.Time) Endpoint {
	e.current = func(ctx context.Context, p apikey.Principal) (apikey.Principal, error) {
		return apikey.Current(ctx, keys, p, now())
	}
	return e
}

// refused writes a line of the refusal. One below 500 has no err, whose text may be the client's.
func (e Endpoint) refused(ctx context.Context, id string, p problem, err error) {
	line := []any{"request_id", id, "status", p.status, "code", p.code}
	if p.status >= http.StatusInternalServerError {
		slog.ErrorContext(ctx, "request failed", append(line, "err", err)...)
	} else if e.meter != nil {
		slog.InfoContext(ctx, "request refused", line...)
	}
	failed := p.status == http.StatusInternalServerError ||
		errors.Is(err, dispatch.ErrInProgress) && !errors.Is(err, dispatch.ErrWaiting)
	if e.meter == nil || !failed {
		return
	}
	e.meter.AddOf("Version", e.version, "RequestsFailed", 1)
	e.meter.AddOf("", "", "RequestsFailed", 1)
	if err := e.meter.Flush(); err != nil {
		slog.WarnContext(ctx, "metering", "err", err)
	}
}

// endpoint makes the Endpoint of a constructor's route.
func endpoint(handler string, handle func(*call) (answer, error)) Endpoint {
	return Endpoint{route: routeOf(handler), handle: handle}
}

// submission is endpoint for a route whose request has a body.
func submission(handler string, handle func(*call, *form) (answer, error)) Endpoint {
	return endpoint(handler, withForm(false, handle))
}

// action is endpoint for a route whose request may have a body but needs none.
func action(handler string, handle func(*call, *form) (answer, error)) Endpoint {
	return endpoint(handler, withForm(true, handle))
}

func withForm(mayBeEmpty bool, handle func(*call, *form) (answer, error)) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		f, err := readForm(c.Request, mayBeEmpty)
		if err != nil {
			return answer{}, err
		}
		return handle(c, f)
	}
}

func (e Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	respond(w, r, append([]Endpoint{e}, e.others...), func(r *http.Request) (apikey.Principal, error) {
		p, ok := apikey.PrincipalFrom(r.Context())
		if !ok || len(r.Header.Values("X-Api-Key")) > 1 { // the gateway caches by one of them
			return p, apikey.ErrInvalid
		}
		if e.current != nil {
			return e.current(r.Context(), p)
		}
		return p, nil
	})
}

// An Authenticator finds the merchant of a presented key; *apikey.Authenticator
// is one. apikey.ErrInvalid refuses the key; any other error is answered 500.
type Authenticator interface {
	Authenticate(ctx context.Context, presented string, now time.Time) (apikey.Principal, error)
}

// NewRouter returns a handler that serves several endpoints, and authenticates their callers by the
// x-api-key header, as API Gateway and the authorizer do on AWS.
func NewRouter(keys Authenticator, now func() time.Time, endpoints ...Endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		respond(w, r, endpoints, func(r *http.Request) (apikey.Principal, error) {
			if presented := r.Header.Values("X-Api-Key"); len(presented) == 1 {
				return keys.Authenticate(r.Context(), presented[0], now())
			}
			return apikey.Principal{}, apikey.ErrInvalid
		})
	})
}

// A call is a request whose endpoint is found and whose caller is authenticated.
type call struct {
	*http.Request
	caller apikey.Principal
	params map[string]string // of the path
	query  *form             // of a GET route with a key
}

type answer struct {
	status int
	body   any               // written as JSON, unless it is a page
	header map[string]string // beyond the headers of every response
}

// reply returns a function that answers with the view of a result, or with its error.
func reply[T, V any](status int, view func(T) V) func(T, error) (answer, error) {
	return func(result T, err error) (answer, error) {
		if err != nil {
			return answer{}, err
		}
		return answer{status: status, body: view(result)}, nil
	}
}

func ok[T any](body T, err error) (answer, error) {
	return answer{status: http.StatusOK, body: body}, err
}

// each returns a function that views a list, which is never null.
func each[T, V any](view func(T) V) func([]T) []V {
	return func(items []T) []V {
		views := make([]V, len(items))
		for i, item := range items {
			views[i] = view(item)
		}
		return views
	}
}

// listing is reply for a list: {"data":[…]}.
func listing[T, V any](view func(T) V) func([]T, error) (answer, error) {
	type list struct {
		Data []V `json:"data"`
	}
	return reply(http.StatusOK, func(items []T) list { return list{each(view)(items)} })
}

type page struct {
	contentType, cacheControl string
	content                   []byte
}

// respond answers r. The order of its steps is part of the contract: an unknown route is answered before the key is
// checked, and a bad key, a change by a suspended merchant, or a key without the route's scope, before anything else of
// the request is read. An unknown parameter comes before the path.
func respond(w http.ResponseWriter, r *http.Request, endpoints []Endpoint, authenticate func(*http.Request) (apikey.Principal, error)) {
	id := requestID(r)
	w.Header().Set("X-Request-Id", id)
	a, body, err := serve(r, endpoints, authenticate)
	if err != nil {
		p := problemOf(err)
		endpoints[0].refused(r.Context(), id, p, err)
		a = p.answer()
		body, _ = encode(a.body) // text and lists of text
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
	_, _ = w.Write(body) // an error means that the client has gone
}

// serve finds the endpoint of r, authenticates its caller, lets it answer, and serialises the answer. It writes
// nothing to the client: an endpoint that fails half-way, even by a panic, leaves no half answer.
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
	if e.route.Scopes != 0 {
		if c.caller, err = authenticate(r); err != nil {
			return a, nil, err
		}
		if c.caller.Terms.Suspended != "" && r.Method != http.MethodGet {
			return a, nil, apikey.ErrSuspended
		}
		if !c.caller.Grant.MayAny(e.route.Scopes) {
			return a, nil, refusal(http.StatusForbidden, "key_not_permitted", fmt.Sprintf(
				"This needs an API key with a scope of %v: GET /api-keys/self shows yours.", e.route.Scopes.List()))
		}
		if r.Method == http.MethodGet {
			if c.query = parseQuery(r.URL.RawQuery, parameters[e.route.Handler]); c.query.err() != nil {
				return a, nil, c.query.err()
			}
		}
	}
	if a, err = e.handle(c); err != nil {
		return a, nil, err
	}
	if p, ok := a.body.(page); ok {
		return a, p.content, nil
	}
	body, err = encode(a.body)
	return a, body, err
}

// encode returns v as JSON, in which < is one byte and not six.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// answerLimit bounds a list, in bytes of JSON inside a JSON string, which is how a function
// answers: Lambda takes 6,291,556 of them. CSV of the same takes half as much again at most.
const answerLimit = 4_000_000

// fitting returns how many of the first items fit into an answer, at least one.
func fitting[V any](items []V) int {
	size := 0
	for i, item := range items {
		text, _ := encode(item) // encoding the whole answer reports the error
		if size += len(text) + bytes.Count(text, []byte(`"`)) + bytes.Count(text, []byte(`\`)); size > answerLimit && i > 0 {
			return i
		}
	}
	return len(items)
}

// requestID returns the caller's one request id, of 1 to 128 letters, digits, ".", "_" and "-", or a new one.
func requestID(r *http.Request) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	sent := r.Header.Values("X-Request-Id")
	if len(sent) != 1 || sent[0] == "" || len(sent[0]) > 128 || strings.Trim(sent[0], alphabet) != "" {
		return rand.Text()
	}
	return sent[0]
}
