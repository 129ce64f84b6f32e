package remit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestGuides holds docs/deploy.md and docs/operate.md against what exists:
// every remit command, make target, stack parameter and output.
func TestGuides(t *testing.T) {
	remit := filepath.Join(t.TempDir(), "remit")
	if out, err := exec.Command("go", "build", "-o", remit, "./cmd/remit").CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	var stack struct {
		Parameters map[string]yaml.Node `yaml:"Parameters"`
		Outputs    map[string]yaml.Node `yaml:"Outputs"`
	}
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := yaml.Unmarshal([]byte(read("template.yaml")), &stack); err != nil {
		t.Fatal(err)
	}
	makefile := read("Makefile")
	for _, file := range []string{"docs/deploy.md", "docs/operate.md"} {
		text := read(file)
		found := 0
		for _, m := range regexp.MustCompile("(?m)(?:^|`|bin/)remit ((?:wallet|keys|payment|webhooks) [a-z]+|smoke|doctor)((?: --[a-z-]+)*)").FindAllStringSubmatch(text, -1) {
			found++
			help, err := exec.Command(remit, append(strings.Fields(m[1]), "--help")...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: remit %s: %v", file, m[1], err)
			}
			for _, flag := range strings.Fields(m[2]) {
				if !strings.Contains(string(help), flag) {
					t.Errorf("%s: remit %s has no %s", file, m[1], flag)
				}
			}
		}
		for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9-]+)").FindAllStringSubmatch(text, -1) {
			found++
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no make %s", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile("`([A-Z][A-Za-z]+)(?:=[a-z]+)?`").FindAllStringSubmatch(text, -1) {
			found++
			_, parameter := stack.Parameters[m[1]]
			if _, output := stack.Outputs[m[1]]; !parameter && !output && m[1] != "ARGS" {
				t.Errorf("%s: template.yaml has neither parameter nor output %s", file, m[1])
			}
		}
		if found < 8 {
			t.Errorf("%s: only %d things to check were found: has its form changed?", file, found)
		}
	}
}
