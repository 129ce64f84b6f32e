// Package remit is a client of a Remit API that pays once for an intent.
package remit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// lifetime is longer than the API works on a request: then one without an answer commits nothing more.
const lifetime = 35 * time.Second

// A Client is one merchant, or a caller without a key. Many goroutines may use it at once.
type Client struct {
	URL  string       // where the API is
	Key  string       // API key; "" sends none
	HTTP *http.Client // nil for http.DefaultClient; its transport must not retry
	Once bool         // each call makes one attempt, and is not repeated
}

// An Answer is a whole HTTP answer of any status; a zero Answer is none.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Call makes one request; header has names and values in turn. After an error it may have been carried out.
func (c *Client) Call(ctx context.Context, method, path, body string, header ...string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	r.GetBody = nil // else net/http repeats a POST by itself, and a refusal of the second hides the first
	for all := append([]string{"Content-Type", "application/json", "x-api-key", c.Key}, header...); len(all) > 1; all = all[2:] {
		if all[1] != "" {
			r.Header.Set(all[0], all[1])
		}
	}
	over := *cmp.Or(c.HTTP, http.DefaultClient)
	over.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got, err := over.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = got.Body.Close() }()
	a := Answer{Status: got.StatusCode, Header: got.Header}
	if a.Body, err = io.ReadAll(http.MaxBytesReader(nil, got.Body, 16<<20)); err != nil {
		return Answer{}, err
	}
	return a, nil
}

// A Refused reports that the API refused the request, which started nothing.
type Refused struct {
	Answer
	Code   string // stable; of a 422, the type of its first problem; "" of a 401
	Detail string // for people
	Index  int    // of the refused entry of a batch; -1 if none is named
}

func (e *Refused) Error() string {
	return fmt.Sprintf("refused with %d %s: %s", e.Status, e.Code, e.Detail)
}

// An OutcomeUnknown reports that no answer settled the call: it may be carried out, even later.
type OutcomeUnknown struct {
	Last  Answer // zero for none
	Cause error  // of a missing answer, or the end of the time
}

func (e *OutcomeUnknown) Error() string {
	return fmt.Sprintf("unknown outcome: repeat a payment with the same intent (%v; %d %.300s)", e.Cause, e.Last.Status, e.Last.Body)
}

func (e *OutcomeUnknown) Unwrap() error { return e.Cause }

// A call is one call of the API until its deadline, in as many attempts as it takes.
type call struct {
	*Client
	context.Context
	end        time.Time
	pays       bool
	tries      int
	last       Answer
	cause      error
	unanswered time.Time // when the last attempt ended that may have an effect; zero for none
}

func (c *Client) begin(ctx context.Context) *call {
	end, limited := ctx.Deadline()
	if !limited {
		end = time.Now().Add(2 * time.Minute)
	}
	return &call{Client: c, Context: ctx, end: end}
}

func (k *call) try(method, path, body string, header ...string) Answer {
	ctx, cancel := context.WithTimeout(k.Context, min(lifetime, time.Until(k.end)))
	defer cancel()
	k.last, k.cause = k.Call(ctx, method, path, body, header...)
	return k.last
}

// refusal returns the last answer as a refusal, nil if it leaves open what became of the request.
func (k *call) refusal() *Refused {
	e, body, items := &Refused{Index: -1}, struct{ Detail json.RawMessage }{}, []InvalidItem{}
	_ = json.Unmarshal(k.last.Body, e) // all but the detail of a 422
	if e.Answer = k.last; e.Status/100 != 4 || e.Status == 408 || e.Status == 429 || json.Unmarshal(e.Body, &body) != nil ||
		body.Detail == nil || e.Status == 409 && (k.pays || e.Code == "idempotency_in_progress") {
		return nil
	}
	if json.Unmarshal(body.Detail, &items) == nil && len(items) > 0 {
		e.Code, e.Detail = string(items[0].Type), string(body.Detail)
		if place, named := append(items[0].Loc, nil, nil, nil)[2].(float64); named { // body.payments.PLACE
			e.Index = int(place)
		}
	}
	return e
}

// pause waits for the longest of d, Retry-After and the backoff. It reports false at once if the deadline comes first.
func (k *call) pause(d time.Duration) bool {
	backoff := min(time.Second<<min(k.tries, 3), 8*time.Second)
	after, _ := strconv.ParseUint(k.last.Header.Get("Retry-After"), 10, 20) // seconds; another form is none
	d = max(d, backoff/2+rand.N(backoff/2), time.Duration(after)*time.Second)
	if k.Err() != nil || time.Until(k.end) <= d {
		k.cause = errors.Join(k.cause, context.DeadlineExceeded)
		return false
	}
	k.tries++
	waited, cancel := context.WithTimeout(k.Context, d)
	defer cancel()
	<-waited.Done()
	return k.Err() == nil
}

func (k *call) unknown() error { return &OutcomeUnknown{k.last, errors.Join(k.cause, k.Err())} }

// ask reads the answer to a request into value. It repeats payments and reads until an answer settles
// them, others only after an answer that nothing was started. settle judges the *Refused of a payment.
func (k *call) ask(value any, method, path, body string, header ...string) error {
	for {
		a := k.try(method, path, body, header...)
		payment, _ := value.(*Payment)
		if a.Status/100 == 2 && json.Unmarshal(a.Body, value) == nil && (payment == nil || payment.TxHash != "") {
			return nil
		}
		if a.Status != 429 && (a.Status != 503 || !bytes.Contains(a.Body, []byte(`"payment_rail_unavailable"`))) {
			if refusal := k.refusal(); refusal != nil {
				return refusal
			}
			k.unanswered = time.Now()
			if !k.pays && (method != http.MethodGet || a.Status == http.StatusConflict) {
				return k.unknown()
			}
		}
		if k.Once || !k.pause(0) {
			return k.unknown()
		}
	}
}

func request[T any](ctx context.Context, c *Client, method, path string, body any) (value T, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return value, err
	}
	err = c.begin(ctx).ask(&value, method, path, strings.TrimPrefix(string(text), "null"))
	return value, err
}

// pages reads a list page by page. An error ends it.
func pages[T any](ctx context.Context, c *Client, path string, filters url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			p, err := request[struct {
				Data []T
				Next *string `json:"next_cursor"`
			}](ctx, c, http.MethodGet, path+"?"+filters.Encode(), nil)
			for _, item := range p.Data {
				if !yield(item, nil) {
					return
				}
			}
			if err != nil {
				yield(*new(T), err)
			}
			if err != nil || p.Next == nil {
				return
			}
			filters = url.Values{"cursor": {*p.Next}}
		}
	}
}
