package httpapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
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

// TestWebhookLimit: the eleventh is refused; a deleted one makes room.
func TestWebhookLimit(t *testing.T) { answers(t, newAPI, "%s") }

// TestWebhookRefusals: the merchant's answer for each error of package webhook.
func TestWebhookRefusals(t *testing.T) { answers(t, newAPI, "%s") }

// TestWhatIsNoIDReadsNothing: an id that no key or webhook can have is 404 before any
// read, since a table may refuse it for a key (DynamoDB takes 1,024 bytes). The
// endpoints here have no store.
func TestWhatIsNoIDReadsNothing(t *testing.T) {
	hooks, keys := webhook.NewRegistry(nil, nil, time.Now, nil), apikey.NewRegistry(nil, apikey.Test, time.Now, nil)
	log, tester := webhook.NewLog(nil, nil, time.Now, nil), webhook.NewTester(webhook.Sealed{}, nil, time.Now, nil)
	good, long := "we_"+strings.Repeat("0", 24), strings.Repeat("a", 1100)
	for path, e := range map[string]httpapi.Endpoint{
		"POST /webhooks/%s 404 webhook":                                 httpapi.UpdateWebhook(hooks),
		"POST /webhooks/%s/delete 404 webhook":                          httpapi.DeleteWebhook(hooks),
		"POST /webhooks/%s/rotate-secret 404 webhook":                   httpapi.RotateWebhookSecret(hooks),
		"POST /webhooks/%s/test 404 webhook":                            httpapi.TestWebhook(tester),
		"GET /webhooks/%s/deliveries 404 webhook":                       httpapi.ListDeliveries(log),
		"POST /webhooks/%s/deliveries/dlv_1/resend 404 webhook":         httpapi.ResendDelivery(log),
		"POST /webhooks/" + good + "/deliveries/%s/resend 404 delivery": httpapi.ResendDelivery(log),
		"POST /api-keys/%s/rotate 404 api_key":                          httpapi.RotateAPIKey(keys, nil),
		"POST /api-keys/%s/revoke 404 api_key":                          httpapi.RevokeAPIKey(keys),
	} {
		part := strings.Fields(path)
		for _, id := range []string{long, "we_" + long, "we_0", good + "0", strings.ToUpper(good), "dlv_" + strings.Repeat("0", 31),
			"key_" + strings.Repeat("0", 13), "key_-23456789012"} {
			r := httptest.NewRequest(part[0], fmt.Sprintf(part[1], id), strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r.WithContext(apikey.WithPrincipal(t.Context(), apikey.Principal{Grant: apikey.Full()})))
			if want := `"code":"` + part[3] + `_not_found"`; w.Code != 404 || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s with %.30s: %d %s", path, id, w.Code, w.Body)
			}
		}
	}
}
