package remit_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// read decodes a file of sdk/testdata.
func read[T any](name string) (v T) {
	must(0, json.Unmarshal(must(os.ReadFile("../testdata/"+name)), &v))
	return v
}

// TestCalls: each row of calls.json has a call, its arguments, and its value, or null if the SDK refuses it unsent.
func TestCalls(t *testing.T) {
	a, _ := opened("https://remit.test", "k", options{Fakes: []string{"send"}}, nil, nil)
	for _, row := range read[[][3]json.RawMessage]("calls.json") {
		if *driver == "" && strings.Contains(string(row[1]), "mistyped") {
			continue // no such program compiles
		}
		c := command{Call: strings.Trim(string(row[0]), `"`)}
		_ = json.Unmarshal(row[1], &c.Args)
		got, want := a.call(c), strings.Trim(string(row[2]), `"`)
		if value := strings.Trim(string(got.Value), `"`); want == "null" && got.Error != "invalid" || want != "null" && value != want {
			t.Errorf("%.200s is %.200s %s", row, value, got.Error)
		}
	}
}

// A table is scenarios.json: the answers to a call's POSTs and GETs, of which the last repeats, and how the call ends.
type table struct {
	Calls     map[string]command
	Bodies    map[string]json.RawMessage
	Scenarios []scenario
}

type scenario struct {
	step
	Name, Call          string
	Post, Look, Queries []string // queries are of the GETs
	Posts, Looks        any      // a number, or "some"
	Seconds             [2]float64
	Earlier             []step         // calls of the same client
	Clients             [][2]string    // URL and key of each, if not the usual
	Has                 map[string]int // how often the value has a text
	Skew                int            // seconds that the API's clock is ahead of the client's
	Stopped             bool           // the API's clock stands still
	Expired             []string       // answers to POSTs whose Remit-Not-After has passed; absent: request_expired
	Late                any            // POSTs whose Remit-Not-After had passed, or was too far ahead
}

// A step is a call, or one with each of so many other intents, which get no answer.
type step struct {
	Timeout *float64
	Want    string
	Idle    float64 // seconds after it
	Others  int
	Settle  bool
}

// answer is how a scenario writes one: its status, 200 if absent, the name of its body or its code, and more.
var answer = regexp.MustCompile(`^(\d*) ?(\S*)(?: index (\d+))?(?: after (\S+))?$`)

var errHang = errors.New("no answer until the attempt's limit")

// An api answers by a scenario.
type api struct {
	table
	call    func(command) end   // in the language under test
	answers map[string][]string // by method
	made    map[string]int
	queries []string
	options options // of the call
	opened  time.Time
	begun   float64 // seconds of a fake clock since then; 0 for none
	skew    time.Duration
	stopped bool
}

// time is that of the API's clock.
func (a *api) time() time.Time {
	now := time.Now()
	switch {
	case a.stopped:
		now = a.opened
	case a.begun > 0:
		now = a.opened.Add(time.Duration(a.begun * float64(time.Second)))
	}
	return now.Add(a.skew)
}

// sent returns the list that answers a POST: its time is 30 s ahead or has passed, as the client sees the API's clock,
// or the client has a wrong one.
func (a *api) sent(notAfter string) string {
	n, err := strconv.ParseInt(notAfter, 10, 64)
	switch left := n - a.time().Unix(); {
	case err != nil || left >= 0 && left < 25:
		return "unusable"
	case left > 60:
		return "far"
	case left < 0:
		return "expired"
	}
	return "POST"
}

func (a *api) answer(r *http.Request) (*http.Response, error) {
	key := r.Header.Get("Idempotency-Key") + r.URL.Query().Get("idempotency_key")
	intends := strings.HasPrefix(r.URL.Path, "/send-payment") || r.URL.Path == "/proposals"
	if seven, _ := remit.Key("order-7"); key != seven && (key != "" || intends) {
		return nil, io.ErrUnexpectedEOF // another intent's
	}
	body, _ := io.ReadAll(r.Body)
	sent := string(body)
	if r.Method == http.MethodPost && (strings.Contains(sent, `"payments":`) != strings.HasSuffix(r.URL.Path, "/send-payments") ||
		a.options.Asset != nil && !strings.Contains(sent, *a.options.Asset) || !strings.Contains(sent, a.options.Differs)) {
		return nil, errors.New("posted to " + r.URL.Path)
	}
	name := r.Method
	if intends {
		name = a.sent(r.Header.Get("Remit-Not-After"))
	}
	list := a.answers[name]
	words := answer.FindStringSubmatch(list[min(a.made[name], len(list)-1)])
	a.made[name]++
	a.queries = append(a.queries, r.URL.RawQuery)
	code, index := words[2], words[3]
	text := string(a.Bodies[code])
	switch {
	case text != "":
	case code == "meanwhile":
		return nil, errors.New(a.run("pay", "", step{Timeout: new(40.0)}).Error)
	case code == "lost":
		return nil, io.ErrUnexpectedEOF
	case code == "hang":
		return nil, errHang
	case code == "html":
		text = "<html>"
	case words[1] == "422":
		text = fmt.Sprintf(`{"detail":[{"type":%q,"loc":["body","payments",%s],"msg":"m"}],"code":"validation_failed"}`,
			code, index+`"to"`[len(index)*4:])
	default:
		text = fmt.Sprintf(`{"detail":"d","code":%q,"index":%s}`, code, index+"null"[len(index)*4:])
	}
	header := http.Header{"Retry-After": {words[4]}, "Location": {"/again"}, "Date": {a.time().UTC().Format(http.TimeFormat)}}
	status, err := strconv.Atoi(cmp.Or(words[1], "200"))
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text))}, err
}

