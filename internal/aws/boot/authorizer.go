package boot

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// Names in the authorizer's context, all of them with text values: API Gateway refuses a context that is nested.
const (
	contextMerchant = "merchant_id"
	contextKey      = "key_id"
	contextMode     = "mode"
	contextHash     = "key_hash" // SHA-256 of the key, in hex
	contextGrant    = "grant"    // apikey.Grant's text
	contextTerms    = "terms"    // apikey.Terms' text, of a merchant that has any
)

// Authenticate returns the principal of a presented key, or apikey.ErrInvalid.
type Authenticate func(ctx context.Context, presented string) (apikey.Principal, error)

// Authorize adapts authenticate to API Gateway's REQUEST authorizers. An invalid key is answered with a policy that
// denies, not with an error: an error is a failure of ours, and strangers must not be able to raise alarms. An error
// is returned only when authenticate could not decide; the client then gets a 500.
//
// The policy covers every route of the stage, since API Gateway keeps it for a
// while and applies it to the key's next requests, of any route.
func Authorize(authenticate Authenticate) func(context.Context,
	events.APIGatewayCustomAuthorizerRequestTypeRequest) (events.APIGatewayCustomAuthorizerResponse, error) {
	return func(ctx context.Context, ev events.APIGatewayCustomAuthorizerRequestTypeRequest) (events.APIGatewayCustomAuthorizerResponse,
		error) {
		resource, err := wholeStage(ev.MethodArn)
		if err != nil {
			return events.APIGatewayCustomAuthorizerResponse{}, err
		}
		who, err := apikey.Principal{}, apikey.ErrInvalid
		if keys := presented(ev); len(keys) == 1 {
			who, err = authenticate(ctx, keys[0])
		}
		if errors.Is(err, apikey.ErrInvalid) {
			return policy("anonymous", "Deny", resource), nil
		}
		if err != nil {
			return events.APIGatewayCustomAuthorizerResponse{}, fmt.Errorf("authenticating: %w", err)
		}
		grant, err := who.Grant.MarshalText()
		if err != nil {
			return events.APIGatewayCustomAuthorizerResponse{}, fmt.Errorf("writing the grant of %s: %w", who.KeyID, err)
		}
		allow := policy(who.MerchantID, "Allow", resource)
		allow.Context = map[string]any{
			contextMerchant: who.MerchantID, contextKey: who.KeyID, contextMode: string(who.Mode),
			contextHash: hex.EncodeToString(who.Hash[:]), contextGrant: string(grant),
		}
		if terms := who.Terms.Text(); terms != "" {
			allow.Context[contextTerms] = terms
		}
		return allow, nil
	}
}

// presented returns every value of the x-api-key header, its name in any case.
func presented(ev events.APIGatewayCustomAuthorizerRequestTypeRequest) []string {
	var keys []string
	all := ev.MultiValueHeaders
	if len(all) == 0 {
		all = http.Header{}
		for name, value := range ev.Headers {
			all[name] = []string{value}
		}
	}
	for name, values := range all {
		if strings.EqualFold(name, "x-api-key") {
			keys = append(keys, values...)
		}
	}
	return keys
}

// wholeStage widens arn:aws:execute-api:REGION:ACCOUNT:API/STAGE/METHOD/PATH to all methods and paths.
func wholeStage(methodARN string) (string, error) {
	parts := strings.SplitN(methodARN, "/", 3)
	if len(parts) < 3 {
		return "", fmt.Errorf("%q is not the ARN of a method", methodARN)
	}
	return parts[0] + "/" + parts[1] + "/*/*", nil
}

func policy(principal, effect, resource string) events.APIGatewayCustomAuthorizerResponse {
	return events.APIGatewayCustomAuthorizerResponse{
		PrincipalID: principal,
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{
			Version: "2012-10-17",
			Statement: []events.IAMPolicyStatement{
				{Action: []string{"execute-api:Invoke"}, Effect: effect, Resource: []string{resource}},
			},
		},
	}
}
