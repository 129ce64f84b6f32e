package remit_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"remit/internal/httpapi"
)

// A template is what these tests read of template.yaml. Intrinsic functions
// appear as their arguments: `!Ref X` is the string X.
type template struct {
	Globals struct {
		Function function `yaml:"Function"`
	} `yaml:"Globals"`
	Resources map[string]resource `yaml:"Resources"`
}

type resource struct {
	Type       string    `yaml:"Type"`
	Properties yaml.Node `yaml:"Properties"`
}

type function struct {
	CodeURI     string `yaml:"CodeUri"`
	Environment struct {
		Variables map[string]any `yaml:"Variables"`
	} `yaml:"Environment"`
	Events map[string]struct {
		Type       string `yaml:"Type"`
		Properties struct {
			Method string `yaml:"Method"`
			Path   string `yaml:"Path"`
			Auth   struct {
				Authorizer string `yaml:"Authorizer"`
			} `yaml:"Auth"`
		} `yaml:"Properties"`
	} `yaml:"Events"`
}

func readTemplate(t *testing.T) template {
	t.Helper()
	var tmpl template
	decode(t, "template.yaml", &tmpl)
	return tmpl
}

// functions returns the template's functions by the directory each is built from.
func (tmpl template) functions(t *testing.T) map[string]function {
	t.Helper()
	all := make(map[string]function)
	for name, r := range tmpl.Resources {
		if r.Type != "AWS::Serverless::Function" {
			continue
		}
		id, ok := strings.CutSuffix(name, "Function")
		if !ok {
			t.Errorf("template.yaml: %s must end in Function", name)
		}
		var f function
		if err := r.Properties.Decode(&f); err != nil {
			t.Fatalf("template.yaml: %s: %v", name, err)
		}
		if want := "functions/" + kebab(id); strings.Trim(f.CodeURI, "./") != want {
			t.Errorf("template.yaml: %s is built from %s, not from %s/", name, f.CodeURI, want)
		}
		all[kebab(id)] = f
	}
	return all
}

func TestEveryFunctionIsDeployed(t *testing.T) {
	deployed := slices.Sorted(maps.Keys(readTemplate(t).functions(t)))
	if built := directories(t); !slices.Equal(deployed, built) {
		t.Errorf("template.yaml deploys %v,\nfunctions/ has %v", deployed, built)
	}
}

// oneMachine lets webhooks go to http://127.0.0.1, for stacks on one machine.
const oneMachine = "WEBHOOK_LOOPBACK"

// TestEveryFunctionIsGivenWhatItReads checks both ways: a variable that is read
// and not set stops a function from starting, one that is set and not read is a
// right or a fact the function has no use for. The SDK reads AWS_ ones itself,
// and oneMachine must never be set: 127.0.0.1 is where Lambda's runtime listens.
func TestEveryFunctionIsGivenWhatItReads(t *testing.T) {
	tmpl := readTemplate(t)
	src := &source{t: t, packages: make(map[string]map[string]declared)}
	global := tmpl.Globals.Function.Environment.Variables
	used := make(map[string]bool)
	for name, f := range tmpl.functions(t) {
		read := src.variables(filepath.Join("functions", name))
		own := f.Environment.Variables
		for v, required := range read {
			used[v] = true
			switch set := own[v] != nil || global[v] != nil; {
			case required && !set:
				t.Errorf("functions/%s cannot start without %s, which template.yaml does not set", name, v)
			case set && v == oneMachine:
				t.Errorf("template.yaml sets %s for functions/%s, which is for one machine only", v, name)
			}
		}
		for v := range own {
			if _, ok := read[v]; !ok && !strings.HasPrefix(v, "AWS_") {
				t.Errorf("template.yaml sets %s, which functions/%s does not read", v, name)
			}
		}
	}
	for v := range global {
		if !used[v] && !strings.HasPrefix(v, "AWS_") {
			t.Errorf("template.yaml sets %s for every function and none reads it", v)
		}
	}
}

