//go:build !sandbox

package deployed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloud "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

var tableOutputs = map[string]string{"keys": "ApiKeys", "payments": "Payments", "webhooks": "Webhooks"}

// LoadAWS returns the configuration of the AWS CLI, in a region unless it is "", after it has found credentials.
func LoadAWS(ctx context.Context, region string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithLogger(logging.Nop{}))
	if err != nil {
		return cfg, fmt.Errorf("reading the AWS configuration (correct ~/.aws/config, or AWS_PROFILE): %w", err)
	}
	if cfg.Region == "" {
		return cfg, errors.New("no AWS region; set AWS_REGION")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, errors.New("no AWS credentials; run aws sso login or set AWS_PROFILE (aws sts get-caller-identity)")
	}
	return cfg, nil
}

func (t Target) onAWS(ctx context.Context, out io.Writer) (*Deployment, error) {
	cfg, err := LoadAWS(ctx, "")
	if err != nil {
		return nil, err
	}
	a, err := Find(ctx, cfg, t.Stack)
	if err != nil {
		return nil, err
	}
	db := dynamo.Client(a.AWS)
	for kind, name := range t.Table {
		_, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
		api, _ := errors.AsType[smithy.APIError](err)
		switch {
		case tableOutputs[kind] == "":
			return nil, fmt.Errorf("--table %s=…: use keys, payments or webhooks", kind)
		case name == "":
			return nil, fmt.Errorf("--table %s= names no table; its variable may be empty", kind)
		case api != nil && api.ErrorCode() == "ResourceNotFoundException":
			return nil, fmt.Errorf("there is no table %s here; aws dynamodb list-tables lists them", name)
		}
		a.Outputs[tableOutputs[kind]+"TableName"] = name
	}
	for _, name := range []string{"ApiKeysTableName", "PaymentsTableName", "WebhooksTableName", "WebhookQueueUrl",
		"AuditLogGroupName", "RpcSecretArn", "WalletSecrets"} {
		if a.Outputs[name] == "" { // the stack is of an older template
			return nil, fmt.Errorf("stack %s has no output %s; deploy this version's template first", a.Stack, name)
		}
	}
	d := a.Read(t, out)
	table := a.Outputs["PaymentsTableName"]
	payments := dynamo.NewPayments(db, table)
	d.Tables = Tables{payments, CopiedLog{payments, a.AWS, table, a.Outputs["AuditLogGroupName"]},
		dynamo.NewWebhooks(db, a.Outputs["WebhooksTableName"]), dynamo.NewAPIKeys(db, a.Outputs["ApiKeysTableName"]),
		queue.OpenJobs(a.AWS, a.Outputs["WebhookQueueUrl"]), a.Parameters["EventBus"] != ""}
	return d, nil
}

