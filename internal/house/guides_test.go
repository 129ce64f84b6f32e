package house_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestGuides checks every stack parameter, output and setting in the guides. Package main of
// cmd/remit checks their commands.
func TestGuides(t *testing.T) {
	pages, template := files(t), readTemplate(t)
	parameters, outputs := at[node](template, "Parameters"), at[node](template, "Outputs")
	known := settings.Payments.Encode(settings.Default(settings.Rail{}))
	for name := range parameters {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "[`=]").Match(pages["docs/parameters.md"]) {
			t.Errorf("docs/parameters.md: the table lacks the parameter %s", name)
		}
	}
	for _, file := range []string{"docs/deploy.md", "docs/parameters.md", "docs/operate.md", "docs/disasters.md"} {
		for _, m := range regexp.MustCompile("`([A-Z][A-Za-z]+)(?:=[a-z]+)?`").FindAllSubmatch(pages[file], -1) {
			name := string(m[1])
			if _, set := known[name]; parameters[name] == nil && outputs[name] == nil && name != "ARGS" && !set {
				t.Errorf("%s: template.yaml has neither parameter nor output, and Remit no setting, %s", file, name)
			}
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
