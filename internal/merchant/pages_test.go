package merchant_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"remit/internal/guidetest"
	"remit/internal/local/localtest"
)

// root is the root of the repository, from here.
const root = "../.."

// onThePage is where the stack of the pages serves.
const onThePage = "http://127.0.0.1:8080"

// TestREADME pays as README.md does and is answered as it says, in all but hashes
// and times.
func TestREADME(t *testing.T) {
	api, _ := localtest.Stack(t)
	lines := guidetest.Read(t, root, "README.md", "KEY=")
	printed := guidetest.Run(t, lines, onThePage, api.URL)
	answers := regexp.MustCompile(`\{"tx_hash".*?"updated_at":"[^"]*"\}`).FindAllString(printed, -1)
	if len(answers) != 2 {
		t.Fatalf("the lines printed %s", printed)
	}
	want := guidetest.Read(t, root, "README.md", `{"tx_hash":`)
	if diff := cmp.Diff(constant(t, want), constant(t, answers[0])); diff != "" {
		t.Errorf("the payment (-README.md +answer)\n%s", diff)
	}
	confirmed := constant(t, answers[1])
	if confirmed["status"] != "confirmed" || confirmed["version"] != 2.0 || confirmed["block_number"] == nil {
		t.Errorf("at last the payment is %s", answers[1])
	}
}

// constant returns the fields of an answer that are the same in each run.
func constant(t *testing.T, answer string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(answer), &fields); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	for _, name := range []string{"tx_hash", "created_at", "updated_at"} {
		if fields[name] == nil {
			t.Errorf("%s has no %s", answer, name)
		}
		delete(fields, name)
	}
	return fields
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

// TestClientsPage: a local stack serves openapi.json.
func TestClientsPage(t *testing.T) {
	api, _ := localtest.Stack(t)
	lines := guidetest.Read(t, root, "docs/clients.md", "curl ")
	var document struct{ OpenAPI string }
	if err := json.Unmarshal([]byte(guidetest.Run(t, lines+"cat openapi.json", onThePage, api.URL)), &document); err != nil || !strings.HasPrefix(document.OpenAPI, "3.1.") {
		t.Errorf("openapi.json is of OpenAPI %q: %v", document.OpenAPI, err)
	}
}
