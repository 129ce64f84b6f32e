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
	Listen string   `default:"127.0.0.1:8080" help:"Where the API is served."`
	Hosts  []string `name:"host" placeholder:"NAME" help:"Answer to this name of the machine too, such as host.docker.internal."`
	Page   bool     `default:"true" negatable:"" help:"On loopback, serve the page that shows payments and breaks things"`

	ConfirmationRule string `help:"Final after: blocks, safe or finalized. Empty: 2, with --rpc as in docs/chains.md."`

	Rail []string `enum:"usdc,eurc" default:"usdc" help:"usdc, eurc or both, each on its own chain; the default first."`

	ChainSettings

	RPC           []string        `name:"rpc" placeholder:"URL" help:"Outside nodes, in place of the embedded chain."`
	Token         []token.Address `placeholder:"ADDRESS" help:"The token's contract, with --rpc; several: each of its node and file."`
	WalletFile    string          `placeholder:"FILE" help:"Wallets' keys, with --rpc: one a line, or remit chain's output."`
	BatchContract token.Address   `placeholder:"ADDRESS" help:"With --rpc: the contract that remit batch deploy makes."`

	DynamoDB string `name:"dynamodb" placeholder:"URL" help:"Keep everything in DynamoDB at this URL, not in memory."`
	Fresh    bool   `help:"With --dynamodb: empty the tables first."`

	Window      uint64        `help:"Payments in flight per wallet. 0: 1024, with --rpc as in docs/chains.md."`
	Minimum     token.Amount  `default:"0" help:"Smallest payment, in the token's smallest unit; 0 for none."`
	Maximum     token.Amount  `default:"0" help:"Largest payment; 0 for none."`
	DailyLimit  token.Amount  `default:"0" help:"Most that a merchant may pay in a UTC day; 0 for no limit."`
	KeyCreation string        `enum:"public,operator," default:"" help:"Who makes keys. Empty: public; with --rpc operator."`
	SilentAfter time.Duration `hidden:""` // of tests, in place of five minutes
	Version     string        `kong:"-"`  // of the program, which /docs shows
	LogLevel    slog.Level    `default:"warn" help:"debug, info, warn or error; info logs each payment and GET."`
}

// ChainSettings are the flags of the embedded chain.
type ChainSettings struct {
	Chain       string        `enum:"ethereum,arc" default:"ethereum" help:"arc: the token pays gas, blocks are final at once."`
	ChainListen string        `default:"127.0.0.1:8545" help:"Where the chain serves JSON-RPC; a second: next port."`
	BlockTime   time.Duration `help:"Time between blocks. 0: 1s, with --rpc as in docs/chains.md."`
	Wallets     int           `default:"4" help:"How many funded test wallets there are."`
}

const arc = "arc"

const (
	network = "local" // its name in answers
	// reservationAge is how long a reservation is left to its handler. There is one process here: after
	// a crash every reservation is an orphan.
	reservationAge = 5 * time.Second
	registryAge    = 5 * time.Second // reading the wallets costs nothing here
	recipientHold  = 2 * time.Second // of a new entry of an address book
)

// servesPage reports whether the page is served: to this machine only, since its
// buttons break the stack, and only with the embedded chain.
func (s *Settings) servesPage() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	return s.Page && err == nil && sandbox.Loopback(host) && len(s.RPC) == 0
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
		own.Gas, own.ConfirmationRule = devnet.GasRule(coin.Contract), chain.ConfirmationRule{Tag: "finalized"}
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
	config.Mode = map[bool]string{true: "live", false: "test"}[config.Live]
	if after, _ := stack.ParseQuorum("", config.Mode); after > 0 {
		config.SilentAfter = cmp.Or(s.SilentAfter, after)
	}
	s.ConfirmationRule, s.BlockTime = config.ConfirmationRule.String(), config.BlockTime
	return config
}

