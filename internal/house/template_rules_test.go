package house_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// A rule is a sentence of TestTemplateRules that is about more than a value.
type rule struct {
	sentence string
	kind     string              // resource type
	breaks   func(r node) string // how the resource breaks the sentence, "" if it does not
}

var rules = []rule{
	{"a key for webhooks' secrets has no users but the functions that make and use them", "AWS::KMS::Key", keyUsers},
	{"an answer of the gateway repeats nothing of a request", "AWS::Serverless::Api", repeats},
	{"an access log has no words of a client, which could end a field and forge others", "AWS::Serverless::Api", logsWords},
	{"a request's data, which holds keys, is never logged", "AWS::Serverless::Api", tracesData},
	{"rounds that know what a payment writes are deployed before it", "AWS::Serverless::Function", precedesRounds},
	{"a function behind the API answers before the gateway gives up", "AWS::Serverless::Function", outlivesGateway},
	{"a stolen function forges no webhook: only their makers and users open the secrets", "AWS::Serverless::Function", opensSecrets},
	{"an alarm that watches a version, which may serve nobody, notifies nobody; every other does", "AWS::CloudWatch::Alarm", pages},
}

func TestTemplateRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.sentence, func(t *testing.T) {
			for id, resource := range resources(t, r.kind) {
				if why := r.breaks(resource); why != "" {
					t.Errorf("%s: %s", id, why)
				}
			}
		})
	}
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		for id, resource := range resources(t, c.In[0]) {
			for path := range strings.FieldsSeq(c.In[1]) {
				got := "unset"
				if v := at[any](resource, path); v != nil {
					got = fmt.Sprint(v)
				}
				if !slices.Contains(strings.Split(c.Want, " or "), got) && (c.Want != "set" || got == "unset") {
					t.Errorf("%s: %s is %s, want %s", id, path, got, c.Want)
				}
			}
		}
	})
}

// TestRestoredTablesAreUsed: every use of a table or secret that a parameter may replace chooses between both.
func TestRestoredTablesAreUsed(t *testing.T) {
	found := 0
	for name := range at[node](readTemplate(t), "Parameters") {
		id, replaces := strings.CutPrefix(name, "Existing")
		if !replaces {
			continue
		}
		found++
		use := regexp.MustCompile(`(?:!Ref |!GetAtt |\$\{)` + id + `\b`)
		flow := strings.NewReplacer(",\n        !", ", !", ",\n              !", ", !")
		for line := range strings.Lines(flow.Replace(string(files(t)["template.yaml"]))) {
			if both := strings.Contains(line, "!If [Own"+id+", ") && strings.Contains(line, name); use.MatchString(line) && !both {
				t.Errorf("template.yaml uses %s and not %s: %s", id, name, line)
			}
		}
	}
	if found != 5 {
		t.Errorf("%d tables and secrets can be replaced", found)
	}
}

// TestQueueTimes: the webhook queue's times fit its function.
func TestQueueTimes(t *testing.T) {
	all := resources(t, "")
	deliver, queue := all["DeliverWebhookFunction"], all["WebhookQueue"]
	timeout, visible := at[int](deliver, "Properties.Timeout"), at[int](queue, "Properties.VisibilityTimeout")
	if timeout == 0 || visible < 6*timeout {
		t.Errorf("a job is given to a second function after %d s, less than six timeouts of %d s", visible, timeout)
	}
	if gather := at[int](deliver, "Properties.Events.Job.Properties.MaximumBatchingWindowInSeconds"); gather > 0 {
		t.Errorf("a webhook may wait %d s for company: the second attempt is due after 5 s, give or take one", gather)
	}
	if tries := at[int](queue, "Properties.RedrivePolicy.maxReceiveCount"); tries < 5 {
		t.Errorf("a job is given up after %d crashes, fewer than 5", tries)
	}
	for _, event := range at[node](deliver, "Properties.Events") {
		if !slices.Contains(words(at[any](event, "Properties.FunctionResponseTypes")), "ReportBatchItemFailures") {
			t.Error("one bad job fails its whole batch")
		}
	}
	for _, id := range []string{"WebhookDeadLetterQueue", "CheckReceiptsDeadLetterQueue"} {
		if kept := at[int](all[id], "Properties.MessageRetentionPeriod"); kept != 14*24*60*60 {
			t.Errorf("%s keeps its messages for %d s, not 14 days", id, kept)
		}
	}
}

// TestTemplateSpellings checks the template's text, where the parsed form is not enough.
func TestTemplateSpellings(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		if there := bytes.Contains(files(t)["template.yaml"], []byte(c.In[0])); there != (c.Want == "there") {
			t.Errorf("template.yaml has %q: %t", c.In[0], there)
		}
	})
}

