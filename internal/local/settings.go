package local

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"remit/internal/chain"
	"remit/internal/stack"
	"remit/internal/token"
)

// Settings are the flags of a stack on one machine.
type Settings struct {
	Listen           string `default:"127.0.0.1:8080" env:"REMIT_LISTEN" help:"Where the API is served."`
	ConfirmationRule string `default:"2" env:"REMIT_CONFIRMATION_RULE" help:"When a payment is final: a number of blocks, safe or finalized."`

	ChainSettings

	RPC        []string      `name:"rpc" env:"REMIT_RPC" placeholder:"URL" help:"Use this outside node instead of the embedded chain; may be repeated."`
	Token      token.Address `env:"REMIT_TOKEN" placeholder:"ADDRESS" help:"The token's contract, with --rpc."`
	WalletFile string        `env:"REMIT_WALLET_FILE" placeholder:"FILE" help:"Private keys of the paying wallets, with --rpc: what remit chain prints, a wallet secret, or one key a line."`
	DynamoDB   string        `name:"dynamodb" env:"REMIT_DYNAMODB" placeholder:"URL" help:"Keep everything in DynamoDB at this URL instead of in memory. Tables are created if absent."`

	Network      string        `env:"REMIT_NETWORK" default:"local" help:"The network's name in answers."`
	Window       uint64        `env:"REMIT_WINDOW" default:"1024" help:"Payments in flight per wallet. Public nodes hold about 64."`
	Minimum      token.Amount  `env:"REMIT_AMOUNT_MINIMUM" default:"1" help:"Smallest amount of a payment, in the token's smallest unit."`
	Maximum      token.Amount  `env:"REMIT_AMOUNT_MAXIMUM" default:"0" help:"Largest amount of a payment; 0 for none."`
	DailyLimit   token.Amount  `env:"REMIT_DAILY_LIMIT" default:"0" help:"What a merchant may pay in a UTC day; 0 for no limit."`
	MaxFeeCap    uint64        `name:"max-fee-cap-gwei" env:"REMIT_MAX_FEE_CAP_GWEI" default:"200" help:"The most a transaction may offer per gas, in gwei; 0 for no limit. Above it payments wait."`
	KeyCreation  string        `env:"REMIT_KEY_CREATION" enum:"public,operator" default:"public" help:"Who may create API keys: public or operator."`
	LogLevel     slog.Level    `env:"REMIT_LOG_LEVEL" default:"warn" help:"debug, info, warn or error. At info each payment says when it is committed and settled."`
	ShutdownWait time.Duration `env:"REMIT_SHUTDOWN_WAIT" default:"10s" help:"How long requests under way may take when the server is told to stop."`
}

// ChainSettings are the flags of the embedded chain.
type ChainSettings struct {
	ChainListen string        `default:"127.0.0.1:8545" env:"REMIT_CHAIN_LISTEN" help:"Where the embedded chain serves JSON-RPC."`
	BlockTime   time.Duration `default:"1s" env:"REMIT_BLOCK_TIME" help:"Time between blocks."`
	Wallets     int           `default:"4" env:"REMIT_WALLETS" help:"How many funded test wallets there are."`
}

// reservationAge is how long a reservation is left to its handler. There is one
// process here: after a crash every reservation is an orphan.
const reservationAge = 5 * time.Second

// config returns the flags as the engines read them, without the chain and the
// token. Its error names the flag that cannot be read.
func (s *Settings) config() (stack.Config, error) {
	switch outside, named := len(s.RPC) > 0, !s.Token.IsZero(); {
	case !outside && (named || s.WalletFile != ""):
		return stack.Config{}, errors.New("--token and --wallet-file go with --rpc: the embedded chain brings its own")
	case outside && (!named || s.WalletFile == ""):
		return stack.Config{}, errors.New("--rpc needs --token ADDRESS and --wallet-file FILE: remit chain prints both")
	}
	rule, err := chain.ParseConfirmationRule(s.ConfirmationRule)
	if err != nil {
		return stack.Config{}, fmt.Errorf("--confirmation-rule: %w", err)
	}
	limit, _ := token.Units(s.MaxFeeCap).Times(1_000_000_000) // 64 bits of gwei fit into 256 of wei
	return stack.Config{
		Network: s.Network, Window: s.Window, Minimum: s.Minimum, Maximum: s.Maximum, Daily: s.DailyLimit, FeeLimit: limit,
		ConfirmationRule: rule, BlockTime: s.BlockTime, ReservationAge: reservationAge,
	}, nil
}
