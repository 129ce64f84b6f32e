package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/proof/must"
)

const invalidKey = `{"detail":"Invalid API Key"}`

// TestKeysAtTheGate holds the answers that API Gateway and the authorizer give without a function.
func TestKeysAtTheGate(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	other := newMerchant(t, s)
	// API Gateway remembers a key that was used for a minute. These were not.
	revoked, expired := m.keyOf(map[string]any{}), m.keyOf(map[string]any{})
	m.call("POST", "/api-keys/"+revoked.id()+"/revoke", nil).want(t, 200)
	rotated(t, m, expired.id(), 0)

	for why, key := range map[string]string{
		"no key":                      "",
		"a blank key":                 " ",
		"no key of ours":              "secret",
		"a mistyped key":              m.key[:len(m.key)-1] + "!",
		"an unknown key":              "remit_test_0aB1cD2eF3gH_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg0dDPM7",
		"a key of live mode":          strings.Replace(m.key, "_test_", "_live_", 1),
		"two keys in one":             m.key + ", " + other.key,
		"a key that is revoked":       revoked.key,
		"a key that was rotated away": expired.key,
		"a bearer token":              "Bearer " + m.key,
	} {
		for _, route := range []string{"GET /balance/" + recipient, "POST /send-payment", "GET /transaction/0x12", "GET /api-keys",
			"POST /webhooks"} {
			method, path, _ := strings.Cut(route, " ")
			a := merchant{t: t, s: s, key: key}.call(method, path, nil)
			if a.status != 401 || a.text != invalidKey {
				t.Errorf("%s at %s: %d %q", why, route, a.status, a.text)
			}
		}
	}
}

// id is the key's: it stands in the key.
func (m merchant) id() string { return "key_" + m.key[len("remit_test_"):][:12] }

// keyOf makes a key of m's merchant as body says and returns the merchant with it.
func (m merchant) keyOf(body any) merchant {
	m.t.Helper()
	next := m
	next.key = m.call("POST", "/api-keys", body).want(m.t, 201).get("api_key")
	return next
}

// rotated replaces the key of that id and returns the merchant with the new one.
func rotated(t *testing.T, m merchant, id string, overlap time.Duration) merchant {
	t.Helper()
	next := m
	next.key = m.call("POST", "/api-keys/"+id+"/rotate", map[string]int{"expires_in_seconds": int(overlap.Seconds())}).want(t,
		201).get("api_key")
	return next
}

// TestVerifyAWS runs the part of tools/verify-aws that needs nothing but a stack.
func TestVerifyAWS(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	cmd := exec.CommandContext(t.Context(), root+"/tools/verify-aws", "answers")
	cmd.Env = append(os.Environ(), "URL="+s.URL(""), "KEY="+m.key, "CURL_CA_BUNDLE="+s.Bundle)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "verified: answers") || strings.Count(string(out), "ok   ") != 5 {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestRealMoneyIsClosed: CloudFormation, by the template's Rules, and a function that is deployed past them refuse a
// stack with real money that is open, in one sentence that says what to set.
func TestRealMoneyIsClosed(t *testing.T) {
	s := start(t)
	template := must.Get(os.ReadFile(root + "/template.yaml"))(t)
	parameters, _, _ := strings.Cut(string(template), "\nMappings:")
	body := strings.Replace(parameters, "Transform: AWS::Serverless-2016-10-31\n", "", 1) + "\nResources:\n  Queue: {Type: AWS::SQS::Queue}\n"
	for n, c := range []struct {
		why string
		set []string // in place of a closed stack's
		say string   // "" for a deployment that is made
	}{
		{"a closed stack", nil, ""},
		{"a sandbox", []string{"Environment=dev", "Mode=test", "AlarmTopicArn="}, ""},
		{"Base in test mode", []string{"Environment=dev", "Mode=test", "ChainId=8453"}, "set Mode to live"},
		{"production in test mode", []string{"Mode=test"}, "set Mode to live"},
		{"alarms that nobody hears", []string{"AlarmTopicArn="}, "set AlarmTopicArn"},
		{"live on a test network", []string{"Environment=dev", "AlarmTopicArn="}, "set AlarmTopicArn"},
	} {
		chosen := map[string]string{"ChainId": "84532"}
		for _, p := range slices.Concat(localaws.Closed(), c.set) {
			name, value, _ := strings.Cut(p, "=")
			chosen[name] = value
		}
		in := &cloudformation.CreateStackInput{StackName: aws.String(fmt.Sprint("closed-", n)), TemplateBody: &body}
		environment := map[string]string{"AWS_REGION": "us-east-1"}
		for name, value := range chosen {
			in.Parameters = append(in.Parameters, types.Parameter{ParameterKey: &name, ParameterValue: &value})
		}
		for variable, name := range map[string]string{
			"ENVIRONMENT": "Environment", "MODE": "Mode", "CHAIN_ID": "ChainId", "ALARM_TOPIC_ARN": "AlarmTopicArn",
		} {
			environment[variable] = chosen[name]
		}
		env := boot.OpenWith(func(name string) string { return environment[name] })
		boot.Closed(env)
		_, deployed := cloudformation.NewFromConfig(s.Administrator()).CreateStack(t.Context(), in)
		for where, err := range map[string]error{"CloudFormation": deployed, "a function": env.Err()} {
			if (err == nil) != (c.say == "") || err != nil && !strings.Contains(err.Error(), c.say) {
				t.Errorf("%s: %s said %v, want %q", c.why, where, err, c.say)
			}
		}
		if said := fmt.Sprint(deployed); c.say != "" &&
			!strings.Contains(fmt.Sprint(env.Err()), said[strings.LastIndex(said, "failed: ")+len("failed: "):]) {
			t.Errorf("%s: CloudFormation said %v, a function %v", c.why, deployed, env.Err())
		}
	}
}
