package house_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

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
var nameless = regexp.MustCompile(`^(xray|kms):|^(cloudwatch:DescribeAlarms|secretsmanager:ListSecrets)$`)

// TestTransformedTemplate checks mistakes that AWS refuses, and dangerous rights and deletions, that SAM and
// the local AWS accept. Each was made once. In production the functions that move money, and the authorizer
// of none, are deployed by canaries.
func TestTransformedTemplate(t *testing.T) {
	for stage, template := range transformed(t) {
		t.Run(stage, func(t *testing.T) { faults(t, template, stage == "prod") })
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
		switch kind {
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
			if n := longest(t, template, at[any](r, "Properties.PolicyDocument")); n > 6144 {
				add("the policy %s has up to %d characters, and IAM takes 6144", id, n)
			}
			if n := len(at[[]any](r, "Properties.ManagedPolicyArns")); n > 10 {
				add("%s has %d policies, and IAM takes 10", id, n)
			}
		case "AWS::Lambda::Function":
			// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
			if n := longest(t, template, at[any](r, "Properties.Environment.Variables")); n > 4096 {
				add("the variables of %s have up to %d bytes, and Lambda takes 4096", id, n)
			}
		case "AWS::Lambda::Version":
			if at[string](r, "Properties.Description.Ref") != "Configuration" {
				add("%s: a changed parameter publishes no version of it", id)
			}
			if r["UpdateReplacePolicy"] != "Retain" {
				add("%s is deleted when a changed parameter replaces it, while it still serves beside a canary", id)
			}
		case "AWS::CodeDeploy::DeploymentGroup":
			canaries = append(canaries, strings.TrimSuffix(id, "DeploymentGroup"))
			for _, alarm := range at[[]any](r, "Properties.AlarmConfiguration.Alarms") {
				name := at[string](alarm, "Name.Ref")
				version := strings.TrimSuffix(id, "DeploymentGroup") + ".Version"
				if watched := fmt.Sprint(at[any](all[name], "Properties.Dimensions")); !strings.Contains(watched,
					strings.TrimSuffix(version, ".Version")+"Version") {
					add("the canary of %s watches %s, which is not of its new version: %s", id, name, watched)
				}
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
	want := []string{"CheckReceiptsFunction", "SendPaymentFunction", "SendPaymentsFunction"}
	if production && !slices.Equal(canaries, want) || !production && len(canaries) > 0 {
		add("%v are deployed by canaries, in production %v should be", canaries, want)
	}
	if n := len(all); n > 500 {
		add("%d resources, and CloudFormation takes 500", n)
	}
}

// longest returns the size of v as JSON with the longest values of the parameters, and 128
// characters for each name that AWS chooses.
func longest(t *testing.T, template node, v any) int {
	t.Helper()
	var whole func(v any) any
	whole = func(v any) any {
		switch v := v.(type) {
		case []any:
			var all []any
			for _, each := range v {
				all = append(all, whole(each))
			}
			return all
		case node:
			p, parameter := at[node](template, "Parameters")[at[string](v, "Ref")].(node)
			choice, _ := v["Fn::If"].([]any)
			switch {
			case parameter:
				return strings.Repeat("x", longestValue(t, at[string](v, "Ref"), p))
			case choice != nil:
				a, b := whole(choice[1]), whole(choice[2])
				if len(fmt.Sprint(a)) > len(fmt.Sprint(b)) {
					return a
				}
				return b
			case len(v) == 1 && (v["Ref"] != nil || v["Fn::GetAtt"] != nil || v["Fn::Sub"] != nil):
				return strings.Repeat("x", 128)
			}
			all := node{}
			for name, each := range v {
				all[name] = whole(each)
			}
			return all
		}
		return v
	}
	text := must.Get(json.Marshal(whole(v)))(t)
	return len(text)
}

// TestEveryParameterTakesEffect: CloudFormation replaces a function's version only if a fixed
// property of the version changes, and Lambda makes one only if the function's configuration
// changes too. The policy Configuration has both: its name and its description include every
// parameter. Otherwise the alias would keep serving the old values.
func TestEveryParameterTakesEffect(t *testing.T) {
	for stage, template := range transformed(t) {
		conditions, resources := at[node](template, "Conditions"), at[node](template, "Resources")
		parameters := at[node](template, "Parameters")
		policy := resources["Configuration"]
		has, used := map[string]bool{}, map[string]bool{}
		named(parameters, conditions, at[any](policy, "Properties.Description"), has)
		if len(has) == 0 || at[string](policy, "Type") != "AWS::IAM::ManagedPolicy" {
			t.Fatalf("%s: the policy Configuration has no description", stage)
		}
		functions := 0
		for id, v := range resources {
			switch at[string](v, "Type") {
			case "AWS::Lambda::Function":
				functions++
				properties := maps.Clone(at[node](v, "Properties"))
				for _, other := range []string{"Tags", "Role", "ReservedConcurrentExecutions"} { // not of a version
					delete(properties, other)
				}
				named(parameters, conditions, properties, used)
				if got := fmt.Sprint(at[any](properties, "Environment.Variables.CONFIGURATION")); got != "map[Ref:Configuration]" {
					t.Errorf("%s: %s has the CONFIGURATION %s", stage, id, got)
				}
			}
		}
		for name := range used {
			if !has[name] {
				t.Errorf("%s: a change of %s publishes no version: Configuration's description lacks it", stage, name)
			}
		}
		longest := 0
		for name := range has {
			if !used[name] {
				t.Errorf("%s: no function is configured with %s, and each is published when it changes", stage, name)
			}
			longest += 1 + longestValue(t, name, at[node](parameters, name))
		}
		if longest > 1000 || functions < 20 {
			t.Errorf("%s: %d functions; the description may have %d characters, and IAM takes 1000", stage, functions, longest)
		}
	}
}

// named adds to found the parameters that a value names, itself or by a condition.
func named(parameters, conditions node, v any, found map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, each := range v {
			named(parameters, conditions, each, found)
		}
	case node:
		for key, each := range v {
			switch text, _ := each.(string); key {
			case "Ref":
				found[text] = found[text] || parameters[text] != nil
			case "Condition":
				named(parameters, conditions, conditions[text], found)
			case "Fn::If":
				named(parameters, conditions, conditions[each.([]any)[0].(string)], found)
			case "Fn::Sub":
				for name := range parameters {
					found[name] = found[name] || strings.Contains(fmt.Sprint(each), "${"+name+"}")
				}
			}
			named(parameters, conditions, each, found)
		}
	}
	maps.DeleteFunc(found, func(_ string, is bool) bool { return !is })
}

func longestValue(t *testing.T, name string, p node) int {
	if of := at[float64](p, "MaxLength"); of > 0 {
		return int(of)
	}
	longest := 0
	for _, v := range at[[]any](p, "AllowedValues") {
		longest = max(longest, len(fmt.Sprint(v)))
	}
	if longest > 0 {
		return longest
	}
	if at[string](p, "Type") == "Number" {
		return 20
	}
	t.Errorf("nothing says how long %s may be: give it a MaxLength", name)
	return 0
}
