// Package house_test checks imports, and that template.yaml, functions/, openapi.yaml, events/ and
// docs/ agree with the code.
package house_test

import (
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	domains = "apikey chain payment recipient token wallet webhook"
	engines = "dispatch settlement"
)

// mayImport lists the packages of ours that each package may import. Imports point down only. Tests
// may import anything, since nothing imports them.
var mayImport = map[string]string{
	// The ground.
	"disburser":  "token",
	"settings":   "token",
	"strictjson": "",
	"token":      "",

	// Domains. Webhooks and keys know nothing of payments.
	"apikey":        "token",
	"chain":         "disburser token",
	"payment":       "disburser chain token",
	"recipient":     "settings token",
	"wallet":        "chain payment token",
	"webhook":       "",
	"webhook/guard": "webhook",

	// A deployment's decisions.
	"stack":  "chain settings token",
	"chains": "chain stack token",

	// The arithmetic of a deployment's requests, cost and limits.
	"plan": "chains stack",

	// The port of the protocol, and packages before it.
	"store":     "chain payment settings token wallet",
	"interpose": "chain payment settings store token wallet",

	// Engines, which work between the domains.
	"dispatch":   "disburser chain payment settings stack store token wallet",
	"settlement": "chain payment settings stack store token wallet webhook",
	"recovery":   "chain payment settings stack store token wallet",

	// Adapters, which never import each other.
	"boot":          "apikey chains token",
	"devnet":        "chain disburser token",
	"devnet/faucet": "token",
	"dynamo":        "settings store " + domains,
	"emf":           "webhook",
	"ethrpc":        "disburser chain token",
	"httpapi":       "settings store strictjson " + domains + " " + engines,
	"keyring":       "chain token wallet",
	"kms":           "",
	"memory":        "settings store " + domains,
	"queue":         "webhook",
	"secrets":       "",

	// A merchant's view of the API: a module that merchants import. Rooms and tests that act as a
	// merchant use it.
	"sdk/go": "",

	// Assemblies, which several functions share.
	"emf/runreport": "chain emf settlement token",
	"meterenv":      "boot emf httpapi",
	"chainenv":      "boot chain chains ethrpc secrets stack token",
	"walletenv":     "boot keyring kms secrets token wallet",
	"dispatchenv":   "boot chainenv dispatch dynamo queue recipient walletenv",

	// The rooms of the command line do not know each other, except that local and preflight know
	// how operators' commands reach a stack.
	"local": "apikey chain chains devnet devnet/faucet disburser dispatch dynamo ethrpc httpapi keyring local/sandbox memory " +
		"operator/deployed page recipient settings settlement stack store token wallet webhook webhook/guard",
	"merchant":  "sdk/go token",
	"preflight": "chains dynamo kms operator/deployed settings store",
	"operator": "apikey disburser dispatch dynamo keyring kms operator/audit operator/change operator/console operator/deployed " +
		"operator/doctor operator/dossier operator/policy operator/rollback operator/setting chain payment recovery settings " +
		"settlement store token " +
		"wallet webhook",

	// Rooms of the operator: the deployed stack, the one way to change it, and large parts of their
	// own.
	"operator/auditcopy": "store",
	"operator/deployed": "apikey chain chains dynamo ethrpc keyring kms operator/auditcopy queue secrets settings stack store token wallet " +
		"webhook",
	"operator/change":   "apikey operator/auditcopy operator/deployed store wallet",
	"operator/dossier":  "chain operator/deployed payment token wallet webhook",
	"operator/setting":  "chains operator/change operator/deployed settings store",
	"operator/policy":   "dynamo kms operator/auditcopy operator/deployed",
	"operator/audit":    "chain operator/deployed operator/dossier payment store token",
	"operator/rollback": "operator/change operator/deployed operator/setting settings store",
	"operator/console":  "chain ethrpc operator/deployed operator/dossier page payment token wallet",
	"operator/doctor": "apikey chain chains disburser dynamo ethrpc kms operator/deployed operator/setting settings token " +
		"wallet",

	// The page that shows a stack, for any room. It knows none.
	"page": "chain payment token wallet",

	// The page's view of the local stack, and the faults around it.
	"fault":         "interpose",
	"local/sandbox": "disburser chain sdk/go devnet ethrpc interpose fault page payment store token wallet webhook",

	// Stores in memory, conformance suites and faults, for tests and the local stack.
	"dynamotest":          "must tooltest",
	"guidetest":           "must tooltest",
	"house":               "",
	"httpapi/httpapitest": "httpapi",
	"local/localtest":     "local sdk/go",
	"operatortest": "chain devnet disburser dynamo dynamotest ethrpc keyring memory must operator operator/change operator/deployed " +
		"payment settings stack store token wallet",
	"must":     "",
	"porttest": "chain interpose memory settings wallet",
	"simulation": "interpose memory recovery simulation/fakechain simulation/oracle simulation/scheduler settings stack store " +
		domains + " " + engines,
	"simulation/fakechain": "disburser chain token wallet",
	"simulation/oracle":    "disburser dispatch memory settings simulation/fakechain store " + domains,
	"simulation/scheduler": "interpose",
	"storetest":            "disburser must settings store " + domains,
	"tabletest":            "must",
	"tooltest":             "must",

	// Tools stand alone.
	"tools":         "",
	"tools/mutate":  "",
	"tools/verdict": "",
	"tools/words":   "",
}