func precedesRounds(r node) string {
	after, from := at[any](r, "DependsOn"), at[string](r, "Properties.CodeUri")
	signs := strings.HasPrefix(from, "functions/send-payment") || from == "functions/release-proposals/"
	if signs && after != "CheckReceiptsFunctionAliaslive" {
		return fmt.Sprintf("it depends on %v", after)
	}
	return ""
}

func tracesData(r node) string {
	settings := at[[]any](r, "Properties.MethodSettings")
	for _, s := range settings {
		if logs := at[any](s, "DataTraceEnabled"); logs != nil && logs != false {
			return fmt.Sprintf("DataTraceEnabled of %v is %v", at[any](s, "ResourcePath"), logs)
		}
	}
	if len(settings) == 0 {
		return "no MethodSettings"
	}
	return ""
}

// logsWords finds a variable of the access log that may hold a client's words.
func logsWords(r node) string {
	ours := []string{"requestTime", "requestId",
		"httpMethod", "resourcePath", "status", "responseLatency", "integration.latency", "authorizer.latency",
		"authorizer.merchant_id", "authorizer.key_id", "error.responseType", "responseLength", "identity.sourceIp"}
	logged := regexp.MustCompile(`\$context\.([\w.]+)`).FindAllStringSubmatch(at[string](r, "Properties.AccessLogSetting.Format"), -1)
	for _, v := range logged {
		if !slices.Contains(ours, v[1]) {
			return "it logs " + v[1]
		}
	}
	if len(logged) == 0 {
		return "it logs nothing"
	}
	return ""
}

// repeats finds a variable in the gateway's own answers: its message about a malformed Authorization header quotes it.
func repeats(r node) string {
	responses := at[node](r, "Properties.GatewayResponses")
	for kind, response := range responses {
		if is := at[string](response, "ResponseTemplates.application/json"); is == "" || strings.Contains(is, "$") {
			return fmt.Sprintf("%s answers %q", kind, is)
		}
	}
	if len(responses) == 0 {
		return "no GatewayResponses"
	}
	return ""
}

func pages(r node) string {
	version := strings.Contains(fmt.Sprint(at[any](r, "Properties.Dimensions")), ".Version.Version")
	for _, actions := range []string{"AlarmActions", "OKActions"} {
		if has := at[any](r, "Properties."+actions) != nil; has == version {
			return fmt.Sprintf("it watches a version: %t, and has %s: %t", version, actions, has)
		}
	}
	return ""
}

func outlivesGateway(r node) string {
	timeout := at[int](r, "Properties.Timeout")
	for _, event := range at[node](r, "Properties.Events") {
		if at[string](event, "Type") == "Api" && timeout > 29 {
			return fmt.Sprintf("its timeout is %d s, the gateway's 29", timeout)
		}
	}
	return ""
}

func keyUsers(r node) string {
	for _, s := range at[[]node](r, "Properties.KeyPolicy.Statement") {
		uses := slices.ContainsFunc(words(s["Action"]), func(a string) bool {
			return regexp.MustCompile(`:(\*$|.*(Decrypt|Encrypt|DataKey))`).MatchString(a)
		})
		who := fmt.Sprint(words(at[any](s, "Principal.AWS")))
		if uses && who != "[CreateWebhookFunctionRole.Arn RotateWebhookSecretFunctionRole.Arn TestWebhookFunctionRole.Arn "+
			"DeliverWebhookFunctionRole.Arn]" {
			return "may be used by " + who
		}
		if uses && at[node](s, "Condition.StringEquals")["kms:EncryptionContext:remit"] != "webhook-secrets" {
			return "may be used for anything"
		}
	}
	return ""
}

func opensSecrets(r node) string {
	uses, opens := has("functions/create-webhook/ functions/rotate-webhook-secret/ functions/test-webhook/ functions/deliver-webhook/",
		at[string](r, "Properties.CodeUri")), false
	for _, s := range at[[]node](r, "Properties.Rights") {
		excluded := at[node](s, "Condition.Null")["kms:EncryptionContext:remit"] == "true"
		opens = opens || slices.Contains(words(s["Action"]), "kms:Decrypt") && !excluded
	}
	if opens != uses {
		return fmt.Sprintf("uses the secrets of webhooks: %v; may open them: %v", uses, opens)
	}
	return ""
}

// statements returns the statements of policies, including conditional ones.
func statements(v any) (all []node) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			all = append(all, statements(x)...)
		}
	case node:
		for _, part := range []string{"Statement", "PolicyDocument", "Fn::If"} {
			all = append(all, statements(v[part])...)
		}
		if v["Effect"] != nil {
			all = append(all, v)
		}
	}
	return all
}

