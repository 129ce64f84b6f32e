package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"remit/internal/chain"
	"remit/internal/chains"
	"remit/internal/devnet"
	"remit/internal/ethrpc"
	"remit/internal/keyring"
	"remit/internal/token"
)

// A chainAccess is the chain that payments are made on, and the keys that pay
// there.
type chainAccess struct {
	embedded *devnet.Chain // nil with --rpc
	chainID  uint64
	asset    token.Token
	urls     []string
	nodes    chain.Nodes
	silent   []error // of the nodes that did not answer at the start
	keys     *keyring.Ring
	entries  atomic.Pointer[[]keyring.Entry] // of the wallet secret, which is in memory only
}

// openChain starts the embedded chain unless --rpc names outside nodes, and asks
// the nodes for their chain and token.
func openChain(ctx context.Context, s *Settings, log *slog.Logger) (a *chainAccess, err error) {
	a = &chainAccess{}
	defer func() {
		if err != nil && a.embedded != nil {
			err = errors.Join(err, a.embedded.Close())
		}
	}()
	urls, contract := s.RPC, s.Token
	var secret []byte
	if len(urls) > 0 {
		secret, err = walletSecret(s.WalletFile)
	} else if a.embedded, err = s.start(ctx, log); err == nil {
		urls, contract = []string{a.embedded.URL()}, a.embedded.Token().Contract
		var texts []string
		for _, w := range a.embedded.Wallets() {
			texts = append(texts, w.PrivateKey())
		}
		secret, err = secretOf(texts)
	}
	if err != nil {
		return a, err
	}
	if err := a.discover(ctx, urls, contract); err != nil {
		return a, fmt.Errorf("--rpc, --token: %w", err)
	}
	own, _ := chains.Of(a.chainID)
	for _, url := range urls {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: a.chainID, L1Fee: own.L1Fee, Log: log})
		if err != nil {
			return a, fmt.Errorf("--rpc: %w", err)
		}
		a.nodes = append(a.nodes, node)
	}
	a.nodes, a.urls = a.nodes.Watch(time.Now, time.After), urls
	if err := a.put(secret); err != nil {
		return a, fmt.Errorf("reading %s: %w", s.WalletFile, err)
	}
	a.keys = keyring.New(func(context.Context) ([]keyring.Entry, error) { return *a.entries.Load(), nil })
	return a, nil
}

// discover asks every node for its chain and token, of which the first answer
// counts, and keeps which do not answer. Its error means that none does.
func (a *chainAccess) discover(ctx context.Context, urls []string, contract token.Address) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for i, url := range urls {
		id, asset, err := ethrpc.Discover(ctx, url, contract)
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

// put replaces the wallet secret.
func (a *chainAccess) put(secret []byte) error {
	entries, err := keyring.Decode(secret)
	if err == nil {
		a.entries.Store(&entries)
	}
	return err
}

// facts describes the chain, with the wallets' balances there. It lists no magic
// recipients of an outside chain, where they are ordinary addresses.
func (a *chainAccess) facts(ctx context.Context, s *Settings) (devnet.Facts, error) {
	if a.embedded != nil {
		return a.embedded.Facts(ctx)
	}
	facts := devnet.Facts{
		RPCURL: s.RPC[0], ChainID: a.chainID, BlockTimeSeconds: s.BlockTime.Seconds(), Recipients: []devnet.Recipient{},
		Token: devnet.TokenFacts{Address: a.asset.Contract, Symbol: a.asset.Symbol, Decimals: a.asset.Decimals},
	}
	wallets, err := a.keys.All(ctx)
	if err != nil {
		return devnet.Facts{}, err
	}
	for _, w := range wallets {
		views, err := a.nodes.Views(ctx, w, a.asset.Contract, chain.ConfirmationRule{})
		if err != nil {
			return devnet.Facts{}, err
		}
		leading := views.Leading()
		facts.Wallets = append(facts.Wallets, devnet.WalletFacts{Address: w, TokenBalance: leading.Balance, GasBalance: leading.Gas})
	}
	return facts, nil
}

// walletSecret reads private keys from a file: a wallet secret as it lies in
// Secrets Manager, the JSON of remit chain, or one key a line. Errors repeat
// nothing of the file.
func walletSecret(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--wallet-file: %w", err)
	}
	var form struct {
		Wallets     json.RawMessage `json:"wallets"`
		PrivateKeys []string        `json:"private_keys"`
	}
	texts := strings.Fields(string(b))
	if err := json.Unmarshal(b, &form); err == nil {
		if form.PrivateKeys == nil {
			return b, nil
		}
		texts = form.PrivateKeys
	}
	secret, err := secretOf(texts)
	if err != nil {
		return nil, fmt.Errorf("--wallet-file %s: %w", file, err)
	}
	return secret, nil
}

// secretOf returns the wallet secret that holds these keys.
func secretOf(texts []string) ([]byte, error) {
	var entries []keyring.Entry
	for i, text := range texts {
		key, err := keyring.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		entries = append(entries, keyring.Entry{Key: key})
	}
	return keyring.Encode(entries), nil
}
