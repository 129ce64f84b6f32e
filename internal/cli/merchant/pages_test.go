package merchant_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/local/localtest"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
)

// root is the root of the repository, from here.
const root = "../../.."

// onThePage is where the stack of the pages serves.
const onThePage = "http://127.0.0.1:8080"

// TestREADME pays as README.md does and is answered as it says, in all but hashes
// and times.
func TestREADME(t *testing.T) {
	api, _ := localtest.Stack(t)
	final := `for i in $(seq 300); do curl -s ` + onThePage +
		`/transaction/$TX -H "x-api-key: $KEY" | grep -q confirmed && break; sleep 0.2; done`
	lines := strings.Replace(guidetest.Read(t, root, "README.md", "KEY="), "sleep 4", final, 1)
	printed := guidetest.Run(t, lines, onThePage, api.URL)
	answers := regexp.MustCompile(`\{"tx_hash".*?"updated_at":"[^"]*"\}`).FindAllString(printed, -1)
	if len(answers) != 2 || !strings.Contains(answers[1], `"status":"confirmed"`) || !strings.Contains(answers[1], `"version":2`) {
		t.Fatalf("the lines printed %s", printed)
	}
	varies := regexp.MustCompile(`0x[0-9a-f]{64}|[0-9-]{10}T[0-9:.]+Z|\n *`)
	want := guidetest.Read(t, root, "README.md", `{"tx_hash":`)
	if got, want := varies.ReplaceAllString(answers[0], ""), varies.ReplaceAllString(want, ""); got != want {
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
	lines := page("API=") + page("export WEBHOOK_SECRET=") + page("curl -s -X POST $API/webhooks/") + "echo; env"
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

// TestClientsPage: a local stack serves openapi.json, and a restricted key pays and
// does no more.
func TestClientsPage(t *testing.T) {
	api, _ := localtest.Stack(t)
	lines := guidetest.Read(t, root, "docs/clients.md", "curl -s http://127.0.0.1:8080/openapi.json") + "cat openapi.json"
	if document := guidetest.Run(t, lines, onThePage, api.URL); !strings.Contains(document, `"openapi":"3.1.`) {
		t.Errorf("openapi.json is %.80s", document)
	}
	printed := guidetest.Run(t, guidetest.Read(t, root, "docs/clients.md", "KEY="), onThePage, api.URL)
	for _, want := range []string{`"label":"Alice","status":"pending"`, `"tx_hash":"0x`, `"code":"key_not_permitted"`} {
		if !strings.Contains(printed, want) {
			t.Errorf("%s is not in\n%s", want, printed)
		}
	}
}
