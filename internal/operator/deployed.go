// Package operator has the commands for a stack on AWS or in a process of this
// machine. They reach its tables, secrets and queues with the rights of the person
// who runs them, change as little as they can, and ask before they change anything.
// A private key goes
// from a person to a secret of its own, and to no output; remit recover alone reads
// any.
package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/chains"
	"remit/internal/dynamo"
	"remit/internal/ethrpc"
	"remit/internal/keyring"
	"remit/internal/queue"
	"remit/internal/secrets"
	"remit/internal/settings"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
	"remit/internal/webhook"
)

// A Target says which stack a command is about, and how it answers. AWS
// credentials, region and endpoints are found as the AWS SDK finds them.
type Target struct {
	Stack string `default:"remit" env:"REMIT_STACK" help:"Name of the CloudFormation stack, or http://… of a stack that remit local runs on this machine."`
	JSON  bool   `name:"json" help:"Answer in JSON."`

	Table map[string]string `placeholder:"KIND=NAME" help:"Take this table in place of the stack's own, which a restore has made; KIND is keys, payments or webhooks."`
}

// tableOutputs are the outputs that name tables, by the kinds of --table.
var tableOutputs = map[string]string{"keys": "ApiKeysTableName", "payments": "PaymentsTableName", "webhooks": "WebhooksTableName"}

// A deployment is a stack and the person who operates it.
type deployment struct {
	Target
	platform
	mode     string // of keys: test or live
	keyCache string // seconds for which API Gateway remembers a key
	chainID  uint64
	asset    token.Token
	rules    stack.Config // how its functions work, with the chain's own values
	out      io.Writer
	agree    func(yes bool, consequences string) error // asks for consent
	over     http.RoundTripper                         // carries requests to nodes; nil: one that repeats and keeps connections
}

// A platform is where a stack runs: on AWS, or in this process.
type platform interface {
	payments() (store.Store, error)
	auditLog() (store.AuditLog, error)
	who(ctx context.Context) (string, error) // who runs the command
	webhooks() (webhook.Store, error)
	keys() (keyStore, error)
	publish(ctx context.Context, subject, text string) error // to those who hear alarms
	jobs() (webhook.Queue, error)
	rpc(ctx context.Context) ([]byte, error)                               // the RPC secret; errNoValue if it was never written
	keyed(ctx context.Context) (map[token.Address]time.Time, error)        // the wallets that have a key in the secret store, and since when
	key(ctx context.Context, wallet token.Address) (keyring.Key, error)    // that remit recover signs with; nothing else reads one
	putKey(ctx context.Context, key keyring.Key) error                     // errKeyStored if the wallet has one
	hint(ctx context.Context) error                                        // starts a run of check-receipts soon, where a command can
	health(ctx context.Context, nodes chain.Nodes) ([]chain.Health, error) // as the stack has seen them, not this command
}

// A keyStore keeps API keys and their settings.
type keyStore = interface {
	apikey.Store
	settings.KeyStore
}

// An account is the platform of a stack on AWS: its outputs and, through them, its
// tables, secrets and queues.
type account struct {
	stack      string
	id         string // the stack's ARN
	aws        aws.Config
	outputs    map[string]string
	parameters map[string]string
}

