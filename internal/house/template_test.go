package house_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A node is template.yaml or a part of it, as written. Intrinsic functions appear as their
// arguments: `!Ref X` is the string X.
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

// functions returns the properties of the template's functions by the directory that they are built
// from.
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

// names returns the base names of the files that match a pattern, without their
// extension.
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

// oneMachine lets webhooks go to http://127.0.0.1, for stacks on one machine.
const oneMachine = "WEBHOOK_LOOPBACK"

// TestEveryFunctionIsGivenWhatItReads: a function does not start without a variable that it reads,
// and must not have others. The SDK reads AWS_ variables itself, and oneMachine must never be set:
// Lambda's runtime listens on 127.0.0.1.
func TestEveryFunctionIsGivenWhatItReads(t *testing.T) {
	all, used := files(t), map[string]int{}
	global := at[node](readTemplate(t), "Globals.Function.Environment.Variables")
	for name, f := range functions(t) {
		own, read := at[node](f, "Environment.Variables"), map[string]bool{}
		variables(t, all, "functions/"+name, "wire", read)
		if strings.Contains(string(all["functions/"+name+"/main.go"]), "meterenv.HTTP(wire") {
			variables(t, all, "internal/aws/meterenv", "Refusals", read)
		}
		for v, required := range read {
			used[v]++
			switch set := own[v] != nil || global[v] != nil; {
			case required && !set:
				t.Errorf("functions/%s cannot start without %s, which template.yaml does not set", name, v)
			case set && v == oneMachine:
				t.Errorf("template.yaml sets %s for functions/%s, which is for one machine only", v, name)
			}
		}
		if _, metered := read["STACK"]; !metered && strings.Contains(fmt.Sprint(at[node](f, "Events")), "Method:") {
			t.Errorf("functions/%s does not meter what it refuses", name)
		}
		for v := range own {
			if _, ok := read[v]; !ok && !strings.HasPrefix(v, "AWS_") {
				t.Errorf("template.yaml sets %s, which functions/%s does not read", v, name)
			}
		}
	}
	for v := range global {
		if used[v] < 2 && !strings.HasPrefix(v, "AWS_") && v != "CONFIGURATION" && v != "READS" { // there to change, and for remit rollback
			t.Errorf("template.yaml sets %s for every function and %d read it", v, used[v])
		}
	}
}

// uses matches the uses of env that variables can follow: a call with env and a
// variable's name (boot.Parse), a call that hands env on, a method of env with a
// name, the SDK's configuration and the clock, and the parameter itself.
var uses = regexp.MustCompile(`\b(?:(\w+)\.)?(\w+)\(env(?:, "(\w+)"|[,)])|\benv\.(\w+)\("(\w+)"|\benv\.(?:AWS|Now)\b|\benv\.Refuse\(|\benv \*(?:boot\.)?Env\b`)

// variables adds to read the variables that a function declared in dir reads from its env, itself
// or through the functions that it passes env to, and whether each is required.
func variables(t *testing.T, all map[string][]byte, dir, name string, read map[string]bool) {
	t.Helper()
	declared, body := regexp.MustCompile(`(?ms)^func `+name+`\(env \*(?:boot\.)?Env[^\n]*{$.*?^}`), ""
	for path, text := range all {
		if filepath.Dir(path) == dir {
			body += string(declared.Find(text))
		}
	}
	found := uses.FindAllStringSubmatch(body, -1)
	if n := len(regexp.MustCompile(`\benv\b`).FindAllString(body, -1)); n == 0 || n != len(found) {
		t.Errorf("%s has no func %s(env *boot.Env), or that uses env in a way that this test cannot follow", dir, name)
	}
	for _, m := range found {
		switch pkg, callee, parsed, method, named := m[1], m[2], m[3], m[4], m[5]; {
		case parsed != "":
			read[parsed] = true
		case named != "":
			read[named] = read[named] || method != "Optional"
		case pkg != "":
			variables(t, all, "internal/aws/"+pkg, callee, read)
		case callee != "":
			variables(t, all, dir, callee, read)
		}
	}
}

// TestRoutes: the gateway sends exactly our routes to their functions, with the authorizer before
// those that need a key.
func TestRoutes(t *testing.T) {
	type route struct{ method, path, function, authorizer string }
	coded := map[route]bool{}
	for _, r := range httpapi.Routes {
		authorizer := "NONE"
		if r.Scope != "" {
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
		}
	}
	for r := range coded {
		t.Errorf("template.yaml lacks %+v", r)
	}
}

var judgesARelease = regexp.MustCompile(`^(SendPayments?|CheckReceipts)(Errors|Crashes)$`)

func TestEveryAlarmHasItsPage(t *testing.T) {
	all := files(t)
	alarms := slices.Sorted(maps.Keys(resources(t, "AWS::CloudWatch::Alarm")))
	_, urgent, _ := strings.Cut(string(all["docs/alarms/README.md"]), "go to `UrgentTopicArn`: ")
	urgent, _, _ = strings.Cut(urgent, "\n")
	for _, alarm := range alarms {
		short := strings.TrimSuffix(alarm, "Alarm")
		said := slices.Contains(strings.FieldsFunc(urgent, func(r rune) bool { return r == ',' || r == ' ' }), short) ||
			judgesARelease.MatchString(short)
		if is := strings.Contains(fmt.Sprint(at[any](readTemplate(t), "Resources."+alarm+".Properties.AlarmActions")),
			"HasUrgentTopic"); is != said {
			t.Errorf("%s is urgent: %v in template.yaml, %v in docs/alarms/README.md", alarm, is, said)
		}
		if !strings.Contains(fmt.Sprint(at[any](readTemplate(t), "Resources.Dashboard")), "${"+alarm+".Arn}") {
			t.Errorf("the dashboard does not show %s", alarm)
		}
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

// TestDocumentsNameOutputsOfTheStack: `output X`, the shell function of docs/alarms, names an
// output of the template.
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
