package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"remit/internal/chain"
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
	nodes    chain.Nodes
	keys     *keyring.Ring
	facts    func(context.Context) (devnet.Facts, error)
}

// openChain starts the embedded chain or, with --rpc, asks the outside node for
// its chain and token.
func openChain(ctx context.Context, s *Settings, log *slog.Logger) (*chainAccess, error) {
	if len(s.RPC) > 0 {
		return outsideChain(ctx, s)
	}
	return embeddedChain(ctx, s, log)
}

func embeddedChain(ctx context.Context, s *Settings, log *slog.Logger) (*chainAccess, error) {
	embedded, err := s.start(ctx, log)
	if err != nil {
		return nil, err
	}
	var entries []keyring.Entry
	for _, w := range embedded.Wallets() {
		key, err := keyring.ParseKey(w.PrivateKey())
		if err != nil {
			return nil, errors.Join(err, embedded.Close())
		}
		entries = append(entries, keyring.Entry{Key: key})
	}
	node, err := ethrpc.Open(embedded.URL(), ethrpc.Config{ChainID: embedded.ID()})
	if err != nil {
		return nil, errors.Join(err, embedded.Close())
	}
	return &chainAccess{
		embedded: embedded, chainID: embedded.ID(), asset: embedded.Token(), nodes: chain.Nodes{node},
		keys: ring(keyring.Encode(entries)), facts: embedded.Facts,
	}, nil
}

func ring(secret []byte) *keyring.Ring {
	return keyring.New(func(context.Context) ([]byte, error) { return secret, nil }, nil)
}

func outsideChain(ctx context.Context, s *Settings) (*chainAccess, error) {
	contract, err := token.ParseAddress(s.Token)
	if err != nil {
		return nil, fmt.Errorf("--token %s: %w", s.Token, err)
	}
	secret, err := walletSecret(s.WalletFile)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	chainID, asset, err := ethrpc.Discover(asking, s.RPC[0], contract)
	if err != nil {
		return nil, fmt.Errorf("--rpc, --token: %w", err)
	}
	a := &chainAccess{chainID: chainID, asset: asset, keys: ring(secret)}
	for _, url := range s.RPC {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: chainID})
		if err != nil {
			return nil, fmt.Errorf("--rpc: %w", err)
		}
		a.nodes = append(a.nodes, node)
	}
	if _, err := a.keys.All(ctx); err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.WalletFile, err)
	}
	a.facts = func(ctx context.Context) (devnet.Facts, error) { return a.outsideFacts(ctx, s) }
	return a, nil
}

// outsideFacts describes the outside chain, with the wallets' balances there. It
// lists no magic recipients: elsewhere than on the embedded chain they are ordinary
// addresses.
func (a *chainAccess) outsideFacts(ctx context.Context, s *Settings) (devnet.Facts, error) {
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
	var entries []keyring.Entry
	for i, text := range texts {
		key, err := keyring.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("--wallet-file %s: key %d: %w", file, i+1, err)
		}
		entries = append(entries, keyring.Entry{Key: key})
	}
	return keyring.Encode(entries), nil
}
