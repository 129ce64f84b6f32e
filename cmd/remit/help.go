package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// groups is the screen of remit --help.
var groups = []struct{ name, commands string }{
	{"Run", "local        The whole stack on this machine\nchain        An embedded chain: serve, fund\n" +
		"listen       Receive, verify and print webhooks"},
	{"Pay", "pay          Pay a CSV file, each row once\n" +
		"mcp          Pay from an agent (Model Context Protocol)\nsmoke        Pay once through a running stack, step by step"},
	{"Deploy", "plan         Wallets, quotas and dollars for a rate of payments\npreflight    Find problems before a deployment\n" +
		"policies     Print IAM policies for operators\nsettings     Show and change limits, fees, windows\n" +
		"rollback     Go back to an earlier version"},
	{"Operate", "wallet, batch                 Create, fund and rotate wallets; set up batches\n" +
		"keys, merchants, deny         Issue keys, limit merchants, block recipients\n" +
		"payment, webhooks             Explain a payment; resend events\n" +
		"doctor, console               Check a stack; watch it in the browser\n" +
		"audit, audit-log, export      Compare tables and chain; who changed what; CSV\n" +
		"recover                       Restore lost payments from the chain"},
}

// help prints the screen of remit --help, or a command's flags with the example in its tag.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		return screen(ctx.Stdout)
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if example := node.Tag.Get("example"); example != "" {
		fmt.Fprintf(ctx.Stdout, "\nExample:\n  %s\n", example)
	}
	return nil
}

func screen(w io.Writer) error {
	fmt.Fprint(w, "Usage: remit <command>, or remit <command> --help for its flags and an example\n")
	for _, g := range groups {
		fmt.Fprintf(w, "%s\n  %s\n", g.name, strings.ReplaceAll(g.commands, "\n", "\n  "))
	}
	return nil
}

// complete prints the words that may follow a line, for bash's complete -C: commands, or
// flags where the last word begins with a dash.
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
