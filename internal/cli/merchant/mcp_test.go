package merchant_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/proof/must"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// A bot calls the tools of a server.
type bot struct {
	*testing.T
	*mcp.ClientSession
}

// connectAgent serves the tools until the test ends.
func connectAgent(t *testing.T, c merchant.MCP) bot {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	ended := make(chan error, 1)
	c.Transport = far
	go func() { ended <- c.Run(context.WithoutCancel(t.Context())) }()
	session := must.Get(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), near, nil))(t)
	t.Cleanup(func() {
		_ = session.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return bot{t, session}
}

func (b bot) call(name, args string) (text string, wrong bool) {
	b.Helper()
	got := must.Get(b.CallTool(b.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)}))(b)
	return got.Content[0].(*mcp.TextContent).Text, got.IsError
}

// A desk answers as an API whose merchant has the listed payments.
type desk struct {
	state  string                // the directory of the notes
	list   func(page int) string // the payments of a page, and its next_cursor
	stored []string              // answers to look-ups of the intent "old", the last for ever: payments, or halfDone
	post   func() (int, string)  // nil accepts
	asked  int                   // look-ups of it
	posted []string              // keys
}

func (d *desk) serve(t *testing.T) bot {
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	if d.state == "" {
		d.state = t.TempDir()
	}
	return connectAgent(t, merchant.MCP{URL: server.URL, Key: "k", State: d.state})
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body, query := http.StatusOK, data(""), r.URL.Query()
	after, _ := time.Parse(time.RFC3339, query.Get("created_after"))
	switch {
	case strings.HasPrefix(r.URL.Path, "/balance"):
		body = `{"token":"USDC","decimals":6,"network":"test"}`
	case r.Method == http.MethodPost:
		status, body = http.StatusCreated, made("0xnew", "2.5", "pending", "null")
		if d.posted = append(d.posted, r.Header.Get("Idempotency-Key")); d.post != nil {
			status, body = d.post()
		}
	case query.Get("idempotency_key") == oldKey && d.stored != nil:
		if body = data(d.stored[min(d.asked, len(d.stored)-1)]); strings.Contains(body, halfDone) {
			status, body = http.StatusConflict, halfDone
		}
		d.asked++
	case query.Has("idempotency_key"):
	case !query.Has("cursor") && time.Since(after).Round(time.Minute)%(24*time.Hour) > time.Hour:
		status, body = http.StatusBadRequest, `{"detail":"Neither a day nor what came after a payment.","code":"wrong"}`
	case d.list != nil:
		page := 0
		_, _ = fmt.Sscan(query.Get("cursor"), &page)
		body = d.list(page)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

const (
	alice    = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	halfDone = `{"detail":"","code":"idempotency_in_progress"}`
)

var oldKey, _ = remit.Key("old")

func data(payments string) string { return `{"data":[` + payments + `],"next_cursor":null}` }

func made(hash, tokens, status, failure string) string {
	return fmt.Sprintf(`{"tx_hash":%q,"status":%q,"amount":%s,"to":%q,"decimals":6,"failure":%s,"created_at":%q}`,
		hash, status, strings.ReplaceAll(tokens, ".", "")+"00000", alice, failure, time.Now().Add(-time.Minute).Format(time.RFC3339))
}

func order(intent, named string) string {
	return fmt.Sprintf(`{"intent":%q,"to":%q,"amount":"2.50","different_from":%q}`, intent, strings.ToLower(alice), named)
}

func refuses() (int, string) {
	return http.StatusBadRequest, `{"detail":"No.","code":"insufficient_funds"}`
}

// TestAgentSimilar: pay returns a payment of the last day that may be the same, and pays only if it is named, or if it paid nobody.
func TestAgentSimilar(t *testing.T) {
	pending, other := made("0xold", "2.5", "pending", "null"), made("0xother", "7.5", "pending", "null")
	for name, test := range map[string]struct {
		stored, named string
		pays          bool
	}{
		"another amount":            {other, "", true},
		"pending":                   {pending, "", false},
		"an entry of a batch":       {strings.Replace(other, "{", `{"payments":[{"to":"`+alice+`","amount":2500000}],`, 1), "", false},
		"another is named":          {pending, "0xother", false},
		"it is named":               {pending, "0xOLD", true},
		"failed, paid nobody":       {made("0xold", "2.5", "failed", `{"code":"execution_reverted"}`), "", true},
		"failed, coins moved":       {made("0xold", "2.5", "failed", `{"code":"amount_differs"}`), "", false},
		"the newest is not named":   {pending + "," + made("0xolder", "2.5", "pending", "null"), "0xolder", false},
		"the newest is not it":      {other + "," + pending, "", false},
		"nothing was paid that day": {"", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{list: func(int) string { return data(test.stored) }}
			text, wrong := d.serve(t).call("pay", order("i", test.named))
			if wrong || (len(d.posted) == 1) != test.pays || strings.Contains(text, "paid nothing") == test.pays {
				t.Errorf("posted %d times: %s", len(d.posted), text)
			}
		})
	}
}

// TestAgentBounds: the list of a day is read to its 10,000th payment and no further, and each call deletes old notes.
func TestAgentBounds(t *testing.T) {
	last := 99
	d := &desk{list: func(page int) string {
		next := "null"
		if page < last {
			next = fmt.Sprintf("%q", fmt.Sprint(page+1))
		}
		all := strings.Repeat(","+made("0xold", "7.5", "pending", "null"), 100)
		return `{"data":[` + all[1:] + `],"next_cursor":` + next + `}`
	}}
	agent := d.serve(t)
	for name, age := range map[string]time.Duration{"old.note": 50 * time.Hour, "new.note": 47 * time.Hour, "other": 50 * time.Hour} {
		must.OK(t, os.WriteFile(filepath.Join(d.state, name), nil, 0o600))
		must.OK(t, os.Chtimes(filepath.Join(d.state, name), time.Time{}, time.Now().Add(-age)))
	}
	if text, wrong := agent.call("pay", order("i", "")); wrong || len(d.posted) != 1 {
		t.Errorf("with 10,000 payments: %s", text)
	}
	left := must.Get(filepath.Glob(filepath.Join(d.state, "*e*")))(t)
	if diff := cmp.Diff([]string{d.note(), filepath.Join(d.state, "new.note"), filepath.Join(d.state, "other")}, left); diff != "" {
		t.Error(diff)
	}
	last = 100
	if text, wrong := agent.call("pay", strings.Replace(order("j", ""), "2.50", "2.6", 1)); !wrong || len(d.posted) != 1 ||
		!strings.Contains(text, "more than 10000 payments") {
		t.Errorf("with more: %s", text)
	}
	for _, days := range []string{"-1", "367", "200000"} {
		if text, wrong := agent.call("find", `{"days":`+days+`}`); !wrong {
			t.Errorf("%s days: %s", days, text)
		}
	}
	if text, _ := agent.call("find", `{}`); strings.Count(text, `"tx_hash":`) != 20 || !strings.Contains(text, "narrow the search") {
		t.Errorf("find: %s", text)
	}
}

// note is the file for 2.5 tokens to alice.
func (d *desk) note() string {
	sum := sha256.Sum256([]byte(strings.ToLower(alice) + "\x002500000"))
	return filepath.Join(d.state, hex.EncodeToString(sum[:])+".note")
}

// TestAgentNotes: a noted payment of this amount and address holds up another until it is stored, or old enough to be no more.
func TestAgentNotes(t *testing.T) {
	stored, other := made("0xold", "2.5", "pending", "null"), made("0xold", "7.5", "pending", "null")
	reused := func() (int, string) {
		return http.StatusUnprocessableEntity, `{"detail":"","code":"idempotency_key_reused"}`
	}
	young, old := time.Second, 36*time.Second
	for name, test := range map[string]struct {
		age    time.Duration
		intent string
		stored []string // under the noted intent
		post   func() (int, string)
		says   string
		posts  bool
	}{
		"stored":                         {young, "new", []string{stored}, nil, "paid nothing: ", false},
		"stored a second later":          {young, "new", []string{"", stored}, nil, "paid nothing: ", false},
		"stored, of other amount":        {young, "new", []string{other}, nil, "Accepted", true},
		"old":                            {old, "new", nil, nil, "Accepted", true},
		"a day old":                      {25 * time.Hour, "new", []string{stored}, nil, "Accepted", true},
		"half done":                      {old, "new", []string{halfDone}, nil, `call pay with its intent "old"`, false},
		"its own, stored a second later": {young, "old", []string{"", stored}, nil, "paid nothing more: ", false},
		"its own, old":                   {old, "old", nil, nil, "Accepted", true},
		"its own, failed":                {old, "old", []string{made("0xold", "2.5", "failed", `{"code":"x"}`)}, nil, "FAILED", false},
		"its own, of other content":      {old, "old", []string{other}, nil, "NOT of this amount", false},
		"its own, half done":             {old, "old", []string{halfDone}, nil, "Accepted", true},
		"its own, half done, refused":    {old, "old", []string{halfDone}, refuses, "UNKNOWN", true},
		"of other content, not readable": {old, "new", nil, reused, "UNKNOWN", true},
		"damaged":                        {old, "new", nil, nil, "damaged", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &desk{state: t.TempDir(), post: test.post, stored: test.stored}
			if slices.Contains(test.stored, halfDone) { // even if the agent forgets which one it named
				d.list = func(int) string { return data(made("0xolder", "2.5", "pending", "null")) }
			}
			text, cut := "\"old\"\nrest", map[bool]int{true: 3, false: 10}[name == "damaged"]
			must.OK(t, os.WriteFile(d.note(), []byte(text[:cut]), 0o600))
			must.OK(t, os.Chtimes(d.note(), time.Time{}, time.Now().Add(-test.age)))
			agent := d.serve(t)
			text, _ = agent.call("pay", order(test.intent, ""))
			var want []string
			if test.posts {
				want = []string{must.Get(remit.Key(test.intent))(t)}
			}
			if diff := cmp.Diff(want, d.posted); diff != "" || !strings.Contains(text, test.says) {
				t.Errorf("%s\n%s", text, diff)
			}
		})
	}
}

