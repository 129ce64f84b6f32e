//go:build upgrade

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// warm is how many processes of each function the tests below keep busy.
const warm = 4

// A lane is a function that settings concern, and how its answers are judged.
type lane struct {
	name, path string
	of         string // the settings that it reads
	body       func() any
	before     string // the status, code and hold of an answer by the settings before
	after      string // and by those that the test sets
	merchants  []merchant
	worst      atomic.Int64 // when, since the change, the last request came that was judged by the settings before
	judged     atomic.Int64 // requests by the settings after that came when they had to be in force
}

// ask makes a request and reports whether it was judged, and by the settings after. One
// that the gateway or a full window refuses was not.
func (l *lane) ask(m merchant) (judged, after bool) {
	text, _ := json.Marshal(l.body())
	a, err := m.api().Call(m.t.Context(), "POST", l.path, string(text))
	if err != nil || a.Status == 429 {
		return false, false
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
	if verdict != l.before && verdict != l.after {
		m.t.Errorf("%s answered %d %s, neither %q nor %q", l.name, a.Status, a.Body, l.before, l.after)
	}
	return true, verdict == l.after
}

// burst makes as many requests at once as processes are to be busy. set is when the
// settings after were stored; before that it is zero.
func (l *lane) burst(set time.Time) {
	var all sync.WaitGroup
	for _, m := range l.merchants {
		all.Go(func() {
			began := time.Since(set)
			switch judged, after := l.ask(m); {
			case !judged:
			case !after && !set.IsZero():
				l.worst.Store(max(l.worst.Load(), int64(began)))
			case after && began >= settings.MaxAge:
				l.judged.Add(1)
			}
		})
	}
	all.Wait()
}

// processes counts the processes of a function that read a version of settings since then:
// each reads once in settings.MaxAge, so lines of a shorter time are of different ones.
func (s *stack) processes(t *testing.T, l *lane, version uint64, since time.Time) (most int) {
	t.Helper()
	found, err := cloudwatchlogs.NewFromConfig(s.Administrator()).FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: aws.String(s.Resources["RequestsLogGroup"]), FilterPattern: aws.String(`"settings read"`),
		StartTime: aws.Int64(since.UnixMilli()),
	})
	must.OK(t, err)
	var at []time.Time
	for _, e := range found.Events {
		var line struct {
			Timestamp          time.Time
			Function, Settings string
			Version            uint64 `json:"settings_version"`
		}
		if json.Unmarshal([]byte(*e.Message), &line) == nil && line.Version == version && line.Settings == l.of &&
			s.logical(line.Function) == l.name+"Function" {
			at = append(at, line.Timestamp)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i, first := range at {
		n, _ := slices.BinarySearchFunc(at[i:], first.Add(settings.MaxAge), time.Time.Compare)
		most = max(most, n)
	}
	return most
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

// restore puts settings back, and ends when every process obeys them.
func (o *operator) restore(names ...string) func() {
	o.t.Helper()
	before, pairs := o.shown(), []string{"settings", "set", "--yes", "--reason", "the test is over"}
	for _, name := range names {
		value, there := before["payments"].Values[name]
		if !there {
			value = before["keys"].Values[name]
		}
		pairs = append(pairs, name+"="+value)
	}
	return func() {
		o.t.Helper()
		o.ok(nil, pairs...)
		restored := time.Now()
		until(o.t, "the settings of before to be in force", settings.MaxAge+time.Minute,
			func() bool { return time.Since(restored) > settings.MaxAge })
	}
}

// TestSettingsTakeEffect: while payments are made, requests that arrive 30 seconds after
// remit settings set are judged by its values, in four warm processes of every function
// that settings concern. Nothing is restarted.
func TestSettingsTakeEffect(t *testing.T) {
	o := newOperator(t)
	s := o.s
	const to = "0x5e77165e77165e77165e77165e77165e77165e77"
	pay := func(amounts ...int) (all []any) {
		for _, n := range amounts {
			all = append(all, map[string]any{"to": to, "amount": n})
		}
		return all
	}
	var entries atomic.Uint64
	lanes := []*lane{
		{name: "SendPayment", path: "/send-payment", of: "payments", body: func() any { return pay(5)[0] }, before: "201 ",
			after: "400 amount_above_maximum"},
		{name: "SendPayments", path: "/send-payments", of: "payments", body: func() any { return map[string]any{"payments": pay(3, 5)} },
			before: "201 ", after: "400 amount_above_maximum"},
		{name: "CreateApiKey", path: "/create-api-key", of: "keys", body: func() any { return map[string]any{"merchant_name": "late"} },
			before: "201 ", after: "403 key_creation_closed"},
		{name: "CreateRecipient", path: "/recipients", of: "keys",
			body: func() any { return map[string]any{"address": fmt.Sprintf("0x5e%038x", entries.Add(1))} }, before: "201 2s", after: "201 1h0m0s"},
	}
	for i := range warm {
		m := newMerchant(t, s)
		for _, l := range lanes {
			if l.merchants = append(l.merchants, m); l.name == "CreateApiKey" {
				l.merchants[i].key = ""
			}
		}
	}
	defer o.restore("AmountMaximum", "KeyCreation", "RecipientHoldSeconds")()
	was := o.shown()
	for _, l := range lanes {
		s.calls.slow(s.Resources[l.name+"Function"], 150*time.Millisecond) // so that a burst needs processes of its own
		defer s.calls.slow(s.Resources[l.name+"Function"], 0)
		began := time.Now()
		until(t, fmt.Sprintf("%d processes of %s", warm, l.name), 3*time.Minute, func() bool {
			l.burst(time.Time{})
			return s.processes(t, l, was[l.of].Version, began) >= warm
		})
	}

	traffic := s.begin(t, lanes, to)
	o.ok(nil, "settings", "set", "--yes", "--reason", "theft", "AmountMaximum=4", "KeyCreation=operator", "RecipientHoldSeconds=3600")
	now := time.Now()
	traffic.set.Store(&now)
	until(t, "the new settings to be in force", 3*time.Minute, func() bool {
		done := time.Since(now) > settings.MaxAge+5*time.Second
		for _, l := range lanes {
			done = done && l.judged.Load() >= 2*warm
		}
		return done
	})
	traffic.stopped.Store(true)
	traffic.clients.Wait()
	for _, l := range lanes {
		n, worst := s.processes(t, l, was[l.of].Version+1, now.Add(-time.Minute)), time.Duration(l.worst.Load())
		t.Logf("%s: the last request by the settings before came %s after the change; %d warm processes, %d requests judged after %s", l.name,
			worst.Round(time.Millisecond), n, l.judged.Load(), settings.MaxAge)
		if worst >= settings.MaxAge || n < warm {
			t.Errorf("%s judged a request by the settings before that came %s after the change, in %d processes", l.name, worst, n)
		}
	}
	t.Logf("%d payments were made meanwhile", traffic.paid.Load())
	if traffic.paid.Load() == 0 {
		t.Error("there was no load")
	}
	for _, f := range o.findings() {
		if want := s.Resources["SendPaymentFunction"]; f.Check == "settings in use" && (!f.OK || !strings.Contains(f.Saw, want)) {
			t.Errorf("doctor shows no version of %s: %+v", want, f)
		}
	}
}

// slow has the calls of a function take so much longer.
func (c *calls) slow(function string, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late == nil {
		c.late = map[string]time.Duration{}
	}
	c.late[function] = by
}

// A traffic is requests in every lane, and payments that the settings before and after allow.
type traffic struct {
	set     atomic.Pointer[time.Time] // when the settings after were stored
	stopped atomic.Bool
	clients sync.WaitGroup
	paid    atomic.Int64
}

// begin has traffic until it is stopped.
func (s *stack) begin(t *testing.T, lanes []*lane, to string) *traffic {
	t.Helper()
	r := &traffic{}
	r.set.Store(new(time.Time))
	every := func(pause time.Duration, do func()) {
		r.clients.Go(func() {
			for next := time.Now(); !r.stopped.Load(); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(next) {
					do()
					next = time.Now().Add(pause)
				}
			}
		})
	}
	for _, l := range lanes {
		pause := 2 * time.Second
		if l.name == "CreateApiKey" { // which may be called once a second
			pause = warm * 1200 * time.Millisecond
		}
		every(pause, func() { l.burst(*r.set.Load()) })
	}
	load := newMerchant(t, s)
	every(250*time.Millisecond, func() {
		a, err := load.api().Call(t.Context(), "POST", "/send-payment", `{"to":"`+to+`","amount":1}`)
		if err != nil || a.Status != 201 && a.Status != 429 {
			t.Errorf("a payment that both settings allow: %d %s, %v", a.Status, a.Body, err)
		} else if a.Status == 201 {
			r.paid.Add(1)
		}
	})
	return r
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
	version := o.shown()["payments"].Version
	mend := func() ran {
		return o.ok(nil, "settings", "apply", "--yes", file, "--over", fmt.Sprint("payments=", version))
	}
	mended := false
	defer func() {
		if !mended {
			mend()
		}
	}()
	must.Get(dynamodb.NewFromConfig(o.s.Administrator()).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(o.s.Outputs["PaymentsTableName"]), UpdateExpression: aws.String("REMOVE #v.DailyLimit"),
		ExpressionAttributeNames: map[string]string{"#v": "values"},
		Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "denied"},
			"sk": &types.AttributeValueMemberS{Value: token.Address{}.String()}},
	}))(t)
	damaged := time.Now()
	until(t, "every process to have read the settings", settings.MaxAge+time.Minute,
		func() bool { return time.Since(damaged) > settings.MaxAge })
	for i := range warm {
		a, err := m.api().Call(t.Context(), "POST", "/send-payment", fmt.Sprintf(`{"to":%q,"amount":%d}`, recipient, i+1))
		if err != nil || a.Status != 503 || !regexp.MustCompile(`"code":\s*"payment_rail_unavailable"`).Match(a.Body) {
			t.Errorf("a payment without settings: %d %s, %v", a.Status, a.Body, err)
		}
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
	o.fails("--over payments=", "settings", "set", "--yes", "DailyLimit=1")
	mend()
	mended = true
	m.served("POST", "/send-payment", order, "Idempotency-Key", "after").want(t, 201)
}
