// Package deployed reads a stack's parts and connects to them: its tables, secrets, queues, nodes,
// settings and resources, on AWS or in this process. It makes no decisions; the commands do.
package deployed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go/logging"

	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/chains"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Target names the stack of a command, and the form of its answer. AWS
// credentials, region and endpoints are found as the AWS SDK finds them.
type Target struct {
	Stack string `default:"remit" env:"REMIT_STACK" help:"Name of the CloudFormation stack, or http://… of a stack that remit local runs on this machine."`
	JSON  bool   `name:"json" help:"Answer in JSON."`

	Table map[string]string `placeholder:"KIND=NAME" help:"Use this restored table instead of the stack's own; KIND is keys, payments or webhooks."`
}

// A Deployment is a stack as a command sees it.
type Deployment struct {
	Target
	Tables
	Platform
	Account   *Account // nil for a stack on this machine
	Mode      string   // of keys: test or live
	KeyCache  string   // seconds for which API Gateway remembers a key
	ChainID   uint64
	Asset     token.Token
	Config    stack.Config // how its functions work, with the chain's own values
	Out       io.Writer
	Transport http.RoundTripper // carries requests to nodes; nil: a transport that repeats and keeps connections
}

// Tables are the stores of a stack.
type Tables struct {
	Payments store.Store
	AuditLog store.AuditLog
	Webhooks webhook.Store
	Keys     KeyStore
	Jobs     webhook.Queue
}

// A KeyStore keeps API keys and their settings.
type KeyStore = interface {
	apikey.Store
	settings.KeyStore
}

// A Platform is where a stack runs: on AWS, or in this process.
type Platform interface {
	Who(ctx context.Context) (string, error)                            // who runs the command
	Publish(ctx context.Context, subject, text string) error            // to those who hear alarms
	RPC(ctx context.Context) ([]byte, error)                            // the RPC secret; ErrNoValue if it was never written
	Keyed(ctx context.Context) (map[token.Address]time.Time, error)     // the wallets that have a key in the secret store, and since when
	Key(ctx context.Context, wallet token.Address) (keyring.Key, error) // that remit recover signs with; nothing else reads one
	PutKey(ctx context.Context, key keyring.Key) error                  // ErrKeyStored if the wallet has one
	Hint(ctx context.Context) error                                     // starts a run of check-receipts soon, where a command can
}

// ErrNoValue reports a secret that was never given one.
var ErrNoValue = errors.New("the secret has no value yet")

// ErrKeyStored reports a wallet whose key is in the secret store already.
var ErrKeyStored = errors.New("the key is stored already")

// LoadAWS returns the configuration that the AWS CLI would use, after it has found credentials. The SDK's warnings are not printed.
func LoadAWS(ctx context.Context, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, append(options, config.WithLogger(logging.Nop{}))...)
	if err != nil {
		return cfg, fmt.Errorf("reading the AWS configuration (correct ~/.aws/config, or AWS_PROFILE): %w", err)
	}
	if cfg.Region == "" {
		return cfg, errors.New("no AWS region; set AWS_REGION")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, errors.New("no AWS credentials; run aws sso login, or set AWS_PROFILE (aws sts get-caller-identity shows the cause)")
	}
	return cfg, nil
}

