package main

import (
	"fmt"
	"io"
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
		"recover                       Rebuild lost tables from the chain"},
}

const (
	from = "0x1111111111111111111111111111111111111111"
	to   = "0x2222222222222222222222222222222222222222"
)

// examples has a command line for every command, by its path.
var examples = map[string]string{
	"local":             "remit local --wallets 3 --block-time 2s",
	"chain serve":       "remit chain serve",
	"chain fund":        "remit chain fund " + to + " --ether 5",
	"listen":            "remit listen --key $KEY --body",
	"pay":               "remit pay salaries.csv --key $KEY --run 2026-11 --wait",
	"mcp":               "remit mcp --url https://abc.execute-api.eu-west-1.amazonaws.com/prod",
	"smoke":             "remit smoke https://abc.execute-api.eu-west-1.amazonaws.com/prod",
	"plan":              "remit plan --rate 5 --chain base",
	"preflight":         "remit preflight --stack remit ChainId=8453 Mode=live",
	"wallet create":     "remit wallet create --stack remit --kms",
	"wallet import":     "remit wallet import --stack remit --kms alias/payouts-1",
	"wallet list":       "remit wallet list --stack remit",
	"wallet balance":    "remit wallet balance --stack remit",
	"wallet pause":      "remit wallet pause " + from + " --reason 'key rotation'",
	"wallet resume":     "remit wallet resume --all",
	"wallet move":       "remit wallet move " + from + " --to " + to + " --token 500 --key move-1",
	"wallet sweep":      "remit wallet sweep " + from + " --to " + to + " --key sweep-1",
	"wallet funding":    "remit wallet funding " + from,
	"wallet drain":      "remit wallet drain " + from,
	"wallet retire":     "remit wallet retire " + from,
	"wallet rotate":     "remit wallet rotate " + from + " --kms",
	"keys create":       "remit keys create 'Acme Ltd' --scopes payments:write,payments:read --daily-amount 5000000000",
	"keys issue":        "remit keys issue mer_1 --label billing --expires-in 720h",
	"keys list":         "remit keys list mer_1",
	"keys revoke":       "remit keys revoke mer_1 key_1",
	"keys revoke-all":   "remit keys revoke-all --merchant mer_1",
	"merchants list":    "remit merchants list",
	"merchants show":    "remit merchants show mer_1",
	"merchants suspend": "remit merchants suspend mer_1 --reason 'lost laptop'",
	"merchants resume":  "remit merchants resume mer_1",
	"merchants limit":   "remit merchants limit mer_1 --daily-amount 5000000000",
	"payment show":      "remit payment show inv-2041 --merchant mer_1",
	"payment redact":    "remit payment redact inv-2041 --merchant mer_1",
	"batch deploy":      "remit batch deploy " + from + " --key deploy-1",
	"batch approve":     "remit batch approve " + from + " --amount 5000 --key approve-1",
	"deny add":          "remit deny add " + to + " --reason 'reported stolen'",
	"deny remove":       "remit deny remove " + to,
	"deny list":         "remit deny list",
	"settings show":     "remit settings show",
	"settings set":      "remit settings set DailyLimit=250000 NonceWindow=32 --reason 'new quarter'",
	"settings history":  "remit settings history",
	"settings apply":    "remit settings apply settings.env",
	"settings confirm":  "remit settings confirm",
	"settings import":   "remit settings import",
	"settings export":   "remit settings export",
	"webhooks failed":   "remit webhooks failed mer_1 we_1 --since 6h",
	"webhooks resend":   "remit webhooks resend mer_1 we_1 --since 6h",
	"recover":           "remit recover",
	"audit":             "remit audit",
	"audit-log":         "remit audit-log",
	"export":            "remit export",
	"console":           "remit console",
	"policies":          "remit policies RemitReader",
	"rollback":          "remit rollback",
	"doctor":            "remit doctor --stack remit",
}

// help prints the screen of remit --help, or a command's flags with its example.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		return screen(ctx.Stdout)
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if example := examples[path(node)]; example != "" {
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

// path returns a command's words, such as "wallet create".
func path(node *kong.Node) string {
	var words []string
	for ; node.Type == kong.CommandNode; node = node.Parent {
		words = append([]string{node.Name}, words...)
	}
	return strings.Join(words, " ")
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
		for _, child := range node.Children {
			if child.Name == word {
				node = child
				break
			}
		}
	}
	var candidates []string
	for _, child := range node.Children {
		candidates = append(candidates, child.Name)
	}
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			if strings.HasPrefix(last, "-") {
				candidates = append(candidates, "--"+flag.Name)
			}
		}
	}
	for _, candidate := range candidates {
		if strings.HasPrefix(candidate, last) {
			fmt.Fprintln(w, candidate)
		}
	}
}
