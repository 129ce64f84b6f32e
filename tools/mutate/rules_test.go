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

// TestRulesAreInTheSource says in a second what make sensitivity would say late:
// which quoted lines have changed, and which tests are gone. Twenty rules are the most.
func TestRulesAreInTheSource(t *testing.T) {
	rules := must.Get(parseRules(rulesText))(t)
	for _, r := range rules {
		source := must.Get(repository.source(r.file))(t)
		if changed, err := r.without(source); err != nil || changed == source {
			t.Errorf("%q changes nothing: %v", r.name, err)
		}
		tests := ""
		for _, file := range must.Get(filepath.Glob(filepath.Join(repository.root, r.pkg, "*_test.go")))(t) {
			tests += string(must.Get(os.ReadFile(file))(t))
		}
		if !strings.Contains(tests, "\nfunc "+r.test+"(t *testing.T)") {
			t.Errorf("%q: %s has no %s", r.name, r.pkg, r.test)
		}
	}
	if len(rules) > 20 {
		t.Errorf("%d rules: a mutant finds most of them", len(rules))
	}
}

// TestWithout: a rule's lines are found whatever their indentation, and only if
// they are there once.
func TestWithout(t *testing.T) {
	rules := must.Get(parseRules("# words\nrule a\nfile f.go\n-if a {\n+{\n \tb()\n-}\n+}\n"))(t)
	const guarded = "\t\tif a {\n\t\t\tb()\n\t\t}\n"
	if got, err := rules[0].without("x\n" + guarded + "y\n"); err != nil || got != "x\n{\n\tb()\n}\ny\n" {
		t.Errorf("without() = %q, %v", got, err)
	}
	for _, source := range []string{"x\n", guarded + guarded, "if a {\nc()\n}\n"} {
		if got, err := rules[0].without(source); err == nil {
			t.Errorf("%q becomes %q", source, got)
		}
	}
	if rules, err := parseRules("rule a\nfyle b\n"); err == nil {
		t.Errorf("a word misspelt: %v", rules)
	}
}