// words returns a string or the strings of a list.
func words(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			all = append(all, words(x)...)
		}
	}
	return all
}

// TestRightsOnPartitions: mistakes that the local AWS does not show. A condition of all values holds for a request
// without any, so it comes with Null. A denial does not hold for one, so it guards nothing alone. A key of another
// stack is no business of this one.
func TestRightsOnPartitions(t *testing.T) {
	const keys = "dynamodb:LeadingKeys"
	policies := resources(t, "AWS::IAM::ManagedPolicy")
	var deployer node
	must.OK(t, json.Unmarshal(files(t)["tools/pipeline/deployer.json"], &deployer))
	policies["RemitDeployer"] = node{"Properties": node{"PolicyDocument": deployer}}
	for policy, r := range policies {
		for _, s := range statements(at[any](r, "Properties.PolicyDocument")) {
			like, unlike := at[any](s, "Condition.ForAllValues:StringLike."+keys), at[any](s, "Condition.ForAllValues:StringNotLike."+keys)
			writes := regexp.MustCompile("dynamodb:(Put|Update|Delete)Item").MatchString(fmt.Sprint(s["Action"])) && s["Effect"] == "Allow"
			guarded := writes && strings.Contains(fmt.Sprint(s["Resource"]), "PaymentsTable")
			if guarded && like == nil && unlike == nil || (like != nil || unlike != nil) && at[string](s, "Condition.Null."+keys) != "false" {
				t.Errorf("%s may %v in no partition, and so in each", policy, s["Action"])
			}
			if strings.Contains(fmt.Sprint(s["Condition"]), keys) && s["Effect"] == "Deny" && policy != "RemitReader" {
				t.Errorf("%s denies %v in partitions: grant it in the others", policy, s["Action"])
			}
			if policy != "RemitDeployer" && strings.HasPrefix(words(s["Action"])[0], "kms:") && fmt.Sprint(s["Resource"]) == "*" &&
				!strings.Contains(fmt.Sprint(s["Condition"]), walletkey.Tag+":AWS::StackName") {
				t.Errorf("%s may %v with the keys of other stacks", policy, s["Action"])
			}
		}
	}
}

// TestSigners: the functions that read wallets' keys are those whose reads ring no alarm, and which keys in KMS admit.
func TestSigners(t *testing.T) {
	want, role := slices.Sorted(slices.Values(walletkey.SigningRoles())), regexp.MustCompile(`\w+FunctionRole`)
	named := map[string][]string{}
	for id, r := range resources(t, "AWS::IAM::Role") {
		if slices.Contains(words(at[any](r, "Properties.ManagedPolicyArns")), "SignForWallets") {
			named["SignForWallets"] = append(named["SignForWallets"], id)
		}
	}
	for _, id := range []string{"WalletKeyReads", "RemitKeys"} {
		named[id] = role.FindAllString(fmt.Sprint(resources(t, "")[id]), -1)
	}
	for what, roles := range named {
		if slices.Sort(roles); !slices.Equal(slices.Compact(roles), want) {
			t.Errorf("%s is about %v, and %v sign", what, roles, want)
		}
	}
	if len(named) != 3 {
		t.Error("no role signs")
	}
}

// TestSchedules: the role of the schedules may start each scheduled function at its alias and none else, and only the
// next minute repeats a failed start. The local AWS starts functions without a right.
func TestSchedules(t *testing.T) {
	var scheduled, may []string
	for id, r := range resources(t, "AWS::Serverless::Function") {
		for _, e := range at[node](r, "Properties.Events") {
			if at[string](e, "Type") != "ScheduleV2" {
				continue
			}
			scheduled = append(scheduled, "${"+id+".Arn}:live")
			if tries := at[any](r, "Properties.EventInvokeConfig.MaximumRetryAttempts"); tries != 0 ||
				at[any](e, "Properties.RetryPolicy.MaximumRetryAttempts") != 0 || at[string](e, "Properties.RoleArn") != "ScheduleRole.Arn" {
				t.Errorf("%s is started by %v, and again %v times", id, at[any](e, "Properties"), tries)
			}
		}
	}
	for _, s := range statements(at[any](readTemplate(t), "Resources.ScheduleRole.Properties.Policies")) {
		if slices.Contains(words(s["Action"]), "lambda:InvokeFunction") {
			may = append(may, words(s["Resource"])...)
		}
	}
	slices.Sort(scheduled)
	if slices.Sort(may); len(may) == 0 || !slices.Equal(may, scheduled) {
		t.Errorf("the schedules may start %v, and start %v", may, scheduled)
	}
}
