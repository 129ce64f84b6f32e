package devnet

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// gasLimit of every block. An ordinary transfer to a new holder uses about
// 52,000 gas, so a block holds more than 5,000 of them.
const gasLimit = 300_000_000

// Config describes the chain to start. Now is required; the other fields may be
// zero.
type Config struct {
	// Listen is the address of the JSON-RPC service, host:port; empty means
	// 127.0.0.1:8545. Port 0 takes any free one. The service asks for no
	// credentials: keep it on loopback.
	Listen string

	// BlockTime is the time between blocks, at least 10 ms. Zero leaves mining
	// to Chain.Mine.
	//
	// Block timestamps are whole seconds and each is later than the one
	// before, so a chain with more than one block a second has timestamps
	// that run ahead of the clock.
	BlockTime time.Duration

	ChainID uint64 // zero means 1337
	Wallets int    // number of funded wallets; zero means 4
	Seed    string // the wallets' keys follow from it; see Wallet

	// TokenGas makes the token the gas, as on Arc (see oneBalance), and every block final at once.
	TokenGas bool

	Amsterdam bool                     // the rules are those of the fork Amsterdam, not of Osaka
	Contracts map[token.Address][]byte // code of contracts that are there from the start

	Now func() time.Time
	Log *slog.Logger // of errors in the background; nil discards them
}

// complete returns cfg with its defaults.
func (cfg Config) complete() Config {
	cfg.Listen = cmp.Or(cfg.Listen, "127.0.0.1:8545") // where development nodes are expected
	cfg.ChainID = cmp.Or(cfg.ChainID, 1337)           // the local chain of many wallet programs
	cfg.Wallets = cmp.Or(cfg.Wallets, 4)
	cfg.Seed = cmp.Or(cfg.Seed, "remit devnet")
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return cfg
}
