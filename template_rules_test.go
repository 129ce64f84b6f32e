package remit_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// A rule is a sentence about resources of one type, and what breaks it. Each
// has bitten somebody: linters know none of them.
type rule struct {
	sentence string
	kind     string // resource type; empty for every type
	breaks   func(r map[string]any) string
}

var rules = []rule{
	{"a table, and the secrets, outlive the stack and their own replacement", "AWS::DynamoDB::Table", notRetained},
	{"a table, and the secrets, outlive the stack and their own replacement", "AWS::SecretsManager::Secret", notRetained},
	{"a table can be restored to any second", "AWS::DynamoDB::Table", unless(true, "Properties", "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled")},
	{"a table is paid by use, unless a parameter says otherwise", "AWS::DynamoDB::Table", paidByTheHour},
	{"a signing key is not made up by AWS", "AWS::SecretsManager::Secret", present("Properties", "GenerateSecretString")},

	{"an API is regional", "AWS::Serverless::Api", unless("REGIONAL", "Properties", "EndpointConfiguration", "Type")},
	{"an API has no stray stage named Stage", "AWS::Serverless::Api", unless("3.0.1", "Properties", "OpenApiVersion")},
	{"an authorizer stands before every route that does not decline it", "AWS::Serverless::Api", missing("Properties", "Auth", "DefaultAuthorizer")},
	{"an authorizer is asked at its alias, by a name that sam local understands", "AWS::Serverless::Api",
		unless("${AuthorizerFunction.Arn}:live", "Properties", "Auth", "Authorizers", "Keys", "FunctionArn")},
	{"an unauthorized request gets our 28 bytes", "AWS::Serverless::Api", unless(`{"detail":"Invalid API Key"}`, "Properties", "GatewayResponses", "UNAUTHORIZED", "ResponseTemplates", "application/json")},
	{"a denied request gets the same bytes", "AWS::Serverless::Api", unless(`{"detail":"Invalid API Key"}`, "Properties", "GatewayResponses", "ACCESS_DENIED", "ResponseTemplates", "application/json")},
	{"a denied request gets the same status", "AWS::Serverless::Api", unless("401", "Properties", "GatewayResponses", "ACCESS_DENIED", "StatusCode")},
	{"an unknown route is not a missing token", "AWS::Serverless::Api", unless("404", "Properties", "GatewayResponses", "MISSING_AUTHENTICATION_TOKEN", "StatusCode")},
	{"an unknown route with a signature is an unknown route", "AWS::Serverless::Api", unless("404", "Properties", "GatewayResponses", "INVALID_SIGNATURE", "StatusCode")},
	{"an unknown route with an old token is an unknown route", "AWS::Serverless::Api", unless("404", "Properties", "GatewayResponses", "EXPIRED_TOKEN", "StatusCode")},
	{"an answer of the gateway repeats nothing of a request", "AWS::Serverless::Api", repeats},
	{"a default answer keeps the gateway's own status", "AWS::Serverless::Api", present("Properties", "GatewayResponses", "DEFAULT_4XX", "StatusCode")},
	{"a request's data, which holds keys, is never logged", "AWS::Serverless::Api", tracesData},

	{"a function is built from Go", "AWS::Serverless::Function", unless("go1.x", "Metadata", "BuildMethod")},
	{"a function has a log group of its own, with a retention", "AWS::Serverless::Function", missing("Properties", "LoggingConfig", "LogGroup")},
	{"a log is not kept for ever", "AWS::Logs::LogGroup", missing("Properties", "RetentionInDays")},
	{"a function behind the API answers before the gateway gives up", "AWS::Serverless::Function", outlivesGateway},
	{"a function may do what it says and no more", "AWS::Serverless::Function", grantsTooMuch},

	{"an alarm says what silence means", "AWS::CloudWatch::Alarm", missing("Properties", "TreatMissingData")},
	{"an alarm says in words what happened", "AWS::CloudWatch::Alarm", missing("Properties", "AlarmDescription")},
	{"an alarm watches one metric: the local AWS refuses metric math", "AWS::CloudWatch::Alarm", present("Properties", "Metrics")},

	{"a stack can be deployed beside another: nothing has a fixed name", "", named},
}

func TestTemplateRules(t *testing.T) {
	resources := readResources(t)
	for _, r := range rules {
		t.Run(r.sentence+" "+r.kind, func(t *testing.T) {
			applied := false
			for name, resource := range resources {
				if r.kind != "" && resource["Type"] != r.kind {
					continue
				}
				applied = true
				if why := r.breaks(resource); why != "" {
					t.Errorf("%s: %s", name, why)
				}
			}
			if !applied {
				t.Errorf("no %s in template.yaml", r.kind)
			}
		})
	}
}

