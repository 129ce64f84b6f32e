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
	"strconv"
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
	state  string   // the directory of the notes
	list   string   // the payments of each page
	pages  int      // 0 is one
	stored []string // answers to look-ups of the intent "old", the last for ever: "" for none, payments, or halfDone
	post   string   // the status and code of answers to POST; "" accepts
	watch  func()   // is called in lists and POSTs
	asked  int      // look-ups of "old"
	posted []string // keys
}

func (d *desk) serve(t *testing.T) bot {
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	d.state = t.TempDir()
	return connectAgent(t, merchant.MCP{URL: server.URL, Key: "k", State: d.state})
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, list, next, query := http.StatusOK, "", "null", r.URL.Query()
	page, _ := strconv.Atoi(query.Get("cursor"))
	key, after := query.Get("idempotency_key"), query.Get("created_after")
	since, _ := time.Parse(time.RFC3339, after)
	switch {
	case strings.HasPrefix(r.URL.Path, "/balance"):
		fmt.Fprint(w, `{"token":"USDC","decimals":6,"network":"test"}`)
		return
	case r.Method == http.MethodPost:
		d.posted = append(d.posted, r.Header.Get("Idempotency-Key"))
		status, list = http.StatusCreated, made("0xnew", "2.5", "pending", "null")
		if code := ""; d.post != "" {
			_, _ = fmt.Sscan(d.post, &status, &code)
			list = fmt.Sprintf(`{"detail":"No.","code":%q}`, code)
		}
	case key == oldKey && d.stored != nil:
		if list = d.stored[min(d.asked, len(d.stored)-1)]; list == halfDone {
			status = http.StatusConflict
		}
		d.asked++
	case key == "" && (page > 0 || time.Since(since).Round(time.Minute)%(24*time.Hour) <= time.Hour): // days, or after a payment
		if list = d.list; page+1 < d.pages {
			next = fmt.Sprintf("%q", fmt.Sprint(page+1))
		}
	}
	if d.watch != nil && key == "" {
		d.watch()
	}
	if status == http.StatusOK {
		list = `{"data":[` + list + `],"next_cursor":` + next + `}`
	}
	w.WriteHeader(status)
	fmt.Fprint(w, list)
}

const (
	alice    = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	halfDone = `{"detail":"","code":"idempotency_in_progress"}`
	refused  = "400 insufficient_funds"
)

var oldKey, _ = remit.Key("old")

func made(hash, tokens, status, failure string) string {
	return fmt.Sprintf(`{"tx_hash":%q,"status":%q,"amount":%s,"to":%q,"decimals":6,"failure":%s,"created_at":%q}`,
		hash, status, strings.ReplaceAll(tokens, ".", "")+"00000", alice, failure, time.Now().Add(-time.Minute).Format(time.RFC3339))
}

// note is the file for 2.5 tokens to alice.
func (d *desk) note() string {
	sum := sha256.Sum256([]byte(strings.ToLower(alice) + "\x002500000"))
	return filepath.Join(d.state, hex.EncodeToString(sum[:])+".note")
}

// writes makes a file of the directory.
func (d *desk) writes(t *testing.T, file, text string, age time.Duration) {
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	must.OK(t, os.Chtimes(file, time.Time{}, time.Now().Add(-age)))
}

func order(intent, named string) string {
	return fmt.Sprintf(`{"intent":%q,"to":%q,"amount":"2.50","different_from":%q}`, intent, strings.ToLower(alice), named)
}

// TestAgentSimilar: pay returns a payment of the last day that may be the same, and pays only if it is named, or if it paid nobody.
func TestAgentSimilar(t *testing.T) {
	pending, other := made("0xold", "2.5", "pending", "null"), made("0xother", "7.5", "pending", "null")
	for name, test := range map[string]struct {
		stored, named string
		pays          bool
	}{
		"another amount":          {other, "", true},
		"an entry of a batch":     {strings.Replace(other, "{", `{"payments":[{"to":"`+alice+`","amount":2500000}],`, 1), "", false},
		"another is named":        {pending, "0xother", false},
		"it is named":             {pending, "0xOLD", true},
		"failed, paid nobody":     {made("0xold", "2.5", "failed", `{"code":"execution_reverted"}`), "", true},
		"failed, coins moved":     {made("0xold", "2.5", "failed", `{"code":"amount_differs"}`), "", false},
		"the newest is not named": {pending + "," + made("0xolder", "2.5", "pending", "null"), "0xolder", false},
		"the newest is not it":    {other + "," + pending, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{list: test.stored}
			text, wrong := d.serve(t).call("pay", order("i", test.named))
			if wrong || (len(d.posted) == 1) != test.pays || strings.Contains(text, "paid nothing") == test.pays {
				t.Errorf("posted %d times: %s", len(d.posted), text)
			}
		})
	}
}

