// Command words counts constructions that make English sound translated, in Markdown, in
// Go comments and in Go strings of at least four words: a sentence that opens with what,
// whatever or who, and "that of", "one that", "those that". It fails where a kind of text
// has one or more in 1,000 words, and lists them. Questions are not counted. It also fails
// where an error that users of remit read does not end with a next step (steps.go).
package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of text.
const (
	docs     = "docs"
	comments = "comments"
	messages = "messages"
)

var (
	opens  = regexp.MustCompile(`(?:^|[.:;] )(?:[*-] )?(?:What|Whatever|Who)\b[^.?]*(?:[.?]|$)`)
	inside = regexp.MustCompile(`\b(?:that of|one that|those that)\b`)
	fence  = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|https?://[^ )]*")
)

// count is what one kind of text has.
type count struct {
	words int
	found []string
}

// add counts a text of a file.
func (c *count) add(file, text string) {
	c.words += len(strings.Fields(text))
	for _, sentence := range opens.FindAllString(text, -1) {
		if !strings.HasSuffix(sentence, "?") {
			c.found = append(c.found, file+": "+strings.TrimSpace(sentence))
		}
	}
	for _, at := range inside.FindAllStringIndex(text, -1) {
		c.found = append(c.found, file+": "+text[max(0, at[0]-30):min(len(text), at[1]+30)])
	}
}

// read adds a file's texts to their kinds.
func read(counts map[string]*count, file string, source []byte) {
	if strings.HasSuffix(file, ".md") {
		for line := range strings.Lines(fence.ReplaceAllString(string(source), "x")) {
			counts[docs].add(file, strings.TrimSpace(line))
		}
		return
	}
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile(file, -1, len(source)), source, nil, scanner.ScanComments)
	var group []string
	last := 0
	for {
		pos, kind, text := s.Scan()
		line := files.Position(pos).Line
		if kind != token.COMMENT || line != last+1 {
			counts[comments].add(file, strings.Join(group, " "))
			group = nil
		}
		switch kind {
		case token.EOF:
			return
		case token.COMMENT:
			group, last = append(group, strings.TrimSpace(strings.TrimPrefix(text, "//"))), line
		case token.STRING:
			if value, err := strconv.Unquote(text); err == nil && len(strings.Fields(value)) >= 4 {
				counts[messages].add(file, strings.Join(strings.Fields(value), " "))
			}
		}
	}
}

func main() {
	counts := map[string]*count{docs: {}, comments: {}, messages: {}}
	var missing []string
	listed, err := exec.Command("git", "ls-files", "-z", "*.go", "*.md", ":!tools/words").Output()
	for name := range bytes.SplitSeq(bytes.TrimRight(listed, "\x00"), []byte{0}) {
		var source []byte
		if source, err = os.ReadFile(string(name)); err != nil {
			break
		}
		read(counts, string(name), source)
		if in := func(dir string) bool { return strings.HasPrefix(string(name), dir) }; slices.ContainsFunc(advised, in) &&
			strings.HasSuffix(string(name), ".go") && !strings.HasSuffix(string(name), "_test.go") {
			var more []string
			if more, err = steps(string(name), source); err != nil {
				break
			}
			missing = append(missing, more...)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "words: reading the files of the repository:", err)
		os.Exit(1)
	}
	failed := len(missing) > 0
	if failed {
		fmt.Printf("errors without a next step, such as \"; run remit doctor\":\n  %s\n", strings.Join(missing, "\n  "))
	}
	for _, kind := range []string{docs, comments, messages} {
		c := counts[kind]
		fmt.Printf("%s: %d in %d words, fewer than 1 in 1,000 wanted\n", kind, len(c.found), c.words)
		if bad := len(c.found)*1000 >= c.words; bad || len(os.Args) > 1 {
			failed = failed || bad
			fmt.Println("  " + strings.Join(c.found, "\n  "))
		}
	}
	if failed {
		os.Exit(1)
	}
}
