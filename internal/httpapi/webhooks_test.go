package httpapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"remit/internal/webhook"
)

func TestWebhookRegistration(t *testing.T) {
	const u = `"url":"https://merchant.example/hooks"`
	for _, test := range []struct{ name, body, want string }{ // want: part of the answer; of a 422 if it begins with [ or "type
		{"only a URL: everything is told", `{` + u + `}`, `"event_types":[],"description":null,"status":"enabled"`},
		{"no types: everything is told", `{` + u + `,"event_types":[]}`, `"event_types":[]`},
		{"types that are null", `{` + u + `,"event_types":null}`, `"event_types":[]`},
		{"one type", `{` + u + `,"event_types":["payment.failed"]}`, `"event_types":["payment.failed"]`},
		{"a description", `{` + u + `,"description":"history"}`, `"description":"history"`},
		{"a description of 500 characters", `{` + u + `,"description":"` + strings.Repeat("é", 500) + `"}`, `"status":"enabled"`},

		{"no URL", `{}`, `["body","url"]`},
		{"a URL that is null", `{"url":null}`, `["body","url"]`},
		{"a URL that is a number", `{"url":1}`, `["body","url"]`},
		{"an empty URL", `{"url":""}`, `["body","url"]`},
		{"a URL that is refused", `{"url":"http://merchant.example"}`, `"type":"url_refused","loc":["body","url"],"msg":"Must begin with https://"`},
		{"an unknown type", `{` + u + `,"event_types":["payment.created"]}`, `["body","event_types"]`},
		{"a type that is a number", `{` + u + `,"event_types":[1]}`, `"type":"array_type","loc":["body","event_types"]`},
		{"types that are a string", `{` + u + `,"event_types":"payment.failed"}`, `"type":"array_type","loc":["body","event_types"]`},
		{"a description of 501 characters", `{` + u + `,"description":"` + strings.Repeat("é", 501) + `"}`, `["body","description"]`},
		{"a bad URL and a bad type, both told", `{"url":"ftp://x","event_types":["x"]}`, `["body","url"],"msg":"Must begin with https://"},{"type":"enum","loc":["body","event_types"]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := 201
			if test.want[0] == '[' || strings.HasPrefix(test.want, `"type"`) {
				status = 422
			}
			got := newAPI(t).post("/webhooks", test.body)
			got.want(t, status, test.want)
			if (status == 201) != strings.Contains(got.body, `"secret":"whsec_`) {
				t.Errorf("answered %s", got.body)
			}
		})
	}
}

// TestWebhookURLThatCannotBeChecked: a failed check is not the merchant's fault,
// and so not 422.
func TestWebhookURLThatCannotBeChecked(t *testing.T) {
	a := newAPI(t)
	a.hooks.refuse = errBroken
	a.post("/webhooks", newHook).want(t, 500, `"internal_error"`)
}

// TestWebhookLife: register, list, change, rotate, delete; secrets are shown
// twice, there and nowhere else.
func TestWebhookLife(t *testing.T) {
	a := newAPI(t).hooked()
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
	a := newAPI(t).hooked()
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
	a := newAPI(t)
	for range webhook.EndpointLimit {
		a.hooked()
	}
	a.post("/webhooks", newHook).want(t, 400, `"code":"webhook_limit_reached"`)
	a.post("/webhooks/"+exampleHook+"/delete", ``).want(t, 200)
	a.hooked()
}

// TestWebhookRefusals: the merchant's answer for each error of package webhook.
func TestWebhookRefusals(t *testing.T) {
	path := "/webhooks/" + exampleHook
	for _, test := range []struct {
		name   string
		err    error
		send   func(*api) answered
		status int
		code   string
	}{
		{"testing what is not there", webhook.ErrNotFound, func(a *api) answered { return a.post(path+"/test", ``) }, 404, "webhook_not_found"},
		{"testing what is disabled", webhook.ErrDisabled, func(a *api) answered { return a.post(path+"/test", ``) }, 409, "webhook_disabled"},
		{"the log of what is not there", webhook.ErrNotFound, func(a *api) answered { return a.get(path + "/deliveries") }, 404, "webhook_not_found"},
		{"a log that is down", errBroken, func(a *api) answered { return a.get(path + "/deliveries") }, 500, "internal_error"},
		{"resending to what is not there", webhook.ErrNotFound, func(a *api) answered { return a.post(path+"/deliveries/d/resend", ``) }, 404, "webhook_not_found"},
		{"resending what is not there", webhook.ErrDeliveryNotFound, func(a *api) answered { return a.post(path+"/deliveries/d/resend", ``) }, 404, "delivery_not_found"},
		{"resending to what is disabled", webhook.ErrDisabled, func(a *api) answered { return a.post(path+"/deliveries/d/resend", ``) }, 409, "webhook_disabled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			a.hooks.refuse = fmt.Errorf("asking: %w", errors.Join(test.err, errors.New("arn:")))
			got := test.send(a)
			got.want(t, test.status, `"code":"`+test.code+`"`)
			if strings.Contains(got.body, "arn:") {
				t.Errorf("tells what is for the log: %s", got.body)
			}
		})
	}
}
