package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/ethrpc/inspect"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// A rail is an asset that this stack pays: its chain, and how its payments are made.
type rail struct {
	stack.Config
	embedded *devnet.Chain // nil with --rpc
	urls     []string
	nodes    chain.Nodes
	silent   []error // of the nodes that did not answer at the start
}

type rails []*rail

// of returns the rail of a coin, or nil.
func (all rails) of(c token.Coin) *rail {
	for _, r := range all {
		if r.Coin() == c {
			return r
		}
	}
	return nil
}

// open opens rail number n: it starts an embedded chain unless --rpc names outside nodes, and asks the nodes for their
// chain and token.
func (s *process) open(ctx context.Context, n int, config stack.Config) (err error) {
	r := &rail{Config: config, urls: s.RPC}
	s.rails, s.hinted = append(s.rails, r), append(s.hinted, make(chan struct{}, 1))
	var contract token.Address
	var texts []string
	if file := s.WalletFile; len(s.RPC) > 0 {
		if contract = s.Token[n]; len(s.Token) > 1 {
			r.urls, file = s.RPC[n:n+1], strings.Split(file, ",")[n]
		}
		texts, err = keysIn(file)
	} else if r.embedded, err = s.ChainSettings.start(ctx, s.embedded(n), s.log); err == nil {
		r.urls, contract = []string{r.embedded.URL()}, r.embedded.Token().Contract
		for _, w := range r.embedded.Wallets() {
			texts = append(texts, w.PrivateKey())
		}
	}
	if err != nil {
		return err
	}
	if err := r.discover(ctx, contract); err != nil {
		return fmt.Errorf("--rpc, --token: %w", err)
	}
	for i, text := range texts {
		key, err := keyring.ParseKey(text)
		if err != nil {
			return fmt.Errorf("--wallet-file %s: key %d: %w", s.WalletFile, i+1, err)
		}
		s.keys.put(key, r.Coin())
	}
	r.Config = s.complete(r.Config)
	if s.page != nil {
		if r.nodes, err = s.page.Add(r.embedded, r.Config); err != nil {
			return err
		}
	}
	own := ethrpc.Config{ChainID: r.ChainID, L1Fee: s.profile(r.ChainID, r.Token).L1Fee, Gas: r.Gas, Log: s.log}
	for _, url := range r.urls[min(len(r.urls), len(r.nodes)):] {
		node, err := ethrpc.Open(url, own)
		if err != nil {
			return fmt.Errorf("--rpc: %w", err)
		}
		r.nodes = append(r.nodes, node)
	}
	r.nodes = r.nodes.Watch(time.Now, time.After)
	return nil
}

// embedded returns the config of the chain of rail number n, which listens so many ports above the first.
func (s *Settings) embedded(n int) (config devnet.Config) {
	if s.Rail[n] == "eurc" {
		config = config.EURC()
	}
	host, port, err := net.SplitHostPort(s.ChainListen)
	if number, bad := strconv.Atoi(port); err == nil && bad == nil && number > 0 {
		config.Listen = net.JoinHostPort(host, strconv.Itoa(number+n))
	}
	return config
}

// discover takes the chain and token that most nodes give. It lists the silent nodes. It fails if all are
// silent, or if two answers are as frequent.
func (r *rail) discover(ctx context.Context, contract token.Address) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	type facts struct {
		chainID uint64
		token   token.Token
	}
	answers := map[facts]int{}
	for i, url := range r.urls {
		id, asset, err := inspect.Discover(ctx, url, contract)
		if err == nil {
			answers[facts{id, asset}]++
		} else {
			r.silent = append(r.silent, fmt.Errorf("node %d of %d does not answer: %w", i+1, len(r.urls), err))
		}
	}
	err, most := errors.Join(r.silent...), 0
	for answer, n := range answers {
		if n == most {
			err = fmt.Errorf("nodes of chain %d (%s) and of chain %d (%s): name those of one", r.ChainID, r.Token.Symbol,
				answer.chainID, answer.token.Symbol)
		} else if n > most {
			err, most, r.ChainID, r.Token = nil, n, answer.chainID, answer.token
		}
	}
	return err
}

// A vault has the keys of all rails' wallets, in memory only.
type vault struct {
	mu    sync.Mutex
	held  map[token.Address]keyring.Key
	rails map[token.Address]token.Coin
}

func (v *vault) put(key keyring.Key, of token.Coin) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held[key.Address()], v.rails[key.Address()] = key, of
}

func (v *vault) key(address token.Address) keyring.Read {
	return func(context.Context) (keyring.Key, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		key, found := v.held[address]
		if !found {
			return keyring.Key{}, wallet.ErrNoKey
		}
		return key, nil
	}
}

// keyed returns the wallets with a key, each with its rail.
func (v *vault) keyed() map[token.Address]token.Coin {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.rails)
}

// facts describes the chain, with the balances of its wallets. It lists no magic
// recipients of an outside chain, where they are ordinary addresses; there is no other rail then.
func (r *rail) facts(ctx context.Context, keys *vault) (devnet.Facts, error) {
	if r.embedded != nil {
		return r.embedded.Facts(ctx)
	}
	node, err := url.Parse(r.urls[0])
	if err != nil {
		return devnet.Facts{}, err
	}
	public := url.URL{Scheme: node.Scheme, Host: node.Host} // the rest may be a provider's key
	facts := devnet.Facts{
		AssetFacts: devnet.AssetFacts{RPCURL: public.String(), ChainID: r.ChainID, Recipients: []devnet.Recipient{},
			Token: devnet.TokenFacts{Address: r.Token.Contract, Symbol: r.Token.Symbol, Decimals: r.Token.Decimals}},
		BlockTimeSeconds: r.BlockTime.Seconds(),
	}
	of := keys.keyed()
	for _, w := range slices.SortedFunc(maps.Keys(of), func(x, y token.Address) int { return bytes.Compare(x[:], y[:]) }) {
		if of[w] != r.Coin() {
			continue
		}
		views, err := r.nodes.Views(ctx, w, r.Token.Contract, chain.ConfirmationRule{})
		if err != nil {
			return devnet.Facts{}, err
		}
		has := r.nodes.Account(views)
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
