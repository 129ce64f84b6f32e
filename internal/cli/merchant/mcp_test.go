package merchant_test

import (
	"cmp"
	"context"
	"crypto/sha256"
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

// call returns a tool's answer, after "error: " if it is one.
func (b bot) call(name, args string) string {
	b.Helper()
	got := must.Get(b.CallTool(b.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)}))(b)
	return map[bool]string{true: "error: "}[got.IsError] + got.Content[0].(*mcp.TextContent).Text
}

// A desk answers as an API whose merchant has the listed payments.
type desk struct {
	state  string   // the directory of the notes
	list   string   // the payments
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
	status, list, key := http.StatusOK, "", r.URL.Query().Get("idempotency_key")
	since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("created_after"))
	age := time.Since(since).Round(time.Minute)
	switch {
	case strings.HasPrefix(r.URL.Path, "/balance"):
		fmt.Fprint(w, `{"token":"USDC","decimals":6,"network":"test"}`)
		return
	case r.Method == http.MethodPost:
		d.posted = append(d.posted, r.Header.Get("Idempotency-Key"))
		status, list = http.StatusCreated, made("0xnew", "2.5", "")
		if code := ""; d.post != "" {
			_, _ = fmt.Sscan(d.post, &status, &code)
			list = fmt.Sprintf(`{"detail":"No.","code":%q}`, code)
		}
	case key == oldKey && d.stored != nil:
		if list = d.stored[min(d.asked, len(d.stored)-1)]; list == halfDone {
			status = http.StatusConflict
		}
		d.asked++
	case key == "" && (age >= time.Minute && age < time.Hour || age == 24*time.Hour || age > 6*24*time.Hour): // a payment, a day, days
		list = d.list
	}
	if d.watch != nil && key == "" {
		d.watch()
	}
	if status == http.StatusOK {
		list = `{"data":[` + list + `]}`
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

// made is a payment to alice, pending unless it failed with a code.
func made(hash, tokens, code string) string {
	status := map[bool]string{true: "pending", false: "failed"}[code == ""]
	return fmt.Sprintf(`{"tx_hash":%q,"status":%q,"amount":%s,"to":%q,"decimals":6,"failure":{"code":%q},"created_at":%q}`,
		hash, status, strings.ReplaceAll(tokens, ".", "")+"00000", alice, code, time.Now().Add(-time.Minute).Format(time.RFC3339))
}

// note is the file for 2.5 tokens to alice.
func (d *desk) note() string {
	return filepath.Join(d.state, fmt.Sprintf("%x.note", sha256.Sum256([]byte(strings.ToLower(alice)+"\x002500000"))))
}

// writes makes a file of the directory.
func (d *desk) writes(t *testing.T, file, text string, age time.Duration) {
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	must.OK(t, os.Chtimes(file, time.Time{}, time.Now().Add(-age)))
}

// read returns the note and its age.
func (d *desk) read(t *testing.T) (text string, age time.Duration) {
	return string(must.Get(os.ReadFile(d.note()))(t)), time.Since(must.Get(os.Stat(d.note()))(t).ModTime())
}

// lock takes the note's lock, if it is free.
func (d *desk) lock(t *testing.T) (free bool, f *os.File) {
	f = must.Get(os.OpenFile(d.note(), os.O_RDONLY|os.O_CREATE, 0o600))(t)
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil, f
}

func order(intent, named string) string {
	return fmt.Sprintf(`{"intent":%q,"to":%q,"amount":"2.50","different_from":%q}`, intent, strings.ToLower(alice), named)
}

// TestAgentBounds: the list of a day is read to its 10,000th payment and no further, and each call deletes old notes.
func TestAgentBounds(t *testing.T) {
	one := made("0xold", "7.5", "")
	d := &desk{list: strings.Repeat(one+",", 9_999) + one}
	agent := d.serve(t)
	young, other := filepath.Join(d.state, "new.note"), filepath.Join(d.state, "other")
	d.writes(t, filepath.Join(d.state, "old.note"), "", 50*time.Hour)
	d.writes(t, young, "", 47*time.Hour)
	d.writes(t, other, "", 50*time.Hour)
	if text := agent.call("pay", order("i", "")); len(d.posted) != 1 {
		t.Errorf("with 10,000 payments: %s", text)
	}
	left := must.Get(filepath.Glob(filepath.Join(d.state, "*")))(t)
	if !slices.Equal(left, []string{d.note(), young, other}) {
		t.Errorf("left %q", left)
	}
	d.list += "," + one
	if text := agent.call("pay", strings.Replace(order("j", ""), "2.50", "2.6", 1)); len(d.posted) != 1 ||
		!strings.Contains(text, "may have paid") || !strings.Contains(text, "more than 10000 payments") {
		t.Errorf("with more: %s", text)
	}
	if text := agent.call("find", `{"days":367}`); !strings.Contains(text, "use 1 to 366") {
		t.Error(text)
	}
	if text := agent.call("find", `{}`); strings.Count(text, `"tx_hash":`) != 20 || !strings.Contains(text, "narrow the search") {
		t.Errorf("find: %s", text)
	}
}

// TestAgentPay: pay returns a payment of the last day that may be the same, and pays only if it is named, or if it paid
// nobody. A noted payment holds up another until it is stored, or old enough to be no more. A call has the note's lock, and
// at each POST the note names the intent and is young. A refusal does not hide the payment before it.
func TestAgentPay(t *testing.T) {
	pending, older, other := made("0xold", "2.5", ""), made("0xolder", "2.5", ""), made("0xold", "7.5", "")
	reverted, differs := made("0xold", "2.5", "execution_reverted"), made("0xold", "2.5", "amount_differs")
	later := strings.Replace(made("0xlater", "2.5", ""), `"created_at":"2`, `"created_at":"3`, 1)
	young, old := time.Second, 36*time.Second
	for name, test := range map[string]struct {
		list, named string
		age         time.Duration // of the note; 0 for none
		note        string        // its text; "" for one of the intent "old"
		stored      []string      // under "old"
		intent      string        // "new" if absent
		post        string
		says        string
		posts       int
	}{
		"another amount": {list: other, says: "Accepted", posts: 1},
		"an entry of a batch": {list: strings.Replace(other, "{", `{"payments":[{"to":"`+alice+`","amount":2500000}],`,
			1), says: "paid nothing: "},
		"it is named":                   {list: pending, named: "0xOLD", says: "Accepted", posts: 1},
		"failed, paid nobody":           {list: reverted, says: "Accepted", posts: 1},
		"failed, coins moved":           {list: differs, says: "paid nothing: "},
		"not failed yet":                {list: strings.Replace(reverted, `"failed"`, `"pending"`, 1), says: "paid nothing: "},
		"the newest is not named":       {list: pending + "," + older, named: "0xolder", says: "paid nothing: "},
		"the newest is not it":          {list: other + "," + pending, says: "paid nothing: "},
		"stored":                        {age: young, stored: []string{pending}, says: "paid nothing: "},
		"stored a second later":         {age: young, stored: []string{"", pending}, says: "paid nothing: "},
		"stored, of other amount":       {age: young, stored: []string{other}, says: "Accepted", posts: 1},
		"old":                           {age: old, says: "Accepted", posts: 1},
		"a day old":                     {age: 25 * time.Hour, stored: []string{pending}, says: "Accepted", posts: 1},
		"half done":                     {list: older, age: old, stored: []string{halfDone}, says: `with its intent "old" and reference "June"`},
		"its own, stored seconds later": {age: young, intent: "old", stored: []string{"", "", pending}, says: "paid nothing more: "},
		"its own, old":                  {age: old, intent: "old", says: "Accepted", posts: 1},
		"its own, failed":               {age: old, intent: "old", stored: []string{differs}, says: "FAILED"},
		"its own, of other content":     {age: old, intent: "old", stored: []string{other}, says: "NOT of this amount"},
		"its own, half done":            {list: older, age: old, intent: "old", stored: []string{halfDone}, says: "Accepted", posts: 1},
		"its own, half done, refused":   {age: old, intent: "old", stored: []string{halfDone}, post: refused, says: "error: UNKNOWN", posts: 1},
		"of other content, unreadable":  {age: old, post: "422 idempotency_key_reused", says: "error: UNKNOWN", posts: 1},
		"of tomorrow":                   {age: -24 * time.Hour, stored: []string{pending}, says: "paid nothing: "},
		"stored, named, refused": {age: young, stored: []string{pending}, named: "0xold", post: refused,
			says: "error: this call started nothing", posts: 1},
		"stored, and a later": {age: young, stored: []string{pending}, list: later, named: "0xold", says: "0xlater"},
		"no answer at first":  {post: "502 none", says: "Accepted", posts: 2},
		"damaged":             {age: old, note: `{"In`, says: "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &desk{list: test.list, post: test.post, stored: test.stored}
			agent := d.serve(t)
			intent := cmp.Or(test.intent, "new")
			d.watch = func() {
				free, f := d.lock(t)
				must.OK(t, f.Close())
				noted, age := d.read(t)
				if free || len(d.posted) > 0 && (!strings.Contains(noted, strconv.Quote(intent)) || age > 10*time.Second) {
					t.Errorf("POST %d: another process could lock: %v; the note has %q and is %s old", len(d.posted), free, noted, age)
				}
				if len(d.posted) > 0 {
					must.OK(t, os.Chtimes(d.note(), time.Time{}, time.Now().Add(-time.Hour)))
					d.post = strings.TrimPrefix(d.post, "502 none")
				}
			}
			if test.age != 0 {
				d.writes(t, d.note(), cmp.Or(test.note, `{"Intent":"old","Reference":"June"}`+"\nrest"), test.age)
			}
			text := agent.call("pay", order(intent, test.named))
			key := must.Get(remit.Key(intent))(t)
			if !slices.Equal(d.posted, slices.Repeat([]string{key}, test.posts)) || !strings.Contains(text, test.says) {
				t.Errorf("posted %q, want %d of %s: %s", d.posted, test.posts, key, text)
			}
			noted, age := d.read(t)
			if age < 0 || test.says == "error: UNKNOWN" && age > 10*time.Second || // a request may arrive until 35 s after the call
				test.post == refused && !strings.HasPrefix(noted, `{"Intent":"old"`) {
				t.Errorf("the note has %q and is %s old", noted, age)
			}
		})
	}
}

