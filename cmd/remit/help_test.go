package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestHelp: remit --help names every command, in at most 25 lines of 80 columns.
func TestHelp(t *testing.T) {
	var b bytes.Buffer
	parser := newParser(&commands{}, kong.Writers(&b, &b), kong.Exit(func(int) { panic(true) }))
	func() {
		defer func() { _ = recover() }()
		_, err := parser.Parse([]string{"--help"})
		t.Fatal("--help went on:", err)
	}()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) > 25 {
		t.Errorf("remit --help has %d lines, at most 25:\n%s", len(lines), b.String())
	}
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("%d columns, at most 80: %s", len(line), line)
		}
	}
	for _, child := range parser.Model.Children {
		if !strings.Contains(b.String(), "\n  "+child.Name+" ") {
			t.Errorf("remit --help does not name %s", child.Name)
		}
	}
}

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

// TestComplete: bash gets the words that fit the typed ones.
func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"remit wallet r":        "resume retire",
		"remit aud":             "audit audit-log",
		"remit deny add --rea":  "--reason",
		"remit deny add x --ye": "--yes",
	} {
		var b bytes.Buffer
		complete(&b, newParser(&commands{}).Model.Node, line)
		if diff := cmp.Diff(strings.Fields(want), strings.Fields(b.String())); diff != "" {
			t.Errorf("%s: %s", line, diff)
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

// unknown returns the first word or flag of a command that the command line does not have.
func unknown(at *kong.Node, words []string, word *regexp.Regexp) string {
	flags := map[string]bool{"help": true}
	add := func(n *kong.Node) {
		for _, f := range n.Flags {
			flags[f.Name] = true
			if f.Tag != nil && f.Tag.Negatable != "" {
				flags["no-"+f.Name] = true
			}
		}
	}
	add(at)
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			if name = strings.TrimRight(name, ".,:)'\""); name != "" && !flags[name] && word.MatchString(name) {
				return "--" + name
			}
			continue
		}
		next := at
		for _, child := range at.Children {
			if child.Name == w {
				next = child
			}
		}
		switch {
		case next != at:
			at = next
			add(at)
		case len(at.Children) > 0 && word.MatchString(w):
			return w
		}
	}
	return ""
}
