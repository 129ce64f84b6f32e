package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/sandbox"
)

// Settings are the flags of a stack on one machine.
type Settings struct {
	Listen           string `default:"127.0.0.1:8080" env:"REMIT_LISTEN" help:"Where the API is served."`
	ConfirmationRule string `env:"REMIT_CONFIRMATION_RULE" help:"When a payment is final: a number of blocks, safe or finalized. Empty: 2, or what docs/chains.md has for the outside chain."`

	ChainSettings

	RPC        []string      `name:"rpc" env:"REMIT_RPC" placeholder:"URL" help:"Use this outside node instead of the embedded chain; may be repeated."`
	Token      token.Address `env:"REMIT_TOKEN" placeholder:"ADDRESS" help:"The token's contract, with --rpc."`
	WalletFile string        `env:"REMIT_WALLET_FILE" placeholder:"FILE" help:"Private keys of the paying wallets, with --rpc: the output of remit chain, a wallet's secret, or one key per line."`
	DynamoDB   string        `name:"dynamodb" env:"REMIT_DYNAMODB" placeholder:"URL" help:"Keep everything in DynamoDB at this URL instead of in memory. Tables are created if absent."`
	Fresh      bool          `env:"REMIT_FRESH" help:"With --dynamodb: empty the tables first."`

	Page          bool          `default:"true" negatable:"" env:"REMIT_PAGE" help:"Serve a page at / that shows payments and breaks things: on loopback, with the embedded chain, and with payments' ids on the chain."`
	Network       string        `env:"REMIT_NETWORK" default:"local" help:"The network's name in answers."`
	Window        uint64        `env:"REMIT_WINDOW" help:"Payments in flight per wallet. 0: 1024, or what docs/chains.md has for the outside chain."`
	MerchantCap   uint64        `env:"REMIT_MERCHANT_CAP" default:"100" help:"Percent of the windows that the payments of one merchant may use; 100 is no limit."`
	Quorum        string        `env:"REMIT_QUORUM" enum:"strict,answering," default:"" help:"Whether confirmations need a node that gave no valid answer for five minutes: strict or answering (no). Empty: answering, but strict on a main network."`
	SilentAfter   time.Duration `env:"REMIT_SILENT_AFTER" hidden:""` // of tests, in place of the five minutes
	Memo          string        `env:"REMIT_MEMO" enum:"on,off" default:"on" help:"Whether call data ends with the payment's id: on, or off for a token that refuses it."`
	Minimum       token.Amount  `env:"REMIT_AMOUNT_MINIMUM" default:"0" help:"Smallest amount of a payment, in the token's smallest unit; 0 for none."`
	Maximum       token.Amount  `env:"REMIT_AMOUNT_MAXIMUM" default:"0" help:"Largest amount of a payment; 0 for none."`
	DailyLimit    token.Amount  `env:"REMIT_DAILY_LIMIT" default:"0" help:"Most that a merchant may pay in a UTC day; 0 for no limit."`
	SanctionsList token.Address `env:"REMIT_SANCTIONS_LIST" placeholder:"ADDRESS" help:"A contract with isSanctioned(address); Remit refuses the recipients it lists."`
	BatchContract token.Address `env:"REMIT_BATCH_CONTRACT" placeholder:"ADDRESS" help:"The contract through which batches are paid, with --rpc: remit batch deploy makes it. The embedded chain has one."`
	MaxFeeCap     uint64        `name:"max-fee-cap-gwei" env:"REMIT_MAX_FEE_CAP_GWEI" help:"Highest fee per gas, in gwei; payments wait while fees are above it. 0: 200, or what docs/chains.md has for the outside chain."`
	RecipientHold time.Duration `env:"REMIT_RECIPIENT_HOLD" default:"2s" help:"How long a new recipient waits until keys with recipients \"book\" may pay it."`
	KeyCreation   string        `env:"REMIT_KEY_CREATION" enum:"public,operator," default:"" help:"Creators of API keys: public or operator. Empty: public on the embedded chain, operator with --rpc."`
	RequireKey    bool          `name:"require-idempotency-key" env:"REMIT_REQUIRE_IDEMPOTENCY_KEY" help:"Refuse payments without an Idempotency-Key."`
	LogLevel      slog.Level    `env:"REMIT_LOG_LEVEL" default:"warn" help:"debug, info, warn or error. At info it logs when each payment is committed and settled."`
	ShutdownWait  time.Duration `env:"REMIT_SHUTDOWN_WAIT" default:"10s" help:"How long requests under way may take when the server is stopped."`
}

