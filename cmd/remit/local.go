package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"remit/internal/httpapi"
)

// localCommand is `remit local`.
type localCommand struct {
	Listen           string `default:"127.0.0.1:8080" env:"REMIT_LISTEN" help:"Where the API is served."`
	ConfirmationRule string `default:"2" env:"REMIT_CONFIRMATION_RULE" help:"When a payment is final: a number of blocks, safe or finalized."`

	chainFlags

	RPC        []string `name:"rpc" env:"REMIT_RPC" placeholder:"URL" help:"Use this outside node instead of the embedded chain; may be repeated."`
	Token      string   `env:"REMIT_TOKEN" placeholder:"ADDRESS" help:"The token's contract, with --rpc."`
	WalletFile string   `env:"REMIT_WALLET_FILE" placeholder:"FILE" help:"Private keys of the paying wallets, with --rpc: what remit chain prints, a wallet secret, or one key a line."`
	DynamoDB   string   `name:"dynamodb" env:"REMIT_DYNAMODB" placeholder:"URL" help:"Keep everything in DynamoDB at this URL instead of in memory. Tables are created if absent."`

	Network      string        `env:"REMIT_NETWORK" default:"local" help:"The network's name in answers."`
	Window       uint64        `env:"REMIT_WINDOW" default:"1024" help:"Payments in flight per wallet. Public nodes hold about 64."`
	Minimum      string        `env:"REMIT_AMOUNT_MINIMUM" default:"1" help:"Smallest amount of a payment, in the token's smallest unit."`
	Maximum      string        `env:"REMIT_AMOUNT_MAXIMUM" default:"0" help:"Largest amount of a payment; 0 for none."`
	DailyLimit   string        `env:"REMIT_DAILY_LIMIT" default:"0" help:"What a merchant may pay in a UTC day; 0 for no limit."`
	MaxFeeCap    uint64        `name:"max-fee-cap-gwei" env:"REMIT_MAX_FEE_CAP_GWEI" default:"200" help:"The most a transaction may offer per gas, in gwei; 0 for no limit. Above it payments wait."`
	KeyCreation  string        `env:"REMIT_KEY_CREATION" enum:"public,operator" default:"public" help:"Who may create API keys: public or operator."`
	LogLevel     slog.Level    `env:"REMIT_LOG_LEVEL" default:"warn" help:"debug, info, warn or error. At info each payment says when it is committed and settled."`
	ShutdownWait time.Duration `env:"REMIT_SHUTDOWN_WAIT" default:"10s" help:"How long requests under way may take when the server is told to stop."`
}

// Run serves the stack until it is told to stop, then lets requests under way
// finish.
func (c *localCommand) Run(ctx context.Context) error {
	log := c.logger()
	listener, err := net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken: is another remit running? Stop it, or choose another place with --listen", c.Listen)
	}
	if err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	stack, err := c.build(ctx, "http://"+listener.Addr().String(), log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{
		Handler:           accessLog(toTheEnd(stack.handler), os.Stdout, time.Now),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		// OPTIONS * is a route that does not exist, like any other.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(httpapi.Listener(listener, requestID)) }()
	stack.start()
	stack.welcome(os.Stdout)
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownWait)
	defer cancel()
	return errors.Join(err, server.Shutdown(stopping), stack.stop())
}

// toTheEnd lets next answer whether or not the client still waits, as a Lambda
// function does. net/http takes a client that will say nothing more for one that
// has left, and what is cancelled then would look like nodes that fail.
func toTheEnd(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
}

// logger writes to standard error: words for a person, JSON for anything else.
func (c *localCommand) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if isTerminal(os.Stderr) {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}
