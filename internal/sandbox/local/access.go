package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/ethrpc/inspect"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/sandbox"
)

// A chainAccess is the chain that payments are made on, and the keys that pay there.
type chainAccess struct {
	embedded *devnet.Chain    // nil with --rpc
	page     *sandbox.Sandbox // nil where no page is served
	chainID  uint64
	asset    token.Token
	urls     []string
	nodes    chain.Nodes
	silent   []error // of the nodes that did not answer at the start
	keys     *keyring.Ring
	mu       sync.Mutex
	held     map[token.Address]keyring.Key // which are in memory only
}

// openChain starts the embedded chain unless --rpc names outside nodes, and asks the nodes for their chain and token.
func openChain(ctx context.Context, s *Settings, log *slog.Logger) (a *chainAccess, err error) {
	a = &chainAccess{held: map[token.Address]keyring.Key{}}
	a.keys = keyring.New(func(wallet token.Address) keyring.Read {
		return func(context.Context) (keyring.Key, error) { return a.key(wallet) }
	})
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	urls, contract := s.RPC, s.Token
	var texts []string
	if len(urls) > 0 {
		texts, err = keysIn(s.WalletFile)
	} else if a.embedded, err = s.start(ctx, log); err == nil {
		urls, contract = []string{a.embedded.URL()}, a.embedded.Token().Contract
		for _, w := range a.embedded.Wallets() {
			texts = append(texts, w.PrivateKey())
		}
	}
	if err != nil {
		return a, err
	}
	for i, text := range texts {
		key, err := keyring.ParseKey(text)
		if err != nil {
			return a, fmt.Errorf("--wallet-file %s: key %d: %w", s.WalletFile, i+1, err)
		}
		a.held[key.Address()] = key
	}
	if err := a.discover(ctx, urls, contract); err != nil {
		return a, fmt.Errorf("--rpc, --token: %w", err)
	}
	own := s.profile(a.chainID, a.asset)
	if a.embedded != nil && s.servesPage() {
		if a.page, err = sandbox.New(a.embedded.URL(), a.chainID, own.Gas, time.Now, log); err != nil {
			return a, err
		}
		a.nodes = a.page.Nodes()
	}
	for _, url := range urls[min(len(urls), len(a.nodes)):] {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: a.chainID, L1Fee: own.L1Fee, Gas: own.Gas, Log: log})
		if err != nil {
			return a, fmt.Errorf("--rpc: %w", err)
		}
		a.nodes = append(a.nodes, node)
	}
	a.nodes, a.urls = a.nodes.Watch(time.Now, time.After), urls
	return a, nil
}

func (a *chainAccess) close() (err error) {
	if a.page != nil {
		err = a.page.Close()
	}
	if a.embedded != nil {
		if closing := a.embedded.Close(); !errors.Is(closing, context.Canceled) {
			err = errors.Join(err, closing)
		}
	}
	return err
}

// discover queries every node for its chain and token, takes the first answer, and lists the
// silent nodes. It fails if all are silent.
func (a *chainAccess) discover(ctx context.Context, urls []string, contract token.Address) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for i, url := range urls {
		id, asset, err := inspect.Token(ctx, url, contract)
		switch {
		case err != nil:
			a.silent = append(a.silent, fmt.Errorf("node %d of %d does not answer: %w", i+1, len(urls), err))
		case a.chainID == 0:
			a.chainID, a.asset = id, asset
		}
	}
	if a.chainID == 0 {
		return errors.Join(a.silent...)
	}
	return nil
}

func (a *chainAccess) put(key keyring.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[key.Address()] = key
}

func (a *chainAccess) key(address token.Address) (keyring.Key, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, found := a.held[address]
	if !found {
		return keyring.Key{}, wallet.ErrNoKey
	}
	return key, nil
}

func (a *chainAccess) keyed() []token.Address {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Keys(a.held), func(x, y token.Address) int { return bytes.Compare(x[:], y[:]) })
}

// host returns the address of a node without parts that may be a provider's key: /sandbox needs no key of ours.
func host(node string) string {
	at, err := url.Parse(node)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host}).String()
}

// facts describes the chain, with the wallets' balances there. It lists no magic
// recipients of an outside chain, where they are ordinary addresses.
func (a *chainAccess) facts(ctx context.Context, s *Settings) (devnet.Facts, error) {
	if a.embedded != nil {
		return a.embedded.Facts(ctx)
	}
	facts := devnet.Facts{
		RPCURL: host(s.RPC[0]), ChainID: a.chainID, BlockTimeSeconds: s.BlockTime.Seconds(), Recipients: []devnet.Recipient{},
		Token: devnet.TokenFacts{Address: a.asset.Contract, Symbol: a.asset.Symbol, Decimals: a.asset.Decimals},
	}
	for _, w := range a.keyed() {
		views, err := a.nodes.Views(ctx, w, a.asset.Contract, chain.ConfirmationRule{})
		if err != nil {
			return devnet.Facts{}, err
		}
		has := a.nodes.Account(views)
		facts.Wallets = append(facts.Wallets, devnet.WalletFacts{Address: w, TokenBalance: has.Balance, GasBalance: has.Gas})
	}
	return facts, nil
}

// keysIn reads private keys from a file: the JSON of remit chain, or one key per line. Errors repeat
// nothing from the file.
func keysIn(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--wallet-file: %w", err)
	}
	var form struct {
		PrivateKeys []string `json:"private_keys"`
	}
	texts := strings.Fields(string(b))
	if err := json.Unmarshal(b, &form); err == nil {
		texts = form.PrivateKeys
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("--wallet-file %s has no key; write one private key per line", file)
	}
	return texts, nil
}
