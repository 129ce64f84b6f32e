package house_test

import (
	"slices"
	"strings"
	"testing"
)

// floors are the directories of internal/, from the ground up: each imports only what is
// below it, and never its neighbour. mayImport has the same for each package.
var floors = []string{"house evm", "merchants", "payments", "api", "aws sandbox", "cli", "proof"}

// TestGroups holds that the imports between the directories of internal/ point down.
func TestGroups(t *testing.T) {
	floor := func(group string) int {
		return slices.IndexFunc(floors, func(groups string) bool { return has(groups, group) })
	}
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Imports " "}}`, "./internal/...") {
		group, _ := grouped(pkg[0])
		if floor(group) < 0 {
			t.Errorf("internal/%s is on no floor", group)
		}
		for _, imported := range pkg[1:] {
			if other, _ := grouped(imported); other != "" && other != group && floor(other) >= floor(group) {
				t.Errorf("%s must not import %s, which is no floor below", pkg[0], imported)
			}
		}
	}
}

// grouped returns the group of a package of internal/ and its name there, "" for others.
func grouped(pkg string) (group, name string) {
	rest, ok := strings.CutPrefix(pkg, module+"internal/")
	if !ok {
		return "", ""
	}
	group, name, _ = strings.Cut(rest, "/")
	return group, name
}
