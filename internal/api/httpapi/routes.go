package httpapi

import (
	"net/http"
	"strings"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// A Route is one method of one path, and the function that serves it.
type Route struct {
	Method   string
	Path     string       // literal; a segment such as {tx_hash} stands for any one segment
	Handler  string       // the constructor in this package; openapi.yaml's operationId is the same word, first letter in lower case
	Function string       // directory under functions/; empty for a route of local stacks only
	Scope    apikey.Scope // that its caller's key needs; empty: no key is needed
}

// Routes are all routes. Tests hold the router, template.yaml, functions/ and openapi.yaml in step with this table.
var Routes = []Route{
	{"POST", "/create-api-key", "CreateAPIKey", "create-api-key", ""},
	{"GET", "/api-keys", "ListAPIKeys", "list-api-keys", apikey.Keys},
	{"POST", "/api-keys", "IssueAPIKey", "issue-api-key", apikey.Keys},
	{"POST", "/api-keys/{id}/rotate", "RotateAPIKey", "rotate-api-key", apikey.Keys},
	{"POST", "/api-keys/{id}/revoke", "RevokeAPIKey", "revoke-api-key", apikey.Keys},

	{"POST", "/send-payment", "SendPayment", "send-payment", apikey.PaymentsWrite},
	{"POST", "/send-payments", "SendPayments", "send-payments", apikey.PaymentsWrite},
	{"GET", "/transaction/{tx_hash}", "GetTransaction", "get-transaction", apikey.PaymentsRead},
	{"GET", "/transactions", "ListTransactions", "list-transactions", apikey.PaymentsRead},
	{"GET", "/balance/{address}", "GetBalance", "get-balance", apikey.PaymentsRead},

	{"POST", "/recipients", "CreateRecipient", "create-recipient", apikey.Recipients},
	{"GET", "/recipients", "ListRecipients", "list-recipients", apikey.Recipients},
	{"POST", "/recipients/{address}/delete", "DeleteRecipient", "delete-recipient", apikey.Recipients},

	{"POST", "/webhooks", "CreateWebhook", "create-webhook", apikey.Webhooks},
	{"GET", "/webhooks", "ListWebhooks", "list-webhooks", apikey.Webhooks},
	{"POST", "/webhooks/{id}", "UpdateWebhook", "update-webhook", apikey.Webhooks},
	{"POST", "/webhooks/{id}/delete", "DeleteWebhook", "delete-webhook", apikey.Webhooks},
	{"POST", "/webhooks/{id}/rotate-secret", "RotateWebhookSecret", "rotate-webhook-secret", apikey.Webhooks},
	{"POST", "/webhooks/{id}/test", "TestWebhook", "test-webhook", apikey.Webhooks},
	{"GET", "/webhooks/{id}/deliveries", "ListDeliveries", "list-deliveries", apikey.Webhooks},
	{"POST", "/webhooks/{id}/deliveries/{delivery_id}/resend", "ResendDelivery", "resend-delivery", apikey.Webhooks},

	{"GET", "/docs", "Docs", "", ""},
	{"GET", "/openapi.json", "OpenAPI", "", ""},
	{"GET", "/sandbox", "Sandbox", "", ""},
}

func routeOf(handler string) Route {
	for _, r := range Routes {
		if r.Handler == handler {
			return r
		}
	}
	panic("httpapi: no route for " + handler)
}

// match compares path, as it was sent, with the route's segment by segment, and returns the segments that stand for
// its {names}. Nothing is cleaned or unescaped: another spelling is another path. A parameter is never empty.
func (r Route) match(path string) (params map[string]string, ok bool) {
	want, got := strings.Split(r.Path, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	for i, segment := range want {
		switch name := strings.Trim(segment, "{}"); {
		case name == segment && got[i] != segment, got[i] == "" && i > 0:
			return nil, false
		case name != segment:
			if params == nil {
				params = make(map[string]string, 2)
			}
			params[name] = got[i]
		}
	}
	return params, true
}

// allowed returns the methods of path in the order of Routes, as the Allow header lists them.
func allowed(path string) string {
	var methods []string
	for _, r := range Routes {
		if _, ok := r.match(path); ok {
			methods = append(methods, r.Method)
		}
	}
	return strings.Join(methods, ", ")
}

// find returns the endpoint that serves r and the parameters in its path, errNoRoute, or a methodError.
func find(endpoints []Endpoint, r *http.Request) (Endpoint, map[string]string, error) {
	path := r.URL.EscapedPath()
	known := false
	for _, e := range endpoints {
		params, ok := e.route.match(path)
		if ok && e.route.Method == r.Method {
			return e, params, nil
		}
		known = known || ok
	}
	if known {
		return Endpoint{}, nil, methodError(allowed(path))
	}
	return Endpoint{}, nil, errNoRoute
}
