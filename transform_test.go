package remit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"remit/internal/settings"
	"remit/internal/tooltest"
)

// stages are the parameters of the stacks that the rules below are held against.
var stages = map[string]map[string]string{
	"dev": {"Environment": "dev"},
	"prod": {
		"Environment": "prod", "Mode": "live", "ChainId": "8453", "Network": "base", "TokenAddress": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
		"AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:alarms", "WebAcl": "true",
		"KmsKeyArn": "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555",
	},
}

// transformed returns template.yaml as AWS reads it after SAM's transform, for sets of
// parameters by their names.
func transformed(t *testing.T, sets map[string]map[string]string) map[string]node {
	t.Helper()
	type set struct {
		Name       string            `json:"name"`
		Parameters map[string]string `json:"parameters"`
	}
	var input []set
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		input = append(input, set{name, sets[name]})
	}
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tooltest.Path(t, "the local AWS and the SAM CLI", ".cache/venv/bin/python"), "tools/transform")
	var failed bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &failed
	out, err := cmd.Output()
	var all map[string]node
	if err = errors.Join(err, json.Unmarshal(out, &all)); err != nil {
		t.Fatalf("transforming the template: %v\n%s", err, failed.Bytes())
	}
	return all
}

// TestTransformedTemplate holds what AWS refuses, or grants, only after SAM's transform.
// The local AWS accepts each of these.
func TestTransformedTemplate(t *testing.T) {
	for stage, template := range transformed(t, stages) {
		t.Run(stage, func(t *testing.T) {
			canaries := 0
			for id, v := range at[node](template, "Resources") {
				r := v.(node)
				switch kind := at[string](r, "Type"); kind {
				case "AWS::ApiGateway::Account":
					t.Errorf("%s: a setting of the account belongs to no stack: remit preflight says how to make it", id)
				case "AWS::SQS::QueuePolicy":
					for _, s := range statements(at[any](r, "Properties.PolicyDocument")) {
						if s["Resource"] != "*" {
							t.Errorf("%s: SQS takes one queue in a statement, and * for the queue itself: %v", id, s["Resource"])
						}
					}
				case "AWS::IAM::Role", "AWS::IAM::ManagedPolicy":
					policies := fmt.Sprint(at[any](r, "Properties.ManagedPolicyArns"))
					if id != "CodeDeployServiceRole" && strings.Contains(policies, ":iam::aws:policy") {
						t.Errorf("%s has policies of AWS, whose rights are on the whole account: %s", id, policies)
					}
					for _, s := range statements([]any{at[any](r, "Properties.Policies"), r["Properties"]}) {
						if s["Resource"] == "*" && s["Effect"] != "Deny" && !strings.HasPrefix(words(s["Action"])[0], "xray:") {
							t.Errorf("%s may %v on everything", id, s["Action"])
						}
					}
				case "AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::SecretsManager::Secret":
					if r["DeletionPolicy"] != "RetainExceptOnCreate" || r["UpdateReplacePolicy"] != "Retain" {
						t.Errorf("%s is lost with the stack, or stays when its first deployment fails", id)
					}
				case "AWS::CodeDeploy::DeploymentGroup":
					canaries++
				case "AWS::ApiGateway::Stage":
					for _, s := range at[[]any](r, "Properties.MethodSettings") {
						if at[any](s, "MetricsEnabled") == true {
							t.Errorf("%s: the metrics of a method are billed as custom ones: %v", id, at[any](s, "ResourcePath"))
						}
					}
				}
			}
			if (canaries > 0) != (stage == "prod") {
				t.Errorf("%d functions are deployed by canaries", canaries)
			}
		})
	}
}

// TestEveryParameterTakesEffect: CloudFormation replaces a function's version only if one
// of the version's properties that are fixed when it is made changes, and Lambda makes one
// only if the function's configuration has changed too. Of both there is one here: the name
// of the policy Configuration, whose description is fixed as well and has every parameter.
// Without that, the alias serves the values of before.
func TestEveryParameterTakesEffect(t *testing.T) {
	for stage, template := range transformed(t, stages) {
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
				if got := fmt.Sprint(at[any](properties, "Environment.Variables.READS")); got != fmt.Sprint(settings.Code) {
					t.Errorf("%s: remit rollback takes %s for code that understands %s, not %d", stage, id, got, settings.Code)
				}
				if got := fmt.Sprint(at[any](properties, "Environment.Variables.CONFIGURATION")); got != "map[Ref:Configuration]" {
					t.Errorf("%s: %s has the CONFIGURATION %s", stage, id, got)
				}
			case "AWS::Lambda::Version":
				if got := fmt.Sprint(at[any](v, "Properties.Description")); got != "map[Ref:Configuration]" {
					t.Errorf("%s: %s has the description %s", stage, id, got)
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

// named adds the parameters to found that a value names, itself or by a condition.
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

// longestValue returns how many characters the longest value of a parameter has.
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
