//go:build upgrade

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A lane is a function that settings concern, with the status, code and hold of its answers
// by the settings before and after a change.
type lane struct {
	name, path    string
	body          func() any
	before, after string
	answers       [2]atomic.Int64 // before the change, and when the settings after had to be in force
}

// ask makes a request and judges its answer. changed is when the settings after were stored;
// before that it is zero. A request that the gateway or a full window refuses shows nothing.
func (l *lane) ask(m merchant, changed time.Time) {
	text, _ := json.Marshal(l.body())
	since := time.Since(changed)
	a, err := m.api().Call(m.t.Context(), "POST", l.path, string(text))
	if err != nil || a.Status == 429 {
		return
	}
	var is struct {
		Code     string
		Created  time.Time `json:"created_at"`
		ActiveAt time.Time `json:"active_at"`
	}
	_ = json.Unmarshal(a.Body, &is)
	verdict := fmt.Sprint(a.Status, " ", is.Code)
	if l.name == "CreateRecipient" {
		verdict += is.ActiveAt.Sub(is.Created).Round(time.Second).String()
	}
	switch {
	case verdict != l.before && verdict != l.after, !changed.IsZero() && since >= settings.MaxAge && verdict == l.before:
		m.t.Errorf("%s answered %d %s, %s after the change", l.name, a.Status, a.Body, since)
	case changed.IsZero() && verdict == l.before:
		l.answers[0].Add(1)
	case !changed.IsZero() && since >= settings.MaxAge:
		l.answers[1].Add(1)
	}
}

// shown returns the settings as remit settings show has them.
func (o *operator) shown() (all map[string]struct {
	Version uint64
	Values  map[string]string
}) {
	o.t.Helper()
	o.ok(&all, "settings", "show")
	return all
}

// TestSettingsTakeEffect: requests that arrive 30 seconds after remit settings set are judged
// by its values, by every function that settings concern. Nothing is restarted.
func TestSettingsTakeEffect(t *testing.T) {
	o := newOperator(t)
	s := o.s
	var entries atomic.Uint64
	pay := func(n int) any { return map[string]any{"to": recipient, "amount": n} }
	lanes := []*lane{
		{name: "SendPayment", path: "/send-payment", body: func() any { return pay(5) },
			before: "201 ", after: "400 amount_above_maximum"},
		{name: "SendPayments", path: "/send-payments", body: func() any { return map[string]any{"payments": []any{pay(3), pay(5)}} },
			before: "201 ", after: "400 amount_above_maximum"},
		{name: "CreateApiKey", path: "/create-api-key", body: func() any { return map[string]any{"merchant_name": "late"} },
			before: "201 ", after: "403 key_creation_closed"},
		{name: "CreateRecipient", path: "/recipients",
			body:   func() any { return map[string]any{"address": fmt.Sprintf("0x5e%038x", entries.Add(1))} },
			before: "201 2s", after: "201 1h0m0s"},
	}
	was, pairs := o.shown(), []string{"settings", "set", "--yes"}
	for _, name := range []string{"AmountMaximum", "KeyCreation", "RecipientHoldSeconds"} {
		pairs = append(pairs, name+"="+was["payments"].Values[name]+was["keys"].Values[name])
	}
	var changed atomic.Pointer[time.Time]
	changed.Store(new(time.Time))
	var stopped atomic.Bool
	var clients sync.WaitGroup
	defer func() {
		stopped.Store(true)
		clients.Wait()
		o.ok(nil, pairs...)
		inForce(t)
	}()
	for range 4 {
		m := newMerchant(t, s)
		for _, l := range lanes {
			m := m
			if l.name == "CreateApiKey" {
				m.key = ""
			}
			clients.Go(func() {
				for !stopped.Load() {
					l.ask(m, *changed.Load())
					time.Sleep(2 * time.Second)
				}
			})
		}
	}
	answered := func(i int) func() bool {
		return func() bool {
			return !slices.ContainsFunc(lanes, func(l *lane) bool { return l.answers[i].Load() < 8 })
		}
	}
	until(t, "answers by the settings before", 3*time.Minute, answered(0))
	o.ok(nil, "settings", "set", "--yes", "--reason", "theft", "AmountMaximum=4", "KeyCreation=operator", "RecipientHoldSeconds=3600")
	changed.Store(new(time.Now()))
	until(t, "answers by the settings after", 3*time.Minute, answered(1))
	for _, f := range o.findings() {
		if want := s.Resources["SendPaymentFunction"]; f.Check == "settings in use" && (!f.OK || !strings.Contains(f.Saw, want)) {
			t.Errorf("doctor shows no version of %s: %+v", want, f)
		}
	}
}

// inForce waits until every process has read the settings of now.
func inForce(t *testing.T) {
	t.Helper()
	stored := time.Now()
	until(t, "every process to have read the settings", settings.MaxAge+time.Minute,
		func() bool { return time.Since(stored) > settings.MaxAge })
}

// findings are those of remit doctor, whatever it finds.
func (o *operator) findings() (all []finding) {
	o.t.Helper()
	r := o.run("doctor", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		o.t.Fatalf("remit doctor ended with %d\n%s%s: %v", r.code, r.stdout, r.stderr, err)
	}
	return all
}

// TestDamagedSettings: a lost limit is never taken for none. Payments stop, and say so,
// until an operator replaces the settings.
func TestDamagedSettings(t *testing.T) {
	o := newOperator(t)
	m := newMerchant(t, o.s)
	order := map[string]any{"to": recipient, "amount": 7}
	hash := m.served("POST", "/send-payment", order, "Idempotency-Key", "before").want(t, 201).get("tx_hash")
	file := filepath.Join(t.TempDir(), "settings.env")
	must.OK(t, os.WriteFile(file, []byte(o.ok(nil, "settings", "show").stdout), 0o600))
	mend := sync.OnceFunc(func() { o.ok(nil, "settings", "apply", "--yes", file) })
	defer mend()
	must.Get(dynamodb.NewFromConfig(o.s.Administrator()).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(o.s.Outputs["PaymentsTableName"]), UpdateExpression: aws.String("REMOVE #v.DailyLimit"),
		ExpressionAttributeNames: map[string]string{"#v": "values"},
		Key:                      map[string]types.AttributeValue{"pk": text("settings"), "sk": text("current")},
	}))(t)
	inForce(t)
	a, err := m.api().Call(t.Context(), "POST", "/send-payment", fmt.Sprintf(`{"to":%q,"amount":8}`, recipient))
	if err != nil || a.Status != 503 || !strings.Contains(string(a.Body), `"payment_rail_unavailable"`) {
		t.Errorf("a payment without settings: %d %s, %v", a.Status, a.Body, err)
	}
	again := m.served("POST", "/send-payment", order, "Idempotency-Key", "before").want(t, 201)
	if again.get("tx_hash") != hash || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a replay answered %s", again.text)
	}
	if lines := o.s.logged(t, "SendPayment"); !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, `"settings unusable"`) && strings.Contains(line, "DailyLimit is missing")
	}) {
		t.Error("no function logged why it refuses payments")
	}
	if !slices.ContainsFunc(o.findings(), func(f finding) bool {
		return f.Check == "settings" && !f.OK && strings.Contains(f.Saw, "damaged")
	}) {
		t.Error("doctor does not find the damage")
	}
	o.fails("settings apply FILE", "settings", "set", "--yes", "DailyLimit=1")
	mend()
	m.served("POST", "/send-payment", order, "Idempotency-Key", "after").want(t, 201)
}