// TestAgentRefused: a refusal does not hide the payment before it, which a list may still lack.
func TestAgentRefused(t *testing.T) {
	d := &desk{}
	agent := d.serve(t)
	for i, want := range []string{"Accepted", "started nothing", "paid nothing: "} {
		text, _ := agent.call("pay", order([]string{"old", "new", "newer"}[i], []string{"", "0xold", ""}[i]))
		if !strings.Contains(text, want) || len(d.posted) != min(i+1, 2) {
			t.Errorf("call %d, posted %q: %s", i, d.posted, text)
		}
		d.stored, d.post = []string{made("0xold", "2.5", "pending", "null")}, refuses
	}
}

// TestAgentNoted: a call waits for the process that has the note; the note is locked while payments are compared, and at
// each POST it also names the intent and is young.
func TestAgentNoted(t *testing.T) {
	d := &desk{}
	held := func() bool {
		f := must.Get(os.Open(d.note()))(t)
		defer func() { must.OK(t, f.Close()) }()
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
	}
	d.list = func(int) string {
		if !held() {
			t.Error("another process may compare at the same time")
		}
		return data("")
	}
	d.post = func() (int, string) {
		text, info := must.Get(os.ReadFile(d.note()))(t), must.Get(os.Stat(d.note()))(t)
		if !held() || string(text) != "\"i\"\n" || time.Since(info.ModTime()) > 10*time.Second {
			t.Errorf("POST %d: locked %v, noted %q at %v", len(d.posted), held(), text, info.ModTime())
		}
		must.OK(t, os.Chtimes(d.note(), time.Time{}, time.Now().Add(-time.Hour)))
		return map[bool]int{true: http.StatusBadGateway, false: http.StatusCreated}[len(d.posted) == 1], made("0xnew", "2.5", "pending", "null")
	}
	agent := d.serve(t)
	mine := must.Get(os.Create(d.note()))(t)
	must.OK(t, syscall.Flock(int(mine.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := agent.CallTool(ctx, &mcp.CallToolParams{Name: "pay", Arguments: json.RawMessage(order("i", ""))}); err == nil || d.asked > 0 {
		t.Errorf("it did not wait: %v", got)
	}
	must.OK(t, mine.Close())
	if text, _ := agent.call("pay", order("i", "")); !strings.Contains(text, "Accepted") || len(d.posted) != 2 {
		t.Errorf("posted %d times: %s", len(d.posted), text)
	}
}

// TestAgentElsewhere: another server's answers pay nothing.
func TestAgentElsewhere(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }))
	t.Cleanup(server.Close)
	text, wrong := connectAgent(t, merchant.MCP{URL: server.URL, Key: "k", State: t.TempDir()}).call("pay", order("i", ""))
	if !wrong || !strings.Contains(text, "check --url") {
		t.Error(text)
	}
}
