package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// transformed returns template.yaml after SAM's transform, as AWS reads it, for the stacks of
// testdata/stages.json. It is made once; make lint-template gives it to cfn-lint too.
func transformed(t *testing.T) (results map[string]node) {
	t.Helper()
	tooltest.Path(t, "the local AWS and the SAM CLI", ".cache/venv/bin/python")
	must.OK(t, json.Unmarshal(must.Get(transform())(t), &results))
	if len(results) < 2 {
		t.Fatalf("testdata/stages.json has %d stacks", len(results))
	}
	return results
}

var transform = sync.OnceValues(func() ([]byte, error) {
	cmd := exec.Command(".cache/venv/bin/python", "tools/transform")
	stages, err := os.Open("testdata/stages.json")
	if err != nil {
		return nil, err
	}
	defer stages.Close()
	cmd.Stdin = stages
	return cmd.Output()
})

// nameless are actions that IAM authorizes without a resource, and those on keys with the stack's tag.
var nameless = regexp.MustCompile(`^kms:|^(logs:GetQueryResults|secretsmanager:ListSecrets)$`)

// TestTransformedTemplate checks mistakes that AWS refuses, and dangerous rights and deletions, that SAM and the local
// AWS accept. Each was made once. In production canaries deploy the functions that move money, and the authorizer.
func TestTransformedTemplate(t *testing.T) {
	for stage, template := range transformed(t) {
		t.Run(stage, func(t *testing.T) { faults(t, template, strings.HasPrefix(stage, "prod")) })
	}
}

