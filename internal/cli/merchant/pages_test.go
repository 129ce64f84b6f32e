package merchant_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/local/localtest"
	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// root is the root of the repository, from here.
const root = "../../.."

// onThePage is where the stack of the pages serves.
const onThePage = "http://127.0.0.1:8080"

// TestREADME pays as README.md does and is answered as it says, in all but hashes.
func TestREADME(t *testing.T) {
	api, _ := localtest.Stack(t)
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

// TestWebhooksPage registers a receiver and has a test posted to it, as
// docs/webhooks.md does.
func TestWebhooksPage(t *testing.T) {
	api, _ := localtest.Stack(t)
	posted := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		posted <- r.URL.Path + " " + r.Header.Get("webhook-signature")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	page := func(start string) string { return guidetest.Read(t, root, "docs/webhooks.md", start) }
	lines := page("API=") + page("curl -s -X POST $API/webhooks/") + "echo; env"
	printed := guidetest.Run(t, lines, onThePage, api.URL, "http://127.0.0.1:9000", receiver.URL)
	for _, want := range []string{`"status":"enabled"`, `"status_code":204`, "\nPORT=9000\n"} {
		if !strings.Contains(printed, want) {
			t.Fatalf("%s is not in\n%s", want, printed)
		}
	}
	secrets := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]{44}`).FindAllString(printed, -1)
	if len(secrets) != 2 || secrets[0] != secrets[1] {
		t.Errorf("the answer and the variable have the secrets %q", secrets)
	}
	if got := <-posted; !strings.HasPrefix(got, "/remit v1,") {
		t.Errorf("posted %s", got)
	}
}

// TestPaymentsPage pays one recipient, then two at once, as docs/payments.md does.
func TestPaymentsPage(t *testing.T) {
	api, _ := localtest.Stack(t)
	page := func(start string) string { return guidetest.Read(t, root, "docs/payments.md", start) }
	lines := page("curl -s "+onThePage+"/send-payment -H") + "echo\n" + page("curl -s "+onThePage+"/send-payments")
	one, many, _ := strings.Cut(guidetest.Run(t, lines, onThePage, api.URL, "$KEY", api.Key), "\n")
	if !strings.Contains(one, `"status":"pending","amount":2500000,`) ||
		!strings.Contains(many, `"status":"pending","amount":2230500000,"wallet_address":null`) {
		t.Errorf("answered\n%s\n%s", one, many)
	}
}

// TestKeysPage: a restricted key pays and does no more.
func TestKeysPage(t *testing.T) {
	api, _ := localtest.Stack(t)
	printed := guidetest.Run(t, guidetest.Read(t, root, "docs/keys.md", "KEY="), onThePage, api.URL)
	for _, want := range []string{`"label":"Alice","status":"pending"`, `"tx_hash":"0x`, `"code":"key_not_permitted"`} {
		if !strings.Contains(printed, want) {
			t.Errorf("%s is not in\n%s", want, printed)
		}
	}
}

// TestAgentPage: an agent with the key of docs/clients.md pays to the address book alone.
func TestAgentPage(t *testing.T) {
	api, _ := localtest.Stack(t)
	page := func(start string) string { return guidetest.Read(t, root, "docs/clients.md", start) }
	printed := guidetest.Run(t, page("curl -s "+onThePage+"/api-keys"), onThePage, api.URL, "$KEY", api.Key)
	var made remit.IssuedAPIKey
	must.OK(t, json.Unmarshal([]byte(printed), &made))
	config := page(`{"mcpServers": {"remit": {"command": "remit", "args": ["mcp", "--url", "` + onThePage + `"], "env": {"REMIT_API_KEY": "`)
	if !json.Valid([]byte(config)) {
		t.Errorf("a client cannot read %s", config)
	}
	agent := connectAgent(t, merchant.MCP{URL: api.URL, Key: made.APIKey, State: t.TempDir()})
	for want, got := range map[string]string{
		"this call started nothing: refused with 400 recipient_not_in_book": agent.call("pay", order("i", "")),
		"cannot be read here": agent.call("limits", `{}`),
		"key_not_permitted":   agent.call("address_book", `{}`),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nis not in %s", want, got)
		}
	}
}
