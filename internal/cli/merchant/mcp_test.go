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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/proof/must"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// serveAgent serves the tools before an API, and returns what calls a tool.
func serveAgent(t *testing.T, state string, api http.Handler) func(name, args string) (text string, wrong bool) {
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return connectAgent(t, merchant.MCP{URL: server.URL, Key: "k", State: state})
}

func connectAgent(t *testing.T, c merchant.MCP) func(name, args string) (text string, wrong bool) {
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
	return func(name, args string) (string, bool) {
		t.Helper()
		got := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)}))(t)
		return got.Content[0].(*mcp.TextContent).Text, got.IsError
	}
}

// A book answers as an API whose merchant has the listed payments.
type book struct {
	list   func(page int) string       // JSON of the payments of a page, and whether there are more
	stored func(n int) (int, string)   // the n-th answer to a look-up by key, from 0; nil for none stored
	post   func(w http.ResponseWriter) // nil accepts
	asked  int
	posted []string
}

func (b *book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasPrefix(r.URL.Path, "/balance"):
		fmt.Fprint(w, `{"token":"USDC","decimals":6,"network":"test"}`)
	case r.Method == http.MethodPost:
		b.posted = append(b.posted, r.Header.Get("Idempotency-Key"))
		if b.post != nil {
			b.post(w)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, entry("0xnew", "2.5", "pending", "null"))
	case r.URL.Query().Has("idempotency_key") && b.stored != nil:
		status, body := b.stored(b.asked)
		b.asked++
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	case r.URL.Query().Has("idempotency_key"):
		fmt.Fprint(w, none)
	default:
		after, err := time.Parse(time.RFC3339, r.URL.Query().Get("created_after"))
		if page := r.URL.Query().Get("cursor"); page == "" && (err != nil || time.Since(after).Round(time.Hour)%(24*time.Hour) != 0) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"detail":"Not the last day.","code":"wrong"}`)
			return
		}
		page := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &page)
		fmt.Fprint(w, b.list(page))
	}
}

const none = `{"data":[],"next_cursor":null}`

const alice = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

func entry(hash, tokens, status, failure string) string {
	amount := strings.ReplaceAll(tokens, ".", "") + "00000"
	return fmt.Sprintf(`{"tx_hash":%q,"status":%q,"amount":%s,"to":%q,"decimals":6,"failure":%s,"created_at":"2026-11-26T00:00:00Z"}`,
		hash, status, amount, alice, failure)
}

// TestAgentSimilar: pay returns a payment of the last day that may be the same, and pays only if it is named, or if it paid nobody.
func TestAgentSimilar(t *testing.T) {
	for name, test := range map[string]struct {
		stored, named string
		pays          bool
	}{
		"another amount":      {entry("0xold", "2.6", "confirmed", "null"), "", true},
		"pending":             {entry("0xold", "2.5", "pending", "null"), "", false},
		"another is named":    {entry("0xold", "2.5", "pending", "null"), "0xother", false},
		"it is named":         {entry("0xold", "2.5", "pending", "null"), "0xOLD", true},
		"failed, paid nobody": {entry("0xold", "2.5", "failed", `{"code":"execution_reverted"}`), "", true},
		"failed, coins moved": {entry("0xold", "2.5", "failed", `{"code":"amount_differs"}`), "", false},
		"the newest is not named": {
			entry("0xold", "2.5", "pending", "null") + "," + entry("0xolder", "2.5", "pending", "null"), "0xolder", false,
		},
		"the newest is not it":      {entry("0xnewer", "7.5", "pending", "null") + "," + entry("0xold", "2.5", "pending", "null"), "", false},
		"nothing was paid that day": {"", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &book{list: func(int) string { return `{"data":[` + test.stored + `],"next_cursor":null}` }}
			call := serveAgent(t, t.TempDir(), b)
			text, wrong := call("pay", fmt.Sprintf(`{"intent":"i","to":%q,"amount":"2.5","different_from":%q}`, strings.ToLower(alice), test.named))
			if wrong || (len(b.posted) == 1) != test.pays || strings.Contains(text, "NOT paid") == test.pays {
				t.Errorf("posted %d times: %s", len(b.posted), text)
			}
		})
	}
}

// TestAgentBounds: the list of a day is read to its 10,000th payment and no further, and old notes are deleted.
func TestAgentBounds(t *testing.T) {
	state := t.TempDir()
	ages := map[string]time.Duration{"old.note": 50 * time.Hour, "new.note": time.Hour, "ahead.note": -time.Hour, "other": 50 * time.Hour}
	for name, age := range ages {
		must.OK(t, os.WriteFile(filepath.Join(state, name), nil, 0o600))
		then := time.Now().Add(-age)
		must.OK(t, os.Chtimes(filepath.Join(state, name), then, then))
	}
	last := 99
	b := &book{list: func(page int) string {
		next := fmt.Sprintf("%q", fmt.Sprint(page+1))
		if page == last {
			next = "null"
		}
		return `{"data":[` + strings.Repeat(entry("0xold", "7.5", "pending", "null")+",", 99) + entry("0xold", "7.5", "pending", "null") + `],"next_cursor":` + next + `}`
	}}
	call := serveAgent(t, state, b)
	if text, wrong := call("pay", `{"intent":"i","to":"`+alice+`","amount":"2.5"}`); wrong || len(b.posted) != 1 {
		t.Errorf("with 10,000 payments: %s", text)
	}
	last = 100
	if text, wrong := call("pay", `{"intent":"j","to":"`+alice+`","amount":"2.6"}`); !wrong || len(b.posted) != 1 ||
		!strings.Contains(text, "more than 10000 payments") {
		t.Errorf("with more: %s", text)
	}
	for _, days := range []string{"-1", "367", "200000"} {
		if text, wrong := call("find", `{"days":`+days+`}`); !wrong {
			t.Errorf("%s days: %s", days, text)
		}
	}
	if text, _ := call("find", `{}`); strings.Count(text, `"tx_hash":`) != 20 || !strings.Contains(text, "narrow the search") {
		t.Errorf("find: %s", text)
	}
	if ahead := must.Get(os.Stat(filepath.Join(state, "ahead.note")))(t); time.Until(ahead.ModTime()) > 0 {
		t.Error("a note is of the future")
	}
	files := must.Get(filepath.Glob(filepath.Join(state, "*")))(t)
	var short []string
	for _, f := range files {
		if name := filepath.Base(f); len(name) < 20 {
			short = append(short, name)
		}
	}
	if diff := cmp.Diff([]string{"ahead.note", "new.note", "other"}, short); diff != "" {
		t.Error(diff)
	}
}

// TestAgentNotes: what an earlier process may have sent holds up another intent of the same amount and address, until it is
// stored, or old enough to be no more, and is completed if it was taken on.
func TestAgentNotes(t *testing.T) {
	sum := sha256.Sum256([]byte(strings.ToLower(alice) + "\x002500000"))
	unsigned := `{"detail":"","code":"idempotency_in_progress"}`
	key := func(intent string) []string { return []string{must.Get(remit.Key(intent))(t)} }
	stored, other := entry("0xold", "2.5", "pending", "null"), entry("0xold", "7.5", "pending", "null")
	for name, test := range map[string]struct {
		age    time.Duration
		stored func(int) (int, string)
		says   string
		posts  []string
	}{
		"stored":                  {time.Second, after(0, stored), "NOT paid", nil},
		"stored a second later":   {time.Second, after(1, stored), "NOT paid", nil},
		"stored, of other amount": {time.Second, after(0, other), "Accepted", key("new")},
		"old":                     {36 * time.Second, nil, "Accepted", key("new")},
		"a day old":               {25 * time.Hour, after(0, stored), "Accepted", key("new")},
		"old and not signed": {36 * time.Second, func(n int) (int, string) {
			if n == 0 {
				return 200, none
			}
			return 409, unsigned
		}, "NOT paid", key("old")},
		"its own, in flight":            {time.Second, nil, "Accepted", key("old")},
		"its own, refused, and old":     {33 * time.Second, nil, "nothing was started", key("old")},
		"its own, refused, then stored": {34 * time.Second, after(0, stored), "Nothing more was paid", key("old")},
		"its own, failed":               {time.Hour, after(-1, entry("0xold", "2.5", "failed", `{"code":"x"}`)), "FAILED", nil},
		"its own, of other content":     {time.Hour, after(-1, other), "NOT paid: this intent already", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, intent := t.TempDir(), "new"
			var post func(http.ResponseWriter)
			if strings.HasPrefix(name, "its own") {
				intent = "old"
				post = func(w http.ResponseWriter) {
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprint(w, `{"detail":"No.","code":"insufficient_funds"}`)
				}
			}
			note := filepath.Join(state, hex.EncodeToString(sum[:])+".note")
			must.OK(t, os.WriteFile(note, []byte(`{"Intent":"old","Order":{"to":"`+alice+`","amount":2500000}}`+"\nrest"), 0o600))
			must.OK(t, os.Chtimes(note, time.Time{}, time.Now().Add(-test.age)))
			b := &book{list: func(int) string { return none }, stored: test.stored, post: post}
			if name == "its own, in flight" {
				b.post, b.list = nil, func(int) string { return `{"data":[` + stored + `],"next_cursor":null}` }
			}
			text, _ := serveAgent(t, state, b)("pay", `{"intent":"`+intent+`","to":"`+alice+`","amount":"2.50"}`)
			if diff := cmp.Diff(test.posts, b.posted); diff != "" || !strings.Contains(text, test.says) {
				t.Errorf("%s\n%s", text, diff)
			}
		})
	}
}

// after answers nothing to look-ups until number n, from 0, and then the payment.
func after(n int, payment string) func(int) (int, string) {
	return func(asked int) (int, string) {
		if asked <= n {
			return 200, none
		}
		return 200, `{"data":[` + payment + `],"next_cursor":null}`
	}
}

// TestAgentElsewhere: another server's answers pay nothing.
func TestAgentElsewhere(t *testing.T) {
	call := serveAgent(t, t.TempDir(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }))
	if text, wrong := call("pay", `{"intent":"i","to":"`+alice+`","amount":"2.5"}`); !wrong || !strings.Contains(text, "check --url") {
		t.Error(text)
	}
}
