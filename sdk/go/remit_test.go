package remit_test

import (
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
		Name, Call, Want string
		Post, Look       []string
		Posts, Looks     any // a number, or "some"
		Timeout          *float64
		Seconds          [2]float64
	}
}

// largest is the largest amount, 2^256-1.
const largest = "115792089237316195423570985008687907853269984665640564039457584007913129639935"

// An api answers by a scenario.
type api struct {
	table
	answers map[string][]string // by method
	made    map[string]int
	keys    map[string]bool
}

// RoundTrip implements http.RoundTripper.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	list := a.answers[r.Method]
	words := strings.Fields(list[min(a.made[r.Method], len(list)-1)])
	a.made[r.Method]++
	a.keys[r.Header.Get("Idempotency-Key")+r.URL.Query().Get("idempotency_key")] = true
	switch words[0] {
	case "lost":
		return nil, io.ErrUnexpectedEOF
	case "hang":
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	body, named := a.Bodies[words[len(words)-1]]
	for i := 1; i+1 < len(words); i++ {
		if words[i] == "after" {
			w.Header().Set("Retry-After", words[i+1])
		}
	}
	status, err := 200, error(nil)
	if _, bare := a.Bodies[words[0]]; !bare {
		_, err = fmt.Sscan(words[0], &status)
	}
	code, index := "", ""
	if len(words) > 1 {
		code = words[1]
	}
	if len(words) > 3 && words[2] == "index" {
		index = words[3]
	}
	switch {
	case named:
	case code == "html":
		body = []byte("<html>")
	case code == "{}":
		body = []byte("{}")
	case status == 201:
		body = a.Bodies["payment"]
	case status == 422:
		body = fmt.Appendf(nil, `{"detail":[{"type":%q,"loc":["body","payments",%s],"msg":"m"}]}`, code, index+`"to"`[len(index)*4:])
	default:
		body = fmt.Appendf(nil, `{"detail":"d","code":%q,"index":%s}`, code, index+"null"[len(index)*4:])
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return w.Result(), err
}

// TestScenarios holds each row of the table.
func TestScenarios(t *testing.T) {
	all := read[table](t, "scenarios.json")
	for _, s := range all.Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &api{all, map[string][]string{"POST": s.Post, "GET": s.Look}, map[string]int{}, map[string]bool{}}
				c := &remit.Client{URL: "http://remit.test/", Key: "k", HTTP: &http.Client{Transport: a}}
				ctx, begin := t.Context(), time.Now()
				if s.Timeout != nil {
					limited, cancel := context.WithTimeout(ctx, time.Duration(*s.Timeout*float64(time.Second)))
					defer cancel()
					ctx = limited
				}
				got := outcome(call(ctx, c, s.Call, all))
				if got != s.Want {
					t.Errorf("the call ended as %q, want %q", got, s.Want)
				}
				for method, want := range map[string]any{"POST": s.Posts, "GET": s.Looks} {
					if n, exact := want.(float64); exact && a.made[method] != int(n) || !exact && a.made[method] < 2 {
						t.Errorf("%d requests %s, want %v", a.made[method], method, want)
					}
				}
				if took := time.Since(begin).Seconds(); took < s.Seconds[0] || took > s.Seconds[1] {
					t.Errorf("it took %v s, want %v", took, s.Seconds)
				}
				if len(a.keys) > 1 {
					t.Errorf("it used the keys %v", a.keys)
				}
			})
		})
	}
}

// call makes the call of a scenario.
func call(ctx context.Context, c *remit.Client, name string, all table) (err error) {
	switch name {
	case "payMany":
		_, err = c.PayMany(ctx, "order-7", all.Batch)
	case "balance":
		var b remit.Balance
		if b, err = c.Balance(ctx, all.Order.To); err == nil && b.Balance != largest {
			err = fmt.Errorf("the balance is %s", b.Balance)
		}
	case "createKey":
		_, err = c.CreateKey(ctx, remit.IssueAPIKeyRequest{})
	case "wait":
		_, err = c.Wait(ctx, "0x1")
	case "list":
		n := 0
		for _, failed := range c.List(ctx, url.Values{"status": {"pending"}}) {
			n, err = n+1, failed
		}
		if n != 2 {
			err = fmt.Errorf("%d payments", n)
		}
	default:
		_, err = c.Pay(ctx, "order-7", all.Order)
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