func faults(t *testing.T, template node, production bool) {
	t.Helper()
	all, canaries, add := at[node](template, "Resources"), []string{}, t.Errorf
	for id, v := range all {
		r, kind := v.(node), at[string](v, "Type")
		kept := []string{"AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::Logs::LogStream", "AWS::SecretsManager::Secret"}
		if (slices.Contains(kept, kind) || id == "AuditLogGroup") &&
			(r["DeletionPolicy"] != "RetainExceptOnCreate" || r["UpdateReplacePolicy"] != "Retain") {
			add("%s is lost with the stack, or stays when its first deployment fails", id)
		}
		if kind := at[string](v, "Type"); kind == "AWS::Lambda::Function" || kind == "AWS::IAM::Role" {
			// STACK-ID-12 characters, of 64: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
			if n := check.LongestName + len("-"+id+"-123456789012"); n > 64 {
				add("the name of %s has up to %d characters: CloudFormation cuts those over 64", id, n)
			}
		}
		switch kind {
		case "AWS::KMS::Key":
			for _, s := range at[[]any](r, "Properties.KeyPolicy.Statement") {
				if strings.Contains(fmt.Sprint(at[any](s, "Principal")), "FunctionRole") && r["DependsOn"] == nil {
					add("%s names roles that KMS may not see yet", id)
				}
			}
		case "AWS::ApiGateway::Account":
			add("%s: a setting of the account belongs to no stack: remit preflight says how to make it", id)
		case "AWS::SQS::QueuePolicy":
			for _, s := range statements(at[any](r, "Properties.PolicyDocument")) {
				if s["Resource"] != "*" {
					add("%s: SQS takes one queue in a statement, and * for the queue itself: %v", id, s["Resource"])
				}
			}
		case "AWS::IAM::Role", "AWS::IAM::ManagedPolicy":
			if policies := fmt.Sprint(at[any](r, "Properties.ManagedPolicyArns")); strings.Contains(policies, ":iam::aws:policy") {
				add("%s has policies of AWS, whose rights are on the whole account: %s", id, policies)
			}
			for _, s := range statements([]any{at[any](r, "Properties.Policies"), at[any](r, "Properties.PolicyDocument")}) {
				for _, action := range words(s["Action"]) {
					if s["Resource"] == "*" && s["Effect"] != "Deny" && !nameless.MatchString(action) {
						add("%s may %v on everything", id, action)
					}
				}
			}
			// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
			if n := longest(t, at[any](r, "Properties.PolicyDocument")); n > 6144 {
				add("the policy %s has up to %d characters, and IAM takes 6144", id, n)
			}
			if n := len(at[[]any](r, "Properties.ManagedPolicyArns")); n > 10 {
				add("%s has %d policies, and IAM takes 10", id, n)
			}
		case "AWS::Lambda::Function":
			// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
			if n := longest(t, at[any](r, "Properties.Environment.Variables")); n > 4096 {
				add("the variables of %s have up to %d bytes, and Lambda takes 4096", id, n)
			}
		case "AWS::Lambda::EventSourceMapping":
			id := strings.TrimSuffix(at[string](r, "Properties.FunctionName.Ref"), "Aliaslive")
			queue := fmt.Sprint(at[any](r, "Properties.EventSourceArn"))
			for _, p := range at[[]any](all[id+"Role"], "Properties.ManagedPolicyArns") {
				for _, s := range statements(at[any](all[at[string](p, "Ref")], "Properties.PolicyDocument")) {
					sends := slices.Contains(words(s["Action"]), "sqs:SendMessage") && fmt.Sprint(s["Resource"]) == queue
					if sends && at[string](all[id], "Properties.RecursiveLoop") != "Allow" {
						// https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
						add("%s sends to its own queue, and Lambda stops such a chain at its 17th run", id)
					}
				}
			}
		case "AWS::Lambda::Version":
			if r["DeletionPolicy"] != "Retain" {
				add("%s is deleted with the next release, while it still serves beside a canary", id)
			}
		case "AWS::CodeDeploy::DeploymentGroup":
			function := strings.TrimSuffix(id, "DeploymentGroup")
			canaries = append(canaries, function)
			for _, alarm := range at[[]any](r, "Properties.AlarmConfiguration.Alarms") {
				name := at[string](alarm, "Name.Ref")
				if watched := fmt.Sprint(at[any](all[name], "Properties.Dimensions")); !strings.Contains(watched, function+"Version") {
					add("the canary of %s watches %s, which is not of its new version: %s", id, name, watched)
				}
			}
			if may := fmt.Sprint(at[any](all["MoveAliases"], "Properties.PolicyDocument")); !strings.Contains(may, "-"+function+"-*") {
				add("CodeDeploy may not move the alias of %s", id)
			}
		case "AWS::ApiGateway::Stage":
			for _, s := range at[[]any](r, "Properties.MethodSettings") {
				if at[any](s, "MetricsEnabled") == true {
					add("%s: the metrics of a method are billed as custom ones: %v", id, at[any](s, "ResourcePath"))
				}
			}
		}
	}
	slices.Sort(canaries)
	want := []string{"AuthorizerFunction", "CheckReceiptsFunction", "ReleaseProposalsFunction", "SendPaymentFunction", "SendPaymentsFunction"}
	if production && !slices.Equal(canaries, want) || !production && len(canaries) > 0 {
		add("%v are deployed by canaries, in production %v should be", canaries, want)
	}
	if n := len(all); n > 500 {
		add("%d resources, and CloudFormation takes 500", n)
	}
}

// named matches a value that AWS puts in: mostly a name or an ARN.
var named = regexp.MustCompile(`\{"(Ref|Fn::GetAtt|Fn::Sub)":("[^"]*"|\[[^\]]*\])\}`)

// longest returns the size of v as JSON, of both branches of its conditions, with 128 characters for each value of AWS.
func longest(t *testing.T, v any) int {
	t.Helper()
	return len(named.ReplaceAll(must.Get(json.Marshal(v))(t), bytes.Repeat([]byte("x"), 128)))
}

// releases prints the Release of each case that it reads: a build, its parameters, those deployed, the last failure.
// Most builds have the same template, which takes longest to parse.
const releases = `
import functools, importlib.machinery, json, samtranslator.yaml_helper as helper, sys
helper.yaml_parse = functools.cache(helper.yaml_parse)
config = importlib.machinery.SourceFileLoader("samconfig", "tools/samconfig").load_module()
json.dump([config.release(*case) for case in json.load(sys.stdin)], sys.stdout)`

