package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"remit/internal/tabletest"
)

func TestWebhookRegistration(t *testing.T) { answers(t, newAPI, "POST /webhooks %s") }

// TestWebhookLife: register, list, change, rotate, delete; secrets are shown
// twice, there and nowhere else.
func TestWebhookLife(t *testing.T) {
	a := newAPI(t)
	first := a.post("/webhooks", newHook).member(t, "secret")
	a.now = a.now.Add(time.Second)
	second := a.post("/webhooks", newHook)
	list := a.get("/webhooks")
	if newest, first := strings.Index(list.body, second.member(t, "id")), strings.Index(list.body, exampleHook); newest < 0 || newest > first {
		t.Errorf("the newest webhook is not first: %s", list.body)
	}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		a.play(c.In...).outcome(t, strings.ReplaceAll(c.Want, "SECRET", first))
	})
}

// TestOthersWebhooks: acting on another merchant's webhook is 404.
func TestOthersWebhooks(t *testing.T) {
	a := newAPI(t).hooked(1)
	other := a.otherMerchant()
	theirs := "X-Api-Key: " + other.Secret.Reveal()
	for _, id := range []string{exampleHook, "we_unknown", "x", "%00", strings.Repeat("a", 3000)} {
		for _, action := range []string{"", "/delete", "/rotate-secret"} {
			a.post("/webhooks/"+id+action, `{}`, theirs).want(t, 404, `{"detail":"No such webhook.","code":"webhook_not_found"}`)
		}
	}
	a.get("/webhooks", theirs).want(t, 200, `{"data":[]}`)
	a.get("/webhooks").want(t, 200, exampleHook)
}

// TestWebhookLimit: the eleventh is refused; a deleted one makes room.
func TestWebhookLimit(t *testing.T) { answers(t, newAPI, "%s") }

// TestWebhookRefusals: the merchant's answer for each error of package webhook.
func TestWebhookRefusals(t *testing.T) { answers(t, newAPI, "%s") }