// ChainSettings are the flags of the embedded chain.
type ChainSettings struct {
	Chain       string        `env:"REMIT_EMBEDDED_CHAIN" enum:"ethereum,arc" default:"ethereum" help:"How the embedded chain works, with --rpc in another process: ethereum, or arc, where gas is paid in the token and every block is final."`
	ChainListen string        `default:"127.0.0.1:8545" env:"REMIT_CHAIN_LISTEN" help:"Where the embedded chain serves JSON-RPC."`
	BlockTime   time.Duration `env:"REMIT_BLOCK_TIME" help:"Time between blocks. 0: 1s, or what docs/chains.md has for the outside chain."`
	Wallets     int           `default:"4" env:"REMIT_WALLETS" help:"How many funded test wallets there are."`
}

// arc is the embedded chain whose gas is the token.
const arc = "arc"

// reservationAge is how long a reservation is left to its handler. There is one
// process here: after a crash every reservation is an orphan.
const reservationAge = 5 * time.Second

// registryAge is how soon a change of the wallets is seen: reading them costs nothing
// here.
const registryAge = 5 * time.Second

// servesPage reports whether the page is served: to this machine only, since its
// buttons break the stack, and only with the embedded chain, and with the payment's id in
// each transfer.
func (s *Settings) servesPage() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	return s.Page && err == nil && sandbox.Loopback(host) && len(s.RPC) == 0 && s.Memo == "on"
}

// profile returns the values of a chain that pays a token. The embedded chain, in this process or another, has fast
// blocks and a pool without limits, and an unknown chain may have them too.
func (s *Settings) profile(id uint64, coin token.Token) chains.Profile {
	own, known := chains.Of(id)
	if known {
		return own
	}
	own.ConfirmationRule, own.BlockTime, own.Window = chain.ConfirmationRule{Depth: 2}, time.Second, 1024
	if s.Chain == arc {
		own.Gas, own.ConfirmationRule = devnet.GasRule(coin.Contract, false), chain.ConfirmationRule{Tag: "finalized"}
	}
	return own
}

// complete returns config with the chain's own values where no flag chose one, and notes the values
// that people are shown.
func (s *Settings) complete(config stack.Config) stack.Config {
	own := s.profile(config.ChainID, config.Token)
	own.Window = cmp.Or(s.Window, own.Window)
	config = own.Complete(config)
	config.Live = chains.IsMain(config.ChainID)
	mode := map[bool]string{true: "live", false: "test"}[config.Live]
	if after, _ := stack.ParseQuorum(s.Quorum, mode); after > 0 { // kong takes no other
		config.SilentAfter = cmp.Or(s.SilentAfter, after)
	}
	s.ConfirmationRule, s.BlockTime = config.ConfirmationRule.String(), config.BlockTime
	return config
}

// asFlags has the flags by which settings are called here.
var asFlags = strings.NewReplacer("AmountMinimum", "--minimum", "AmountMaximum", "--maximum", "DailyLimit", "--daily-limit")

// closed refuses a main network with public keys or without limits, as a live stack does.
func (s *Settings) closed(chainID uint64) error {
	open := s.initial().Unset()
	if s.KeyCreation == "public" {
		open = append(open, "--key-creation operator")
	}
	if len(open) == 0 || !chains.IsMain(chainID) {
		return nil
	}
	return fmt.Errorf("chain %d is a main network, whose tokens are money; set %s", chainID, asFlags.Replace(strings.Join(open, "; set ")))
}

