package httpapi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCoverage: the tests that docs/contract-coverage.md names exist, and so
// does a rule for every test of this package.
func TestCoverage(t *testing.T) {
	const root = "../.."
	doc, err := os.ReadFile(root + "/docs/contract-coverage.md")
	must(t, err)
	tests := testsIn(t, root)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(\\w+\\.(?:Test|Fuzz)\\w+)`").FindAllSubmatch(doc, -1) {
		name := string(m[1])
		named[name] = true
		if !tests[name] {
			t.Errorf("docs/contract-coverage.md names %s, which does not exist", name)
		}
	}
	if len(named) < 50 {
		t.Errorf("only %d tests are named", len(named))
	}
	for name := range tests {
		if strings.HasPrefix(name, "httpapi.") && !named[name] && name != "httpapi.TestMain" && name != "httpapi.TestCoverage" {
			t.Errorf("docs/contract-coverage.md has no rule for %s", name)
		}
	}
}

// testsIn returns every test and fuzz target below root, as package.Name.
func testsIn(t *testing.T, root string) map[string]bool {
	clause := regexp.MustCompile(`(?m)^package (\w+)`)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pkg := strings.TrimSuffix(string(clause.FindSubmatch(source)[1]), "_test")
		for _, m := range function.FindAllSubmatch(source, -1) {
			found[pkg+"."+string(m[1])] = true
		}
		return nil
	})
	must(t, err)
	return found
}