// TestAgentBounds: the list of a day is read to its 10,000th payment and no further, and each call deletes old notes.
func TestAgentBounds(t *testing.T) {
	d := &desk{pages: 100, list: strings.Repeat(made("0xold", "7.5", "pending", "null")+",", 99) + made("0xold", "7.5", "pending", "null")}
	agent := d.serve(t)
	young, other := filepath.Join(d.state, "new.note"), filepath.Join(d.state, "other")
	d.writes(t, filepath.Join(d.state, "old.note"), "", 50*time.Hour)
	d.writes(t, young, "", 47*time.Hour)
	d.writes(t, other, "", 50*time.Hour)
	if text, wrong := agent.call("pay", order("i", "")); wrong || len(d.posted) != 1 {
		t.Errorf("with 10,000 payments: %s", text)
	}
	left := must.Get(filepath.Glob(filepath.Join(d.state, "*")))(t)
	if diff := cmp.Diff([]string{d.note(), young, other}, left); diff != "" {
		t.Error(diff)
	}
	d.pages = 101
	if text, wrong := agent.call("pay", strings.Replace(order("j", ""), "2.50", "2.6", 1)); !wrong || len(d.posted) != 1 ||
		!strings.Contains(text, "may have paid") || !strings.Contains(text, "more than 10000 payments") {
		t.Errorf("with more: %s", text)
	}
	if text, wrong := agent.call("find", `{"days":367}`); !wrong {
		t.Error(text)
	}
	if text, _ := agent.call("find", `{}`); strings.Count(text, `"tx_hash":`) != 20 || !strings.Contains(text, "narrow the search") {
		t.Errorf("find: %s", text)
	}
}

// TestAgentNotes: a noted payment of this amount and address holds up another until it is stored, or old enough to be no more.
func TestAgentNotes(t *testing.T) {
	stored, other := made("0xold", "2.5", "pending", "null"), made("0xold", "7.5", "pending", "null")
	young, old := time.Second, 36*time.Second
	for name, test := range map[string]struct {
		age    time.Duration
		intent string
		stored []string // under the noted intent
		post   string
		says   string
		posts  bool
	}{
		"stored":                         {young, "new", []string{stored}, "", "paid nothing: ", false},
		"stored a second later":          {young, "new", []string{"", stored}, "", "paid nothing: ", false},
		"stored, of other amount":        {young, "new", []string{other}, "", "Accepted", true},
		"old":                            {old, "new", nil, "", "Accepted", true},
		"a day old":                      {25 * time.Hour, "new", []string{stored}, "", "Accepted", true},
		"half done":                      {old, "new", []string{halfDone}, "", `call pay with its intent "old" and reference "June"`, false},
		"its own, stored seconds later":  {young, "old", []string{"", "", stored}, "", "paid nothing more: ", false},
		"its own, old":                   {old, "old", nil, "", "Accepted", true},
		"its own, failed":                {old, "old", []string{made("0xold", "2.5", "failed", `{"code":"x"}`)}, "", "FAILED", false},
		"its own, of other content":      {old, "old", []string{other}, "", "NOT of this amount", false},
		"its own, half done":             {old, "old", []string{halfDone}, "", "Accepted", true},
		"its own, half done, refused":    {old, "old", []string{halfDone}, refused, "UNKNOWN", true},
		"of other content, not readable": {old, "new", nil, "422 idempotency_key_reused", "UNKNOWN", true},
		"of tomorrow":                    {-24 * time.Hour, "new", []string{stored}, "", "paid nothing: ", false},
		"damaged":                        {old, "new", nil, "", "damaged", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &desk{post: test.post, stored: test.stored}
			if slices.Contains(test.stored, halfDone) { // even if the agent forgets which one it named
				d.list = made("0xolder", "2.5", "pending", "null")
			}
			agent := d.serve(t)
			d.watch = func() {
				if len(d.posted) > 0 {
					must.OK(t, os.Chtimes(d.note(), time.Time{}, time.Now().Add(-time.Hour)))
				}
			}
			d.writes(t, d.note(), map[bool]string{true: `{"In`, false: `{"Intent":"old","Reference":"June"}` + "\nrest"}[name == "damaged"], test.age)
			text, _ := agent.call("pay", order(test.intent, ""))
			var want []string
			if test.posts {
				want = []string{must.Get(remit.Key(test.intent))(t)}
			}
			if diff := cmp.Diff(want, d.posted); diff != "" || !strings.Contains(text, test.says) {
				t.Errorf("%s\n%s", text, diff)
			}
			age := time.Since(must.Get(os.Stat(d.note()))(t).ModTime())
			if age < 0 || test.says == "UNKNOWN" && age > 10*time.Second { // a request may arrive until 35 s after the call
				t.Errorf("the note's age is %s", age)
			}
		})
	}
}

