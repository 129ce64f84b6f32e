package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestExamples: the example of each command is a command line of its own.
func TestExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"salaries.csv", "settings.yaml"} {
		must.OK(t, os.WriteFile(file, nil, 0o600))
	}
	addresses := strings.NewReplacer("0x1…", "0x"+strings.Repeat("1", 40), "0x2…", "0x"+strings.Repeat("2", 40))
	for _, leaf := range newParser(&commands{}).Model.Leaves(true) {
		path, example := leaf.Path(), addresses.Replace(leaf.Tag.Get("example"))
		words := strings.Fields(path)
		for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(example, -1) {
			words = append(words, strings.Trim(word, "'"))
		}
		parsed, err := newParser(&commands{}).Parse(words)
		if err != nil {
			t.Errorf("%s %s: %v; its field needs a tag example beside cmd, with good arguments", path, example, err)
			continue
		}
		if diff := cmp.Diff(path, parsed.Selected().Path()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestVersionAndHelp: words do the same as flags, and a command that lacks one gets the list of them.
func TestVersionAndHelp(t *testing.T) {
	version = "v0.1.0"
	for _, c := range tabletest.Read(t, nil) {
		var b bytes.Buffer
		parser := newParser(&commands{}, kong.Writers(&b, &b), kong.Exit(func(int) { panic(true) }))
		func() {
			defer func() { _ = recover() }()
			_, err := parser.Parse(spelled(parser.Model.Node, strings.Fields(c.In[0])))
			b.WriteString(plain(err).Error())
		}()
		if !strings.HasPrefix(b.String(), c.Want) {
			t.Errorf("remit %s prints\n%s", c.In[0], &b)
		}
		for i, line := range strings.Split(b.String(), "\n") {
			if c.In[0] == "help" && (i > 25 || len(line) > 80) {
				t.Errorf("line %d of remit help has %d columns; print at most 25 lines of 80: %s", i+1, len(line), line)
			}
		}
	}
	if version = ""; !strings.HasPrefix(builtAs(), "remit ") || len(builtAs()) < 8 {
		t.Errorf("a program that is no release calls itself %q", builtAs())
	}
}

// TestDocumentsNameCommands: each `remit …` of the documents is a command, and each --flag beside it is one of its.
func TestDocumentsNameCommands(t *testing.T) {
	parser := must.Get(kong.New(&commands{}, kong.Name("remit")))(t)
	pages := must.Get(filepath.Glob("../../docs/*/*.md"))(t)
	more := must.Get(filepath.Glob("../../docs/*.md"))(t)
	named := regexp.MustCompile("(?m)(?:`|^| |bin/|run/)remit ([a-z][^`|;#\n]*)")
	word, commands := regexp.MustCompile(`^[a-z][a-z-]+$`), 0
	for _, page := range append(append(pages, more...), "../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md") {
		text := must.Get(os.ReadFile(page))(t)
		for _, span := range regexp.MustCompile("(?s)```.*?```|`[^`\n]+`").FindAllString(string(text), -1) {
			for _, m := range named.FindAllStringSubmatch(span, -1) {
				commands++
				if wrong := unknown(parser.Model.Node, strings.Fields(m[1]), word); wrong != "" {
					t.Errorf("%s: remit %s: the command line has no %s", page, m[1], wrong)
				}
			}
		}
	}
	if commands < 50 {
		t.Errorf("only %d commands were found", commands)
	}
}

// unknown returns a word or a flag of a command that the command line does not have.
func unknown(root *kong.Node, words []string, word *regexp.Regexp) string {
	at, flags := below(root, words), map[string]bool{"help": true}
	for _, f := range slices.Concat(at.AllFlags(false)...) {
		flags[f.Name], flags["no-"+f.Name] = true, f.Tag != nil && f.Tag.Negatable != ""
	}
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		name, is := strings.CutPrefix(strings.TrimRight(name, ".,:)'\""), "--")
		if is && !flags[name] && word.MatchString(name) {
			return "--" + name
		}
	}
	if rest := words[len(strings.Fields(at.Path())):]; len(at.Children) > 0 && len(rest) > 0 && word.MatchString(rest[0]) {
		return rest[0]
	}
	return ""
}

// TestEveryCommandIsRun: a test names each command, at the start of a text or of a table's column, by its type in Go, or
// in a page's block that it runs. The tables of this package do not count: they hold wrong use.
func TestEveryCommandIsRun(t *testing.T) {
	var tests strings.Builder
	for _, root := range []string{".", "../../internal/cli", "../../internal/sandbox/local", "../../e2e"} {
		must.OK(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			table := root != "." && strings.HasSuffix(path, ".txt")
			if err != nil || !table && !strings.HasSuffix(path, "_test.go") || path == "help_test.go" {
				return err
			}
			text, err := os.ReadFile(path)
			tests.Write(text)
			return err
		}))
	}
	table, blocks := string(must.Get(os.ReadFile("../../testdata/blocks.txt"))(t)), guidetest.Blocks(t, "../..")
	for _, row := range regexp.MustCompile(`(?m)^(\S+) +\| (.+?) +\| \S+ Test\w+$`).FindAllStringSubmatch(table, -1) {
		for _, b := range blocks {
			if b.Page == row[1] && strings.HasPrefix(b.Text, row[2]) {
				tests.WriteString("\n" + b.Text)
			}
		}
	}
	for _, leaf := range newParser(&commands{}).Model.Leaves(true) {
		inGo := strings.TrimPrefix(leaf.Target.Type().String(), "*") + "{"
		words := strings.ReplaceAll(leaf.Path(), " ", `( |", ")`)
		text := regexp.MustCompile("(?m)([\"|`] ?|^(\\$ )?\\S*remit )" + words + "([ \"`]|$)")
		if !text.MatchString(tests.String()) && !strings.Contains(tests.String(), inGo) {
			t.Errorf("no test runs remit %s: add it to one, such as internal/cli/operator/testdata/TestCommands.txt, "+
				"or to a block of docs/operate.md that testdata/blocks.txt gives to a test", leaf.Path())
		}
	}
}