// RoundTrip implements http.RoundTripper, for Go.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	got, err := a.answer(r)
	if errors.Is(err, errHang) {
		<-r.Context().Done()
	}
	return got, err
}

// run makes a call of the table, as a step says, for another intent if one is named.
func (a *api) run(name, intent string, s step) end {
	c := a.Calls[name]
	if c.Call = cmp.Or(c.Call, name); strings.HasPrefix(name, "pay") || name == "wait" || *driver == "" {
		c.Options.Timeout = s.Timeout // others have that of the client
	}
	c.Options.Settle = s.Settle
	a.options = c.Options
	if intent != "" {
		c.Args = append(ask("", options{}, intent).Args, c.Args[1:]...)
	}
	return a.call(c)
}

// opened returns an api that answers POSTs and GETs, with a client of the language under test.
func opened(url, key string, o options, post, look []string) (*api, end) {
	a := &api{table: read[table]("scenarios.json"), made: map[string]int{}, opened: time.Now(), answers: map[string][]string{
		"POST": post, "GET": look, "expired": {"400 request_expired"}, "far": {"400 not_after_invalid"}, "unusable": {"400 unusable"}}}
	if a.call = (&own{api: a}).call; *driver != "" {
		started().api, a.call = a, started().call
	}
	return a, a.call(ask("open", o, url, key))
}

// TestScenarios holds each row of the table.
func TestScenarios(t *testing.T) {
	for _, s := range read[table]("scenarios.json").Scenarios {
		for _, of := range append(s.Clients, [2]string{"https://remit.test/", "k"})[:max(1, len(s.Clients))] {
			hold := func(t *testing.T) { s.hold(t, of[0], of[1]) }
			t.Run(s.Name, func(t *testing.T) {
				if *driver != "" {
					hold(t)
				} else {
					synctest.Test(t, hold)
				}
			})
		}
	}
}

func (s scenario) hold(t *testing.T, url, key string) {
	a, e := opened(url, key, options{Fakes: []string{"send", "now", "sleep"}, Timeout: s.Timeout}, s.Post, s.Look)
	a.skew = time.Duration(s.Skew) * time.Second
	if a.stopped = s.Stopped; s.Expired != nil {
		a.answers["expired"] = s.Expired
	}
	for _, step := range append(s.Earlier, s.step) {
		for i := range max(1, step.Others) {
			if intent := fmt.Sprint("other-", i); step.Others > 0 {
				e = a.run("pay", intent, step)
			} else if e.Error != "invalid" {
				e = a.run(cmp.Or(s.Call, "pay"), "", step)
			}
			if cmp.Or(e.Error, "paid") != step.Want {
				t.Errorf("with %q and %q, a call ended as %q (%s), want %q", url, key, e.Error, e.Message, step.Want)
			}
		}
		e.Seconds = a.call(ask("idle", options{}, step.Idle)).Seconds
	}
	a.made["late"] = a.made["expired"] + a.made["far"]
	for method, want := range map[string]any{"POST": s.Posts, "GET": s.Looks, "late": cmp.Or(s.Late, any(0.0))} {
		if n, exact := want.(float64); exact && a.made[method] != int(n) || !exact && a.made[method] < 2 {
			t.Errorf("%d requests %s, want %v", a.made[method], method, want)
		}
	}
	if e.Seconds < s.Seconds[0]-.001 || e.Seconds > s.Seconds[1]+.001 {
		t.Errorf("it took %v s, want %v", e.Seconds, s.Seconds)
	}
	if s.Queries != nil && !slices.Equal(a.queries, s.Queries) {
		t.Errorf("it asked for %q, want %q", a.queries, s.Queries)
	}
	for text, n := range s.Has {
		if strings.Count(string(e.Value)+e.Message, text) != n {
			t.Errorf("it ended with %s %s, want %q %d times", e.Value, e.Message, text, n)
		}
	}
}