// TestAgentLatest: a refusal does not hide the payment before it, which a list may still lack, nor that one a later one.
func TestAgentLatest(t *testing.T) {
	d := &desk{}
	agent := d.serve(t)
	for i, step := range []struct{ intent, named, says string }{
		{"old", "", "Accepted"}, {"new", "0xold", "started nothing"}, {"newer", "", "0xold"}, {"newest", "0xold", "0xlater"},
	} {
		if i == 3 {
			d.list = strings.Replace(made("0xlater", "2.5", "pending", "null"), `"created_at":"2`, `"created_at":"3`, 1)
		}
		text, _ := agent.call("pay", order(step.intent, step.named))
		if !strings.Contains(text, step.says) || len(d.posted) != min(i+1, 2) {
			t.Errorf("call %d, posted %q: %s", i, d.posted, text)
		}
		d.stored, d.post = []string{made("0xold", "2.5", "pending", "null")}, refused
	}
}

// TestAgentNoted: a call waits for the process that has the note. It has the note itself while it compares payments and
// at each POST, when the note also names the intent and is young.
func TestAgentNoted(t *testing.T) {
	d := &desk{post: "502 none"}
	agent := d.serve(t)
	lock := func() (free bool, f *os.File) {
		f = must.Get(os.OpenFile(d.note(), os.O_RDONLY|os.O_CREATE, 0o600))(t)
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil, f
	}
	d.watch = func() {
		text, info := must.Get(os.ReadFile(d.note()))(t), must.Get(os.Stat(d.note()))(t)
		free, f := lock()
		must.OK(t, f.Close())
		if free || len(d.posted) > 0 && (!strings.Contains(string(text), `"i"`) || time.Since(info.ModTime()) > 10*time.Second) {
			t.Errorf("POST %d: another process could lock: %v; noted %q at %v", len(d.posted), free, text, info.ModTime())
		}
		if len(d.posted) > 0 {
			d.writes(t, d.note(), string(text), time.Hour)
			d.post = ""
		}
	}
	_, mine := lock()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := agent.CallTool(ctx, &mcp.CallToolParams{Name: "pay", Arguments: json.RawMessage(order("i", ""))})
	if err == nil || len(d.posted) > 0 {
		t.Error("it did not wait")
	}
	must.OK(t, mine.Close())
	if text, _ := agent.call("pay", order("i", "")); !strings.Contains(text, "Accepted") || len(d.posted) != 2 {
		t.Errorf("posted %d times: %s", len(d.posted), text)
	}
}

// TestAgentTools: a payment needs an intent, which the model is told to repeat; another server's answers pay nothing.
func TestAgentTools(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }))
	t.Cleanup(server.Close)
	agent := connectAgent(t, merchant.MCP{URL: server.URL, Key: "k", State: t.TempDir()})
	if text, wrong := agent.call("pay", order("i", "")); !wrong || !strings.Contains(text, "check --url") {
		t.Error(text)
	}
	if text, wrong := agent.call("pay", `{"to":"`+alice+`","amount":"2.5"}`); !wrong || !strings.Contains(text, `"intent"`) {
		t.Error(text)
	}
	var names []string
	for tool, err := range agent.Tools(t.Context(), nil) {
		must.OK(t, err)
		if names = append(names, tool.Name); tool.Name == "pay" && !strings.Contains(tool.Description, "repeat the call with the same intent") {
			t.Error(tool.Description)
		}
	}
	if diff := cmp.Diff([]string{"address_book", "find", "limits", "pay", "wait"}, names); diff != "" {
		t.Error(diff)
	}
}
