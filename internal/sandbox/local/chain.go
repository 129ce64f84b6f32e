package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// start starts a chain, whose config the caller has begun.
func (s ChainSettings) start(ctx context.Context, config devnet.Config, log *slog.Logger) (*devnet.Chain, error) {
	s.BlockTime = cmp.Or(s.BlockTime, time.Second)
	if s.BlockTime < 10*time.Millisecond {
		return nil, fmt.Errorf("--block-time %s: use 10ms or more", s.BlockTime)
	}
	if s.Wallets < 1 || s.Wallets > 1000 {
		return nil, fmt.Errorf("--wallets %d: use 1 to 1000", s.Wallets)
	}
	config.Listen, config.BlockTime, config.Wallets = cmp.Or(config.Listen, s.ChainListen), s.BlockTime, s.Wallets
	config.Now, config.Log, config.TokenGas = time.Now, log, s.Chain == arc
	chain, err := devnet.Start(ctx, config)
	if _, listening := errors.AsType[*net.OpError](err); listening {
		err = listenError("--chain-listen", err)
	}
	return chain, err
}

func listenError(flag string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; stop the other remit, or use a free port with %s 127.0.0.1:0; "+
			"with make, add ARGS='--listen 127.0.0.1:0 --chain-listen 127.0.0.1:0'", err, flag)
	}
	return fmt.Errorf("%s: %w; use an address such as 127.0.0.1:8080", flag, err)
}

// Chain is `remit chain`.
type Chain struct {
	Serve chainServe `cmd:"" default:"withargs" help:"Run the embedded chain alone and print its addresses as JSON."`
	Fund  chainFund  `cmd:"" help:"Give an account ether and test tokens on a running embedded chain." example:"0x2222222222222222222222222222222222222222 --ether 5"`
}

type chainServe struct {
	ChainSettings
}

// Run serves the chain until ctx ends. The facts that it prints hold the test
// wallets' keys: they are public, and --wallet-file takes them.
func (c *chainServe) Run(ctx context.Context, out io.Writer) error {
	chain, err := c.start(ctx, devnet.Config{}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	facts, err := chain.Facts(ctx)
	if err == nil {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(facts)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, chain.Close())
}

type chainFund struct {
	Address token.Address `arg:"" help:"The account, such as a new wallet."`
	Token   uint64        `default:"1000" help:"How many whole test tokens."`
	Ether   uint64        `default:"1" help:"How much ether."`
	RPC     string        `name:"rpc" default:"http://127.0.0.1:8545" env:"REMIT_CHAIN" help:"The embedded chain's JSON-RPC URL; other chains are refused."`
}

// Run sends the money and waits until it is mined.
func (c *chainFund) Run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	wei, _ := token.Units(c.Ether).Times(1_000_000_000_000_000_000) // below 2^124
	tokens, _ := token.Units(c.Token).Times(1_000_000)              // the test token has 6 decimals
	if err := devnet.Give(ctx, c.RPC, c.Address, tokens, wei); err != nil {
		return fmt.Errorf("%w; pass the --rpc of a running remit local or remit chain serve", err)
	}
	_, err := fmt.Fprintf(out, "%s was given %d tokens and %d ether on %s\n", c.Address, c.Token, c.Ether, c.RPC)
	return err
}
