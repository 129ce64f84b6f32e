package local

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

// start starts the embedded chain, which runs until it is closed.
func (s ChainSettings) start(ctx context.Context, log *slog.Logger) (*devnet.Chain, error) {
	if s.BlockTime < 10*time.Millisecond {
		return nil, fmt.Errorf("--block-time %s: must be at least 10ms", s.BlockTime)
	}
	if s.Wallets < 1 || s.Wallets > 1000 {
		return nil, fmt.Errorf("--wallets %d: must be 1 to 1000", s.Wallets)
	}
	chain, err := devnet.Start(ctx, devnet.Config{
		Listen: s.ChainListen, BlockTime: s.BlockTime, Wallets: s.Wallets, Now: time.Now, Log: log,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken: is another remit running? Stop it, or choose another place with --chain-listen", s.ChainListen)
	}
	return chain, err
}

// Chain is `remit chain`.
type Chain struct {
	ChainSettings
}

// Run serves the chain until ctx ends. The facts that it prints hold the test
// wallets' keys: they are public, and --wallet-file takes them.
func (c *Chain) Run(ctx context.Context, out io.Writer) error {
	chain, err := c.start(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	facts, err := chain.Facts(ctx)
	if err != nil {
		return errors.Join(err, chain.Close())
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(chain.WithPrivateKeys(facts)); err != nil {
		return errors.Join(err, chain.Close())
	}
	<-ctx.Done()
	return chain.Close()
}