// TestRoutes checks that the gateway sends each route to its function, with the
// authorizer before all that need a key, and has no other.
func TestRoutes(t *testing.T) {
	type route struct{ method, path, function, authorizer string }
	var coded, deployed []route
	for _, r := range httpapi.Routes {
		authorizer := "NONE"
		if r.Key {
			authorizer = ""
		}
		if r.Function != "" {
			coded = append(coded, route{r.Method, r.Path, r.Function, authorizer})
		}
	}
	for name, f := range readTemplate(t).functions(t) {
		for _, e := range f.Events {
			if e.Type == "Api" {
				deployed = append(deployed, route{strings.ToUpper(e.Properties.Method), e.Properties.Path, name, e.Properties.Auth.Authorizer})
			}
		}
	}
	for _, r := range coded {
		if !slices.Contains(deployed, r) {
			t.Errorf("template.yaml lacks %+v", r)
		}
	}
	for _, r := range deployed {
		if !slices.Contains(coded, r) {
			t.Errorf("httpapi.Routes lacks %+v", r)
		}
	}
}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	type operation struct {
		OperationID string       `yaml:"operationId"`
		Security    *[]yaml.Node `yaml:"security"`
	}
	var api struct {
		Paths map[string]struct{ Get, Post, Put, Patch, Delete, Head, Options *operation }
	}
	decode(t, "internal/httpapi/openapi.yaml", &api)
	described := make(map[string]*operation)
	for path, p := range api.Paths {
		for method, op := range map[string]*operation{
			"GET": p.Get, "POST": p.Post, "PUT": p.Put, "PATCH": p.Patch, "DELETE": p.Delete, "HEAD": p.Head, "OPTIONS": p.Options,
		} {
			if op != nil {
				described[method+" "+path] = op
			}
		}
	}
	for _, r := range httpapi.Routes {
		name := r.Method + " " + r.Path
		op := described[name]
		if op == nil {
			t.Errorf("openapi.yaml lacks %s", name)
			continue
		}
		delete(described, name)
		if !strings.EqualFold(op.OperationID, r.Handler) {
			t.Errorf("openapi.yaml: operationId of %s is %q, the handler is %s", name, op.OperationID, r.Handler)
		}
		if open := op.Security != nil && len(*op.Security) == 0; open == r.Key {
			t.Errorf("openapi.yaml: %s needs no key: %v, in httpapi.Routes: %v", name, open, !r.Key)
		}
	}
	for name := range described {
		t.Errorf("openapi.yaml describes %s, which httpapi.Routes lacks", name)
	}
}

// TestEveryFunctionHasEvents asks for at least one event that a function takes
// and one that it refuses: events/NAME.json, or NAME-something.json, and
// events/NAME-bad.json, or NAME-bad-something.json.
func TestEveryFunctionHasEvents(t *testing.T) {
	paths, err := filepath.Glob("events/*.json")
	if err != nil {
		t.Fatal(err)
	}
	functions := directories(t)
	good, bad := make(map[string]int), make(map[string]int)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		owner := ""
		for _, f := range functions {
			if (name == f || strings.HasPrefix(name, f+"-")) && len(f) > len(owner) {
				owner = f
			}
		}
		switch rest := strings.TrimPrefix(name, owner); {
		case owner == "":
			t.Errorf("%s belongs to no function", path)
		case rest == "-bad" || strings.HasPrefix(rest, "-bad-"):
			bad[owner]++
		default:
			good[owner]++
		}
		var event struct{ Resource, HTTPMethod string }
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &event); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		i := slices.IndexFunc(httpapi.Routes, func(r httpapi.Route) bool { return r.Method == event.HTTPMethod && r.Path == event.Resource })
		if event.Resource != "" && owner != "authorizer" && (i < 0 || httpapi.Routes[i].Function != owner) {
			t.Errorf("%s is of %s %s, which is no route of %s", path, event.HTTPMethod, event.Resource, owner)
		}
	}
	for _, f := range functions {
		if good[f] == 0 || bad[f] == 0 {
			t.Errorf("events/ has %d good and %d bad events for %s; it needs one of each", good[f], bad[f], f)
		}
	}
}

func TestEveryAlarmHasItsPage(t *testing.T) {
	var alarms, pages []string
	for name, r := range readTemplate(t).Resources {
		if r.Type == "AWS::CloudWatch::Alarm" {
			alarms = append(alarms, name)
		}
	}
	paths, err := filepath.Glob("docs/alarms/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		if name == "README" {
			continue
		}
		pages = append(pages, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var sections []string
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
			sections = append(sections, m[1])
		}
		if want := []string{name, "What it means", "Where to look", "What to do"}; !slices.Equal(sections, want) {
			t.Errorf("%s has the sections %q, want %q", path, sections, want)
		}
	}
	slices.Sort(alarms)
	slices.Sort(pages)
	if !slices.Equal(alarms, pages) {
		t.Errorf("template.yaml has the alarms %v,\ndocs/alarms/ the pages %v", alarms, pages)
	}
}

// TestDocumentsNameOutputsOfTheStack: `output X` in a document is the shell
// function of docs/alarms, which finds nothing if the template has no X.
func TestDocumentsNameOutputsOfTheStack(t *testing.T) {
	var tmpl struct {
		Outputs map[string]yaml.Node `yaml:"Outputs"`
	}
	decode(t, "template.yaml", &tmpl)
	named := regexp.MustCompile(`\boutput ([A-Z][A-Za-z]+)`)
	for path, text := range files(t) {
		if !strings.HasPrefix(path, "docs/") {
			continue
		}
		for _, m := range named.FindAllSubmatch(text, -1) {
			if _, ok := tmpl.Outputs[string(m[1])]; !ok {
				t.Errorf("%s names the output %s, which template.yaml does not have", path, m[1])
			}
		}
	}
}

// directories returns the names of the directories that hold a main.
func directories(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("functions/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	slices.Sort(names)
	return names
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// kebab writes SendPayment as send-payment, the directory of a logical id.
func kebab(s string) string {
	return strings.ToLower(wordStart.ReplaceAllString(s, "$1-$2"))
}
