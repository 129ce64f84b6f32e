package boot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// event is a request as API Gateway sends it.
func event(change func(*events.APIGatewayProxyRequest)) events.APIGatewayProxyRequest {
	ev := events.APIGatewayProxyRequest{
		Resource:          "/balance/{address}",
		Path:              "/balance/0xAb",
		HTTPMethod:        "GET",
		Headers:           map[string]string{"x-api-key": "k"},
		MultiValueHeaders: map[string][]string{"x-api-key": {"k"}},
		RequestContext: events.APIGatewayProxyRequestContext{
			APIID: "api", Stage: "v1", RequestID: "request-1", DomainName: "api.example.com",
			Authorizer: map[string]any{"merchant_id": "mer_1", "key_id": "key_1", "mode": "test", "grant": `{"scopes":[]}`},
		},
	}
	if change != nil {
		change(&ev)
	}
	return ev
}

func send(t *testing.T, h http.HandlerFunc, ev events.APIGatewayProxyRequest) events.APIGatewayProxyResponse {
	t.Helper()
	response, err := boot.Gateway(h)(t.Context(), ev)
	if err != nil {
		t.Fatalf("the invocation failed: %v", err)
	}
	return response
}

func TestRequests(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		change, part := c.In[0], c.In[1]
		ev := event(func(ev *events.APIGatewayProxyRequest) {
			must.OK(t, json.Unmarshal([]byte(change), ev))
		})
		var got string
		send(t, func(_ http.ResponseWriter, r *http.Request) {
			switch part {
			case "path":
				got = r.URL.EscapedPath()
			case "URI":
				got = r.URL.RequestURI()
			case "query":
				got = fmt.Sprint(r.URL.Query())
			case "body":
				b, err := io.ReadAll(r.Body)
				if got = string(b); err != nil {
					t.Error(err)
				}
			default:
				got = fmt.Sprint(r.Header.Values(part))
			}
		}, ev)
		if got != c.Want {
			t.Errorf("got  %q\nwant %q", got, c.Want)
		}
	})
	t.Setenv("GO_API_HOST", "no\nhost") // the library reads it
	noText := event(func(ev *events.APIGatewayProxyRequest) { ev.Path = "/\xff" })
	got := ""
	send(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Host + r.URL.EscapedPath() }, noText)
	if got != "/%FF" {
		t.Errorf("a byte that is no text arrives as %q", got)
	}
}

// TestPrincipalOfARequest: the authorizer's context has the whole principal, and any damage to it leaves none.
func TestPrincipalOfARequest(t *testing.T) {
	restricted := apikey.Principal{MerchantID: "mer_1", KeyID: "key_1", Mode: apikey.Test, Hash: apikey.Hash{0xab},
		Grant: apikey.Grant{Scopes: apikey.ScopesOf(apikey.PaymentsWrite), Maximum: token.MaxAmount(), Book: true,
			Asset: token.Coin{ChainID: 137, Contract: token.Address{0xec}}, Daily: apikey.Limit{Key: "key_a", Amount: token.Units(9), Count: 3}},
		Terms: apikey.Terms{Suspended: "a stolen key", AssetTerms: apikey.AssetTerms{Maximum: token.MaxAmount(), Daily: token.Units(1)},
			Assets: map[string]apikey.AssetTerms{"a": {Daily: token.Units(1)}}}}
	authorize := boot.Authorize(func(context.Context, string) (apikey.Principal, error) { return restricted, nil })
	whole := must.Get(authorize(t.Context(), events.APIGatewayCustomAuthorizerRequestTypeRequest{MethodArn: methodARN,
		Headers: map[string]string{"x-api-key": "k"}}))(t).Context
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		var value any
		must.OK(t, json.Unmarshal([]byte(c.In[1]), &value))
		ev := event(func(ev *events.APIGatewayProxyRequest) {
			ev.RequestContext.Authorizer = maps.Clone(whole)
			ev.RequestContext.Authorizer[c.In[0]] = value
		})
		var got apikey.Principal
		var found bool
		send(t, func(_ http.ResponseWriter, r *http.Request) { got, found = apikey.PrincipalFrom(r.Context()) }, ev)
		if found != (c.Want == "found") || found && !reflect.DeepEqual(got, restricted) {
			t.Errorf("principal = %+v, %v; want %+v", got, found, restricted)
		}
	})
	send(t, func(_ http.ResponseWriter, r *http.Request) {
		if who, found := apikey.PrincipalFrom(r.Context()); found {
			t.Errorf("without an authorizer: %+v", who)
		}
	}, event(func(ev *events.APIGatewayProxyRequest) { ev.RequestContext.Authorizer = nil }))
}

