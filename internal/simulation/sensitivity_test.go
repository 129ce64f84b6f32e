package simulation_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	sensitivity = flag.String("sensitivity", "some", `which rules to remove: "all", "some" (those marked quick), or a regular expression of names`)
	stop        = flag.Bool("mutated", false, "set in the runs of TestSensitivity: it does not run itself")
)

// A removal takes one protecting rule out of the source.
type removal struct {
	rule     string // what is lost
	falls    string // the test that must fail without it
	file     string // under internal/
	old, new string // old must be there exactly once
}

// TestSensitivity removes one rule at a time from a copy of the source, and
// expects the test bed to notice. A rule that nothing notices is not needed, or
// not tested. The copy is an overlay of the go command: the tree is not touched.
func TestSensitivity(t *testing.T) {
	if *stop {
		return
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	only := regexp.MustCompile(*sensitivity)
	fell := regexp.MustCompile(`--- FAIL: (Test\S+)`)
	for i, r := range removals {
		if *sensitivity == "some" && i%8 != 0 || *sensitivity != "some" && *sensitivity != "all" && !only.MatchString(r.rule) {
			continue
		}
		t.Run(strings.ReplaceAll(r.rule, " ", "_"), func(t *testing.T) {
			out, err := withoutRule(t, root, r)
			if err == nil {
				t.Fatalf("without %q everything passes", r.rule)
			}
			tests := fell.FindAllStringSubmatch(out, -1)
			if len(tests) == 0 {
				t.Fatalf("without %q nothing is judged:\n%s", r.rule, out)
			}
			t.Logf("| %s | %s |", r.rule, tests[0][1])
		})
	}
}

// withoutRule runs the bed without one rule.
func withoutRule(t *testing.T, root string, r removal) (out string, err error) {
	path := filepath.Join(root, "internal", r.file)
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), r.old); n != 1 {
		t.Fatalf("%s has %q %d times: the table is out of date", r.file, r.old, n)
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), r.old, r.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay="+overlay, "-vet=off", "-failfast", "-run=^"+r.falls+"$", "-timeout=5m",
		"./internal/simulation", "-mutated", "-seeds=3000", "-singles")
	cmd.Dir = root
	b, err := cmd.CombinedOutput()
	return string(b), err
}