// ProvideDeployment reads the stack's outputs and parameters, for the Run method
// of the command that kong has found. Answers go to out.
func (t Target) ProvideDeployment(ctx context.Context, out io.Writer) (*Deployment, error) {
	for kind := range t.Table {
		if tableOutputs[kind] == "" {
			return nil, fmt.Errorf("--table %s=…: use keys, payments or webhooks", kind)
		}
	}
	if here, ok := ctx.Value(localKey{}).(*Local); ok {
		if len(t.Table) > 0 {
			return nil, errors.New("--table is for a stack on AWS; remove it")
		}
		return here.deployment(t, out), nil
	}
	cfg, err := LoadAWS(ctx)
	if err != nil {
		return nil, err
	}
	found, err := cloudformation.NewFromConfig(cfg).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &t.Stack})
	if err != nil {
		return nil, fmt.Errorf("looking for stack %s (choose with --stack; region and credentials as for the AWS CLI): %w", t.Stack, err)
	}
	if len(found.Stacks) != 1 {
		return nil, fmt.Errorf("there is no stack %s; choose one with --stack", t.Stack)
	}
	a := &Account{Stack: t.Stack, ID: aws.ToString(found.Stacks[0].StackId), AWS: cfg,
		Outputs: map[string]string{}, Parameters: map[string]string{}}
	for _, o := range found.Stacks[0].Outputs {
		a.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	for _, p := range found.Stacks[0].Parameters {
		a.Parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	for kind, name := range t.Table {
		a.Outputs[tableOutputs[kind]] = name
	}
	return a.deployment(t, out)
}

// deployment reads the parameters, and opens the tables.
func (a *Account) deployment(t Target, out io.Writer) (*Deployment, error) {
	p := a.Parameters
	d := &Deployment{Target: t, Platform: a, Account: a, Out: out, Mode: p["Mode"], KeyCache: p["AuthorizerCacheSeconds"]}
	var err error
	if d.Config, err = chains.Read(p); err != nil {
		return nil, fmt.Errorf("parameters of stack %s (correct and deploy them): %w", t.Stack, err)
	}
	d.ChainID, d.Asset = d.Config.ChainID, d.Config.Token
	d.Tables, err = a.tables()
	return d, err
}

// Over returns the deployment of a stack on AWS with calls of AWS by config and requests
// to nodes by transport.
func (d *Deployment) Over(config aws.Config, transport http.RoundTripper) (*Deployment, error) {
	a, other := *d.Account, *d
	a.AWS = config
	tables, err := a.tables()
	other.Account, other.Platform, other.Tables, other.Transport = &a, &a, tables, transport
	return &other, err
}

// Rules returns the rules by the settings that are stored, or why there are none.
func (d *Deployment) Rules(ctx context.Context) (stack.Rules, error) {
	all, err := d.Payments.Rules(ctx)
	return d.Config.Rules(all.Settings), cmp.Or(err, all.Unusable)
}

// Wallets reads the registry.
func (d *Deployment) Wallets(ctx context.Context) (wallet.Registry, error) {
	return d.Payments.Wallets(ctx, d.ChainID)
}

// WalletID names a wallet of the stack.
func (d *Deployment) WalletID(a token.Address) wallet.ID {
	return wallet.ID{ChainID: d.ChainID, Address: a}
}

// Owner names a merchant in the stack's mode, as the webhook store does.
func (d *Deployment) Owner(merchant string) webhook.Owner {
	return webhook.Owner{Merchant: merchant, Mode: d.Mode}
}

// interrupted is the age from which a key without a registration was left by an interrupted
// command.
const interrupted = time.Minute

// Unregistered returns the wallets whose keys are stored and that are not registered,
// and whether a command that stored one was interrupted.
func (d *Deployment) Unregistered(ctx context.Context) (left []token.Address, old bool, err error) {
	wallets, err := d.Wallets(ctx)
	if err != nil {
		return nil, false, err
	}
	keyed, err := d.Keyed(ctx)
	for a, since := range keyed {
		if _, registered := wallets.Find(a); !registered {
			left, old = append(left, a), old || time.Since(since) > interrupted
		}
	}
	return left, old, err
}

// Nodes opens the nodes that the RPC secret names, and returns their URLs too.
func (d *Deployment) Nodes(ctx context.Context) (nodes chain.Nodes, urls []string, err error) {
	value, err := d.RPC(ctx)
	if errors.Is(err, ErrNoValue) {
		err = fmt.Errorf(`%w; put {"urls":["https://…"]} into it (docs/deploy.md#nodes)`, err)
	}
	if err != nil {
		return nil, nil, err
	}
	if urls, err = secrets.RPC(value); err != nil {
		return nil, nil, err
	}
	nodes, err = d.Open(urls)
	return nodes, urls, err
}

// Open opens nodes of the stack's chain.
func (d *Deployment) Open(urls []string) (nodes chain.Nodes, err error) {
	own, _ := chains.Of(d.ChainID)
	for _, url := range urls {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: d.ChainID, L1Fee: own.L1Fee, Gas: d.Config.Gas, Transport: d.Transport})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// View returns a wallet's account on the leading node.
func (d *Deployment) View(ctx context.Context, nodes chain.Nodes, a token.Address) (chain.View, error) {
	views, err := nodes.Views(ctx, a, d.Asset.Contract, chain.ConfirmationRule{})
	if err != nil {
		return chain.View{}, err
	}
	return views.Leading(), nil
}
