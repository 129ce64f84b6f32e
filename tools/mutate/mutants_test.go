package main

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestMutate: each body of a function has the mutants that its table lists, and the source with all of them is Go.
func TestMutate(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		body := c.Name
		text, mutants, err := mutate("p", "f.go", "package p\n\nfunc f() {\n\t"+body+"\n}\n", 7)
		must.OK(t, err)
		var names []string
		for _, m := range mutants {
			names = append(names, strings.TrimPrefix(m.name, "f.go f: "))
			if !strings.Contains(text, fmt.Sprintf("mutant(%d)", m.id)) {
				t.Errorf("%s: mutant %d is not made in %s", body, m.id, text)
			}
		}
		if got := cmp.Or(strings.Join(names, "; "), "none"); got != c.Want {
			t.Errorf("the mutants are %q, want %q", got, c.Want)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "f.go", text, 0); err != nil {
			t.Errorf("%s becomes %s: %v", body, text, err)
		}
	})
}

// TestJudge: survivors and reasons must be the same mutants.
func TestJudge(t *testing.T) {
	reasons := func() map[string]string {
		return parseSurvivors("# words\n\nf.go f: turned: a\n\tIt is the same\n\tas before.\n")
	}
	if got := reasons()["f.go f: turned: a"]; got != "It is the same as before." {
		t.Errorf("the reason is %q", got)
	}
	known, other := result{name: "f.go f: turned: a"}, result{name: "f.go f: turned: b"}
	caught := result{name: known.name, caught: "TestA"}
	for what, test := range map[string]struct {
		results []result
		ok      bool
	}{
		"an explained survivor":      {[]result{known}, true},
		"and another one":            {[]result{known, other}, false},
		"an explained one is caught": {[]result{caught}, false},
		"nothing is made":            {nil, false},
	} {
		if err := judge(test.results, reasons(), 0); (err == nil) != test.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSurvivorsAreMutants says in a second which entries of survivors.txt are gone.
func TestSurvivorsAreMutants(t *testing.T) {
	_, all, err := repository.mutants()
	must.OK(t, err)
	for name := range parseSurvivors(survivorsText) {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.name == name }) {
			t.Errorf("survivors.txt lists what is no mutant: %s", name)
		}
	}
}

// repository is the bench that reads this repository.
var repository = bench{root: "../.."}

// TestRulesAreInTheSource finds in a second, before make sensitivity does,
// quoted lines that have changed and tests that are gone. Twenty rules are the most.
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
