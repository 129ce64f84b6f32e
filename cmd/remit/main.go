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

	"remit/internal/local"
	"remit/internal/merchant"
	"remit/internal/operator"
)

// commands is the command line. The help of a flag names its environment
// variable.
type commands struct {
	Local local.Command `cmd:"" help:"Run the whole stack on this machine, against an embedded chain or an outside node."`
	Chain local.Chain   `cmd:"" help:"The embedded chain, alone."`

	Listen merchant.Listen `cmd:"" help:"Receive, verify and print the webhooks of a stack on this machine."`

	Wallet   operator.Wallet   `cmd:"" help:"Keys that pay, of a deployed stack."`
	Keys     operator.Keys     `cmd:"" help:"Merchants' API keys, of a deployed stack."`
	Payment  operator.Payment  `cmd:"" help:"Look into a payment of a deployed stack."`
	Webhooks operator.Webhooks `cmd:"" help:"Deliveries of a deployed stack that failed."`
	Smoke    merchant.Smoke    `cmd:"" help:"Make a key, a payment and a webhook against a running stack, step by step."`
	Doctor   operator.Doctor   `cmd:"" help:"Examine a deployed stack and say what to do about each finding."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var cli commands
	parser := kong.Parse(&cli,
		kong.Name("remit"),
		kong.Description("Remit pays out stablecoins, each payment at most once."),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(os.Stdout, (*io.Writer)(nil)),
	)
	err := parser.Run()
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "remit:", err)
		os.Exit(1)
	}
}
