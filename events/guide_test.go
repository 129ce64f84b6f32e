package events_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestGuide holds docs/sam-local.md against what exists: events, functions,
// options of the script and targets of make.
func TestGuide(t *testing.T) {
	s := start(t)
	b, err := os.ReadFile(root + "/docs/sam-local.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(b)
	help := exec.CommandContext(t.Context(), "tools/local-services", "--help")
	help.Dir, help.Env = root, append(os.Environ(), "REMIT=unused")
	options, err := help.CombinedOutput()
	if err != nil {
		t.Fatalf("tools/local-services --help: %v\n%s", err, options)
	}
	found := 0
	for _, m := range regexp.MustCompile(`-e (\S+\.json)`).FindAllStringSubmatch(guide, -1) {
		found++
		if _, err := os.Stat(root + "/" + m[1]); err != nil && m[1] != "job.json" {
			t.Errorf("the guide names %s: %v", m[1], err)
		}
	}
	for _, m := range regexp.MustCompile(`sam local invoke (\w+)`).FindAllStringSubmatch(guide, -1) {
		found++
		if s.environment[m[1]] == nil {
			t.Errorf("the guide invokes %s, which template.yaml does not have", m[1])
		}
	}
	for _, option := range []string{"--set", "--bind", "job"} {
		found++
		if !strings.Contains(guide, option) || !strings.Contains(string(options), option) {
			t.Errorf("the guide and the script's help do not both have %s", option)
		}
	}
	if found < 9 {
		t.Errorf("only %d things to check were found: has its form changed?", found)
	}
}
