// Package devnet is an EVM chain inside this process: go-ethereum's own block builder, transaction pool, EVM and
// JSON-RPC service on a database in memory, a USDC-like test token, and funded wallets whose keys are public. Its
// parts are those of go-ethereum's ethclient/simulated, which hides four: the transaction pool (to fork while
// payments are pending), the HTTP service, the chain id, and the exact content of blocks. It is for tests, the
// sandbox and `remit chain`, never for money.
//
// Payments to a magic recipient behave in a special way; see Recipients. The only false answers of the JSON-RPC
// service are the receipts of payments to StuckRecipient.
package devnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus/misc/eip1559"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Chain is one running chain. Its methods may be called from any goroutine.
type Chain struct {
	cfg     Config
	wallets []Wallet
	owner   Wallet // owns the token
	token   token.Token
	abi     abi.ABI // of the token

	node     *node.Node
	eth      *eth.Ethereum
	receipts *receipts
	balances *oneBalance // nil: gas is paid in ether
	rpc      *rpc.Server
	client   *ethclient.Client // in process
	gate     sync.RWMutex      // locked while the head changes
	url      string
	server   *http.Server

	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex // held while blocks are made
	frozen   bool
	salt     uint64               // makes every block different from its rivals
	deployed uint64               // the block no reorg goes below
	old      *types.Transaction   // a mined one of that block
	due      uint64               // the block to re-organise next, 0 for none
	reorged  map[common.Hash]bool // transactions that had their reorg
}

// Start builds the chain, deploys the token, funds the wallets and serves JSON-RPC on cfg.Listen. ctx bounds the
// start only; Close ends the chain. The error of an address in use matches syscall.EADDRINUSE.
func Start(ctx context.Context, cfg Config) (*Chain, error) {
	cfg = cfg.complete()
	// First of all, since a taken port is the likeliest reason to fail.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("starting the chain: %w", err)
	}
	c := &Chain{cfg: cfg, reorged: make(map[common.Hash]bool), url: "http://" + listener.Addr().String()}
	c.makeKeys()
	if err = c.startNode(); err == nil {
		err = c.deploy()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the chain: %w", errors.Join(err, c.closeNode(), listener.Close()))
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	if cfg.BlockTime > 0 {
		c.running.Go(func() { c.produce(running) })
	}
	c.server = &http.Server{Handler: http.HandlerFunc(c.serve), ReadHeaderTimeout: 10 * time.Second}
	c.running.Go(func() {
		if err := c.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			c.cfg.Log.Error("serving the chain's JSON-RPC", "err", err)
		}
	})
	return c, nil
}

// Close stops the service and the chain, and forgets everything on it. No goroutine of the chain is left when it
// returns, except one of the node's that sleeps for another second. Call it once.
func (c *Chain) Close() error {
	c.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // for requests under way
	defer cancel()
	if err := c.server.Shutdown(ctx); err != nil {
		_ = c.server.Close() // cut the connections that are still open
	}
	c.running.Wait()
	if err := c.closeNode(); err != nil {
		return fmt.Errorf("closing the chain: %w", err)
	}
	return nil
}

// URL returns where the chain serves JSON-RPC, such as http://127.0.0.1:8545.
func (c *Chain) URL() string { return c.url }

// ID returns the chain id.
func (c *Chain) ID() uint64 { return c.cfg.ChainID }

// Token returns the test token.
func (c *Chain) Token() token.Token { return c.token }

// Wallets returns the funded wallets.
func (c *Chain) Wallets() []Wallet { return append([]Wallet(nil), c.wallets...) }

// BaseFee returns the base fee of the next block, in wei per gas.
func (c *Chain) BaseFee() (token.Amount, error) {
	return token.AmountFromBytes(c.nextBaseFee().Bytes())
}

func (c *Chain) nextBaseFee() *big.Int {
	blocks := c.eth.BlockChain()
	return eip1559.CalcBaseFee(blocks.Config(), blocks.CurrentBlock())
}

// Head returns the latest block.
func (c *Chain) Head() chain.Block {
	h := c.eth.BlockChain().CurrentBlock()
	return chain.Block{Number: h.Number.Uint64(), Hash: chain.Hash(h.Hash())}
}

// gasLimit of every block. An ordinary transfer to a new holder uses about
// 52,000 gas, so a block holds more than 5,000 of them.
const gasLimit = 300_000_000

// Config describes the chain to start. Now is required; the other fields may be zero.
type Config struct {
	// Listen is the address of the JSON-RPC service; empty means 127.0.0.1:8545. It asks for no
	// credentials: keep it on loopback.
	Listen string

	// BlockTime is the time between blocks; zero leaves mining to Chain.Mine. Block timestamps are whole
	// seconds, so those of a chain with more than one block a second run ahead of the clock.
	BlockTime time.Duration

	ChainID uint64 // zero means 1337
	Wallets int    // number of funded wallets; zero means 4
	Seed    string // the wallets' keys follow from it; see Wallet
	Symbol  string // of the token: zero means USDC, and EURC is the other

	// TokenGas makes the token the gas, as on Arc (see oneBalance), and every block final at once.
	TokenGas bool

	Amsterdam bool                     // the rules are those of the fork Amsterdam, not of Osaka
	Contracts map[token.Address][]byte // code of contracts that are there from the start

	Now func() time.Time
	Log *slog.Logger // of errors in the background; nil discards them
}

// EURC returns cfg for a second chain beside the usual one: another id, other keys, and the token EURC.
func (cfg Config) EURC() Config {
	cfg.ChainID, cfg.Seed, cfg.Symbol = 1338, "remit devnet EURC", "EURC"
	return cfg
}

func (cfg Config) complete() Config {
	cfg.Listen = cmp.Or(cfg.Listen, "127.0.0.1:8545") // where development nodes are expected
	cfg.ChainID = cmp.Or(cfg.ChainID, 1337)           // the local chain of many wallet programs
	cfg.Wallets = cmp.Or(cfg.Wallets, 4)
	cfg.Seed = cmp.Or(cfg.Seed, "remit devnet")
	cfg.Symbol = cmp.Or(cfg.Symbol, "USDC")
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return cfg
}
