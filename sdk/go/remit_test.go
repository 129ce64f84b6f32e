package remit_test

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// read decodes a file of sdk/testdata, which the other languages' tests read too.
func read[T any](t *testing.T, name string) (v T) {
	t.Helper()
	b, err := os.ReadFile("../testdata/" + name)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestKeys(t *testing.T) {
	type row struct {
		Intent, Key string
		Times       int
		UTF8        string
		UTF16       []int // no string of Go's
	}
	vectors := read[struct{ Keys, Refused []row }](t, "keys.json")
	for _, v := range vectors.Keys {
		if got, err := remit.Key(strings.Repeat(v.Intent, max(1, v.Times))); got != v.Key || err != nil {
			t.Errorf("%.20q has the key %q (%v), want %q", v.Intent, got, err, v.Key)
		}
	}
	for _, v := range vectors.Refused {
		intent, err := hex.DecodeString(v.UTF8)
		if key, refused := remit.Key(string(intent)); v.UTF16 == nil && (err != nil || refused == nil) {
			t.Errorf("%v has the key %q", v, key)
		}
	}
}

func TestUnits(t *testing.T) {
	type rows [][3]any
	vectors := read[struct{ Parse, Format rows }](t, "units.json")
	check := func(table rows, convert func(text string, decimals int) (string, error)) {
		for _, row := range table {
			got, err := convert(row[0].(string), int(row[1].(float64)))
			if want, ok := row[2].(string); ok != (err == nil) || got != want {
				t.Errorf("%v is %q, %v", row, got, err)
			}
		}
	}
	check(vectors.Parse, func(text string, decimals int) (string, error) {
		amount, err := remit.ParseUnits(text, decimals)
		if err != nil {
			amount = ""
		}
		return string(amount), err
	})
	check(vectors.Format, func(text string, decimals int) (string, error) {
		return remit.FormatUnits(remit.Amount(text), decimals)
	})
}

// A table is sdk/testdata/scenarios.json: the answers to a call's POSTs and GETs, of which the last repeats, and
// what the call makes of them. Every language runs it.
type table struct {
	Order     remit.Order
	Batch     remit.Batch
	Bodies    map[string]json.RawMessage
	Scenarios []struct {
		step
		Name, Call          string
		Post, Look, Queries []string // queries are of the GETs
		Posts, Looks        any      // a number, or "some"
		Seconds             [2]float64
		Earlier             []step      // calls of the same client
		Clients             [][2]string // URL and key of each, if not the usual
	}
}

// A step is a call, or one with each of so many other intents, which get no answer.
type step struct {
	Timeout *float64
	Want    string
	Idle    float64 // seconds after it
	Others  int
}

// largest is the largest amount, 2^256-1.
const largest = "115792089237316195423570985008687907853269984665640564039457584007913129639935"

// answer is how a scenario writes one: its status, 200 if absent, the name of its body or its code, and more.
var answer = regexp.MustCompile(`^(\d*) ?(\S*)(?: index (\d+))?(?: after (\S+))?$`)

// An api answers by a scenario.
type api struct {
	table
	client  *remit.Client
	answers map[string][]string // by method
	made    map[string]int
	queries []string
}

// RoundTrip implements http.RoundTripper.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	key := r.Header.Get("Idempotency-Key") + r.URL.Query().Get("idempotency_key")
	if seven, _ := remit.Key("order-7"); key != seven && (key != "" || strings.HasPrefix(r.URL.Path, "/send-payment")) {
		return nil, io.ErrUnexpectedEOF // another intent's
	}
	if sent, _ := io.ReadAll(r.Body); r.Method == http.MethodPost && strings.Contains(string(sent), `"payments":`) != strings.HasSuffix(r.URL.Path, "/send-payments") {
		return nil, errors.New("posted to " + r.URL.Path)
	}
	list := a.answers[r.Method]
	words := answer.FindStringSubmatch(list[min(a.made[r.Method], len(list)-1)])
	a.made[r.Method]++
	a.queries = append(a.queries, r.URL.RawQuery)
	code, index := words[2], words[3]
	body := []byte(a.Bodies[code])
	switch {
	case body != nil:
	case code == "meanwhile":
		return nil, errors.New(a.call(context.WithoutCancel(r.Context()), "pay", new(40.0)))
	case code == "lost":
		return nil, io.ErrUnexpectedEOF
	case code == "hang":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case code == "html":
		body = []byte("<html>")
	case words[1] == "422":
		body = fmt.Appendf(nil, `{"detail":[{"type":%q,"loc":["body","payments",%s],"msg":"m"}]}`, code, index+`"to"`[len(index)*4:])
	default:
		body = fmt.Appendf(nil, `{"detail":"d","code":%q,"index":%s}`, code, index+"null"[len(index)*4:])
	}
	w := httptest.NewRecorder()
	w.Header().Set("Retry-After", words[4])
	status, err := strconv.Atoi(cmp.Or(words[1], "200"))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return w.Result(), err
}

