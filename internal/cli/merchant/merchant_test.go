package merchant_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

const payee = "0x2222222222222222222222222222222222222222"

// somebody is a recipient of one test alone.
func somebody() string { return fmt.Sprintf("0x%020[1]d%020[1]d", rand.Uint64()) }

func TestMain(m *testing.M) { os.Exit(localtest.Main(m, new(string))) }

// stack returns a new merchant. The test waits most of the time, and others run beside it on the same stack.
func stack(t *testing.T) *remit.Client {
	t.Helper()
	t.Parallel()
	return localtest.Shared(t)
}

// TestSmoke takes every step, with a merchant of its own and with a merchant whose other payments'
// webhooks arrive beside the awaited one.
func TestSmoke(t *testing.T) {
	api := stack(t)
	must.Get(api.Attempt(t.Context(), "", remit.Order{To: payee, Amount: "1"}))(t)
	for _, key := range []string{"", api.Key} {
		smoke := merchant.Smoke{URL: api.URL, Key: key, To: payee, Amount: "10000", Limit: time.Minute}
		var out bytes.Buffer
		if err := smoke.Run(t.Context(), &out); err != nil || !strings.Contains(out.String(), "signature verified") ||
			strings.Count(out.String(), " s  ") != 7 {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
}

// TestSmokeEndsAtItsLimit, and not with the time of its other steps. By default, the limit is beyond the finality of a
// main network, 13 to 30 minutes on most (docs/chains.md).
func TestSmokeEndsAtItsLimit(t *testing.T) {
	api := stack(t)
	at := before(t, api.URL, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !strings.HasPrefix(r.URL.Path, "/transaction/") {
			return false
		}
		_, _ = io.WriteString(w, `{"tx_hash":"0x07","status":"pending"}`)
		return true
	})
	var c merchant.Smoke
	if must.OK(t, localtest.Parse(&c)); c.Limit < 40*time.Minute {
		t.Errorf("it waits %s", c.Limit)
	}
	c, began := merchant.Smoke{URL: at.URL, Key: api.Key, To: payee, Amount: "1", Limit: 2 * time.Second}, time.Now()
	if err := c.Run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "pending after 2s") ||
		time.Since(began) > time.Minute {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// TestNoKeyToBeHad: the error says how to get a key where only an operator makes keys.
func TestNoKeyToBeHad(t *testing.T) {
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail":"This service's operator issues API keys.","code":"key_creation_closed"}`)
	}))
	defer closed.Close()
	for _, err := range []error{(&merchant.Smoke{URL: closed.URL, Limit: time.Minute}).Run(t.Context(), io.Discard),
		(&merchant.Listen{URL: closed.URL, Listen: "127.0.0.1:0"}).Run(t.Context(), io.Discard)} {
		if err == nil || !strings.Contains(err.Error(), "make a key with remit keys create and pass it with --key") {
			t.Error(err)
		}
	}
}

// TestListen: a merchant's second terminal shows an event for each way that a payment ends, and leaves no endpoint.
func TestListen(t *testing.T) {
	api := stack(t)
	sandbox := must.Get(api.Call(t.Context(), "GET", "/sandbox", ""))(t)
	failing := regexp.MustCompile(`"address":"(0x[0-9a-fA-F]{40})","behaviour":"revert"`).FindSubmatch(sandbox.Body)
	for _, test := range []struct{ event, to, want string }{
		{"payment.confirmed", payee, `confirmed  verified  1 USDC  inv-1  0x[0-9a-f]{64}  evt_\w+  → 204$`},
		{"payment.failed", string(failing[1]), `payment\.failed     verified  1 USDC  execution_reverted  inv-1  0x[0-9a-f]{64}  evt_\w+  → 204$`},
	} {
		out, stop := localtest.Start(t, &merchant.Listen{}, api.URL, "--key", api.Key, "--body")
		guidetest.Run(t, "REMIT_API_KEY="+api.Key+"\n"+out.Await(t, "curl"))
		out.Await(t, "webhook.test")
		must.Get(api.Attempt(t.Context(), "", remit.Order{To: test.to, Amount: "1000000", Reference: "inv-1"}))(t)
		if line := out.Await(t, test.event); !regexp.MustCompile(test.want).MatchString(line) {
			t.Errorf("it printed %q", line)
		}
		out.Await(t, `"reference": "inv-1"`) // of the body
		stop()
		if left := must.Get(api.ListWebhooks(t.Context()))(t); len(left) > 0 {
			t.Errorf("it left %v", left)
		}
	}
}