// python runs a script of the template's tools on a value, and reads its output.
func python(t *testing.T, in, out any, args ...string) {
	t.Helper()
	run(t, in, out, tooltest.Path(t, "the local AWS and the SAM CLI", ".cache/venv/bin/python"),
		append([]string{"-B", "-W", "ignore"}, args...)...)
}

// run gives a value to a program, and reads its output.
func run(t *testing.T, in, out any, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = bytes.NewReader(must.Get(json.Marshal(in))(t))
	text, err := cmd.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		t.Fatalf("%v: %s", err, failed.Stderr)
	}
	must.OK(t, errors.Join(err, json.Unmarshal(text, out)))
}

// TestEveryChangeTakesEffect: CloudFormation makes a function's version only if SAM names it otherwise, and Lambda only
// if the function differs from its last version. A change without them would stay behind the alias.
func TestEveryChangeTakesEffect(t *testing.T) {
	for stage, mode := range map[string]string{"dev": "test", "prod": "live"} {
		t.Run(stage, func(t *testing.T) { everyChangeTakesEffect(t, map[string]string{"Environment": stage, "Mode": mode}) })
	}
}

func everyChangeTakesEffect(t *testing.T, given map[string]string) {
	text := string(files(t)["template.yaml"])
	type change struct {
		name, from, to, code string // from and to are of the template
		given, deployed      map[string]string
		failed               any
	}
	defaults, changes := map[string]string{}, []change{{name: "before"}, {name: "nothing"}}
	for name, p := range at[node](readTemplate(t), "Parameters") {
		defaults[name] = fmt.Sprint(at[any](p, "Default"))
		if name != "Release" {
			changes = append(changes, change{name: name, given: map[string]string{name: another(p, given[name])}},
				change{name: name + " kept", deployed: map[string]string{name: another(p, given[name])}})
		}
	}
	maps.Copy(defaults, given)
	changes = append(changes, change{name: "a second deployment", deployed: defaults},
		change{name: "code", code: "other"}, change{name: "a tag",
			from: "    AutoPublishAlias: live\n", to: "    AutoPublishAlias: live\n    Tags: {team: payouts}\n"},
		change{name: "a reserve", from: "Authorizer: 100,", to: "Authorizer: 101,"},
		change{name: "a description", from: "Lists a merchant's keys.", to: "Lists keys."},
		change{name: "a repeat after a failure", failed: "one"}, change{name: "after another", failed: "two"})
	cases, stages, dir := [][]any{}, map[string]any{}, t.TempDir()
	for i, c := range changes {
		build := filepath.Join(dir, fmt.Sprint(i))
		must.OK(t, os.MkdirAll(filepath.Join(build, "PayFunction"), 0o700))
		changed := strings.Replace(text, c.from, c.to, 1)
		if c.from != "" && changed == text {
			t.Fatalf("template.yaml has no %q", c.from)
		}
		must.OK(t, os.WriteFile(filepath.Join(build, "template.yaml"), []byte(changed), 0o600))
		must.OK(t, os.WriteFile(filepath.Join(build, "PayFunction", "bootstrap"), []byte("code"+c.code), 0o600))
		all := maps.Clone(given)
		maps.Copy(all, c.given)
		for name := range c.deployed {
			if c.given[name] == "" && strings.HasSuffix(c.name, " kept") {
				delete(all, name)
			}
		}
		deployed := map[string]string{}
		maps.Copy(deployed, c.deployed)
		cases = append(cases, []any{build, all, deployed, c.failed})
	}
	var found []string
	python(t, cases, &found, "-c", releases)
	unlike := map[string]string{}
	for i, c := range changes {
		same := c.name == "nothing" || c.name == "a second deployment"
		if other, known := unlike[found[i]]; known != same && !strings.HasSuffix(c.name, " kept") {
			t.Errorf("%s has the Release %s of %q", c.name, found[i], other)
		}
		unlike[found[i]] = c.name
		if strings.HasSuffix(c.name, " kept") {
			if found[i] != found[i-1] {
				t.Errorf("%s: a deployed value has another Release than the same one given", c.name)
			}
			continue // SAM's input is as before
		}
		if c.given != nil && c.name != "Size" || c.deployed != nil || c.failed != nil {
			continue // SAM is slow, and sees the template and the Release alone
		}
		stages[c.name] = node{"template": filepath.Join(cases[i][0].(string), "template.yaml"), "parameters": node{"Release": found[i]}}
	}
	var templates map[string]node
	python(t, stages, &templates, "tools/transform")
	before := versions(templates["before"])
	for name, template := range templates {
		after, kept := versions(template), 0
		for id := range after {
			if _, is := before[id]; is {
				kept++
			}
		}
		want := 0
		if name == "before" || name == "nothing" {
			want = len(before)
		}
		if kept != want || len(after) != len(before) || len(after) < 20 {
			t.Errorf("%s keeps %d versions of %d, not %d", name, kept, len(after), want)
		}
	}
}

