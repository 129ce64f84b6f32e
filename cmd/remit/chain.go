package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"remit/internal/devnet"
)

// chainFlags say which chain to embed.
type chainFlags struct {
	ChainListen string        `default:"127.0.0.1:8545" env:"REMIT_CHAIN_LISTEN" help:"Where the embedded chain serves JSON-RPC."`
	BlockTime   time.Duration `default:"1s" env:"REMIT_BLOCK_TIME" help:"Time between blocks."`
	Wallets     int           `default:"4" env:"REMIT_WALLETS" help:"How many funded test wallets there are."`
}

func (f chainFlags) start(ctx context.Context, log *slog.Logger) (*devnet.Chain, error) {
	if f.BlockTime < 10*time.Millisecond {
		return nil, fmt.Errorf("--block-time %s: must be at least 10ms", f.BlockTime)
	}
	if f.Wallets < 1 || f.Wallets > 1000 {
		return nil, fmt.Errorf("--wallets %d: must be 1 to 1000", f.Wallets)
	}
	chain, err := devnet.Start(ctx, devnet.Config{
		Listen: f.ChainListen, BlockTime: f.BlockTime, Wallets: f.Wallets, Now: time.Now, Log: log,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken: is another remit running? Stop it, or choose another place with --chain-listen", f.ChainListen)
	}
	return chain, err
}

// chainCommand is `remit chain`.
type chainCommand struct {
	chainFlags
}

// Run serves the chain until it is told to stop. The facts it prints hold the
// test wallets' keys: they are public, and --wallet-file takes them.
func (c *chainCommand) Run(ctx context.Context) error {
	chain, err := c.start(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	facts, err := chain.Facts(ctx)
	if err != nil {
		return errors.Join(err, chain.Close())
	}
	if err := writeJSON(os.Stdout, chain.WithPrivateKeys(facts)); err != nil {
		return errors.Join(err, chain.Close())
	}
	<-ctx.Done()
	return chain.Close()
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