// TestListenForwards: a genuine webhook goes on with its signature, and its answer goes back. A webhook without an
// answer comes again.
func TestListenForwards(t *testing.T) {
	api := stack(t)
	secret, got := make(chan string, 1), make(chan error, 10)
	var down atomic.Bool
	down.Store(true)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		body, _ := io.ReadAll(r.Body)
		_, err := remit.VerifyWebhook(<-secret, body, r.Header)
		got <- err
		w.WriteHeader(http.StatusAccepted)
	}))
	defer shop.Close()
	out, _ := localtest.Start(t, &merchant.Listen{}, api.URL, "--key", api.Key, "--forward", shop.URL+"/hook")
	secret <- strings.Split(out.Await(t, "export WEBHOOK_SECRET="), "'")[1]
	must.Get(api.Attempt(t.Context(), "", remit.Order{To: payee, Amount: "1"}))(t)
	if line := out.Await(t, "payment.confirmed"); !regexp.MustCompile(`→ 502 \(the connection to .* broke`).MatchString(line) {
		t.Errorf("it printed %q", line)
	}
	down.Store(false)
	if line := out.Await(t, "payment.confirmed"); !strings.HasSuffix(line, "→ 202") || !strings.Contains(line, "seen before") {
		t.Errorf("it printed %q", line)
	}
	must.OK(t, <-got)
	var c merchant.Listen
	must.OK(t, localtest.Parse(&c, "--forward", "localhost:3000"))
	if err := c.Run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "use a URL such as http://localhost:3000/hook") {
		t.Error(err)
	}
}

// TestListenShowsForgeries: without a key the command makes a merchant, and prints a line that pays with its key. A
// webhook of another secret is refused and shown as not genuine, and its text cannot steer the terminal.
func TestListenShowsForgeries(t *testing.T) {
	api := stack(t)
	out, _ := localtest.Start(t, &merchant.Listen{}, api.URL, "--body")
	if line := out.Await(t, "curl"); !matches(`x-api-key: remit_test_\w+`, line) || strings.Contains(line, api.Key) {
		t.Errorf("it printed %q", line)
	}
	at := strings.Fields(out.Await(t, "Listening at"))[2]
	answer := must.Get(http.Post(at, "application/json", strings.NewReader(`{"type":"payment.\u001b[2J","data":{"reference":"`+"\u009b"+`2J"}}`)))(t)
	_ = answer.Body.Close()
	if line := out.Await(t, "payment."); !strings.Contains(line, "payment.?[2J") ||
		!strings.Contains(line, "NOT GENUINE") || !strings.HasSuffix(line, "→ 401") || answer.StatusCode != 401 {
		t.Errorf("answered %d, printed %q", answer.StatusCode, line)
	}
	if line := out.Await(t, "reference"); !strings.Contains(line, `"?2J"`) {
		t.Errorf("of the body it printed %q", line)
	}
	for _, status := range []int{401, 404} {
		var polls atomic.Int64
		gone := before(t, api.URL, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Method != http.MethodGet {
				return false
			}
			if polls.Add(1) == 1 && status == 404 {
				<-r.Context().Done() // a poll without an answer
			}
			w.WriteHeader(status)
			return true
		})
		c := merchant.Listen{URL: gone.URL, Key: api.Key, Listen: "127.0.0.1:0"}
		if err := c.Run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "the webhook or the key is gone") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

const root = "../../.."

const onThePage = "http://127.0.0.1:8080"

// TestREADME pays as README.md does and is answered as it says, in all but hashes.
func TestREADME(t *testing.T) {
	t.Parallel()
	api, _ := localtest.Stack(t) // whose ready-made key it pays with
	final := `echo; for i in $(seq 300); do curl -s "` + onThePage + `/transactions?idempotency_key=inv-2041" ` +
		`-H "x-api-key: $KEY" | grep -q confirmed && break; sleep 0.2; done`
	lines := strings.Replace(guidetest.Read(t, root, "README.md", "export KEY="), "sleep 4", final, 1)
	first, second, _ := strings.Cut(guidetest.Run(t, lines, onThePage, api.URL), "\n")
	if !strings.Contains(second, `"status":"confirmed"`) {
		t.Errorf("the second command printed %s", second)
	}
	varies := regexp.MustCompile(`0x[0-9a-f]{64}|\n *`)
	want, _, _ := strings.Cut(guidetest.Read(t, root, "README.md", `{"tx_hash":`), " …}")
	if got, want := varies.ReplaceAllString(first, ""), varies.ReplaceAllString(want, ""); !strings.HasPrefix(got, want) {
		t.Errorf("the payment (-README.md +answer)\n-%s\n+%s", want, got)
	}
}

