// Command words counts the word "what" in the Go comments of each package, and in Markdown: sentences built on it
// lack a noun, and read as translated. It fails where there are more than one in 1,000 words, and lists them.
package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	what = regexp.MustCompile(`(?i)\bwhat\b`)
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|https?://[^ )]*")
)

// A count has the words of a package's comments, or of Markdown, and the lines with "what".
type count struct {
	words int
	found []string
}

// bad reports whether more than one word in 1,000 is "what".
func (c *count) bad() bool { return len(c.found)*1000 > c.words }

// add counts a text that stands at a place.
func (c *count) add(at, text string) {
	c.words += len(strings.Fields(text))
	for line := range strings.Lines(text) {
		for range what.FindAllString(line, -1) {
			c.found = append(c.found, at+": "+strings.TrimSpace(line))
		}
	}
}

// read counts a file.
func read(counts map[string]*count, name string, source []byte) error {
	kind := path.Dir(name)
	if strings.HasSuffix(name, ".md") {
		kind = "Markdown"
	}
	c, ok := counts[kind]
	if !ok {
		c = &count{}
		counts[kind] = c
	}
	if kind == "Markdown" {
		c.add(name, code.ReplaceAllString(string(source), "x"))
		return nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		c.add(files.Position(group.Pos()).String(), group.Text())
	}
	return nil
}

func main() {
	counts, failed := map[string]*count{}, false
	listed, err := exec.Command("git", "ls-files", "*.go", "*.md", ":!*.gen.go", ":!tools/words").Output()
	for name := range strings.FieldsSeq(string(listed)) {
		source, unread := os.ReadFile(name)
		err = errors.Join(err, unread, read(counts, name, source))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "words: reading the files of the repository:", err)
		os.Exit(1)
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if c := counts[kind]; c.bad() {
			failed = true
			fmt.Printf("%s: \"what\" %d times in %d words, at most 1 in 1,000 wanted\n  %s\n", kind, len(c.found), c.words,
				strings.Join(c.found, "\n  "))
		}
	}
	if failed {
		os.Exit(1)
	}
}