func TestOperators(t *testing.T) {
	h := boot.ForOperators(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }))
	var invoked events.APIGatewayProxyRequest
	must.OK(t, json.Unmarshal([]byte(`{"httpMethod":"POST","path":"/create-api-key","headers":{"content-type":"application/json"},"body":"{}"}`), &invoked))
	if got := send(t, h.ServeHTTP, invoked); got.StatusCode != 201 {
		t.Errorf("an invocation by an operator got %d", got.StatusCode)
	}
	if got := send(t, h.ServeHTTP, event(nil)); got.StatusCode != 403 {
		t.Errorf("a request through the gateway got %d", got.StatusCode)
	}
}

func TestAnswers(t *testing.T) {
	got := send(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header()["Allow"] = []string{"GET", "POST"}
		w.Header().Set("Content-Length", "2")
		w.WriteHeader(405)
		_, _ = io.WriteString(w, `{`)
		_, _ = io.WriteString(w, `}`)
	}, event(nil))
	want := events.APIGatewayProxyResponse{StatusCode: 405, Body: "{}",
		MultiValueHeaders: http.Header{"Content-Type": {"application/json"}, "Allow": {"GET", "POST"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

const (
	methodARN = "arn:aws:execute-api:us-east-1:123456789012:abcdef/v1/GET/balance/0xAb/c"
	allowed   = `{"principalId":"mer_1","policyDocument":{"Version":"2012-10-17","Statement":[{"Action":["execute-api:Invoke"],"Effect":"Allow",` +
		`"Resource":["arn:aws:execute-api:us-east-1:123456789012:abcdef/v1/*/*"]}]},"context":{"grant":"{\"scopes\":[\"keys\"],\"book\":true}",` +
		`"key_hash":"ab00000000000000000000000000000000000000000000000000000000000000","key_id":"key_1","merchant_id":"mer_1","mode":"test"}}`
	denied = `{"principalId":"anonymous","policyDocument":{"Version":"2012-10-17","Statement":[{"Action":["execute-api:Invoke"],"Effect":"Deny",` +
		`"Resource":["arn:aws:execute-api:us-east-1:123456789012:abcdef/v1/*/*"]}]}}`
)

var errTable = errors.New("table unavailable")

// authenticate knows one key, and another for which its table fails.
func authenticate(_ context.Context, presented string) (apikey.Principal, error) {
	switch presented {
	case "good":
		return apikey.Principal{MerchantID: "mer_1", KeyID: "key_1", Mode: apikey.Test, Hash: apikey.Hash{0xab},
			Grant: apikey.Grant{Scopes: apikey.ScopesOf(apikey.Keys), Book: true}}, nil
	case "outage":
		return apikey.Principal{}, errTable
	}
	return apikey.Principal{}, apikey.ErrInvalid
}

func TestAuthorize(t *testing.T) {
	tabletest.Run(t, map[string]string{"allowed": allowed, "denied": denied}, func(t *testing.T, c tabletest.Case) {
		ev := events.APIGatewayCustomAuthorizerRequestTypeRequest{MethodArn: methodARN}
		must.OK(t, json.Unmarshal([]byte(c.In[0]), &ev))
		response, err := boot.Authorize(authenticate)(t.Context(), ev)
		got, marshalErr := json.Marshal(response)
		if err != nil {
			got = []byte(err.Error())
		}
		if marshalErr != nil || string(got) != c.Want {
			t.Errorf("got  %s, %v\nwant %s", got, marshalErr, c.Want)
		}
	})
}
