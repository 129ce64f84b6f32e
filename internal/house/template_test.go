package house_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A node is template.yaml or a part of it, as written. Functions appear as their arguments: `!Ref X` is the string X.
type node = map[string]any

// readTemplate returns template.yaml, which tests do not change.
func readTemplate(t *testing.T) node {
	t.Helper()
	return must.Get(parsed())(t)
}

var parsed = sync.OnceValues(func() (template node, err error) {
	text, err := os.ReadFile("template.yaml")
	err = errors.Join(err, yaml.Unmarshal(text, &template))
	return template, err
})

// at returns the value at a path of names with dots between them, or the zero value.
func at[T any](v any, path string) T {
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(node)
		v = m[name]
	}
	found, _ := v.(T)
	return found
}

// resources returns the template's resources of a type, or all if it is empty, by their logical
// ids. A function's properties include its Rights: its role's statements.
func resources(t *testing.T, kind string) map[string]node {
	t.Helper()
	found, all := map[string]node{}, at[node](readTemplate(t), "Resources")
	for id, r := range all {
		if kind == "" || at[string](r, "Type") == kind {
			found[id] = r.(node)
		}
		if role, ok := strings.CutSuffix(at[string](r, "Properties.Role"), ".Arn"); ok {
			at[node](r, "Properties")["Rights"] = rights(all, role)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %s in template.yaml", kind)
	}
	return found
}

func rights(all node, role string) (found []node) {
	for _, policy := range words(at[any](all[role], "Properties.ManagedPolicyArns")) {
		found = append(found, statements(at[any](all[policy], "Properties.PolicyDocument"))...)
	}
	return found
}

// functions returns the properties of the template's functions by the directory that they are built from.
func functions(t *testing.T) map[string]node {
	t.Helper()
	all := map[string]node{}
	for id, r := range resources(t, "AWS::Serverless::Function") {
		name, ok := strings.CutSuffix(id, "Function")
		name = strings.ToLower(wordStart.ReplaceAllString(name, "$1-$2"))
		if uri := at[string](r, "Properties.CodeUri"); !ok || uri != "functions/"+name+"/" {
			t.Errorf("template.yaml: %s is built from %s; SendPaymentFunction would be from functions/send-payment/", id, uri)
		}
		all[name] = at[node](r, "Properties")
	}
	return all
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// names returns the base names of the files that match a pattern, without their extension.
func names(t *testing.T, pattern string) (all []string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s matches nothing: %v", pattern, err)
	}
	for _, path := range paths {
		all = append(all, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	}
	return all
}

func TestEveryFunctionIsDeployed(t *testing.T) {
	if deployed, built := slices.Sorted(maps.Keys(functions(t))), names(t, "functions/*"); !slices.Equal(deployed, built) {
		t.Errorf("template.yaml deploys %v,\nfunctions/ has %v", deployed, built)
	}
}

// TestVariablesAreRead: the code reads each variable that template.yaml sets. One that it lacks fails e2e's TestEvents:
// the function does not start. WEBHOOK_LOOPBACK lets webhooks go to http://127.0.0.1, where Lambda's runtime listens:
// it is for stacks on one machine and never set. RELEASE is there to change.
func TestVariablesAreRead(t *testing.T) {
	set, code := at[node](readTemplate(t), "Globals.Function.Environment.Variables"), ""
	for path, text := range files(t) {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			code += string(text)
		}
	}
	all := slices.Collect(maps.Keys(set))
	for _, f := range functions(t) {
		all = append(all, slices.Collect(maps.Keys(at[node](f, "Environment.Variables")))...)
	}
	for _, v := range all {
		known := strings.HasPrefix(v, "AWS_") || v == "RELEASE"
		if v == "WEBHOOK_LOOPBACK" || !known && !strings.Contains(code, `"`+v+`"`) {
			t.Errorf("template.yaml sets %s, which no function reads", v)
		}
	}
	if len(all) < 15 {
		t.Errorf("template.yaml sets %d variables: has its form changed?", len(all))
	}
}

// TestRoutes: the gateway sends exactly our routes to their functions, with the authorizer if they need a key.
func TestRoutes(t *testing.T) {
	type route struct{ method, path, function, authorizer string }
	coded := map[route]bool{}
	for _, r := range httpapi.Routes {
		authorizer := "NONE"
		if r.Scopes != 0 {
			authorizer = ""
		}
		if r.Function != "" {
			coded[route{r.Method, r.Path, r.Function, authorizer}] = true
		}
	}
	for name, f := range functions(t) {
		for _, e := range at[node](f, "Events") {
			if at[string](e, "Type") != "Api" {
				continue
			}
			r := route{strings.ToUpper(at[string](e, "Properties.Method")), at[string](e, "Properties.Path"), name,
				at[string](e, "Properties.Auth.Authorizer")}
			if !coded[r] {
				t.Errorf("httpapi.Routes lacks %+v", r)
			}
			delete(coded, r)
			if !strings.Contains(string(files(t)["functions/"+name+"/main.go"]), "apienv.") {
				t.Errorf("functions/%s does not log what it refuses", name)
			}
		}
	}
	for r := range coded {
		t.Errorf("template.yaml lacks %+v", r)
	}
}

func TestEveryAlarmHasItsPage(t *testing.T) {
	all := files(t)
	alarms := slices.Sorted(maps.Keys(resources(t, "AWS::CloudWatch::Alarm")))
	canaries := ""
	for _, f := range functions(t) {
		canaries += fmt.Sprint(at[any](f, "DeploymentPreference.Alarms"))
	}
	for alarm, runs := range map[string]string{"SettlementStoppedAlarm": "CheckReceipts", "ReleasesStoppedAlarm": "ReleaseProposals"} {
		after := fmt.Sprint(at[any](readTemplate(t), "Resources."+alarm+".DependsOn"))
		if after != "["+runs+"FunctionEveryMinute Apiv1Stage]" {
			t.Errorf("%s rings before the first run: it follows %s", alarm, after)
		}
	}
	silent := 0
	_, urgent, _ := strings.Cut(string(all["docs/alarms/README.md"]), "go to `UrgentTopicArn`: ")
	urgent, _, _ = strings.Cut(urgent, "\n")
	for _, alarm := range alarms {
		short := strings.TrimSuffix(alarm, "Alarm")
		said := slices.Contains(strings.FieldsFunc(urgent, func(r rune) bool { return strings.ContainsRune(", .", r) }), short)
		actions := at[any](readTemplate(t), "Resources."+alarm+".Properties.AlarmActions")
		if actions == nil {
			if silent++; !strings.Contains(canaries, alarm) {
				t.Errorf("%s notifies nobody, and stops no canary", alarm)
			}
		}
		if is := strings.Contains(fmt.Sprint(actions), "HasUrgentTopic"); is != said {
			t.Errorf("%s is urgent: %v in template.yaml, %v in docs/alarms/README.md", alarm, is, said)
		}
		if !strings.Contains(fmt.Sprint(at[any](readTemplate(t), "Resources.Dashboard")), "${"+alarm+".Arn}") {
			t.Errorf("the dashboard does not show %s", alarm)
		}
	}
	if silent > 8 {
		t.Errorf("%d alarms only stop canaries, more than 8", silent)
	}
	pages := slices.DeleteFunc(names(t, "docs/alarms/*.md"), func(name string) bool { return name == "README" })
	if !slices.Equal(alarms, pages) {
		t.Errorf("template.yaml has the alarms %v,\ndocs/alarms/ the pages %v", alarms, pages)
	}
	for _, name := range pages {
		var sections []string
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllSubmatch(all["docs/alarms/"+name+".md"], -1) {
			sections = append(sections, string(m[1]))
		}
		if want := []string{name, "Meaning", "Where to look", "Response"}; !slices.Equal(sections, want) {
			t.Errorf("docs/alarms/%s.md has the sections %q, want %q", name, sections, want)
		}
	}
}

// TestDocumentsNameOutputsOfTheStack: `output X`, the shell function of docs/alarms, names an output of the template.
func TestDocumentsNameOutputsOfTheStack(t *testing.T) {
	outputs, named := at[node](readTemplate(t), "Outputs"), regexp.MustCompile(`\boutput ([A-Z][A-Za-z]+)`)
	for path, text := range files(t) {
		for _, m := range named.FindAllSubmatch(text, -1) {
			if outputs[string(m[1])] == nil && strings.HasPrefix(path, "docs/") {
				t.Errorf("%s names the output %s, which template.yaml does not have", path, m[1])
			}
		}
	}
}

// reserved are the functions whose time clients, their servers or nodes decide: the concurrency that each has to
// itself is the most that a flood of requests can make of it. The authorizer is asked before the methods' rates
// count. Of the others a method's rate is enough, since they answer after a read or two.
const reserved = "authorizer check-receipts send-payment send-payments get-balance create-webhook update-webhook test-webhook"

// TestOneMerchantCannotStarveTheOthers: every method has a bucket of its own, and every
// function behind a queue a limit of its batches.
func TestOneMerchantCannotStarveTheOthers(t *testing.T) {
	throttled := map[string]bool{"* *": true} // the rest, of which there is none
	for _, s := range at[[]any](resources(t, "AWS::Serverless::Api")["Api"], "Properties.MethodSettings") {
		path := strings.ReplaceAll(strings.TrimPrefix(at[string](s, "ResourcePath"), "/"), "~1", "/")
		throttled[at[string](s, "HttpMethod")+" "+path] = at[any](s, "ThrottlingRateLimit") != nil
		if at[any](s, "ThrottlingBurstLimit") == nil {
			t.Errorf("%s has a rate and no burst, which would be the account's", path)
		}
	}
	for size, of := range at[node](readTemplate(t), "Mappings.Concurrency") {
		sum := 0
		for _, f := range functions(t) {
			if r, reserves := f["ReservedConcurrentExecutions"].([]any); reserves && size != "sandbox" {
				n := r[1]
				if mapped, is := n.([]any); is {
					n = at[any](of, fmt.Sprint(mapped[2]))
				}
				sum += must.Get(strconv.Atoi(fmt.Sprint(n)))(t)
			}
		}
		if all := fmt.Sprint(at[any](of, "All")); all != fmt.Sprint(sum) {
			t.Errorf("size %s: All is %s, and the functions reserve %d", size, all, sum)
		}
	}
	for name, f := range functions(t) {
		if got := fmt.Sprint(f["ReservedConcurrentExecutions"]); strings.HasPrefix(got, "[Reserves ") != has(reserved, name) {
			t.Errorf("%s reserves %s", name, got)
		}
		for _, e := range at[node](f, "Events") {
			route := strings.ToUpper(at[string](e, "Properties.Method")) + " " + at[string](e, "Properties.Path")
			if at[string](e, "Type") == "Api" && !throttled[route] {
				t.Errorf("%s has no rate in MethodSettings", route)
			}
			if at[string](e, "Type") == "SQS" && at[any](e, "Properties.ScalingConfig.MaximumConcurrency") == nil {
				t.Errorf("%s takes as many batches at once as there are", name)
			}
		}
	}
}

// TestPlanKnowsTheSize: remit plan and the template have the same Size=small.
func TestPlanKnowsTheSize(t *testing.T) {
	mappings := at[node](readTemplate(t), "Mappings")
	for name, want := range plan.Small {
		got := at[any](mappings, "Rates.small."+name)
		if got == nil {
			got = at[any](mappings, "Concurrency.small."+name)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v in the template, %v in the plan", name, got, want)
		}
	}
}
