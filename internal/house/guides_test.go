package house_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestGuides: every remit command, stack parameter and output in docs/deploy.md, docs/operate.md
// and docs/disasters.md exists.
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
		b := must.Get(os.ReadFile(name))(t)
		return string(b)
	}
	must.OK(t, yaml.Unmarshal([]byte(read("template.yaml")), &stack))
	for name := range stack.Parameters {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "[`=]").MatchString(read("docs/parameters.md")) {
			t.Errorf("docs/parameters.md: the table lacks the parameter %s", name)
		}
	}
	for _, file := range []string{"docs/deploy.md", "docs/parameters.md", "docs/operate.md", "docs/disasters.md"} {
		text := read(file)
		found := 0
		for _, m := range regexp.MustCompile("(?m)(?:^|`|bin/)remit ((?:wallet|keys|payment|webhooks) "+
			"[a-z-]+|smoke|doctor|audit|console|export|recover)((?: --[a-z-]+)*)").FindAllStringSubmatch(text, -1) {
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
		for _, m := range regexp.MustCompile("`([A-Z][A-Za-z]+)(?:=[a-z]+)?`").FindAllStringSubmatch(text, -1) {
			found++
			_, parameter := stack.Parameters[m[1]]
			if _, output := stack.Outputs[m[1]]; !parameter && !output && m[1] != "ARGS" &&
				!slices.Contains(slices.Concat(settings.Payments.Names(), settings.APIKeys.Names()), m[1]) {
				t.Errorf("%s: template.yaml has neither parameter nor output, and Remit no setting, %s", file, m[1])
			}
		}
		if found < 8 {
			t.Errorf("%s: only %d things to check were found: has its form changed?", file, found)
		}
	}
}

// TestBlocksArePrintedAsTheyRun: testdata/blocks.txt has one row for each block,
// and each row has its block and its test, which reads the page.
func TestBlocksArePrintedAsTheyRun(t *testing.T) {
	const table = "testdata/blocks.txt"
	text := must.Get(os.ReadFile(table))(t)
	blocks, tests, left := guidetest.Blocks(t, "."), files(t), map[string]int{}
	rows := regexp.MustCompile(`(?m)^(\S+) +\| (.+?) +\| (.+)$`).FindAllStringSubmatch(string(text), -1)
	for _, b := range blocks {
		first, _, _ := strings.Cut(b.Text, "\n")
		left[b.Page+": "+first] = 0
		for _, row := range rows {
			if b.Page == row[1] && strings.HasPrefix(b.Text, row[2]) {
				left[b.Page+": "+first]++
			}
		}
	}
	for block, n := range left {
		if n != 1 {
			t.Errorf("%s\n%d rows of %s name this block: name it in one, with the test that runs it or the reason why none does", block, n, table)
		}
	}
	for _, row := range rows {
		if !slices.ContainsFunc(blocks, func(b guidetest.Block) bool { return b.Page == row[1] && strings.HasPrefix(b.Text, row[2]) }) {
			t.Errorf("%s: %s has no block that begins with %q", table, row[1], row[2])
		}
		dir, test, _ := strings.Cut(row[3], " ")
		found := !regexp.MustCompile(`^Test\w+$`).MatchString(test)
		for path, source := range tests {
			found = found || filepath.Dir(path) == dir && strings.HasSuffix(path, "_test.go") &&
				bytes.Contains(source, []byte("\nfunc "+test+"(")) && bytes.Contains(source, []byte(row[1]))
		}
		if !found {
			t.Errorf("%s: no file of %s has %s and reads %s", table, dir, test, row[1])
		}
	}
}

// TestPagesAreEasyToChange: each sentence has a line of its own; and no page but
// docs/performance.md counts parts of the repository, since the next part makes the number wrong.
func TestPagesAreEasyToChange(t *testing.T) {
	sentences := regexp.MustCompile(`[.!?]\)? +["(\[]?[A-Z]`)
	numbered := regexp.MustCompile(`^ *(\*\*)?\d+\.`)
	counts := regexp.MustCompile(`(?i)\b([0-9][0-9,]*|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty) (scenarios|tests|alarms|functions|rules|cases|mutants|routes|endpoints|packages)\b`)
	for path, text := range files(t) {
		if path == "docs/performance.md" || !regexp.MustCompile(`^(README|CONTRIBUTING|SECURITY|docs/.*)\.md$`).MatchString(path) {
			continue
		}
		fence := false
		for i, line := range strings.Split(string(text), "\n") {
			fence = fence != strings.HasPrefix(line, "```")
			if fence || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
				continue
			}
			if found := counts.FindString(line); found != "" {
				t.Errorf("%s:%d counts %q: leave the number out", path, i+1, found)
			}
			if sentences.MatchString(numbered.ReplaceAllString(line, "")) {
				t.Errorf("%s:%d has two sentences: begin a line with the second", path, i+1)
			}
		}
	}
}