// ProvideDeployment reads the stack's outputs and parameters, for the Run method
// of the command that kong has found. Answers go to out.
func (t Target) ProvideDeployment(ctx context.Context, out io.Writer) (*deployment, error) {
	for kind := range t.Table {
		if tableOutputs[kind] == "" {
			return nil, fmt.Errorf("--table %s=…: a table is one of keys, payments and webhooks", kind)
		}
	}
	if here, ok := ctx.Value(conversationKey{}).(*conversation); ok {
		if len(t.Table) > 0 {
			return nil, errors.New("--table is for a stack on AWS: remit local chooses its tables itself")
		}
		d := here.deployment(t, out)
		d.agree = d.recorded(ctx, d.agree)
		return d, nil
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	found, err := cloudformation.NewFromConfig(cfg).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &t.Stack})
	if err != nil {
		return nil, fmt.Errorf("looking for stack %s (choose with --stack; region and credentials as for the AWS CLI): %w", t.Stack, err)
	}
	if len(found.Stacks) != 1 {
		return nil, fmt.Errorf("there is no stack %s", t.Stack)
	}
	outputs, parameters := map[string]string{}, map[string]string{}
	for _, o := range found.Stacks[0].Outputs {
		outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	for _, p := range found.Stacks[0].Parameters {
		parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	for kind, name := range t.Table {
		outputs[tableOutputs[kind]] = name
	}
	d := &deployment{
		Target: t, platform: &account{t.Stack, aws.ToString(found.Stacks[0].StackId), cfg, outputs, parameters}, out: out,
		mode: parameters["Mode"], keyCache: parameters["AuthorizerCacheSeconds"],
	}
	d.agree = d.recorded(ctx, agree)
	var id, asset error
	d.chainID, id = strconv.ParseUint(parameters["ChainId"], 10, 64)
	own, _ := chains.Of(d.chainID)
	d.rules, err = rulesOf(d.chainID, parameters)
	d.asset, d.rules.Network, asset = own.Asset(parameters["Network"], parameters["TokenAddress"], parameters["TokenSymbol"],
		parameters["TokenDecimals"])
	d.rules.Token = d.asset
	if err := errors.Join(id, asset, err); err != nil {
		return nil, fmt.Errorf("parameters of stack %s (correct and deploy them): %w", t.Stack, err)
	}
	return d, nil
}

// rulesOf reads the parameters that have the chain's own values if they are empty
// or 0, as package chainenv does from a function's environment.
func rulesOf(chainID uint64, parameters map[string]string) (stack.Config, error) {
	c := stack.Config{ChainID: chainID, Mode: parameters["Mode"]}
	var rule, blocks error
	c.ConfirmationRule = chains.Chosen(parameters["Mode"])
	if text := parameters["ConfirmationRule"]; text != "" {
		c.ConfirmationRule, rule = chain.ParseConfirmationRule(text)
	}
	if text := parameters["BlockTime"]; text != "" {
		c.BlockTime, blocks = time.ParseDuration(text)
	}
	own, _ := chains.Of(chainID)
	return own.Complete(c), errors.Join(rule, blocks)
}

// ruling returns the rules by the settings that are stored, or why there are none.
func (d *deployment) ruling(ctx context.Context) (stack.Rules, error) {
	s, err := d.payments()
	if err != nil {
		return stack.Rules{}, err
	}
	all, err := s.Rules(ctx)
	return d.rules.Rules(all.Settings), cmp.Or(err, all.Unusable)
}

// output returns a stack output, or an error that an older template is deployed.
func (a *account) output(name string) (string, error) {
	if v := a.outputs[name]; v != "" {
		return v, nil
	}
	return "", fmt.Errorf("stack %s has no output %s: deploy this version's template first", a.stack, name)
}

// table opens the table that an output names.
func table[T any](a *account, output string, open func(*dynamodb.Client, string) T) (T, error) {
	name, err := a.output(output)
	return open(dynamodb.NewFromConfig(a.aws), name), err
}

func (a *account) payments() (store.Store, error) {
	return table(a, "PaymentsTableName", dynamo.NewPayments)
}

// auditLog returns the log in the table, with its copy if the deployed template has one.
func (a *account) auditLog() (store.AuditLog, error) {
	log, err := table(a, "PaymentsTableName", dynamo.NewPayments)
	if copied := a.auditCopy(); err == nil && copied != nil {
		return copiedLog{log, copied}, nil
	}
	return log, err
}

func (a *account) who(ctx context.Context) (string, error) {
	caller, err := sts.NewFromConfig(a.aws).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return aws.ToString(caller.Arn), nil
}

func (a *account) webhooks() (webhook.Store, error) {
	return table(a, "WebhooksTableName", dynamo.NewWebhooks)
}

func (a *account) keys() (keyStore, error) {
	return table(a, "ApiKeysTableName", dynamo.NewAPIKeys)
}

// hint does nothing: check-receipts runs every minute.
func (*account) hint(context.Context) error { return nil }

func (a *account) jobs() (webhook.Queue, error) {
	url, err := a.output("WebhookQueueUrl")
	return queue.OpenJobs(a.aws, url), err
}

// nodes opens the nodes that the RPC secret names, and returns their URLs too.
func (d *deployment) nodes(ctx context.Context) (nodes chain.Nodes, urls []string, err error) {
	value, err := d.rpc(ctx)
	if errors.Is(err, errNoValue) {
		err = fmt.Errorf(`%w: put {"urls":["https://…"]} into it (docs/deploy.md)`, err)
	}
	if err != nil {
		return nil, nil, err
	}
	if urls, err = secrets.RPC(value); err != nil {
		return nil, nil, err
	}
	own, _ := chains.Of(d.chainID)
	for _, url := range urls {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: d.chainID, L1Fee: own.L1Fee, Transport: d.over})
		if err != nil {
			return nil, nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, urls, nil
}

// errNoValue reports a secret that was never given one.
var errNoValue = errors.New("the secret has no value yet")

// errKeyStored reports a wallet whose key is in the secret store already.
var errKeyStored = errors.New("the key is stored already")

func (a *account) rpc(ctx context.Context) ([]byte, error) {
	arn, err := a.output("RpcSecretArn")
	if err != nil {
		return nil, err
	}
	return a.secret(ctx, arn)
}

// secret reads a secret by its name or ARN.
func (a *account) secret(ctx context.Context, id string) ([]byte, error) {
	got, err := secretsmanager.NewFromConfig(a.aws).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &id})
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing || err == nil && aws.ToString(got.SecretString) == "" {
		return nil, fmt.Errorf("%s: %w", id, errNoValue)
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", id, err)
	}
	return []byte(*got.SecretString), nil
}