// TestNetwork: the transport repeats no request, follows no redirect, and takes no answer that was cut for a whole one:
// else the refusal of a second request would hide the first. It waits no longer than the call may take.
func TestNetwork(t *testing.T) {
	var a *api
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := a.answer(r)
		if errors.Is(err, errHang) {
			select {
			case <-r.Context().Done(): // the client gave up
			case <-time.After(25 * time.Second):
			}
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if maps.Copy(w.Header(), got.Header); got.Header.Get("Retry-After") == "cut" {
			w.Header().Set("Content-Length", "9999")
		}
		w.WriteHeader(got.StatusCode)
		_, _ = io.Copy(w, got.Body)
	}))
	defer server.Close()
	posts := []string{"lost", "302 html", "201 payment after cut", "400 insufficient_funds"}
	if *driver == "" { // which waits in real time
		posts = []string{"lost", "400 insufficient_funds"}
	}
	a, _ = opened(server.URL, "k", options{Fakes: []string{"now", "sleep"}}, posts, []string{"200 confirmed"})
	get, pay := a.run("get", "", step{}), a.run("pay", "", step{Timeout: new(20.0)}) // on the same connection
	if get.Error != "" || pay.Error != "OutcomeUnknown" || a.made["POST"] != len(posts) || a.made["GET"] != 1 {
		t.Errorf("requests %v: it ended as %q", a.made, pay.Error)
	}
	a, _ = opened(server.URL, "k", options{}, []string{"hang"}, nil)
	begin := time.Now()
	if e := a.run("pay", "", step{Timeout: new(0.3)}); e.Error != "OutcomeUnknown" || time.Since(begin) > 20*time.Second {
		t.Errorf("without an answer, it ended as %q after %s", e.Error, time.Since(begin))
	}
}

func TestVerifyWebhook(t *testing.T) {
	const secret = "whsec_DA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKis="
	const body = `{"id":"evt_1","type":"payment.confirmed","timestamp":"2026-01-02T15:04:05.000Z","data":{"amount":9007199254740993}}`
	a, _ := opened("https://remit.test", "k", options{}, nil, nil)
	now := time.Now()
	for _, row := range []struct{ signer, secret, body string }{
		{secret, secret, body}, {secret, secret, body + " "}, {"", "", body}, {"", "whsec_", body}} { // the library takes "" for a secret
		signature := must(must(standardwebhooks.NewWebhook(row.signer)).Sign("evt_1", now, []byte(body)))
		e := a.call(ask("verifyWebhook", options{}, row.secret, row.body,
			map[string]string{"webhook-id": "evt_1", "webhook-timestamp": fmt.Sprint(now.Unix()), "webhook-signature": signature}))
		genuine := e.Error == "" && strings.Contains(string(e.Value), "9007199254740993")
		if want := row.body == body && row.secret == secret; genuine != want {
			t.Errorf("with the secret %q, %s is %s %s", row.secret, row.body, e.Error, e.Value)
		}
	}
}

// TestAttempt: an attempt is one request, also after an answer that Pay would repeat.
func TestAttempt(t *testing.T) { synctest.Test(t, attempt) }

func attempt(t *testing.T) {
	a, _ := opened("https://remit.test", "k", options{}, []string{"302 html"}, nil)
	c := &remit.Client{URL: "https://remit.test", HTTP: &http.Client{Transport: a}}
	key, _ := remit.Key("order-7")
	if _, err := c.Attempt(t.Context(), key, remit.Order{}); ended(nil, err).Error != "OutcomeUnknown" || a.made["POST"] != 1 {
		t.Errorf("%d requests: %v", a.made["POST"], err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Pay(ctx, "order-7", remit.Order{Amount: "1"}); !errors.Is(err, context.DeadlineExceeded) || a.made["POST"] != 2 {
		t.Errorf("%d requests: %v", a.made["POST"], err)
	}
	if _, err := c.Pay(t.Context(), "order-7", remit.Order{Amount: "1", Metadata: map[string]string{"k": "\xff"}}); err == nil ||
		a.made["POST"] != 2 {
		t.Errorf("with a text that is not UTF-8: %v", err)
	}
	if _, err := c.Call(t.Context(), " ", "/", ""); err == nil {
		t.Error("a method that is none was sent")
	}
}
