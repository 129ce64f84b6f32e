package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// repository is the bench that reads this repository.
var repository = bench{root: "../.."}

func table(t *testing.T) []rule {
	return must.Get(parseRules(rulesText))(t)
}

// TestRulesAreInTheSource finds in a second the mistakes that make sensitivity finds late: which
// quoted lines have changed, and which tests are gone.
func TestRulesAreInTheSource(t *testing.T) {
	seen, tests := map[string]bool{}, map[string]string{}
	for _, r := range table(t) {
		if seen[r.name] {
			t.Errorf("rules.txt:%d: %q is there twice", r.line, r.name)
		}
		seen[r.name] = true
		if source, err := repository.source(r.file); err != nil {
			t.Errorf("rules.txt:%d: %v", r.line, err)
		} else if changed, err := r.without(source); err != nil {
			t.Error(err)
		} else if changed == source {
			t.Errorf("rules.txt:%d: %q changes nothing", r.line, r.name)
		}
		if tests[r.pkg] == "" {
			tests[r.pkg] = testsOf(t, r.pkg)
		}
		if !strings.Contains(tests[r.pkg], "\nfunc "+r.test+"(t *testing.T)") {
			t.Errorf("rules.txt:%d: %s has no %s", r.line, r.pkg, r.test)
		}
	}
}

// testsOf is the source of a package's tests.
func testsOf(t *testing.T, pkg string) string {
	files := must.Get(filepath.Glob(filepath.Join(repository.root, pkg, "*_test.go")))(t)
	var all strings.Builder
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		all.Write(text)
	}
	return all.String()
}

// TestWithout: a rule's lines are found whatever their indentation, and only if
// they are there once.
func TestWithout(t *testing.T) {
	rules := must.Get(parseRules("# words\nrule a\nfile f.go\n-if a {\n+{\n \tb()\n-}\n+}\n"))(t)
	const guarded = "\t\tif a {\n\t\t\tb()\n\t\t}\n"
	if got, err := rules[0].without("x\n" + guarded + "y\n"); err != nil || got != "x\n{\n\tb()\n}\ny\n" {
		t.Errorf("without() = %q, %v", got, err)
	}
	for what, source := range map[string]string{"no": "x\n", "two": guarded + guarded, "other": "if a {\nc()\n}\n"} {
		if got, err := rules[0].without(source); err == nil {
			t.Errorf("%s occurrences: %q", what, got)
		} else if what == "other" && !strings.Contains(err.Error(), "? \tb()") {
			t.Errorf("the line that is gone is not marked: %v", err)
		}
	}
	if rules, err := parseRules("rule a\nfyle b\n"); err == nil {
		t.Errorf("a word misspelt: %v", rules)
	}
}