// onlyIn lists the packages that may import something heavy or powerful; a trailing slash includes
// everything below. Packages for tests may import all of it, and no function links them.
var onlyIn = map[string]string{
	"github.com/aws/": "boot dispatchenv dynamo kms local operator/auditcopy operator/console operator/deployed operator/doctor " +
		"operator/rollback preflight queue secrets",
	"github.com/ethereum/": "devnet devnet/faucet ethrpc keyring",
	"net/http": "boot devnet ethrpc httpapi local fault local/sandbox merchant meterenv operator operator/console " +
		"operator/deployed page sdk/go " +
		"webhook webhook/guard",
	"os/exec":                "tools/mutate tools/words",
	"github.com/alecthomas/": "operator",
}

// mayLink lists the functions, and cmd/remit, that may link packages that cost start-up time, hold
// power over money or are for tests, even through another package.
var mayLink = map[string]string{
	"github.com/ethereum/":                                     "remit check-receipts get-balance refill-wallets send-payment send-payments",
	"github.com/remit-payouts/remit/internal/evm/ethrpc":       "remit check-receipts get-balance refill-wallets send-payment send-payments",
	"github.com/remit-payouts/remit/internal/payments/keyring": "remit check-receipts send-payment send-payments",
	"github.com/remit-payouts/remit/internal/aws/kms": "remit check-receipts send-payment send-payments create-webhook " +
		"rotate-webhook-secret " +
		"test-webhook deliver-webhook",
	"github.com/remit-payouts/remit/internal/sandbox/devnet":      "remit",
	"github.com/remit-payouts/remit/internal/payments/recovery":   "remit",
	"github.com/remit-payouts/remit/internal/payments/settlement": "remit check-receipts refill-wallets",
	"github.com/remit-payouts/remit/internal/payments/interpose":  "remit",
	"github.com/remit-payouts/remit/internal/sandbox/memory":      "remit",
	"github.com/remit-payouts/remit/internal/proof/simulation":    "",
	"github.com/remit-payouts/remit/internal/proof/simulation/":   "",
	"github.com/remit-payouts/remit/internal/proof/storetest":     "",
	"github.com/remit-payouts/remit/e2e/":                         "",
	"testing":                                                     "",
	"github.com/google/go-cmp/":                                   "",
}

func TestImportsPointDown(t *testing.T) {
	unseen := maps.Clone(mayImport)
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Imports " "}}`, "./internal/...", "./tools/...", "./sdk/go/...") {
		name := short(pkg[0])
		if _, isGroup := mayUse[name]; isGroup && name != "house" {
			continue // TestGroups
		}
		allowed, ok := mayImport[name]
		if !ok {
			t.Errorf("%s: say in mayImport what it may import", pkg[0])
			continue
		}
		delete(unseen, name)
		for _, imp := range pkg[1:] {
			if strings.HasPrefix(imp, module) && !has(allowed, short(imp)) {
				t.Errorf("%s must not import %s", pkg[0], imp)
			}
			for heavy, where := range onlyIn {
				if matches(imp, heavy) && !has(where, name) && !strings.HasSuffix(name, "test") {
					t.Errorf("%s must not import %s: only %q may", pkg[0], imp, where)
				}
			}
		}
	}
	for name := range unseen {
		t.Errorf("mayImport lists %s, which is not there", name)
	}
}

func TestProgramsLinkOnlyWhatTheyNeed(t *testing.T) {
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Deps " "}}`, "-tags=lambda.norpc", "./functions/...", "./cmd/remit") {
		for _, dep := range pkg[1:] {
			for heavy, programs := range mayLink {
				if matches(dep, heavy) && !has(programs, path.Base(pkg[0])) {
					t.Errorf("%s must not link %s", pkg[0], dep)
				}
			}
		}
	}
}

const module = "github.com/remit-payouts/remit/"

// short returns the name of a package of ours in mayImport, without its group.
func short(pkg string) string {
	if group, name := grouped(pkg); name != "" {
		return name
	} else if group != "" {
		return group
	}
	return strings.TrimPrefix(pkg, module)
}

// list runs go list and returns the words of each line it prints.
func list(t *testing.T, format string, args ...string) (packages [][]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-f", format}, args...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("go list %v names no package: %v", args, err)
	}
	for line := range strings.Lines(string(out)) {
		packages = append(packages, strings.Fields(line))
	}
	return packages
}

// hash is the only package of go-ethereum that links no other.
const hash = "github.com/ethereum/go-ethereum/crypto/keccak"

// matches reports whether an import path is the pattern, or below it if that ends in a slash.
func matches(path, pattern string) bool {
	return path == pattern || path != hash && strings.HasSuffix(pattern, "/") && strings.HasPrefix(path, pattern)
}

func has(words, word string) bool { return slices.Contains(strings.Fields(words), word) }