// TestWebhooksPage runs each receiver of docs/webhooks.md as it stands there: registered as the page does, it takes a
// test and no forgery.
func TestWebhooksPage(t *testing.T) {
	const what = "the libraries of Standard Webhooks"
	t.Setenv("NODE_PATH", tooltest.Path(t, what, ".cache/node/node_modules"))
	page := func(start string) string { return guidetest.Read(t, root, "docs/webhooks.md", start) }
	for interpreter, program := range map[string]string{
		tooltest.Path(t, what, ".cache/py/bin/python"): "import json", tooltest.Program(t, what, "node"): "const http",
	} {
		api, _ := localtest.Stack(t)
		free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		_, port, _ := net.SplitHostPort(free.Addr().String())
		must.OK(t, free.Close())
		lines := page("API=") + "cat > receiver <<'END'\n" + page(program) + "END\n" + interpreter + " receiver & trap 'kill $!' EXIT\n" +
			"for i in $(seq 300); do curl -s http://127.0.0.1:9000 >/dev/null && break; sleep 0.1; done\n" + page("curl -s -X POST $API/webhooks/") +
			"curl -s -i http://127.0.0.1:9000/remit -d '{}' -H 'webhook-id: evt_1' -H \"webhook-timestamp: $(date +%s)\" " +
			"-H 'webhook-signature: v1,AAAA'"
		printed := guidetest.Run(t, lines, onThePage, api.URL, "9000", port)
		for _, want := range []string{`"status":"enabled"`, `"status_code":204`, "webhook.test evt_", " 401 Unauthorized"} {
			if !strings.Contains(printed, want) {
				t.Errorf("%s is not in\n%s", want, printed)
			}
		}
	}
}

// TestPages runs the lines of docs/payments.md, which propose, pay one recipient, and pay two at once, and of
// docs/keys.md, where a restricted key pays and does no more.
func TestPages(t *testing.T) {
	api := stack(t)
	pays := "curl -s " + onThePage + "/send-payment"
	page := func(start string) string { return guidetest.Read(t, root, "docs/payments.md", start) + "echo\n" }
	lines := page("OTHER=") + page(pays+" -H") + page(pays+"s") // a cancel can be refused just after a payment
	printed := guidetest.Run(t, lines, onThePage, api.URL, "$KEY", api.Key) +
		guidetest.Run(t, guidetest.Read(t, root, "docs/keys.md", "KEY="), onThePage, api.URL)
	for _, want := range []string{`pending","amount":2500000,`, `pending","amount":2230500000,"wallet_address":null`,
		`"cancelled"`, `"approved_by":"key_`, `"Alice","status":"pending"`, `"tx_hash":"0x`, `"key_not_permitted"`} {
		if !strings.Contains(printed, want) {
			t.Errorf("%s is not in\n%s", want, printed)
		}
	}
}

// TestAgentPage: with the key of docs/clients.md all five tools work, and an agent pays to the address book alone.
func TestAgentPage(t *testing.T) {
	api := stack(t)
	page := func(start string) string { return guidetest.Read(t, root, "docs/clients.md", start) }
	guidetest.Run(t, page("curl -s "+onThePage+"/recipients"), onThePage, api.URL, "$KEY", api.Key)
	printed := guidetest.Run(t, page("curl -s "+onThePage+"/api-keys"), onThePage, api.URL, "$KEY", api.Key)
	var made remit.IssuedAPIKey
	must.OK(t, json.Unmarshal([]byte(printed), &made))
	config := page(`{"mcpServers": {"remit": {"command": "remit", "args": ["mcp", "--url", "` + onThePage + `"], "env": {"REMIT_API_KEY": "`)
	if !json.Valid([]byte(config)) {
		t.Errorf("a client cannot read %s", config)
	}
	agent := connectAgent(t, merchant.MCP{URL: api.URL, Key: made.APIKey, Version: "v0.1.0"})
	for want := `"status":"active"`; !strings.Contains(agent.call("address_book", `{"search":"ali"}`), want); {
		time.Sleep(100 * time.Millisecond)
	}
	paid := agent.call("pay", order("i", ""))
	hash := regexp.MustCompile("0x[0-9a-f]{64}").FindString(paid)
	for _, test := range [][2]string{
		{agent.InitializeResult().ServerInfo.Version, "v0.1.0"},
		{paid, "Accepted"},
		{agent.call("pay", strings.Replace(order("j", ""), strings.ToLower(alice), payee, 1)),
			"this call started nothing: refused with 400 recipient_not_in_book"},
		{agent.call("pay", order("other", "")), "This call paid nothing: "},
		{agent.call("pay", order("other", hash)), "Accepted"},
		{agent.call("find", `{"intent":"i"}`), hash},
		{agent.call("find", `{}`), hash},
		{agent.call("wait", `{"tx_hash":"`+hash+`"}`), "It is final"},
		{agent.call("limits", `{}`), `"used_today":{"amount":"5","count":null}`},
	} {
		if !strings.Contains(test[0], test[1]) {
			t.Errorf("%q is not in %s", test[1], test[0])
		}
	}
}
