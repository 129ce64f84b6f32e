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
						if s["Resource"] == "*" && !strings.HasPrefix(words(s["Action"])[0], "xray:") {
							t.Errorf("%s may %v on everything", id, s["Action"])
						}
					}
				case "AWS::DynamoDB::Table", "AWS::SecretsManager::Secret":
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
