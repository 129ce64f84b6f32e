package main

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

// A rail is the chain that payments go over: embedded, or an outside node's.
type rail struct {
	embedded *devnet.Chain // nil with --rpc
	chainID  uint64
	coin     token.Token
	nodes    chain.Nodes
	keys     *keyring.Ring
	facts    func(context.Context) (devnet.Facts, error)
}

func (c *localCommand) rail(ctx context.Context, log *slog.Logger) (*rail, error) {
	if len(c.RPC) == 0 {
		if c.Token != "" || c.WalletFile != "" {
			return nil, errors.New("--token and --wallet-file go with --rpc: the embedded chain brings its own")
		}
		return c.embeddedRail(ctx, log)
	}
	if c.Token == "" || c.WalletFile == "" {
		return nil, errors.New("--rpc needs --token ADDRESS and --wallet-file FILE: remit chain prints both")
	}
	return c.outsideRail(ctx)
}

func (c *localCommand) embeddedRail(ctx context.Context, log *slog.Logger) (*rail, error) {
	embedded, err := c.start(ctx, log)
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
	return &rail{
		embedded: embedded, chainID: embedded.ID(), coin: embedded.Token(), nodes: chain.Nodes{node},
		keys: ring(keyring.Encode(entries)), facts: embedded.Facts,
	}, nil
}

func ring(secret []byte) *keyring.Ring {
	return keyring.New(func(context.Context) ([]byte, error) { return secret, nil }, nil)
}

func (c *localCommand) outsideRail(ctx context.Context) (*rail, error) {
	contract, err := token.ParseAddress(c.Token)
	if err != nil {
		return nil, fmt.Errorf("--token %s: %w", c.Token, err)
	}
	secret, err := walletSecret(c.WalletFile)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	chainID, coin, err := ethrpc.Discover(asking, c.RPC[0], contract)
	if err != nil {
		return nil, fmt.Errorf("--rpc, --token: %w", err)
	}
	r := &rail{chainID: chainID, coin: coin, keys: ring(secret)}
	for _, url := range c.RPC {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: chainID})
		if err != nil {
			return nil, fmt.Errorf("--rpc: %w", err)
		}
		r.nodes = append(r.nodes, node)
	}
	if _, err := r.keys.All(ctx); err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.WalletFile, err)
	}
	r.facts = func(ctx context.Context) (devnet.Facts, error) { return r.outsideFacts(ctx, c) }
	return r, nil
}

// outsideFacts says what the node says of the wallets. Magic recipients are the
// embedded chain's: elsewhere they are ordinary addresses.
func (r *rail) outsideFacts(ctx context.Context, c *localCommand) (devnet.Facts, error) {
	facts := devnet.Facts{
		RPCURL: c.RPC[0], ChainID: r.chainID, BlockTimeSeconds: c.BlockTime.Seconds(), Recipients: []devnet.Recipient{},
		Token: devnet.TokenFacts{Address: r.coin.Contract, Symbol: r.coin.Symbol, Decimals: r.coin.Decimals},
	}
	wallets, err := r.keys.All(ctx)
	if err != nil {
		return devnet.Facts{}, err
	}
	for _, w := range wallets {
		views, err := r.nodes.Views(ctx, w, r.coin.Contract, chain.ConfirmationRule{})
		if err != nil {
			return devnet.Facts{}, err
		}
		leading := views.Leading()
		facts.Wallets = append(facts.Wallets, devnet.WalletFacts{Address: w, TokenBalance: leading.Token, GasBalance: leading.Gas})
	}
	return facts, nil
}

// walletSecret reads private keys from a file: a wallet secret as it lies in
// Secrets Manager, the JSON of remit chain, or one key a line. Errors do not
// repeat what the file says.
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