// TestOnlySignersReadTheSigningKeys is the line between a stolen function and
// stolen money.
func TestOnlySignersReadTheSigningKeys(t *testing.T) {
	resources := readResources(t)
	var readers []string
	for name, r := range resources {
		if r["Type"] == "AWS::Serverless::Function" && slices.ContainsFunc(statements(r), func(s map[string]any) bool {
			return slices.ContainsFunc(words(s["Resource"]), func(w string) bool { return strings.Contains(w, "WalletSecret") })
		}) {
			readers = append(readers, name)
		}
	}
	slices.Sort(readers)
	if want := []string{"CheckReceiptsFunction", "SendPaymentFunction"}; !slices.Equal(readers, want) {
		t.Errorf("the wallet secret is granted to %v, want %v", readers, want)
	}
}

// TestQueueTimes checks what must fit the function behind the webhook queue.
func TestQueueTimes(t *testing.T) {
	resources := readResources(t)
	timeout, _ := at(resources["DeliverWebhookFunction"], "Properties", "Timeout").(int)
	visible, _ := at(resources["WebhookQueue"], "Properties", "VisibilityTimeout").(int)
	gather, _ := at(resources["DeliverWebhookFunction"], "Properties", "Events", "Job", "Properties", "MaximumBatchingWindowInSeconds").(int)
	if timeout == 0 || visible < 6*timeout {
		t.Errorf("a job is given to a second function after %d s, less than six timeouts of %d s", visible, timeout)
	}
	if gather > 0 {
		t.Errorf("a webhook may wait %d s for company: the second attempt is promised after 5 s, give or take one", gather)
	}
	if tries, _ := at(resources["WebhookQueue"], "Properties", "RedrivePolicy", "maxReceiveCount").(int); tries < 5 {
		t.Errorf("a job is given up after %d crashes, fewer than 5", tries)
	}
	for _, event := range functionEvents(resources["DeliverWebhookFunction"]) {
		if !slices.Contains(words(at(event, "Properties", "FunctionResponseTypes")), "ReportBatchItemFailures") {
			t.Error("one bad job fails its whole batch")
		}
	}
	for _, name := range []string{"WebhookDeadLetterQueue", "CheckReceiptsDeadLetterQueue"} {
		if kept, _ := at(resources[name], "Properties", "MessageRetentionPeriod").(int); kept != 14*24*60*60 {
			t.Errorf("%s keeps its messages for %d s, not 14 days", name, kept)
		}
	}
}

// TestTemplateSpellings holds what only the written form shows.
func TestTemplateSpellings(t *testing.T) {
	text, err := os.ReadFile("template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text, why string
		want      bool
	}{
		{"Enabled: !FindInMap [Stages, !Ref Environment, Canary]", "SAM resolves no !If there and would always make CodeDeploy resources", true},
		{"AuthorizerFunctionAliaslive", "nothing else orders the API after the alias it names", true},
		{`AWS_ENDPOINT_URL: ""`, "sam local sets only variables that are declared", true},
		{"OmitName: true", "the default name of a schedule collides with another stack's", true},
		{`Mode: "OFF"`, "unquoted, OFF is false", true},
		{"ApiKeyRequired", "usage plans are not how merchants are known", false},
		{"AuthorizerFunction.Alias", "sam local would serve every route with no authorizer", false},
		{"AWS::ApiGateway::GatewayResponse", "it is not in the deployment's hash, so the stage would go without", false},
		{"CompositeAlarm", "the local AWS refuses it", false},
		{"CrudPolicy", "it grants Scan and Delete", false},
	} {
		if strings.Contains(string(text), tt.text) != tt.want {
			t.Errorf("template.yaml has %q: %v, want %v: %s", tt.text, !tt.want, tt.want, tt.why)
		}
	}
}

// readResources returns the template's resources as they are written, by their
// logical ids.
func readResources(t *testing.T) map[string]map[string]any {
	t.Helper()
	var tmpl struct {
		Resources map[string]map[string]any `yaml:"Resources"`
	}
	decode(t, "template.yaml", &tmpl)
	return tmpl.Resources
}

