// Package deployed connects to a stack's parts, on AWS or in this process. It makes no decisions; the commands do.
package deployed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/ethrpc/inspect"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ErrUncopied reports an entry that is in the table, and perhaps not in its copy.
var ErrUncopied = errors.New("copying an audit entry to CloudWatch Logs (needs logs:PutLogEvents, as RemitOperator)")

// A Target names a command's stack and the form of its answer. The AWS SDK finds credentials, region and endpoints.
type Target struct {
	Stack string `default:"remit" env:"REMIT_STACK" help:"Name of the stack, or http://… of remit local."`
	JSON  bool   `name:"json" help:"Answer in JSON."`

	Rail string `placeholder:"NAME" help:"The rail, where a stack has several: such as usdc@base, or its number."`

	Table map[string]string `placeholder:"KIND=NAME" help:"A restored table; KIND is keys, payments or webhooks."`
}

// An Account is where a stack on AWS runs.
type Account struct {
	Stack      string
	ID         string // the stack's ARN
	Status     string // such as UPDATE_COMPLETE
	About      string // the description of its template, in which make deploy writes the commit
	AWS        aws.Config
	Outputs    map[string]string
	Parameters map[string]string
}

// A Deployment is a stack as a command sees it.
type Deployment struct {
	Target
	Tables
	Platform
	Account   *Account // nil for a stack on this machine
	Mode      string   // of keys: test or live
	KeyCache  string   // seconds for which API Gateway remembers a key
	Number    int      // of the rail that it is seen by, in the order in which rails were added; 0: none
	ChainID   uint64
	Asset     token.Token
	On        store.Rail
	Config    stack.Config // how its functions work by the rail, with the chain's own values
	Out       io.Writer
	Transport http.RoundTripper // carries requests to nodes; nil: a transport that repeats and keeps connections
}

// Tables are the stores of a stack.
type Tables struct {
	Payments store.Store
	AuditLog store.AuditLog
	Webhooks webhook.Store
	Keys     apikey.Store
	Jobs     webhook.Queue
	Bus      bool // events go to an event bus too
}

// Publisher returns the publisher of the stack's events.
func (t Tables) Publisher() *webhook.Publisher {
	return &webhook.Publisher{Store: t.Webhooks, Queue: t.Jobs, Bus: t.Bus}
}

// A Platform is where a stack runs: on AWS, or in this process.
type Platform interface {
	Who(ctx context.Context) (string, error)                          // who runs the command
	Publish(ctx context.Context, subject, text string) error          // to those who hear alarms
	RPC(ctx context.Context) (map[uint64][]string, error)             // URLs of nodes by chain
	PutRPC(ctx context.Context, chainID uint64, urls []string) error  // in place of the chain's
	Keyed(ctx context.Context) (map[token.Address]StoredKey, error)   // wallets with a stored key
	WalletKeys() wallet.Keys                                          // for remit recover alone
	PutKey(ctx context.Context, key keyring.Key, of token.Coin) error // ErrKeyStored if the wallet has one
	Hint(ctx context.Context) error                                   // starts check-receipts soon, if it can
}

// A StoredKey is of a rail since a time. Without a rail's name it is of the first.
type StoredKey struct {
	Rail  string
	Since time.Time
}

// These report what a stack lacks, or has already.
var (
	ErrNoStack    = errors.New("there is no such stack; choose one with --stack")                  // or it was deleted
	ErrNoMerchant = errors.New("there is no such merchant; find its id with remit merchants list") // it has no key
	ErrNoCode     = errors.New("there is no contract")                                             // by a node
	ErrKeyStored  = errors.New("the key is stored already")                                        // of a wallet
)

// AfterApply refuses an empty value, perhaps of an unset variable, which would be taken for a missing one.
func (Target) AfterApply(line *kong.Context) error {
	for _, part := range line.Path {
		v := part.Positional
		if part.Flag != nil {
			v = part.Flag.Value
		}
		if v != nil && (v.Target.Kind() == reflect.String || v.Target.Kind() == reflect.Slice) && v.Target.Len() == 0 {
			return fmt.Errorf("%s is empty; give it a value", v.ShortSummary())
		}
	}
	return nil
}

// ProvideDeployment opens the stack, for the Run method of the command that kong has found. Answers go to out.
func (t Target) ProvideDeployment(ctx context.Context, out io.Writer) (*Deployment, error) {
	local, ok := ctx.Value(localKey{}).(*Local)
	switch {
	case !ok:
		return t.onAWS(ctx, out)
	case len(t.Table) > 0:
		return nil, errors.New("--table is for a stack on AWS; remove it")
	}
	t.Stack = cmp.Or(local.URL, t.Stack)
	return &Deployment{Target: t, Tables: local.Tables, Platform: here{local}, Mode: string(apikey.Test), KeyCache: "0",
		Out: out, Transport: local.Transport}, nil
}

// Rules returns the rules by the settings that are stored, or why there are none.
func (d *Deployment) Rules(ctx context.Context) (stack.Rules, error) {
	all, err := d.Payments.Rules(ctx)
	rail := all.Rail(d.Config.Coin())
	return d.Config.Rules(rail.Settings), cmp.Or(err, rail.Unusable)
}

// Wallets reads the registry.
func (d *Deployment) Wallets(ctx context.Context) (wallet.Registry, error) {
	return d.Payments.Wallets(ctx, d.Config.Coin())
}

// Named returns the stack as seen by the rail of the asset that --asset names, by the first if it is empty.
func (d *Deployment) Named(ctx context.Context, asset string) (*Deployment, error) {
	if d.Rail != "" {
		return nil, errors.New("--rail names no asset here; use --asset (remit rails list)")
	}
	by := *d
	by.Rail = asset
	all, err := by.Rails(ctx)
	if err != nil {
		return nil, fmt.Errorf("--asset %s: %w", cmp.Or(asset, "(the default)"), err)
	}
	return all[0], nil
}