func (a *account) key(ctx context.Context, address token.Address) (keyring.Key, error) {
	prefix, err := a.output("WalletSecrets")
	if err != nil {
		return keyring.Key{}, err
	}
	value, err := a.secret(ctx, prefix+address.String())
	if errors.Is(err, errNoValue) {
		return keyring.Key{}, wallet.ErrNoKey
	}
	if err != nil {
		return keyring.Key{}, err
	}
	return keyring.Decode(value)
}

// putKey makes the wallet's secret, with the stack's customer key and replica. It reads
// no secret, and changes none that is there.
func (a *account) putKey(ctx context.Context, key keyring.Key) error {
	prefix, err := a.output("WalletSecrets")
	if err != nil {
		return err
	}
	in := &secretsmanager.CreateSecretInput{
		Name: aws.String(prefix + key.Address().String()), SecretString: aws.String(string(keyring.Encode(key))),
		Description: aws.String("Remit " + a.stack + ": the key of a wallet"),
		Tags:        []types.Tag{{Key: aws.String("remit:stack"), Value: &a.stack}},
	}
	if arn := a.parameters["KmsKeyArn"]; arn != "" {
		in.KmsKeyId = &arn
	}
	if region := a.parameters["ReplicaRegion"]; region != "" {
		in.AddReplicaRegions = []types.ReplicaRegionType{{Region: &region}}
	}
	_, err = secretsmanager.NewFromConfig(a.aws).CreateSecret(ctx, in)
	if _, exists := errors.AsType[*types.ResourceExistsException](err); exists {
		return errKeyStored
	}
	return err
}

// keyed lists names of secrets, and reads none.
func (a *account) keyed(ctx context.Context) (map[token.Address]time.Time, error) {
	prefix, err := a.output("WalletSecrets")
	if err != nil {
		return nil, err
	}
	keyed := map[token.Address]time.Time{}
	pages := secretsmanager.NewListSecretsPaginator(secretsmanager.NewFromConfig(a.aws), &secretsmanager.ListSecretsInput{
		Filters: []types.Filter{{Key: types.FilterNameStringTypeName, Values: []string{prefix}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the secrets %s*: %w", prefix, err)
		}
		for _, secret := range page.SecretList {
			name, ours := strings.CutPrefix(aws.ToString(secret.Name), prefix)
			if address, err := token.ParseAddress(name); ours && err == nil {
				keyed[address] = aws.ToTime(secret.CreatedDate)
			}
		}
	}
	return keyed, nil
}

// owner names a merchant in the stack's mode, as the webhook store does.
func (d *deployment) owner(merchant string) webhook.Owner {
	return webhook.Owner{Merchant: merchant, Mode: d.mode}
}

// show writes v in JSON with --json, and text without.
func (d *deployment) show(v any, text string) error {
	if d.JSON {
		enc := json.NewEncoder(tame{d.out})
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	_, err := io.WriteString(tame{d.out}, strings.TrimRight(text, "\n")+"\n")
	return err
}

// A tame writer escapes control characters but line ends and tabs, as JSON does: the words of
// a merchant must not steer a terminal. Characters must come whole.
type tame struct{ io.Writer }

// Write implements io.Writer.
func (w tame) Write(text []byte) (int, error) {
	var safe []byte
	for _, c := range string(text) {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			safe = fmt.Appendf(safe, `\u%04x`, c)
		} else {
			safe = utf8.AppendRune(safe, c)
		}
	}
	_, err := w.Writer.Write(safe)
	return len(text), err
}

// A stamp is a time in an answer. The zero time is null in JSON and "-" in text.
type stamp time.Time

// String implements fmt.Stringer.
func (s stamp) String() string {
	if time.Time(s).IsZero() {
		return "-"
	}
	return time.Time(s).UTC().Format(time.RFC3339)
}

// MarshalJSON implements json.Marshaler.
func (s stamp) MarshalJSON() ([]byte, error) {
	if time.Time(s).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(s.String())
}
