package boot_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"remit/internal/apikey"
	"remit/internal/boot"
)

const (
	methodARN = "arn:aws:execute-api:us-east-1:123456789012:abcdef/v1/GET/balance/0xAb/c"
	allowed   = `{"principalId":"mer_1","policyDocument":{"Version":"2012-10-17","Statement":[{"Action":["execute-api:Invoke"],"Effect":"Allow",` +
		`"Resource":["arn:aws:execute-api:us-east-1:123456789012:abcdef/v1/*/*"]}]},"context":{"key_id":"key_1","merchant_id":"mer_1","mode":"test"}}`
	denied = `{"principalId":"anonymous","policyDocument":{"Version":"2012-10-17","Statement":[{"Action":["execute-api:Invoke"],"Effect":"Deny",` +
		`"Resource":["arn:aws:execute-api:us-east-1:123456789012:abcdef/v1/*/*"]}]}}`
)

var errTable = errors.New("table unavailable")

// authenticate knows one key, and another for which its table fails.
func authenticate(_ context.Context, presented string) (apikey.Principal, error) {
	switch presented {
	case "good":
		return apikey.Principal{MerchantID: "mer_1", KeyID: "key_1", Mode: apikey.Test}, nil
	case "outage":
		return apikey.Principal{}, errTable
	}
	return apikey.Principal{}, apikey.ErrInvalid
}

func TestAuthorize(t *testing.T) {
	type event = events.APIGatewayCustomAuthorizerRequestTypeRequest
	for _, test := range []struct {
		why  string
		ev   event
		want string // "" for an error
	}{
		{"a key that is valid", event{MultiValueHeaders: map[string][]string{"x-api-key": {"good"}}}, allowed},
		{"whatever the case of the header", event{MultiValueHeaders: map[string][]string{"X-Api-KEY": {"good"}}}, allowed},
		{"from single-value headers", event{Headers: map[string]string{"X-API-Key": "good"}}, allowed},
		{"from single-value headers beside empty others", event{Headers: map[string]string{"x-api-key": "good"}, MultiValueHeaders: map[string][]string{}}, allowed},
		{"the same key in both sorts counts once", event{Headers: map[string]string{"x-api-key": "good"}, MultiValueHeaders: map[string][]string{"x-api-key": {"good"}}}, allowed},
		{"an unknown key is denied, not an error", event{MultiValueHeaders: map[string][]string{"x-api-key": {"bad"}}}, denied},
		{"no key", event{}, denied},
		{"two keys, even if both are valid", event{MultiValueHeaders: map[string][]string{"x-api-key": {"good", "good"}}}, denied},
		{"two headers that differ in case", event{MultiValueHeaders: map[string][]string{"x-api-key": {"good"}, "X-Api-Key": {"good"}}}, denied},
		{"two keys in one value", event{MultiValueHeaders: map[string][]string{"x-api-key": {"good, good"}}}, denied},
		{"a key that cannot be checked is our failure", event{MultiValueHeaders: map[string][]string{"x-api-key": {"outage"}}}, ""},
	} {
		t.Run(test.why, func(t *testing.T) {
			test.ev.MethodArn = methodARN
			response, err := boot.Authorize(authenticate)(t.Context(), test.ev)
			if test.want == "" {
				if !errors.Is(err, errTable) {
					t.Errorf("error = %v, want the table's", err)
				}
				return
			}
			got, marshalErr := json.Marshal(response)
			if err := errors.Join(err, marshalErr); err != nil || string(got) != test.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, test.want)
			}
		})
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
