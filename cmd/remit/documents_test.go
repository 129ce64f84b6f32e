package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestDocumentsNameCommands: each `remit …` of the documents is a command, and each
// --flag beside it is one of that command's, or of a command in front of it.
func TestDocumentsNameCommands(t *testing.T) {
	parser := must.Get(kong.New(&commands{}, kong.Name("remit")))(t)
	pages := must.Get(filepath.Glob("../../docs/*/*.md"))(t)
	more := must.Get(filepath.Glob("../../docs/*.md"))(t)
	named := regexp.MustCompile("(?m)(?:`|^| |bin/)remit ([a-z][^`|;#\n]*)")
	word, commands := regexp.MustCompile(`^[a-z][a-z-]+$`), 0
	for _, page := range append(append(pages, more...), "../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md") {
		text := must.Get(os.ReadFile(page))(t)
		code := regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
		for _, span := range code.FindAllString(string(text), -1) {
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
