package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// help prints every command, or one command's flags and its example, of which a tag has the arguments.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		fmt.Fprint(ctx.Stdout, "Usage: remit <command>, or remit <command> --help for its flags and an example\n")
		for _, command := range ctx.Model.Children {
			fmt.Fprintf(ctx.Stdout, "  %-11s%s\n", command.Name, command.Help)
		}
		return nil
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if node.Leaf() {
		fmt.Fprintf(ctx.Stdout, "\nExample:\n  remit %s %s\n", node.Path(), node.Tag.Get("example"))
	}
	return nil
}

// complete prints the words that may follow a line, for bash's complete -C: commands, or flags after a dash.
func complete(w io.Writer, node *kong.Node, line string) {
	words := strings.Fields(line)
	var last string
	if len(words) > 0 && !strings.HasSuffix(line, " ") {
		last, words = words[len(words)-1], words[:len(words)-1]
	}
	for _, word := range words {
		if i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == word }); i >= 0 {
			node = node.Children[i]
		}
	}
	var candidates []string
	for _, child := range node.Children {
		candidates = append(candidates, child.Name)
	}
	if strings.HasPrefix(last, "-") {
		for _, flag := range slices.Concat(node.AllFlags(true)...) {
			candidates = append(candidates, "--"+flag.Name)
		}
	}
	for _, candidate := range candidates {
		if strings.HasPrefix(candidate, last) {
			fmt.Fprintln(w, candidate)
		}
	}
}

// goWords are Go's errors of a flag's value, and our words for them.
var goWords = [...]struct {
	gos  *regexp.Regexp
	ours string
}{
	{regexp.MustCompile(`parsing time "(.*?)" as .*`), `"$1" is no date; write it as 2026-01-31`},
	{regexp.MustCompile(`expected duration but got "(.*?)".*`), `"$1" is no duration; write it as 90s, 15m or 24h`},
	{regexp.MustCompile(`expected a valid \d+ bit u?int but got "(.*?)".*`), `"$1" is no whole number in range; use digits`},
	{regexp.MustCompile(`stat (.*): no such file or directory`), `there is no file $1; correct the path`},
}

// plain returns the error of a command line without Go's words.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, words := range goWords {
		text = words.gos.ReplaceAllString(text, words.ours)
	}
	if text == err.Error() {
		return err // with the command whose usage is shown
	}
	return errors.New(text)
}
