// Package remit_test holds the house in order: who may import whom, and that
// template.yaml, functions/, openapi.yaml, events/ and docs/ agree with the code.
package remit_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	domains = "apikey chain payment token wallet webhook"
	engines = "dispatch settlement"
)

// mayImport is the dependency direction of the repository, which points down
// only. A package under internal/ may import what is listed for it and nothing
// else of ours. Tests may import anything, since nothing imports them.
var mayImport = map[string]string{
	// The ground.
	"strictjson": "",
	"token":      "",

	// Domains. Webhooks and keys know nothing of payments.
	"apikey":        "",
	"chain":         "token",
	"payment":       "chain token",
	"wallet":        "chain payment token",
	"webhook":       "",
	"webhook/guard": "webhook",

	// What a deployment decides.
	"stack": "chain token",

	// The port of the protocol, and what may stand before it.
	"store":     "chain payment token wallet",
	"interpose": "chain payment store token wallet",

	// Engines: what happens between the domains.
	"dispatch":   "chain payment stack store token wallet",
	"settlement": "chain payment stack store token wallet webhook",

	// Adapters, which never import each other.
	"boot":    "apikey",
	"devnet":  "chain token",
	"dynamo":  "store " + domains,
	"emf":     "webhook",
	"ethrpc":  "chain token",
	"httpapi": "store strictjson " + domains + " " + engines,
	"keyring": "chain token wallet",
	"memory":  "store " + domains,
	"queue":   "webhook",
	"secrets": "",

	// A merchant's view of the API, which knows none of the server's types.
	"client": "",

	// Assemblies: what several functions put together in the same way.
	"emf/runreport": "emf settlement token",
	"chainenv":      "boot chain ethrpc secrets stack token",

	// The rooms of the command line, which know nothing of each other.
	"local":    "apikey chain devnet dispatch dynamo ethrpc httpapi keyring memory settlement stack store token webhook webhook/guard",
	"merchant": "client",
	"operator": "apikey chain dynamo ethrpc keyring payment queue secrets store token wallet webhook",

	// Stores in memory, conformance suites and faults, for tests and for the
	// stack on one machine.
	"dynamo/dynamotest":    "",
	"httpapi/fuzztest":     "",
	"httpapi/httpapitest":  "httpapi",
	"local/localtest":      "client local",
	"simulation":           "interpose memory simulation/fakechain simulation/oracle simulation/scheduler stack store " + domains + " " + engines,
	"simulation/fakechain": "chain token wallet",
	"simulation/oracle":    "dispatch memory simulation/fakechain store " + domains,
	"simulation/scheduler": "interpose",
	"storetest":            "store " + domains,
}

// onlyIn says which packages may import something heavy or powerful; a
// trailing slash stands for everything below. Packages for tests may import all
// of it, and no function links them.
var onlyIn = map[string]string{
	"github.com/aws/":        "boot dynamo local operator queue secrets",
	"github.com/awslabs/":    "boot",
	"github.com/ethereum/":   "devnet ethrpc keyring",
	"net/http":               "boot client devnet ethrpc httpapi local merchant webhook webhook/guard",
	"os/exec":                "",
	"github.com/alecthomas/": "",
}

// mayLink says which functions may link what costs start-up time or holds
// power over money. The others do not, not even through somebody else.
var mayLink = map[string]string{
	"github.com/ethereum/":       "check-receipts get-balance send-payment",
	"remit/internal/ethrpc":      "check-receipts get-balance send-payment",
	"remit/internal/keyring":     "check-receipts send-payment",
	"remit/internal/devnet":      "",
	"remit/internal/settlement":  "check-receipts",
	"remit/internal/interpose":   "",
	"remit/internal/memory":      "",
	"remit/internal/simulation":  "",
	"remit/internal/simulation/": "",
	"remit/internal/storetest":   "",
	"testing":                    "",
	"github.com/google/go-cmp/":  "",
}

func TestImportsPointDown(t *testing.T) {
	unseen := make(map[string]bool)
	for imp := range mayImport {
		unseen[imp] = true
	}
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Imports " "}}`, "./internal/...") {
		name := strings.TrimPrefix(pkg[0], "remit/internal/")
		allowed, ok := mayImport[name]
		if !ok {
			t.Errorf("internal/%s: say in mayImport what it may import", name)
			continue
		}
		delete(unseen, name)
		for _, imp := range pkg[1:] {
			if ours, ok := strings.CutPrefix(imp, "remit/"); ok && !has(allowed, strings.TrimPrefix(ours, "internal/")) {
				t.Errorf("internal/%s must not import %s", name, ours)
			}
			for what, where := range onlyIn {
				if matches(imp, what) && !has(where, name) && !strings.HasSuffix(name, "test") {
					t.Errorf("internal/%s must not import %s: only %q may", name, imp, where)
				}
			}
		}
	}
	for name := range unseen {
		t.Errorf("mayImport lists internal/%s, which is not there", name)
	}
}

func TestToolsStandAlone(t *testing.T) {
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Imports " "}}`, "./tools/...") {
		for _, imp := range pkg[1:] {
			if strings.HasPrefix(imp, "remit/") {
				t.Errorf("%s must not import %s", pkg[0], imp)
			}
		}
	}
}

func TestFunctionsLinkOnlyWhatTheyNeed(t *testing.T) {
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Deps " "}}`, "-tags=lambda.norpc", "./functions/...") {
		name := strings.TrimPrefix(pkg[0], "remit/functions/")
		for _, dep := range pkg[1:] {
			for what, who := range mayLink {
				if matches(dep, what) && !has(who, name) {
					t.Errorf("functions/%s must not link %s", name, dep)
				}
			}
		}
	}
}

// TestCommandLinksNoTestCode: tables in memory are part of the command, the
// suites that hold them to their contract are not.
func TestCommandLinksNoTestCode(t *testing.T) {
	for _, dep := range list(t, `{{join .Deps "\n"}}`, "./cmd/remit") {
		for _, unwanted := range []string{"testing", "github.com/google/go-cmp/", "remit/internal/simulation", "remit/internal/storetest"} {
			if matches(dep[0], unwanted) {
				t.Errorf("cmd/remit must not link %s", dep[0])
			}
		}
	}
}

// list runs go list and returns the words of each line it prints.
func list(t *testing.T, format string, args ...string) [][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-f", format}, args...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, complaint.String())
	}
	var packages [][]string
	for line := range strings.Lines(string(out)) {
		packages = append(packages, strings.Fields(line))
	}
	if len(packages) == 0 {
		t.Fatalf("go list %v names no package", args)
	}
	return packages
}

// matches says whether the import path is what, or below what if that ends in
// a slash.
func matches(path, what string) bool {
	return path == what || strings.HasSuffix(what, "/") && strings.HasPrefix(path, what)
}

func has(words, word string) bool { return slices.Contains(strings.Fields(words), word) }
