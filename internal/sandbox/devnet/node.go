package devnet

import (
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/remit-payouts/remit/internal/evm/disburser/install"
)

// Limits of the JSON-RPC service: far above the requests of Remit, so that no test fails by a limit of the node.
const (
	maxBatchItems = 10_000
	maxBatchReply = 256 << 20 // bytes
	maxRequest    = 64 << 20  // bytes
)

// Limits of the transaction pool, in transactions. A whole burst from one wallet,
// or from all, must fit, in any order of nonces.
const (
	poolPerAccount = 16_384
	poolTotal      = 131_072
)

// startNode starts the chain at its genesis block and its JSON-RPC service, without a listener.
// closeNode undoes it, even after a failed start.
func (c *Chain) startNode() (err error) {
	if c.node, err = node.New(&node.Config{Name: "devnet", P2P: p2p.Config{NoDiscovery: true, NoDial: true},
		KeyStoreDir: os.TempDir()}); err != nil { // it keeps no keys, and a directory of its own would outlive a kill
		return err
	}
	service, err := eth.New(c.node, c.ethConfig())
	if err != nil {
		return fmt.Errorf("making the node: %w", err)
	}
	if err := c.node.Start(); err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	c.eth = service
	genesis := service.BlockChain().CurrentBlock()
	service.BlockChain().SetSafe(genesis)
	service.BlockChain().SetFinalized(genesis)

	c.receipts = &receipts{blocks: service.BlockChain(), mined: map[common.Hash]mined{}, stuck: map[common.Hash]bool{}}
	// The node's own HTTP service would offer the same, but behind another
	// connection; and its in-process one offers admin and debug as well.
	c.rpc = rpc.NewServer()
	c.rpc.SetBatchLimits(maxBatchItems, maxBatchReply)
	c.rpc.SetHTTPBodyLimit(maxRequest)
	apis := append(service.APIs(), rpc.API{
		Namespace: "eth",
		Service:   filters.NewFilterAPI(filters.NewFilterSystem(service.APIBackend, filters.Config{})),
	}, rpc.API{Namespace: "eth", Service: c.receipts}) // the last of a name counts
	if c.cfg.TokenGas {
		c.balances = &oneBalance{chain: c, paid: map[common.Hash]map[common.Address]*big.Int{}, took: map[common.Hash]bool{}}
		apis = append(apis, rpc.API{Namespace: "eth", Service: c.balances})
	}
	for _, api := range apis {
		if own, ok := api.Service.(blockReceipts); ok {
			c.receipts.node = own
		}
		if api.Namespace == "eth" || api.Namespace == "net" {
			if err := c.rpc.RegisterName(api.Namespace, api.Service); err != nil {
				return fmt.Errorf("offering %s: %w", api.Namespace, err)
			}
		}
	}
	c.client = ethclient.NewClient(rpc.DialInProc(c.rpc))
	return nil
}

func (c *Chain) closeNode() error {
	if c.client != nil {
		c.client.Close()
	}
	if c.rpc != nil {
		c.rpc.Stop()
	}
	if c.node == nil {
		return nil
	}
	return c.node.Close()
}

func (c *Chain) ethConfig() *ethconfig.Config {
	rules := *params.AllDevChainProtocolChanges
	rules.ChainID = bigInt(c.cfg.ChainID)
	rules.BogotaTime = nil // not on any live chain yet
	if c.cfg.Amsterdam {
		rules.AmsterdamTime = new(uint64)
	}

	alloc := core.SystemContractAllocs()
	maps.Copy(alloc, types.GenesisAlloc{
		common.Address(c.owner.Address):    {Balance: ether(ownerGas)},
		common.Address(install.Deployer()): {Balance: new(big.Int), Code: install.DeployerCode()},
	})
	for a, code := range c.cfg.Contracts {
		alloc[common.Address(a)] = types.Account{Balance: new(big.Int), Code: code}
	}
	for _, w := range c.wallets {
		alloc[common.Address(w.Address)] = types.Account{Balance: ether(walletGas)}
	}

	conf := ethconfig.Defaults
	conf.Genesis = &core.Genesis{Config: &rules, GasLimit: gasLimit, Timestamp: uint64(c.cfg.Now().Unix()) - 1, Alloc: alloc}
	conf.SyncMode = ethconfig.FullSync
	conf.LogNoHistory = true // logs are found by the blocks' bloom filters; an index would be built in the background
	conf.Miner.GasCeil = gasLimit
	// A block is closed at this time. The default, 2 s, leaves payments out on a slow machine.
	conf.Miner.Recommit = time.Hour
	conf.RPCTxFeeCap = 0 // no cap
	conf.TxPool.NoLocals = true
	conf.TxPool.AccountSlots, conf.TxPool.AccountQueue = poolPerAccount, poolPerAccount
	conf.TxPool.GlobalSlots, conf.TxPool.GlobalQueue = poolTotal, poolTotal
	conf.TxPool.Lifetime = 24 * time.Hour
	conf.NoPrefetch = true // with a database in memory it costs as much as it saves

	// Megabytes. The database is in memory already: caches before it only double it.
	conf.DatabaseCache, conf.TrieCleanCache, conf.TrieDirtyCache, conf.SnapshotCache = 16, 16, 64, 16
	return &conf
}

func bigInt(n uint64) *big.Int { return new(big.Int).SetUint64(n) }

func ether(n uint64) *big.Int { return new(big.Int).Mul(bigInt(n), bigInt(params.Ether)) }

// serve answers one JSON-RPC request or batch, and waits while the head changes. A client that stalls
// in the middle of a request holds up the chain.
func (c *Chain) serve(w http.ResponseWriter, r *http.Request) {
	if !plainHost(r.Host) {
		http.Error(w, "invalid host specified", http.StatusForbidden)
		return
	}
	c.gate.RLock()
	defer c.gate.RUnlock()
	c.rpc.ServeHTTP(w, r)
}

// plainHost reports whether a Host header is an IP address, localhost or the name that containers have for this
// machine, with or without a port. Other names are refused as nodes do: a web page that resolves its own name to
// loopback could otherwise use the chain.
func plainHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return host == "" || host == "localhost" || host == "host.docker.internal" || net.ParseIP(host) != nil
}