// KeysOf returns a merchant's keys, or ErrNoMerchant.
func (d *Deployment) KeysOf(ctx context.Context, merchant string) ([]apikey.Key, error) {
	keys, err := d.Keys.List(ctx, merchant)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("%q: %w", merchant, ErrNoMerchant)
	}
	return keys, err
}

// TermsAsset is the rail's asset as apikey.Terms name it: zero for the default.
func (d *Deployment) TermsAsset() (asset token.Coin) {
	if d.Number > 1 {
		asset = d.Config.Coin()
	}
	return asset
}

// WalletID names a wallet of the stack.
func (d *Deployment) WalletID(a token.Address) wallet.ID {
	return wallet.ID{ChainID: d.ChainID, Address: a}
}

// Owner names a merchant in the stack's mode, as the webhook store does.
func (d *Deployment) Owner(merchant string) webhook.Owner {
	return webhook.Owner{Merchant: merchant, Mode: d.Mode}
}

// Unregistered returns the wallets whose keys an interrupted command has stored, and not registered.
func (d *Deployment) Unregistered(ctx context.Context) (left []token.Address, err error) {
	wallets, unread := d.Wallets(ctx)
	keyed, err := d.Stored(ctx)
	for a, key := range keyed {
		if _, registered := wallets.Find(a); !registered && time.Since(key.Since) > time.Minute { // none still runs
			left = append(left, a)
		}
	}
	return left, cmp.Or(unread, err)
}

// Stored returns the wallets of the rail with a stored key.
func (d *Deployment) Stored(ctx context.Context) (map[token.Address]StoredKey, error) {
	keyed, err := d.Keyed(ctx)
	maps.DeleteFunc(keyed, func(_ token.Address, key StoredKey) bool {
		return key.Rail != d.Config.Coin().String() && (key.Rail != "" || d.Number > 1)
	})
	return keyed, err
}

// Nodes opens the nodes of the rail.
func (d *Deployment) Nodes(ctx context.Context) (nodes chain.Nodes, err error) {
	all, err := d.RPC(ctx)
	urls := all[d.ChainID]
	if err == nil && len(urls) == 0 {
		err = fmt.Errorf(`%w for chain %[2]d; add "%[2]d":{"urls":["https://…"]} to the RPC secret`,
			chain.ErrNoNodes, d.ChainID)
	}
	own, _ := chains.Of(d.ChainID)
	config := ethrpc.Config{ChainID: d.ChainID, L1Fee: own.L1Fee, Gas: d.Config.Gas, Transport: d.Transport}
	for i, url := range urls {
		node, err := ethrpc.Open(url, config)
		if err != nil {
			return nil, fmt.Errorf("opening urls[%d] of chain %d: %w", i, d.ChainID, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, err
}

// View opens the nodes of the rail and returns a wallet's account by enough of them.
func (d *Deployment) View(ctx context.Context, a token.Address) (chain.View, error) {
	nodes, err := d.Nodes(ctx)
	if err != nil {
		return chain.View{}, err
	}
	return nodes.View(ctx, a, d.Asset.Contract, chain.ConfirmationRule{})
}

// EveryNodeHas returns nil if each node has the code at an address, ErrNoCode if none has any. Silence is an error.
func (d *Deployment) EveryNodeHas(ctx context.Context, at token.Address, code []byte) error {
	nodes, err := d.Nodes(ctx)
	var without []error
	for _, node := range nodes {
		got, err := inspect.Code(ctx, node.(*ethrpc.Node), at) // Nodes opens no others
		switch {
		case err != nil:
			return fmt.Errorf("asking %s: %w", node, err)
		case len(got) == 0:
			without = append(without, fmt.Errorf("%s: %w at %s", node, ErrNoCode, at))
		case !bytes.Equal(got, code):
			return fmt.Errorf("%s has other code at %s; do not pay through it", node, at)
		}
	}
	if len(without) > 0 && len(without) < len(nodes) {
		return fmt.Errorf("nodes disagree, or are behind; try again in a minute: %v", without)
	}
	return errors.Join(append(without, err)...)
}

// Screens returns why no node gets an answer of a sanctions list, nil if one does: payments ask one after another.
func (d *Deployment) Screens(ctx context.Context, list token.Address) error {
	nodes, err := d.Nodes(ctx)
	for _, node := range nodes {
		failed := inspect.Screens(ctx, node.(*ethrpc.Node), list)
		if failed == nil {
			return nil
		}
		err = errors.Join(err, fmt.Errorf("%s: %w", node, failed))
	}
	return fmt.Errorf("nobody would be paid: no node has an answer of %s; correct SanctionsList: %w", list, err)
}

// Allowance returns the least that a contract may take of a wallet by any node.
func (d *Deployment) Allowance(ctx context.Context, owner, contract token.Address) (token.Amount, error) {
	nodes, err := d.Nodes(ctx)
	least := token.MaxAmount()
	for _, node := range nodes {
		got, nodeErr := inspect.Allowance(ctx, node.(*ethrpc.Node), d.Asset.Contract, owner, contract)
		if err = errors.Join(err, nodeErr); got.Less(least) {
			least = got
		}
	}
	return least, err
}

// Allowed writes an allowance. Tokens that count an unlimited one down never end it.
func (d *Deployment) Allowed(amount token.Amount) string {
	switch {
	case amount.IsZero():
		return "nothing"
	case token.MaxAmount().Over(2).Less(amount):
		return "any amount of " + d.Asset.Symbol
	}
	return d.Coins(amount)
}