// TestAgentLock: a call waits for the process that has the note.
func TestAgentLock(t *testing.T) {
	d := &desk{}
	agent := d.serve(t)
	_, mine := d.lock(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := agent.CallTool(ctx, &mcp.CallToolParams{Name: "pay", Arguments: json.RawMessage(order("i", ""))})
	if err == nil || len(d.posted) > 0 {
		t.Error("it did not wait")
	}
	must.OK(t, mine.Close())
	if text := agent.call("pay", order("i", "")); !strings.Contains(text, "Accepted") {
		t.Error(text)
	}
}

// TestAgentTools: a payment needs an intent, which the model is told to repeat; another server's answers pay nothing.
func TestAgentTools(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }))
	t.Cleanup(server.Close)
	agent := connectAgent(t, merchant.MCP{URL: server.URL, Key: "k", State: t.TempDir()})
	if text := agent.call("pay", order("i", "")); !strings.Contains(text, "check --url") {
		t.Error(text)
	}
	if text := agent.call("pay", `{"to":"`+alice+`","amount":"2.5"}`); !strings.Contains(text, `"intent"`) {
		t.Error(text)
	}
	var names []string
	for tool, err := range agent.Tools(t.Context(), nil) {
		must.OK(t, err)
		if names = append(names, tool.Name); tool.Name == "pay" && !strings.Contains(tool.Description, "repeat the call with the same intent") {
			t.Error(tool.Description)
		}
	}
	if !slices.Equal(names, []string{"address_book", "find", "limits", "pay", "wait"}) {
		t.Errorf("the tools are %q", names)
	}
}
