// Command remit is the command line: the whole stack on one machine, the
// embedded chain alone, a merchant's tools and an operator's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/remit-payouts/remit/internal/cli/local"
	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/cli/operator"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/cli/plan"
)

// commands is the command line. The help of a flag names its environment
// variable.
type commands struct {
	Local local.Command `cmd:"" help:"Run the whole stack on this machine, against an embedded chain or an outside node." example:"remit local --wallets 3 --block-time 2s"`
	Chain local.Chain   `cmd:"" help:"Run the embedded chain alone, or get test money from it."`

	Listen merchant.Listen `cmd:"" help:"Receive, verify and print the webhooks of a stack on this machine." example:"remit listen --key $KEY --body"`

	Pay merchant.Pay `cmd:"" help:"Pay each row of a CSV file once, no matter how often you run it." example:"remit pay salaries.csv --key $KEY --run 2026-11 --wait"`

	MCP merchant.MCP `cmd:"" name:"mcp" help:"Serve an agent on standard input and output (Model Context Protocol): pay, find, wait, limits, address book." example:"remit mcp --url https://abc.execute-api.eu-west-1.amazonaws.com/prod"`

	Smoke merchant.Smoke `cmd:"" help:"Make a key, a payment and a webhook against a running stack, step by step." example:"remit smoke https://abc.execute-api.eu-west-1.amazonaws.com/prod"`

	Plan plan.Command `cmd:"" help:"Compute the wallets, quotas, node calls and dollars that a rate of payments needs." example:"remit plan --rate 5 --chain base"`

	Preflight check.Preflight `cmd:"" help:"Check a stack before a deployment and print the fix for each problem." example:"remit preflight --stack remit ChainId=8453 Mode=live"`

	operator.Commands
}

func newParser(cli *commands, options ...kong.Option) *kong.Kong {
	return kong.Must(cli, append(options, kong.Name("remit"), kong.Help(help), kong.ShortUsageOnError())...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx = change.Recorded(ctx, os.Args[1:], change.Ask)
	var cli commands
	cli.Local.Operate = operator.Serve
	parser := newParser(&cli, kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(os.Stdout, (*io.Writer)(nil)))
	if line, ok := os.LookupEnv("COMP_LINE"); ok {
		complete(os.Stdout, parser.Model.Node, line)
		return
	}
	parsed, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(err)
	if url := operator.Elsewhere(parsed); url != "" {
		err = operator.Forward(ctx, url, os.Args[1:], os.Stdout)
	} else {
		err = operator.Advised(parsed.Run())
	}
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "remit:", err)
		if told, ok := errors.AsType[*merchant.Incomplete](err); ok {
			os.Exit(told.ExitCode())
		}
		os.Exit(1)
	}
}