// asFlags has the flags by which settings are called here.
var asFlags = strings.NewReplacer("AmountMinimum", "--minimum", "AmountMaximum", "--maximum", "DailyLimit", "--daily-limit")

// closed refuses a main network with public keys or without limits, as a live stack does.
func (s *Settings) closed(chainID uint64) error {
	open := s.initial(settings.Rail{}).Unset()
	if s.KeyCreation == "public" {
		open = append(open, "--key-creation operator")
	}
	if len(open) == 0 || !chains.IsMain(chainID) {
		return nil
	}
	return fmt.Errorf("chain %d is a main network, whose tokens are money; set %s", chainID, asFlags.Replace(strings.Join(open, "; set ")))
}

func (s *Settings) initial(r settings.Rail) settings.Settings {
	initial := settings.Default(r)
	initial.Minimum, initial.Maximum, initial.Daily = s.Minimum, s.Maximum, s.DailyLimit
	initial.BatchContract, initial.MerchantCap = s.BatchContract, 100
	if len(s.RPC) == 0 {
		initial.BatchContract = install.Address()
	}
	return initial
}

const byFlags = "remit local"

// write stores the settings of each rail from the flags as the first version, or in place of earlier ones
// from flags. Settings that a command has changed since are kept, with a warning.
func (s *Settings) write(ctx context.Context, t *tables, all rails, log *slog.Logger) error {
	rules, err := t.payments.Rules(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		rail := rules.Rail(c.Coin())
		flags := s.initial(settings.Rail{ChainID: c.ChainID, Token: c.Token, Network: c.Network,
			Confirmation: c.ConfirmationRule.String(), BlockTime: c.BlockTime})
		changes, was := settings.Payments.Diff(rail.Settings, flags), rail.Settings.Stamp
		if rail.Unusable != nil && !errors.Is(rail.Unusable, settings.ErrMissing) {
			return fmt.Errorf("%w; add --fresh to delete them", rail.Unusable)
		}
		if rail.Unusable == nil && (len(changes) == 0 || was.Who != byFlags) {
			for _, c := range changes {
				log.Warn("setting kept; change it with remit settings", "setting", c.Name, "stored", c.From, "flag", c.To)
			}
			continue
		}
		flags.Stamp = settings.Stamp{Version: was.Version, Needs: settings.Code, Confirmed: true, At: time.Now(), Who: byFlags, Why: "flags"}
		if err := t.payments.SetSettings(ctx, flags); err != nil {
			return err
		}
	}
	return nil
}

// config returns the flags as the engines read them, without the chain and the
// token. Its error names the flag that cannot be read.
func (s *Settings) config() (stack.Config, error) {
	switch outside, named := len(s.RPC) > 0, len(s.Token) > 0; {
	case len(s.Rail) > 2 || len(s.Rail) == 2 && (outside || s.Rail[0] == s.Rail[1]):
		return stack.Config{}, errors.New("name each --rail once, and with --rpc none: its nodes are one rail")
	case s.Fresh && (outside || s.DynamoDB == ""):
		return stack.Config{}, errors.New("--fresh would delete the only record of payments on another chain; " +
			"use it with --dynamodb and without --rpc")
	case !outside && (named || s.WalletFile != "" || !s.BatchContract.IsZero()):
		return stack.Config{}, errors.New("the embedded chain brings its own token, wallets and batch contract; " +
			"remove --token, --wallet-file and --batch-contract, or add --rpc")
	case len(s.Token) > 1 && (len(s.RPC) != len(s.Token) || strings.Count(s.WalletFile, ",")+1 != len(s.Token)):
		return stack.Config{}, errors.New("each --token has one --rpc and one --wallet-file; give as many, in order, with commas")
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
		Network: network, Mode: "test", Ephemeral: s.DynamoDB == "",
		ConfirmationRule: rule, BlockTime: s.BlockTime, ReservationAge: reservationAge, RegistryAge: registryAge,
	}, nil
}
