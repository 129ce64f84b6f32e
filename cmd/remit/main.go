// Command remit is the command line: the whole stack on one machine, the embedded chain, tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/cli/operator"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/sandbox/local"
)

// commands is the command line. remit --help lists the commands in this order.
type commands struct {
	Local  local.Command   `cmd:"" help:"Run the whole stack on this machine." example:"--wallets 3"`
	Chain  local.Chain     `cmd:"" help:"Run the embedded chain alone, or get test money from it."`
	Listen merchant.Listen `cmd:"" help:"Receive, verify and print webhooks." example:"--key $KEY --body"`
	Pay    merchant.Pay    `cmd:"" help:"Pay each row of a CSV file once." example:"salaries.csv --key $KEY --run 5"`
	MCP    merchant.MCP    `cmd:"" name:"mcp" help:"Pay from an agent (MCP)." example:"--url https://api.example"`
	Smoke  merchant.Smoke  `cmd:"" help:"Pay once through a running stack." example:"https://api.example"`
	Plan   plan.Command    `cmd:"" help:"Wallets and dollars for a rate." example:"--rate 5 --chain base"`

	operator.Commands

	Version kong.VersionFlag `help:"Print the version."`
}

// version is the release that tools/release builds. Other programs have the version that Go gives their module.
var version string

func builtAs() string {
	if built, ok := debug.ReadBuildInfo(); ok && version == "" {
		return "remit " + built.Main.Version
	}
	return "remit " + version
}

func newParser(cli *commands, options ...kong.Option) *kong.Kong {
	return kong.Must(cli, append(options, kong.Name("remit"), kong.Help(help), kong.ShortUsageOnError(),
		kong.Vars{"version": builtAs()})...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the command at once
	ctx = change.Recorded(ctx, os.Args[1:], change.Ask)
	slog.SetLogLoggerLevel(slog.LevelWarn)
	var cli commands
	cli.Local.Operate, cli.MCP.Version = operator.Serve, strings.TrimPrefix(builtAs(), "remit ")
	cli.Local.Version = cli.MCP.Version
	parser := newParser(&cli, kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(os.Stdout, (*io.Writer)(nil)),
		kong.Exit(func(code int) { os.Exit(min(code, 1)) })) // kong's 80 is no status of ours
	parsed, err := parser.Parse(spelled(parser.Model.Node, os.Args[1:]))
	parser.FatalIfErrorf(plain(err))
	if url := operator.Elsewhere(parsed); url != "" {
		err = operator.Forward(ctx, url, os.Args[1:], os.Stdout)
	} else {
		err = deployed.Advised(parsed.Run())
	}
	if err == nil {
		return
	}
	fmt.Fprint(os.Stderr, merchant.Fold("remit: "+merchant.Plain(err)+"\n"))
	var status kong.ExitCoder
	if errors.As(err, &status) {
		os.Exit(status.ExitCode())
	}
	os.Exit(1)
}