func (s *Settings) initial() settings.Settings {
	initial := settings.Default()
	initial.Minimum, initial.Maximum, initial.Daily, initial.RequireKey = s.Minimum, s.Maximum, s.DailyLimit, s.RequireKey
	initial.Sanctions, initial.BatchContract, initial.MemoOff = s.SanctionsList, s.BatchContract, s.Memo == "off"
	initial.FeeCapGwei, initial.MerchantCap = s.MaxFeeCap, max(1, s.MerchantCap)
	if len(s.RPC) == 0 {
		initial.BatchContract = install.Address()
	}
	return initial
}

// byFlags is the author of settings from flags.
const byFlags = "remit local"

// write stores the settings from the flags as the first version, or in place of earlier ones
// from flags. Settings that a command has changed since are kept, with a warning.
func (s *Settings) write(ctx context.Context, t *tables, log *slog.Logger) error {
	rules, err := t.payments.Rules(ctx)
	if err != nil {
		return err
	}
	initial, by := s.initial(), settings.Stamp{Needs: settings.Code, Confirmed: true, At: time.Now(), Who: byFlags, Why: "flags"}
	initial.Stamp, initial.Version = by, rules.Settings.Version
	if err := replace(settings.Payments, rules.Settings, initial, rules.Unusable, log,
		func() error { return t.payments.SetSettings(ctx, initial) }); err != nil {
		return err
	}
	there, unusable := t.keys.KeySettings(ctx)
	keys := settings.Keys{Stamp: by, Public: s.KeyCreation == "public", Hold: s.RecipientHold}
	keys.Version = there.Version
	return replace(settings.APIKeys, there, keys, unusable, log, func() error { return t.keys.SetKeySettings(ctx, keys) })
}

// replace stores the flags' settings unless they are stored, or were changed by a command.
func replace[T any](table settings.Table[T], there, flags T, unusable error, log *slog.Logger, store func() error) error {
	changes := table.Diff(there, flags)
	switch {
	case errors.Is(unusable, settings.ErrMissing):
		return store()
	case unusable != nil:
		return fmt.Errorf("%w; add --fresh to delete them", unusable)
	case len(changes) > 0 && table.Stamp(&there).Who != byFlags:
		for _, c := range changes {
			log.Warn("setting kept, not taken from the flags; change it with remit settings set", "setting", c.Name, "stored", c.From, "flag", c.To)
		}
		return nil
	case len(changes) > 0:
		return store()
	}
	return nil
}

// config returns the flags as the engines read them, without the chain and the
// token. Its error names the flag that cannot be read.
func (s *Settings) config() (stack.Config, error) {
	switch outside, named := len(s.RPC) > 0, !s.Token.IsZero(); {
	case s.Fresh && (outside || s.DynamoDB == ""):
		return stack.Config{}, errors.New("--fresh would delete the only record of payments on another chain; use it with --dynamodb and " +
			"without --rpc")
	case !outside && (named || s.WalletFile != "" || !s.BatchContract.IsZero()):
		return stack.Config{}, errors.New("the embedded chain brings its own token, wallets and batch contract; " +
			"remove --token, --wallet-file and --batch-contract, or add --rpc")
	case outside && (!named || s.WalletFile == ""):
		return stack.Config{}, errors.New("--rpc lacks a token or wallets; add --token ADDRESS and --wallet-file FILE, which remit chain prints")
	}
	if s.KeyCreation == "" {
		s.KeyCreation = "public"
		if len(s.RPC) > 0 {
			s.KeyCreation = "operator"
		}
	}
	var rule chain.ConfirmationRule
	if s.ConfirmationRule != "" {
		var err error
		if rule, err = chain.ParseConfirmationRule(s.ConfirmationRule); err != nil {
			return stack.Config{}, fmt.Errorf("--confirmation-rule: %w", err)
		}
	}
	return stack.Config{
		Network: s.Network, Mode: "test", Ephemeral: s.DynamoDB == "",
		ConfirmationRule: rule, BlockTime: s.BlockTime, ReservationAge: reservationAge, RegistryAge: registryAge,
	}, nil
}
