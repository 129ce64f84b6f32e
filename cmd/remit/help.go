package main

import (
	"errors"
	"fmt"
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
	err := kong.DefaultHelpPrinter(options, ctx)
	if err == nil && node.Leaf() {
		fmt.Fprintln(ctx.Stdout, "\nExample:\n  remit", strings.TrimSpace(node.Path()+" "+node.Tag.Get("example")))
	}
	return err
}

// below returns the command that words name, or the last node of the grammar that they do.
func below(node *kong.Node, words []string) *kong.Node {
	for _, word := range words {
		if i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == word }); i >= 0 {
			node = node.Children[i]
		}
	}
	return node
}

// spelled returns the flags for remit version and remit help COMMAND, and for a command that lacks the next word.
func spelled(root *kong.Node, args []string) []string {
	named := below(root, args)
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(args[1:], "--help")
	case !named.Leaf() && (len(args) == 0 || args[len(args)-1] == named.Name):
		return append(args, "--help")
	case len(args) == 1 && args[0] == "version":
		return []string{"--version"}
	}
	return args
}

var goWords = [][2]string{
	{`parsing time "(.*?)" as "2006-01-02T.*`, `"$1" is no time; write it as 2026-01-31T09:00:00Z`},
	{`parsing time "(.*?)" as .*`, `"$1" is no date; write it as 2026-01-31`},
	{`expected duration but got "(.*?)".*`, `"$1" is no duration; write it as 90s, 15m or 24h`},
	{`expected a valid .*int but got "(.*?)".*`, `"$1" is no whole number in range; use digits`},
	{`invalid address$`, `invalid address; an address is 0x and 40 hex digits`},
	{`EIP-55 checksum$`, `$0; copy it again`},
	{`^missing flags: --key=STRING$`, `$0; set REMIT_API_KEY, or add --key`},
	{`stat (.*): no such file or directory`, `there is no file $1; correct the path`},
}

func plain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, words := range goWords {
		text = regexp.MustCompile(words[0]).ReplaceAllString(text, words[1])
	}
	if text == err.Error() {
		return err // with the command whose usage is shown
	}
	return errors.New(text)
}
