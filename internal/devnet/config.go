package devnet

import (
	"errors"
	"log/slog"
	"time"
)

// Defaults of the zero fields of Config.
const (
	DefaultListen  = "127.0.0.1:8545" // where development nodes are expected
	DefaultChainID = 1337             // the local chain of many wallet programs
	DefaultWallets = 4
	DefaultSeed    = "remit devnet"
)

// gasLimit of every block. An ordinary transfer to a new holder uses about
// 52,000 gas, so a block holds more than 5,000 of them.
const gasLimit = 300_000_000

// Config says which chain to start. Now is required; the other fields may be
// zero.
type Config struct {
	// Listen is the address of the JSON-RPC service, host:port. Port 0 takes
	// any free one. The service asks for no credentials: keep it on loopback.
	Listen string

	// BlockTime is the time between blocks, at least 10 ms. Zero leaves mining
	// to Chain.Mine.
	//
	// Block timestamps are whole seconds and each is later than the one
	// before, so a chain with more than one block a second has timestamps
	// that run ahead of the clock.
	BlockTime time.Duration

	ChainID uint64
	Wallets int    // number of funded wallets
	Seed    string // the wallets' keys follow from it; see Wallet

	Now func() time.Time
	Log *slog.Logger // of errors in the background; nil discards them
}

// complete returns cfg with its defaults, or an error that names its fault.
func (cfg Config) complete() (Config, error) {
	if cfg.Now == nil {
		return cfg, errors.New("no clock")
	}
	if cfg.BlockTime != 0 && cfg.BlockTime < 10*time.Millisecond {
		return cfg, errors.New("a block time under 10ms")
	}
	if cfg.Wallets < 0 {
		return cfg, errors.New("a negative number of wallets")
	}
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	if cfg.ChainID == 0 {
		cfg.ChainID = DefaultChainID
	}
	if cfg.Wallets == 0 {
		cfg.Wallets = DefaultWallets
	}
	if cfg.Seed == "" {
		cfg.Seed = DefaultSeed
	}
	if cfg.Log == nil {
		cfg.Log = discard()
	}
	return cfg, nil
}
