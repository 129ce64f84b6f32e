package httpapi

import (
	"net/http"
	"strings"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// A Route is one method of one path, and the function that serves it.
type Route struct {
	Method   string
	Path     string        // literal; a segment such as {tx_hash} stands for any one segment
	Handler  string        // the constructor here; openapi.yaml's operationId but for its first letter
	Function string        // directory under functions/; empty for a route of local stacks only
	Scopes   apikey.Scopes // of which its caller's key needs one; empty: no key is needed
}

var (
	pays, reads        = apikey.ScopesOf(apikey.PaymentsWrite), apikey.ScopesOf(apikey.PaymentsRead)
	keys, webhooks     = apikey.ScopesOf(apikey.Keys), apikey.ScopesOf(apikey.Webhooks)
	recipients         = apikey.ScopesOf(apikey.Recipients)
	proposes, approves = apikey.ScopesOf(apikey.PaymentsPropose), apikey.ScopesOf(apikey.PaymentsApprove)
	anyKey             = apikey.Full().Scopes
)

// Routes are all routes. Tests hold the router, template.yaml, functions/ and openapi.yaml in step with this table.
var Routes = []Route{
	{"POST", "/create-api-key", "CreateAPIKey", "create-api-key", 0},
	{"GET", "/api-keys", "ListAPIKeys", "list-api-keys", keys},
	{"GET", "/api-keys/self", "GetOwnAPIKey", "list-api-keys", anyKey},
	{"POST", "/api-keys", "IssueAPIKey", "issue-api-key", keys},
	{"POST", "/api-keys/{id}/rotate", "RotateAPIKey", "rotate-api-key", keys},
	{"POST", "/api-keys/{id}/revoke", "RevokeAPIKey", "revoke-api-key", keys},

	{"POST", "/send-payment", "SendPayment", "send-payment", pays},
	{"POST", "/send-payments", "SendPayments", "send-payments", pays},
	{"GET", "/transaction/{tx_hash}", "GetTransaction", "get-transaction", reads},
	{"GET", "/transactions", "ListTransactions", "list-transactions", reads},
	{"GET", "/balance/{address}", "GetBalance", "get-balance", reads},
	{"GET", "/assets", "ListAssets", "list-transactions", reads},
	{"GET", "/wallets", "ListWallets", "get-balance", reads},

	{"POST", "/proposals", "CreateProposal", "create-proposal", proposes},
	{"GET", "/proposals", "ListProposals", "list-transactions", reads},
	{"GET", "/proposals/{id}", "GetProposal", "list-transactions", reads},
	{"POST", "/proposals/{id}/approve", "ApproveProposal", "create-proposal", approves},
	{"POST", "/proposals/{id}/cancel", "CancelProposal", "create-proposal", proposes | approves | pays},

	{"POST", "/recipients", "CreateRecipient", "create-recipient", recipients},
	{"GET", "/recipients", "ListRecipients", "list-recipients", recipients | pays | proposes},
	{"POST", "/recipients/{address}/delete", "DeleteRecipient", "delete-recipient", recipients},

	{"POST", "/webhooks", "CreateWebhook", "create-webhook", webhooks},
	{"GET", "/webhooks", "ListWebhooks", "list-webhooks", webhooks},
	{"POST", "/webhooks/{id}", "UpdateWebhook", "update-webhook", webhooks},
	{"POST", "/webhooks/{id}/delete", "DeleteWebhook", "delete-webhook", webhooks},
	{"POST", "/webhooks/{id}/rotate-secret", "RotateWebhookSecret", "rotate-webhook-secret", webhooks},
	{"POST", "/webhooks/{id}/test", "TestWebhook", "test-webhook", webhooks},
	{"GET", "/webhooks/{id}/deliveries", "ListDeliveries", "list-deliveries", webhooks},
	{"POST", "/webhooks/{id}/deliveries/{delivery_id}/resend", "ResendDelivery", "resend-delivery", webhooks},
	{"POST", "/webhooks/{id}/resend-failed", "ResendFailed", "resend-delivery", webhooks},

	{"GET", "/docs", "Docs", "", 0},
	{"GET", "/openapi.json", "OpenAPI", "", 0},
	{"GET", "/sandbox", "Sandbox", "", 0},
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

// find returns the endpoint that serves r and the parameters in its path, or a problem.
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
	if !known {
		return Endpoint{}, nil, errNoRoute
	}
	var allowed []string
	for _, route := range Routes {
		if _, ok := route.match(path); ok {
			allowed = append(allowed, route.Method)
		}
	}
	return Endpoint{}, nil, problem{status: http.StatusMethodNotAllowed, code: "method_not_allowed",
		detail: "Method Not Allowed", allow: strings.Join(allowed, ", ")}
}