// call makes a call with a timeout in seconds, and returns how it ended.
func (a *api) call(ctx context.Context, name string, timeout *float64) string {
	if timeout != nil {
		limited, cancel := context.WithTimeout(ctx, time.Duration(*timeout*float64(time.Second)))
		defer cancel()
		ctx = limited
	}
	return outcome(call(ctx, a.client, name, a.table))
}

// TestScenarios holds each row of the table.
func TestScenarios(t *testing.T) {
	all := read[table](t, "scenarios.json")
	for _, s := range all.Scenarios {
		for _, of := range append(s.Clients, [2]string{"http://remit.test/", "k"})[:max(1, len(s.Clients))] {
			t.Run(s.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := &api{table: all, answers: map[string][]string{"POST": s.Post, "GET": s.Look}, made: map[string]int{}}
					a.client = &remit.Client{URL: of[0], Key: of[1], HTTP: &http.Client{Transport: a}}
					begin := time.Now()
					for _, step := range append(s.Earlier, s.step) {
						for i := range max(1, step.Others) {
							name := s.Call
							if step.Others > 0 {
								name = fmt.Sprint("pay other-", i)
							}
							if got := a.call(t.Context(), name, step.Timeout); got != step.Want {
								t.Errorf("with %q, a call ended as %q, want %q", of, got, step.Want)
							}
						}
						time.Sleep(time.Duration(step.Idle * float64(time.Second)))
					}
					for method, want := range map[string]any{"POST": s.Posts, "GET": s.Looks} {
						if n, exact := want.(float64); exact && a.made[method] != int(n) || !exact && a.made[method] < 2 {
							t.Errorf("%d requests %s, want %v", a.made[method], method, want)
						}
					}
					if took := time.Since(begin).Seconds(); took < s.Seconds[0] || took > s.Seconds[1] {
						t.Errorf("it took %v s, want %v", took, s.Seconds)
					}
					if s.Queries != nil && !slices.Equal(a.queries, s.Queries) {
						t.Errorf("it asked for %q, want %q", a.queries, s.Queries)
					}
				})
			})
		}
	}
}

// call makes the call of a scenario.
func call(ctx context.Context, c *remit.Client, name string, all table) (err error) {
	switch name, other, _ := strings.Cut(name, " "); name {
	case "payMany":
		_, err = c.PayMany(ctx, "order-7", all.Batch)
	case "balance":
		var b remit.Balance
		if b, err = c.Balance(ctx, all.Order.To); err == nil && b.Balance != largest {
			err = fmt.Errorf("the balance is %s", b.Balance)
		}
	case "createKey":
		_, err = c.CreateKey(ctx, remit.IssueAPIKeyRequest{})
	case "get":
		_, err = c.Get(ctx, "0x1")
	case "wait":
		_, err = c.Wait(ctx, "0x1")
	case "listKeys":
		_, err = c.ListKeys(ctx)
	case "list":
		n := 0
		for _, failed := range c.List(ctx, url.Values{"status": {"pending"}}) {
			n, err = n+1, failed
		}
		if n != 2 {
			err = fmt.Errorf("%d payments", n)
		}
	default:
		_, err = c.Pay(ctx, cmp.Or(other, "order-7"), all.Order)
	}
	return err
}

func outcome(err error) string {
	if r, is := errors.AsType[*remit.Refused](err); is {
		text := "refused " + r.Code
		if r.Index >= 0 {
			text += fmt.Sprint(" ", r.Index)
		}
		return text
	}
	if r, is := errors.AsType[*remit.IntentReused](err); is {
		if r.Stored != nil && strings.Contains(r.Error(), "2500000") {
			return "reused stored"
		}
		return "reused"
	}
	if _, is := errors.AsType[*remit.OutcomeUnknown](err); is {
		return "unknown"
	}
	if err != nil && strings.Contains(err.Error(), "give ") { // it says what to do
		return "unusable"
	}
	if err != nil {
		return err.Error()
	}
	return "paid"
}

