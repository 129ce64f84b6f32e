// Command remit is what people run: the whole stack on one machine, the
// embedded chain alone, and the operator's commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands is the command line. What a flag can be set by in the environment
// stands in its help.
type commands struct {
	Local localCommand `cmd:"" help:"Run the whole stack on this machine, against an embedded chain or an outside node."`
	Chain chainCommand `cmd:"" help:"Run the embedded chain alone and print where everything on it is, as JSON."`

	Listen listenCommand `cmd:"" help:"Receive, verify and print the webhooks of a stack on this machine."`

	Wallet   walletCommands  `cmd:"" help:"Keys that pay, of a deployed stack."`
	Keys     keyCommands     `cmd:"" help:"Merchants' API keys, of a deployed stack."`
	Payment  paymentCommands `cmd:"" help:"Look into a payment of a deployed stack."`
	Webhooks webhookCommands `cmd:"" help:"Deliveries of a deployed stack that failed."`
	Smoke    smokeCommand    `cmd:"" help:"Make a key, a payment and a webhook against a running stack, step by step."`
	Doctor   doctorCommand   `cmd:"" help:"Examine a deployed stack and say what to do about each finding."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var cli commands
	parser := kong.Parse(&cli,
		kong.Name("remit"),
		kong.Description("Remit pays out stablecoins, each payment exactly once."),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	err := parser.Run()
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "remit:", err)
		os.Exit(1)
	}
}
