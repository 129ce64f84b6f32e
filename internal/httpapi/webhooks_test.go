package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"remit/internal/webhook"
)

func TestWebhookRegistration(t *testing.T) { answers(t, newAPI, "POST /webhooks %s") }

// TestWebhookLife: register, list, change, rotate, delete; secrets are shown
// twice, there and nowhere else.
func TestWebhookLife(t *testing.T) {
	a := newAPI(t).hooked(1)
	a.now = a.now.Add(time.Second)
	second := a.post("/webhooks", newHook)
	list := a.get("/webhooks")
	list.want(t, 200)
	if strings.Index(list.body, second.member(t, "id")) > strings.Index(list.body, exampleHook) {
		t.Errorf("the newest webhook is not first: %s", list.body)
	}
	path := "/webhooks/" + exampleHook
	for _, test := range []struct{ name, body, part string }{
		{"nothing", `{}`, `"status":"enabled"`},
		{"the URL", `{"url":"https://other.example/"}`, `"url":"https://other.example/"`},
		{"the types, to all", `{"event_types":[]}`, `"event_types":[]`},
		{"the description", `{"description":"x"}`, `"description":"x"`},
		{"what is null stays", `{"description":null,"url":null,"status":null,"event_types":null}`, `"url":"https://other.example/","event_types":[],"description":"x"`},
		{"the description, to none", `{"description":""}`, `"description":null`},
		{"the status", `{"status":"disabled"}`, `"status":"disabled"`},
		{"the status back", `{"status":"enabled"}`, `"status":"enabled"`},
	} {
		got := a.post(path, test.body)
		got.want(t, 200, test.part)
		if strings.Contains(got.body, "secret") {
			t.Errorf("changing %s shows the secret", test.name)
		}
	}
	for body, part := range map[string]string{
		`{"status":"deleted"}`:       `"type":"enum","loc":["body","status"]`,
		`{"status":1}`:               `"type":"string_type","loc":["body","status"]`,
		`{"url":"http://x.example"}`: `"type":"url_refused"`,
		`{"url":""}`:                 `"type":"string_too_short"`,
		`{"event_types":["x"]}`:      `"type":"enum","loc":["body","event_types"]`,
		`{"url":"ftp://","status":"x","event_types":["x"]}`: `["body","url"]`,
	} {
		a.post(path, body).want(t, 422, part)
	}
	rotated := a.post(path+"/rotate-secret", `{}`)
	rotated.want(t, 200, `"secret":"whsec_`, exampleHook)
	if rotated.member(t, "secret") == second.member(t, "secret") {
		t.Error("rotating gave no new secret")
	}
	a.post(path+"/rotate-secret", `{"expires_in_seconds":604801}`).want(t, 422, `"too_large"`)
	if strings.Contains(a.get("/webhooks").body, "whsec_") {
		t.Error("the list shows a secret")
	}
	a.post(path+"/delete", ``).want(t, 200, `{"id":"`+exampleHook+`","deleted":true}`)
	if strings.Contains(a.get("/webhooks").body, exampleHook) {
		t.Error("a deleted webhook is listed")
	}
	a.post(path+"/delete", ``).want(t, 404, "webhook_not_found")
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
func TestWebhookLimit(t *testing.T) {
	a := newAPI(t).hooked(webhook.EndpointLimit)
	a.post("/webhooks", newHook).want(t, 400, `"code":"webhook_limit_reached"`)
	a.post("/webhooks/"+exampleHook+"/delete", ``).want(t, 200)
	a.hooked(1)
}

// TestWebhookRefusals: the merchant's answer for each error of package webhook.
func TestWebhookRefusals(t *testing.T) { answers(t, newAPI, "%s") }