// versions returns the logical ids of a template's versions. Each function has its Release twice, so Lambda makes them.
func versions(template node) map[string]bool {
	ids := map[string]bool{}
	for id, r := range at[node](template, "Resources") {
		if at[string](r, "Type") == "AWS::Lambda::Version" {
			function := at[any](template, "Resources."+at[string](r, "Properties.FunctionName.Ref")+".Properties")
			ids[id] = at[string](function, "Environment.Variables.RELEASE.Ref") == "Release"
		}
	}
	maps.DeleteFunc(ids, func(_ string, has bool) bool { return !has })
	return ids
}

// another returns a value of a parameter that is neither given nor its default, or the default beside a given one.
func another(p any, given string) string {
	for _, v := range at[[]any](p, "AllowedValues") {
		if fmt.Sprint(v) != given && (given != "" || fmt.Sprint(v) != fmt.Sprint(at[any](p, "Default"))) {
			return fmt.Sprint(v)
		}
	}
	return "7"
}

// deployed prints the parameters and the last failure of each stack that it is given.
const deployed = `
import importlib.machinery, json, sys
config = importlib.machinery.SourceFileLoader("samconfig", "tools/samconfig").load_module()
json.dump([config.running(name, "us-east-1") for name in json.load(sys.stdin)], sys.stdout)`

// TestReleaseKnowsTheLastFailure: tools/samconfig finds the parameters of a stack, and on any page of its events the
// last update of the stack itself that failed.
func TestReleaseKnowsTheLastFailure(t *testing.T) {
	event := func(id, of, status string) string {
		return fmt.Sprintf("<member><StackId>arn:stack</StackId><EventId>%s</EventId><PhysicalResourceId>%s</PhysicalResourceId>"+
			"<ResourceStatus>%s</ResourceStatus></member>", id, of, status)
	}
	pages := map[string]string{
		"": event("5", "arn:stack", "UPDATE_COMPLETE") + event("4", "queue", "UPDATE_FAILED") + "</StackEvents><NextToken>2</NextToken>",
		"2": event("3", "arn:stack", "UPDATE_ROLLBACK_COMPLETE") + event("2",
			"arn:stack", "UPDATE_ROLLBACK_IN_PROGRESS") + event("1", "arn:stack", "UPDATE_FAILED") + "</StackEvents>",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := "<StackEvents>" + pages[r.FormValue("NextToken")]
		if r.FormValue("Action") == "DescribeStacks" {
			answer = "<Stacks><member><StackId>arn:stack</StackId><Parameters><member><ParameterKey>LogRetentionDays</ParameterKey>" +
				"<ParameterValue>7</ParameterValue></member></Parameters></member></Stacks>"
			if r.FormValue("StackName") == "new" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprint(w, "<R><Error><Code>ValidationError</Code><Message>Stack with id new does not exist</Message></Error></R>")
				return
			}
		}
		_, _ = fmt.Fprintf(w, "<R><%[1]sResult>%s</%[1]sResult></R>", r.FormValue("Action"), answer)
	}))
	defer server.Close()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"} {
		t.Setenv(name, value)
	}
	var found []any
	python(t, []string{"remit", "new"}, &found, "-c", deployed)
	if diff := cmp.Diff([]any{[]any{node{"LogRetentionDays": "7"}, "2"}, []any{node{}, nil}}, found); diff != "" {
		t.Error(diff)
	}
}
