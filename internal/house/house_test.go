package house_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// foreign matches hosts of package registries, which each machine configures, and paths in a home directory.
var foreign = regexp.MustCompile(`proxy\.golang\.org|sum\.golang\.org|registry\.npmjs\.org|\bpypi\.org|pythonhosted\.org|repo1?\.maven|deb\.debian\.org` +
	`|(^|[\s"'=(:])/(root|home|Users|work)/`)

func TestNoFileNamesAMachineOrARegistry(t *testing.T) {
	words := []string{".org", ".maven", "root", "home", "Users", "work"} // the expression is slow
	for path, text := range files(t) {
		for i, line := range strings.Split(string(text), "\n") {
			has := func(word string) bool { return strings.Contains(line, word) }
			if slices.ContainsFunc(words, has) && foreign.MatchString(line) {
				t.Errorf("%s:%d names a registry or a machine: %s", path, i+1, line)
			}
		}
	}
}

func TestMainsOnlyWire(t *testing.T) {
	all := files(t)
	for _, name := range names(t, "functions/*") {
		if lines := bytes.Count(all["functions/"+name+"/main.go"], []byte("\n")); lines == 0 || lines > 45 {
			t.Errorf("functions/%s/main.go has %d lines; it must have one and no more than 45: a main wires, the rest has a package", name, lines)
		}
	}
}

// TestNames: names say something, and no decision has the number of a deleted one. Tests use no library of assertions,
// and are in external packages, but for those of mains and a few that need names which are not exported.
func TestNames(t *testing.T) {
	inner := regexp.MustCompile(`^(cmd|functions|tools)/|/(export|states|bill|profile|sizelimits|view)_test\.go$`)
	external, asserts := regexp.MustCompile(`(?m)^package \w+_test$`), regexp.MustCompile(`"(github.com/(stretchr|onsi)|go.uber.org/mock)/`)
	barred := regexp.MustCompile(`(^|[/_])(util|common|helper|base|manager|service|type|model)s?(_test)?(/|\.go$)|/00(05|08|16)-`)
	for path, text := range files(t) {
		if barred.MatchString(path) && !strings.HasPrefix(path, "internal/proof/model/") { // of the protocol
			t.Errorf("CONTRIBUTING.md bars the name of %s", path)
		}
		if strings.HasSuffix(path, "_test.go") && (!external.Match(text) && !inner.MatchString(path) || asserts.Match(text)) {
			t.Errorf("%s: tests are in external packages, and use the standard library and go-cmp", path)
		}
	}
}

func TestDocumentsNameTargetsOfTheMakefile(t *testing.T) {
	all := files(t)
	named := regexp.MustCompile("(?m)(?:`|'|^\\s*\\$?\\s*)make ([a-z0-9-]+)")
	for path, text := range all {
		for _, m := range named.FindAllSubmatch(text, -1) {
			if !bytes.Contains(all["Makefile"], []byte("\n"+string(m[1])+":")) {
				t.Errorf("%s names 'make %s', which the Makefile does not have", path, m[1])
			}
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	link, all := regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`), files(t)
	for path, text := range all {
		if filepath.Ext(path) != ".md" {
			continue
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
		if name := filepath.Base(path); filepath.Dir(path) == "docs" && name != "README.md" &&
			!bytes.Contains(all["docs/README.md"], []byte("]("+name+")")) {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

// TestProse: at most one word in 1,000 of a package's comments, and of Markdown, is "what". Sentences built on it lack
// a noun, and read as translated. Markdown does not count parts of the repository, since counts go stale.
func TestProse(t *testing.T) {
	comment, what := regexp.MustCompile(`(?m)(^|\s)//.*`), regexp.MustCompile(`(?i)\bwhat\b`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|https?://[^ )]*")
	count := regexp.MustCompile(`(?i)\b(\d+|two|three|four|five|six|seven|eight|nine|ten|\w+teen|twenty\S*) (\w+ )?(functions|alarms|pages)\b`)
	words, found := map[string]int{}, map[string][]string{}
	for path, text := range files(t) {
		kind := filepath.Dir(path)
		switch {
		case filepath.Ext(path) == ".md":
			kind, text = "Markdown", code.ReplaceAll(text, []byte("x"))
			if n := count.Find(text); n != nil {
				t.Errorf("%s counts parts of the repository: %s", path, n)
			}
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, ".gen.go"):
			text = bytes.Join(comment.FindAll(text, -1), []byte("\n"))
		default:
			continue
		}
		words[kind] += len(bytes.Fields(text))
		for line := range bytes.Lines(text) {
			for range what.FindAll(line, -1) {
				found[kind] = append(found[kind], path+": "+strings.TrimSpace(string(line)))
			}
		}
	}
	for kind, lines := range found {
		if len(lines)*1000 > words[kind] {
			t.Errorf("%s: %d times in %d words:\n%s", kind, len(lines), words[kind], strings.Join(lines, "\n"))
		}
	}
}

// files returns every text file of the repository by its path, without built, installed or fetched ones. It reads once.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	return must.Get(tree())(t)
}

var tree = sync.OnceValues(func() (map[string][]byte, error) {
	texts := make(map[string][]byte)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		skipped := slices.Contains([]string{".git", ".cache", ".aws-sam", "node_modules", "testdata"}, d.Name())
		switch {
		case err != nil:
			return err
		case skipped && d.IsDir():
			return filepath.SkipDir
		case skipped || d.IsDir():
			return nil // in a worktree .git is a file, and .cache may be a link
		}
		text, err := os.ReadFile(path)
		if err == nil && !bytes.ContainsRune(text, 0) && !strings.HasSuffix(path, ".svg") {
			texts[path] = text
		}
		return err
	})
	return texts, err
})

// TestMain runs the tests at the root of the repository, whose files they read.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // of the functions that ring alarms
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestGuides checks every stack parameter, output and setting in the guides. Package cmd/remit checks commands.
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
