package house_test

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// mayUse maps each directory in internal/ to the groups that it may import. mayImport has the same
// for each package.
var mayUse = map[string]string{
	"evm":       "",
	"merchants": "evm",
	"payments":  "evm merchants",
	"api":       "evm merchants payments",
	"sandbox":   "evm merchants payments",
	"aws":       "evm merchants payments api",
	"cli":       "evm merchants payments api sandbox aws",
	"proof":     "evm merchants payments api sandbox aws cli",
	"house":     "",
}

// TestGroups: internal/ has at most ten directories, each with a comment that names its packages,
// and imports point down.
func TestGroups(t *testing.T) {
	if len(mayUse) > 10 {
		t.Errorf("internal/ has %d groups, ten at most", len(mayUse))
	}
	entries := must.Get(os.ReadDir("internal"))(t)
	found := map[string]string{} // comments of the groups
	for _, e := range entries {
		found[e.Name()] = ""
		if e.Name() == "house" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("internal", e.Name(), "doc.go"), nil, parser.ParseComments)
		must.OK(t, err)
		found[e.Name()] = f.Doc.Text()
	}
	if want, have := slices.Sorted(maps.Keys(mayUse)), slices.Sorted(maps.Keys(found)); !slices.Equal(want, have) {
		t.Fatalf("internal/ has %v, and mayUse %v", have, want)
	}
	text, err := os.ReadFile("docs/architecture.md")
	for group := range found {
		if err != nil || !strings.Contains(string(text), "`internal/"+group+"`") {
			t.Errorf("docs/architecture.md does not name `internal/%s` (%v)", group, err)
		}
	}
	for _, pkg := range list(t, `{{.ImportPath}} {{join .Imports " "}}`, "./internal/...") {
		group, name := grouped(pkg[0])
		top, _, below := strings.Cut(name, "/")
		if words := strings.FieldsFunc(found[group], func(r rune) bool { return strings.ContainsRune(" \n(),:", r) }); name != "" &&
			!below && !slices.Contains(words, top) {
			t.Errorf("the comment of internal/%s does not name %s", group, name)
		}
		for _, imported := range pkg[1:] {
			if other, _ := grouped(imported); other != "" && other != group && !has(mayUse[group], other) {
				t.Errorf("%s must not import %s: %s may use %q", pkg[0], imported, group, mayUse[group])
			}
		}
	}
}

// grouped returns the group of a package of internal/ and its name there, or "".
func grouped(pkg string) (group, name string) {
	rest, ok := strings.CutPrefix(pkg, module+"internal/")
	if !ok {
		return "", ""
	}
	group, name, _ = strings.Cut(rest, "/")
	return group, name
}
