// Package house_test checks imports, and that template.yaml, functions/, openapi.yaml, events/ and docs/ fit the code.
package house_test

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// floors returns all packages, from the ground up.
func floors(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(string(must.Get(os.ReadFile("testdata/floors.txt"))(t))) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// groups are the directories of internal/, from the ground up: each imports only packages of those below it.
var groups = []string{"house evm", "deployment", "merchants", "payments", "api", "aws", "cli", "sandbox", "proof"}

// floor returns the number of the floor that has a name, -1 if none has.
func floor(floors []string, name string) int {
	return slices.IndexFunc(floors, func(names string) bool { return has(names, name) })
}

// withNodes are the programs that ask nodes.
const withNodes = "remit check-receipts get-balance refill-wallets release-proposals send-payment send-payments"

// TestImportsPointDown holds the floors, and that only some packages import something heavy or powerful.
func TestImportsPointDown(t *testing.T) {
	unseen, floors, onlyIn := map[string]bool{}, floors(t), tabletest.Read(t, nil)
	for _, names := range floors {
		for name := range strings.FieldsSeq(names) {
			unseen[name] = true
		}
	}
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Imports " "}}`, "./internal/...", "./tools/...", "./sdk/go/...") {
		name := short(pkg[0])
		group, below := grouped(pkg[0])
		if below == "" && floor(groups, group) >= 0 && len(pkg) == 1 && name != "house" {
			continue // the comment of a group, which imports nothing
		}
		if floor(floors, name) < 0 || group != "" && floor(groups, group) < 0 {
			t.Errorf("%s is on no floor of testdata/floors.txt", pkg[0])
		}
		delete(unseen, name)
		for _, imp := range pkg[1:] {
			other, _ := grouped(imp)
			if strings.HasPrefix(imp, module) && floor(floors, short(imp)) >= floor(floors, name) ||
				other != "" && other != group && floor(groups, other) >= floor(groups, group) {
				t.Errorf("%s must not import %s, which is not below it (CONTRIBUTING.md)", pkg[0], imp)
			}
			for _, heavy := range onlyIn {
				if matches(imp, heavy.Name) && !has(heavy.Want, name) && !strings.HasSuffix(name, "test") {
					t.Errorf("%s must not import %s: only %q may", pkg[0], imp, heavy.Want)
				}
			}
		}
	}
	for name := range unseen {
		t.Errorf("floors have %s, which is not there", name)
	}
}

func TestProgramsLinkOnlyWhatTheyNeed(t *testing.T) {
	mayLink := tabletest.Read(t, map[string]string{"with nodes": withNodes})
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Deps " "}}`, "-tags=lambda.norpc", "./functions/...", "./cmd/remit") {
		for _, dep := range pkg[1:] {
			for _, heavy := range mayLink {
				if matches(dep, heavy.Name) && !has(heavy.Want, path.Base(pkg[0])) {
					t.Errorf("%s must not link %s", pkg[0], dep)
				}
			}
		}
	}
}

// TestMakeRunLinksNoAWS: the program of make run links the client of DynamoDB and no other of AWS.
func TestMakeRunLinksNoAWS(t *testing.T) {
	for _, dep := range list(t, `{{.ImportPath}}`, "-tags=sandbox", "-deps", "./cmd/remit") {
		service, is := strings.CutPrefix(dep[0], "github.com/aws/aws-sdk-go-v2/service/")
		if is && !has("dynamodb dynamodbstreams internal", strings.Split(service, "/")[0]) {
			t.Errorf("make run links %s", dep[0])
		}
	}
}

// TestFourPackages: the four packages that Remit was ordered with are direct requirements, and functions link them.
func TestFourPackages(t *testing.T) {
	linked := list(t, "{{.ImportPath}}", "-deps", "./functions/...")
	for _, pkg := range strings.Fields("github.com/aws/aws-lambda-go github.com/aws/aws-sdk-go-v2 " +
		"github.com/ethereum/go-ethereum github.com/awslabs/aws-lambda-go-api-proxy") {
		if !slices.ContainsFunc(linked, func(dep []string) bool { return matches(dep[0], pkg+"/") }) {
			t.Errorf("no function links %s", pkg)
		}
		if !regexp.MustCompile(`(?m)^\t` + pkg + ` v\S+$`).Match(files(t)["go.mod"]) {
			t.Errorf("go.mod requires %s indirectly", pkg)
		}
	}
}

// module begins the path of every package of ours.
const module = "github.com/remit-payouts/remit/"

// short returns a package of ours by its name in floors: without its group.
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

// grouped returns the group of a package of internal/ and its name there, "" for others.
func grouped(pkg string) (group, name string) {
	rest, ok := strings.CutPrefix(pkg, module+"internal/")
	if !ok {
		return "", ""
	}
	group, name, _ = strings.Cut(rest, "/")
	return group, name
}
