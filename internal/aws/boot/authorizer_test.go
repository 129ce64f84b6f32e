package boot_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

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
	case "suspended":
		return apikey.Principal{MerchantID: "mer_2", KeyID: "key_2", Mode: apikey.Test, Hash: apikey.Hash{0xab}, Grant: apikey.Full(),
			Terms: suspended}, nil
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

var suspended = apikey.Terms{Suspended: "a stolen key", Maximum: token.MaxAmount(), Daily: token.Units(1)}

// TestTermsReachTheFunctions: a merchant's terms from the authorizer are the terms that the
// gateway's request carries.
func TestTermsReachTheFunctions(t *testing.T) {
	response, err := boot.Authorize(authenticate)(t.Context(),
		events.APIGatewayCustomAuthorizerRequestTypeRequest{MethodArn: methodARN, Headers: map[string]string{"x-api-key": "suspended"}})
	must.OK(t, err)
	var got apikey.Principal
	send(t, func(_ http.ResponseWriter, r *http.Request) { got, _ = apikey.PrincipalFrom(r.Context()) },
		event(func(ev *events.APIGatewayProxyRequest) { ev.RequestContext.Authorizer = response.Context }))
	if got.Terms != suspended {
		t.Errorf("%+v, want %+v", got.Terms, suspended)
	}
}

func TestAuthorizeNeedsAMethod(t *testing.T) {
	for _, arn := range []string{"", "arn:aws:execute-api:us-east-1:123456789012:abcdef/v1"} {
		ev := events.APIGatewayCustomAuthorizerRequestTypeRequest{MethodArn: arn, Headers: map[string]string{"x-api-key": "good"}}
		if response, err := boot.Authorize(authenticate)(t.Context(), ev); err == nil {
			t.Errorf("method %q: %+v, want an error", arn, response)
		}
	}
}
