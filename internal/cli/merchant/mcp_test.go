package merchant_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// A bot calls the tools of a server.
type bot struct {
	*testing.T
	*mcp.ClientSession
}

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

// A desk answers as an API to which an agent pays 2.5 tokens.
type desk struct {
	key    string   // its own key; "" has a guard, "none" is refused
	posts  []string // answers to POST, status and body, the last for ever
	stored string   // the payment of each look-up, by hash or by intent; "" for none
	posted []string // intents' keys, and different_from
}

func (d *desk) serve(t *testing.T) bot {
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	return connectAgent(t, merchant.MCP{URL: server.URL, Key: "k"})
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := http.StatusOK, `{"data":[`+d.stored+`]}`
	switch {
	case r.URL.Path == "/assets":
		body = `{"data":[{"asset":"a","token":"USDC","decimals":6,"network":"test","default":true},{"asset":"b","token":"EURC","decimals":2}]}`
	case r.URL.Path == "/api-keys/self":
		if body = cmp.Or(d.key, `{"repeat_guard_seconds":86400}`); body == "none" {
			status, body = http.StatusForbidden, `{"detail":"No."}`
		}
	case strings.HasPrefix(r.URL.Path, "/transaction/"):
		if body = d.stored; body == "" {
			status, body = http.StatusNotFound, `{"detail":"No.","code":"transaction_not_found"}`
		}
	case r.Method == http.MethodPost:
		var asked remit.SendPaymentRequest
		_ = json.NewDecoder(r.Body).Decode(&asked)
		code, text, _ := strings.Cut(d.posts[min(len(d.posted), len(d.posts)-1)], " ")
		status, _ = strconv.Atoi(code)
		body = text
		d.posted = append(d.posted, r.Header.Get("Idempotency-Key")+asked.DifferentFrom+*asked.Asset)
	}
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

const alice = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

// made is a payment to alice, pending unless it failed with a code.
func made(hash, units, code string) string {
	status := map[bool]string{true: "pending", false: "failed"}[code == ""]
	return fmt.Sprintf(`{"tx_hash":%q,"status":%q,"amount":%s,"to":%q,"decimals":6,"failure":{"code":%q}}`, hash, status, units, alice, code)
}

func order(intent, named string) string {
	return fmt.Sprintf(`{"intent":%q,"to":%q,"amount":"2.50","different_from":%q}`, intent, strings.ToLower(alice), named)
}

// TestAgentPay: a key without a guard pays nothing. A similar payment is shown; no refusal hides a payment. A row has
// the agent's key, a payment that it names, the answers to POST, the payment of each look-up, and the number of POSTs.
func TestAgentPay(t *testing.T) {
	old := func(units, code string) string { return made("0xold", units, code) }
	words := map[string]string{"accepted": "201 " + made("0xnew", "2500000", ""), "old": old("2500000", ""),
		"old moved":             old("1", "amount_differs"),
		"old of another amount": old("7500000", ""),
		"reused":                `422 {"detail":[{"type":"idempotency_key_reused","loc":["header"],"msg":""}],"code":"validation_failed"}`}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		t.Parallel()
		d := &desk{key: c.In[0], posts: strings.Split(c.In[2], "; "), stored: c.In[3]}
		text := d.serve(t).call("pay", order("new", c.In[1]))
		key := must.Get(remit.Key("new"))(t)
		want := slices.Repeat([]string{key + strings.ToLower(c.In[1]) + "a"}, must.Get(strconv.Atoi(c.In[4]))(t))
		if !slices.Equal(d.posted, want) {
			t.Errorf("posted %q, want %q: %s", d.posted, want, text)
		}
		for says := range strings.SplitSeq(c.Want, " … ") {
			if !strings.Contains(text, says) {
				t.Errorf("%q is not in %s", says, text)
			}
		}
	})
}

// TestAgentFind shows at most 20 payments.
func TestAgentFind(t *testing.T) {
	agent := (&desk{stored: strings.Repeat(made("0xold", "1", "")+",", 20) + made("0xold", "1", "")}).serve(t)
	for args, want := range map[string]string{`{"days":367}`: "use 1 to 366", `{}`: "narrow the search", `{"to":"0x1"}`: `"payments":[]`,
		`{"intent":"i"}`: "do not pay again"} {
		if text := agent.call("find", args); !strings.Contains(text, want) || strings.Count(text, `"tx_hash":`) > 20 {
			t.Errorf("%s: %s", args, text)
		}
	}
}

// TestTwoAgents: of 20 bills that two agents pay at once under names of their own, each is paid once.
func TestTwoAgents(t *testing.T) {
	const bills = 20
	api := stack(t)
	made := must.Get(api.CreateKey(t.Context(), remit.IssueAPIKeyRequest{RepeatGuardSeconds: new(int32(86_400)),
		Scopes: []remit.Scope{remit.ScopePaymentsWrite, remit.ScopePaymentsRead}}))(t)
	var group sync.WaitGroup
	for _, name := range []string{"invoice %d", "INV-%d"} {
		agent := connectAgent(t, merchant.MCP{URL: api.URL, Key: made.APIKey})
		for n := range bills {
			group.Go(func() {
				text, again := "", "call pay again with the same intent"
				for tries := 0; tries == 0 || tries < 20 && strings.Contains(text, again); tries++ {
					text = agent.call("pay", fmt.Sprintf(`{"intent":%q,"to":%q,"amount":"%d"}`, fmt.Sprintf(name, n), payee, 1+n))
				}
				if !strings.Contains(text, "Accepted") && !strings.Contains(text, "This call paid nothing: ") {
					t.Errorf("bill %d: %s", n, text)
				}
			})
		}
	}
	group.Wait()
	paid := map[remit.Amount]int{}
	for p, err := range api.List(t.Context(), url.Values{"limit": {"100"}}) {
		must.OK(t, err)
		paid[p.Amount]++
	}
	for amount, times := range paid {
		if times != 1 {
			t.Errorf("the bill of %s was paid %d times", amount, times)
		}
	}
	if len(paid) != bills {
		t.Errorf("%d of %d bills were paid", len(paid), bills)
	}
}

// TestAgentTools: a payment needs an intent, which the model is told to repeat; another server's answers pay nothing.
func TestAgentTools(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{http.StatusBadGateway, http.StatusNotFound}[min(asked.Add(1)-1, 1)]) // one is repeated
		fmt.Fprint(w, `{"detail":"No."}`)
	}))
	t.Cleanup(server.Close)
	agent := connectAgent(t, merchant.MCP{URL: server.URL, Key: "k"})
	if text := agent.call("pay", order("i", "")); !strings.Contains(text, "check --url and --key: refused with 404") {
		t.Error(text)
	}
	if text := agent.call("pay", `{"to":"`+alice+`","amount":"2.5"}`); !strings.Contains(text, `"intent"`) {
		t.Error(text)
	}
	d := &desk{posts: []string{"201 " + made("0x1", "250", "")}}
	for i, of := range [][2]string{{"b", "Accepted"}, {"eurc", "Accepted"}, {"c", "name one of a"}} {
		name, want := of[0], of[1]
		text := d.serve(t).call("pay", fmt.Sprintf(`{"intent":"i","to":%q,"amount":"2.50","asset":%q}`, alice, name))
		if !strings.Contains(text, want) || len(d.posted) != min(i, 1)+1 || !strings.HasSuffix(d.posted[min(i, 1)], "b") {
			t.Errorf("asset %s: %s; posted %q", name, text, d.posted)
		}
	}
	if text := d.serve(t).call("limits", "{}"); !matches(`"asset":"b".*"max_amount":null`, text) {
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