// Find returns a stack on AWS. With ErrNoStack it has no Status.
func Find(ctx context.Context, cfg aws.Config, stack string) (*Account, error) {
	a := &Account{Stack: stack, AWS: cfg, Outputs: map[string]string{}, Parameters: map[string]string{}}
	if stack == "" { // by which AWS describes any stack
		return a, errors.New("the stack's name is empty; set REMIT_STACK or --stack, or leave both out")
	}
	found, err := cloudformation.NewFromConfig(cfg).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &stack})
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" {
		err = ErrNoStack
	}
	if err != nil {
		return a, fmt.Errorf("looking for stack %s (region and credentials as for the AWS CLI): %w", stack, err)
	}
	s := found.Stacks[0]
	a.ID, a.Status, a.About = aws.ToString(s.StackId), string(s.StackStatus), aws.ToString(s.Description)
	for _, o := range s.Outputs {
		a.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	for _, p := range s.Parameters {
		a.Parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	return a, nil
}

// Read returns the deployment that the parameters describe, without its tables.
func (a *Account) Read(t Target, out io.Writer) *Deployment {
	return &Deployment{Target: t, Platform: a, Account: a, Out: out, Mode: a.Parameters["Mode"],
		KeyCache: a.Parameters["AuthorizerCacheSeconds"]}
}

// Who implements Platform.
func (a *Account) Who(ctx context.Context) (string, error) {
	caller, err := sts.NewFromConfig(a.AWS).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return aws.ToString(caller.Arn), nil
}

// Hint does nothing: check-receipts runs every minute.
func (*Account) Hint(context.Context) error { return nil }

// Publish sends a message to the topic of urgent alarms, or else to the topic of the others.
func (a *Account) Publish(ctx context.Context, subject, text string) error {
	to := cmp.Or(a.Parameters["UrgentTopicArn"], a.Parameters["AlarmTopicArn"])
	if to == "" {
		return nil
	}
	_, err := sns.NewFromConfig(a.AWS).Publish(ctx, &sns.PublishInput{TopicArn: &to, Subject: &subject, Message: &text})
	return err
}

// RPC implements Platform. A secret without a value has no nodes.
func (a *Account) RPC(ctx context.Context) (map[uint64][]string, error) {
	nodes, err := secrets.Open(a.AWS, a.Outputs["RpcSecretArn"], time.Now, secrets.RPC).Get(ctx)
	if errors.Is(err, secrets.ErrMissing) {
		return nil, nil
	}
	return nodes, err
}

// PutRPC implements Platform. It keeps the other chains' nodes.
func (a *Account) PutRPC(ctx context.Context, chainID uint64, urls []string) error {
	arn := a.Outputs["RpcSecretArn"]
	read := func() ([]byte, error) {
		return secrets.Open(a.AWS, arn, time.Now, func(value []byte) ([]byte, error) { return value, nil }).Get(ctx)
	}
	value, err := read()
	if errors.Is(err, secrets.ErrMissing) {
		value, err = []byte("{}"), nil
	}
	text, unfit := secrets.WithChain(value, chainID, urls)
	if err = cmp.Or(err, unfit); err != nil {
		return err
	}
	in := &secretsmanager.PutSecretValueInput{SecretId: &arn, SecretString: &text}
	if _, err := secretsmanager.NewFromConfig(a.AWS).PutSecretValue(ctx, in); err != nil {
		return err
	}
	if value, err = read(); err == nil && string(value) != text { // a write has no condition
		err = errors.New("the RPC secret was changed at the same time: check every chain's nodes in it")
	}
	return err
}

// WalletKeys implements Platform: they are in secrets and in KMS.
func (a *Account) WalletKeys() wallet.Keys {
	inKMS := kms.Open(a.AWS)
	ring := keyring.New(func(address token.Address) keyring.Read {
		secret := secrets.Open(a.AWS, a.Outputs["WalletSecrets"]+address.String(), time.Now, keyring.Decode)
		return func(ctx context.Context) (keyring.Key, error) {
			key, err := secret.Get(ctx)
			if errors.Is(err, secrets.ErrMissing) {
				err = wallet.ErrNoKey
			}
			return key, err
		}
	}).Signing(time.Now, func(ctx context.Context, key wallet.KeyRef, digest []byte) ([]byte, error) {
		return inKMS.Sign(ctx, string(key), digest)
	})
	return walletKeys{ring, walletkey.Open(a.AWS)}
}

type walletKeys struct {
	*keyring.Ring
	inKMS walletkey.Keys
}

// Signer returns ErrNoKey also for a key that KMS has deleted for good.
func (k walletKeys) Signer(ctx context.Context, r wallet.Registration) (wallet.Signer, error) {
	if InKMS(r.Key) {
		_, _, err := k.inKMS.Wallet(ctx, string(r.Key))
		if _, deleted := errors.AsType[*kmstypes.NotFoundException](err); deleted {
			return nil, fmt.Errorf("%w: %w", wallet.ErrNoKey, err)
		}
	}
	return k.Ring.Signer(ctx, r)
}

// railTag tells the rail of a key after a loss of the registry.
const railTag = "remit:rail"

// PutKey makes the wallet's secret, with the stack's customer key and replica. It reads and changes no existing one.
func (a *Account) PutKey(ctx context.Context, key keyring.Key, of token.Coin) error {
	in := &secretsmanager.CreateSecretInput{
		Name:         aws.String(a.Outputs["WalletSecrets"] + key.Address().String()),
		Description:  aws.String("Remit " + a.Stack + ": the key of a wallet"),
		SecretString: aws.String(string(keyring.Encode(key))),
		Tags:         []types.Tag{{Key: aws.String("remit:stack"), Value: &a.Stack}, {Key: aws.String(railTag), Value: aws.String(of.String())}},
	}
	if arn := a.Parameters["KmsKeyArn"]; arn != "" {
		in.KmsKeyId = &arn
	}
	if region := a.Parameters["ReplicaRegion"]; region != "" {
		in.AddReplicaRegions = []types.ReplicaRegionType{{Region: &region}}
	}
	_, err := secretsmanager.NewFromConfig(a.AWS).CreateSecret(ctx, in)
	if _, exists := errors.AsType[*types.ResourceExistsException](err); exists {
		return ErrKeyStored
	}
	return err
}

// Keyed lists names of secrets, and reads none.
func (a *Account) Keyed(ctx context.Context) (map[token.Address]StoredKey, error) {
	prefix, keyed := a.Outputs["WalletSecrets"], map[token.Address]StoredKey{}
	named := types.Filter{Key: types.FilterNameStringTypeName, Values: []string{prefix}}
	pages := secretsmanager.NewListSecretsPaginator(secretsmanager.NewFromConfig(a.AWS),
		&secretsmanager.ListSecretsInput{Filters: []types.Filter{named}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the secrets %s*: %w", prefix, err)
		}
		for _, secret := range page.SecretList {
			name, ours := strings.CutPrefix(aws.ToString(secret.Name), prefix)
			if address, err := token.ParseAddress(name); ours && err == nil {
				key := StoredKey{Since: aws.ToTime(secret.CreatedDate)}
				for _, tag := range secret.Tags {
					if aws.ToString(tag.Key) == railTag {
						key.Rail = aws.ToString(tag.Value)
					}
				}
				keyed[address] = key
			}
		}
	}
	return keyed, nil
}

// Resources lists the stack's resources.
func (a *Account) Resources(ctx context.Context) (all []cloud.StackResourceSummary, err error) {
	pages := cloudformation.NewListStackResourcesPaginator(cloudformation.NewFromConfig(a.AWS),
		&cloudformation.ListStackResourcesInput{StackName: &a.Stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the stack's resources: %w", err)
		}
		all = append(all, page.StackResourceSummaries...)
	}
	return all, nil
}

// Signers returns the ARNs of the roles of the functions that sign.
func (a *Account) Signers(ctx context.Context) (arns []string, err error) {
	of, err := arn.Parse(a.ID)
	all, unread := a.Resources(ctx)
	if err = cmp.Or(err, unread); err != nil {
		return nil, err
	}
	of.Service, of.Region = "iam", ""
	for _, r := range all {
		if slices.Contains(walletkey.SigningRoles(), aws.ToString(r.LogicalResourceId)) {
			of.Resource = "role/" + aws.ToString(r.PhysicalResourceId)
			arns = append(arns, of.String())
		}
	}
	if roles := walletkey.SigningRoles(); len(arns) != len(roles) {
		return nil, fmt.Errorf("stack %s lacks one of the roles %v; deploy this version's template", a.Stack, roles)
	}
	slices.Sort(arns)
	return arns, nil
}

// InKMS reports whether a wallet's key is in KMS.
func InKMS(key wallet.KeyRef) bool { return strings.HasPrefix(string(key), "arn:") }

// A CopiedLog is a table's audit log. It copies each entry to CloudWatch Logs, where operators cannot change it.
type CopiedLog struct {
	store.AuditLog
	AWS          aws.Config
	Table, Group string
}

// Append stores an entry in the table, then in the copy. If only the first is certain, it is ErrUncopied.
func (l CopiedLog) Append(ctx context.Context, e store.Act) error {
	if err := l.AuditLog.Append(ctx, e); err != nil {
		return err
	}
	all, _ := json.Marshal(struct { // of texts and a time
		Table string
		store.Act
	}{l.Table, e})
	out, err := cloudwatchlogs.NewFromConfig(l.AWS).PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{
		LogGroupName: &l.Group, LogStreamName: aws.String("operators"), // the template makes it
		LogEvents: []logtypes.InputLogEvent{{Timestamp: aws.Int64(e.At.UnixMilli()), Message: aws.String(string(all))}},
	})
	if err == nil && out.RejectedLogEventsInfo != nil {
		err = errors.New("it takes no entry of this time; set the clock of this machine")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncopied, err)
	}
	return nil
}