// TestNetHTTPRepeatsNothing: net/http would repeat a request with an Idempotency-Key on a
// connection that breaks, and the refusal of the second would pass for that of the first.
func TestNetHTTPRepeatsNothing(t *testing.T) {
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 1:
			w.WriteHeader(201)
			_, _ = io.WriteString(w, `{"tx_hash":"0x1"}`)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"detail":"No.","code":"insufficient_funds"}`)
		}
	}))
	defer server.Close()
	c := &remit.Client{URL: server.URL}
	if _, err := c.Pay(t.Context(), "order-1", remit.Order{Amount: "1"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := c.Pay(ctx, "order-2", remit.Order{Amount: "1"}); outcome(err) != "unknown" {
		t.Errorf("a lost answer and a refusal are %v", err)
	}
}

// A closing body says whether it was closed.
type closing struct {
	io.Reader
	closed *bool
}

func (c closing) Close() error { *c.closed = true; return nil }

// TestAttempt: one attempt is one request, whose redirect is not followed and whose body is closed. It leaves the outcome
// unknown, since the time is over.
func TestAttempt(t *testing.T) {
	n, closed := 0, false
	c := &remit.Client{URL: "http://remit.test", HTTP: &http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
		n++
		away := http.Header{"Location": {"http://other.test/"}}
		return &http.Response{StatusCode: 302, Header: away, Body: closing{strings.NewReader("x"), &closed}}, nil
	})}}
	if _, err := c.Attempt(t.Context(), "k", remit.Order{}); outcome(err) != "unknown" || n != 1 || !closed {
		t.Errorf("%d requests, closed %v: %v", n, closed, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Pay(ctx, "i", remit.Order{Amount: "1"}); outcome(err) != "unknown" || !errors.Is(err, context.DeadlineExceeded) || n != 2 {
		t.Errorf("%d requests: %v", n, err)
	}
	c.HTTP.Transport = answers(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 422, Body: io.NopCloser(strings.NewReader(`{"detail":[]}`))}, nil
	})
	if _, err := c.Attempt(t.Context(), "k", remit.Order{}); outcome(err) != "refused " {
		t.Error(err)
	}
	if _, err := c.Call(t.Context(), " ", "/", ""); err == nil {
		t.Error("a method that is none was sent")
	}
}

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTwoCalls: a refusal is not believed until 35 seconds after the last attempt of any call for the intent.
func TestTwoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, posts, looked := time.Now(), 0, time.Duration(0)
		c := &remit.Client{URL: "http://remit.test", HTTP: &http.Client{Transport: answers(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if r.Method == http.MethodGet {
				looked = time.Since(begin)
				_, _ = io.WriteString(w, `{"data":[]}`)
				return w.Result(), nil
			}
			if posts++; posts == 2 {
				w.WriteHeader(400)
				_, _ = io.WriteString(w, `{"detail":"No.","code":"insufficient_funds"}`)
				return w.Result(), nil
			}
			return nil, io.ErrUnexpectedEOF
		})}}
		key, err := remit.Key("i")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(20 * time.Second)
			_, _ = c.Attempt(t.Context(), key, remit.Order{Amount: "1"})
		}()
		if _, err := c.Pay(t.Context(), "i", remit.Order{Amount: "1"}); outcome(err) != "refused insufficient_funds" || looked < 55*time.Second {
			t.Errorf("after %v: %v", looked, err)
		}
	})
}

func TestRefusedBeforeAnythingIsSent(t *testing.T) {
	c := &remit.Client{URL: "http://remit.test", HTTP: &http.Client{Transport: &api{}}}
	for _, amount := range []remit.Amount{"", "1.5", "1e6", "-1", "01", "1 ", remit.Amount(largest[:77] + "6")} {
		if _, err := c.Pay(t.Context(), "order-7", remit.Order{To: "0x1", Amount: amount}); err == nil || outcome(err) != err.Error() {
			t.Errorf("the amount %q is %v", amount, err)
		}
	}
	if _, err := c.PayMany(t.Context(), "", remit.Batch{}); err == nil || outcome(err) != err.Error() {
		t.Errorf("no intent is %v", err)
	}
}

func TestVerifyWebhook(t *testing.T) {
	const secret = "whsec_DA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKis="
	body := []byte(`{"id":"evt_1","type":"payment.confirmed","timestamp":"2026-01-02T15:04:05.000Z","data":{"amount":9007199254740993}}`)
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := hook.Sign("evt_1", time.Now(), body)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {fmt.Sprint(time.Now().Unix())}, "Webhook-Signature": {signature}}
	event, err := remit.VerifyWebhook(secret, body, header)
	var p remit.EventPayment
	if err != nil || event.ID != "evt_1" || json.Unmarshal(event.Data, &p) != nil || p.Amount != "9007199254740993" {
		t.Errorf("the event is %+v, %v", event, err)
	}
	if _, err := remit.VerifyWebhook(secret, append(body, ' '), header); err == nil {
		t.Error("a changed body is genuine")
	}
	for _, none := range []string{"", "whsec_"} { // the library takes that for a secret
		mac := hmac.New(sha256.New, nil)
		fmt.Fprintf(mac, "evt_1.%s.%s", header["Webhook-Timestamp"][0], body)
		header["Webhook-Signature"] = []string{"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
		if _, err := remit.VerifyWebhook(none, body, header); err == nil {
			t.Errorf("with the secret %q everybody's events are genuine", none)
		}
	}
}