// at returns what is found by following the keys, nil if it is not there.
func at(v any, keys ...string) any {
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

func unless(want any, keys ...string) func(map[string]any) string {
	return func(r map[string]any) string {
		if got := at(r, keys...); got != want {
			return fmt.Sprintf("%s is %v, want %v", strings.Join(keys, "."), got, want)
		}
		return ""
	}
}

func missing(keys ...string) func(map[string]any) string {
	return func(r map[string]any) string {
		if at(r, keys...) == nil {
			return strings.Join(keys, ".") + " is missing"
		}
		return ""
	}
}

func present(keys ...string) func(map[string]any) string {
	return func(r map[string]any) string {
		if at(r, keys...) != nil {
			return "has " + strings.Join(keys, ".")
		}
		return ""
	}
}

func notRetained(r map[string]any) string {
	if r["DeletionPolicy"] != "Retain" || r["UpdateReplacePolicy"] != "Retain" {
		return "DeletionPolicy and UpdateReplacePolicy must be Retain"
	}
	return ""
}

func paidByTheHour(r map[string]any) string {
	mode := words(at(r, "Properties", "BillingMode"))
	if slices.Equal(mode, []string{"PAY_PER_REQUEST"}) || slices.Equal(mode, []string{"HasCapacity", "PROVISIONED", "PAY_PER_REQUEST"}) {
		return ""
	}
	return fmt.Sprintf("BillingMode is %v", mode)
}

func named(r map[string]any) string {
	for _, k := range []string{"TableName", "QueueName", "FunctionName", "LogGroupName", "AlarmName", "RoleName", "DashboardName"} {
		if at(r, "Properties", k) != nil {
			return "has a fixed " + k
		}
	}
	if r["Type"] == "AWS::SecretsManager::Secret" && at(r, "Properties", "Name") != nil {
		return "has a fixed Name"
	}
	return ""
}

func tracesData(r map[string]any) string {
	settings, _ := at(r, "Properties", "MethodSettings").([]any)
	for _, s := range settings {
		if at(s, "DataTraceEnabled") != false {
			return fmt.Sprintf("DataTraceEnabled of %v is not false", at(s, "ResourcePath"))
		}
	}
	if len(settings) == 0 {
		return "no MethodSettings"
	}
	return ""
}

// repeats finds a variable in what the gateway answers by itself. Its message
// about an Authorization header that is no signature has the header in it.
func repeats(r map[string]any) string {
	responses, _ := at(r, "Properties", "GatewayResponses").(map[string]any)
	for kind, response := range responses {
		if text, _ := at(response, "ResponseTemplates", "application/json").(string); text == "" || strings.Contains(text, "$") {
			return fmt.Sprintf("%s answers %q", kind, text)
		}
	}
	if len(responses) == 0 {
		return "no GatewayResponses"
	}
	return ""
}

func outlivesGateway(r map[string]any) string {
	timeout, ok := at(r, "Properties", "Timeout").(int)
	for _, event := range functionEvents(r) {
		if at(event, "Type") == "Api" && ok && timeout > 29 {
			return fmt.Sprintf("its timeout is %d s, the gateway's 29", timeout)
		}
	}
	return ""
}

func grantsTooMuch(r map[string]any) string {
	for _, s := range statements(r) {
		if s["Effect"] != "Allow" {
			return fmt.Sprintf("Effect %v", s["Effect"])
		}
		for _, action := range words(s["Action"]) {
			if strings.Contains(action, "*") || action == "dynamodb:Scan" {
				return "grants " + action
			}
		}
		for _, resource := range words(s["Resource"]) {
			if strings.Contains(resource, "*") {
				return "grants on " + resource
			}
		}
	}
	return ""
}

// statements returns the statements of a function's own policies, those under
// a condition too. Policies by name are none of ours and count as one that
// grants everything.
func statements(r map[string]any) []map[string]any {
	var all []map[string]any
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				collect(x)
			}
		case map[string]any:
			if v["Effect"] != nil {
				all = append(all, v)
				return
			}
			collect(v["Statement"])
		}
	}
	policies, _ := at(r, "Properties", "Policies").([]any)
	for _, p := range policies {
		if name, ok := p.(string); ok {
			all = append(all, map[string]any{"Effect": "Allow", "Action": name + " (*)"})
		}
	}
	collect(policies)
	return all
}

func functionEvents(r map[string]any) map[string]any {
	events, _ := at(r, "Properties", "Events").(map[string]any)
	return events
}

// words returns a string or the strings of a list.
func words(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, x := range v {
			all = append(all, words(x)...)
		}
		return all
	}
	return nil
}
