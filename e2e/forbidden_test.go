package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestForbidden tries, under each function's role, the acts of a thief who has it, and expects AWS to refuse them.
func TestForbidden(t *testing.T) {
	s := start(t)
	payments, keys := aws.String(s.Outputs["PaymentsTableName"]), aws.String(s.Outputs["ApiKeysTableName"])
	key0 := s.Outputs["WalletSecrets"] + s.Chain.Wallets()[0].Address.String()
	const payers = "SendPayment SendPayments RefillWallets ReleaseProposals"
	attempts := []attempt{
		{"reading the wallets' keys", "SendPayment SendPayments CheckReceipts ReleaseProposals",
			by(secretsmanager.NewFromConfig, (*secretsmanager.Client).GetSecretValue,
				&secretsmanager.GetSecretValueInput{SecretId: &key0})},
		{"replacing the wallets' keys", "", by(secretsmanager.NewFromConfig, (*secretsmanager.Client).PutSecretValue,
			&secretsmanager.PutSecretValueInput{SecretId: &key0, SecretString: aws.String("{}")})},
		{"signing without a grant", "", by(kms.NewFromConfig, (*kms.Client).Sign,
			&kms.SignInput{KeyId: s.signer(t), Message: make([]byte, 32), MessageType: kmstypes.MessageTypeDigest,
				SigningAlgorithm: kmstypes.SigningAlgorithmSpecEcdsaSha256})},
		{"reading the nodes' URLs", "SendPayment SendPayments CheckReceipts RefillWallets ReleaseProposals GetBalance",
			by(secretsmanager.NewFromConfig, (*secretsmanager.Client).GetSecretValue,
				&secretsmanager.GetSecretValueInput{SecretId: aws.String(s.Outputs["RpcSecretArn"])})},
		{"storing a payment", payers + " CreateProposal", put(payments, "pk", "payment#pay_x")},
		{"storing a payment in a transaction", payers + " CreateProposal", putTogether(payments, "pk", "payment#pay_x")},
		{"reading a payment", payers + " CheckReceipts GetTransaction ListApiKeys ListTransactions CreateProposal GetBalance",
			by(dynamodb.NewFromConfig, (*dynamodb.Client).GetItem, &dynamodb.GetItemInput{TableName: payments, Key: in("pk", "payment#pay_x")})},
		{"reading payments by a query", payers + " CheckReceipts ListTransactions CreateProposal GetBalance", query(payments, "wallet#1")},
		{"reading the rails", payers + " CheckReceipts ListTransactions GetBalance CreateRecipient IssueApiKey CreateProposal",
			query(payments, "rails")},
		{"reading which wallets there are", payers + " CheckReceipts ListTransactions GetBalance CreateRecipient CreateProposal",
			query(payments, "wallets#1")},
		{"charging a merchant's day", payers, update(payments, "pk", "merchant#x")},
		{"reading all payments", "", by(dynamodb.NewFromConfig, (*dynamodb.Client).Scan,
			&dynamodb.ScanInput{TableName: payments})},
		{"handing out a key", "CreateApiKey CreateRecipient IssueApiKey RotateApiKey", put(keys, "key_hash", "x")},
		{"reading all keys", "", by(dynamodb.NewFromConfig, (*dynamodb.Client).Scan, &dynamodb.ScanInput{TableName: keys})},
		{"dropping a table", "", by(dynamodb.NewFromConfig, (*dynamodb.Client).DeleteTable,
			&dynamodb.DeleteTableInput{TableName: payments})},
		{"emptying the webhook queue", "", by(sqs.NewFromConfig, (*sqs.Client).PurgeQueue,
			&sqs.PurgeQueueInput{QueueUrl: aws.String(s.Outputs["WebhookQueueUrl"])})},
	}
	attempts = append(attempts, s.tampering(nil)...)
	roles := 0
	for logical, role := range s.Resources {
		function, ok := strings.CutSuffix(logical, "FunctionRole")
		if !ok {
			continue
		}
		roles++
		tried(t, s.as(t, role), function, attempts)
	}
	s.simulated(t, 500)
	if roles != 27 {
		t.Errorf("%d functions have a role of their own", roles)
	}
}

// signer returns a new key of the stack, as wallets have, without a grant.
func (s *stack) signer(t *testing.T) *string {
	t.Helper()
	return must.Get(kms.NewFromConfig(s.Administrator()).CreateKey(t.Context(), signingKey(localaws.StackName)))(t).KeyMetadata.Arn
}

// tampering returns attempts to write in each guarded partition in each way. allowed names who may do it.
func (s *stack) tampering(allowed map[string]string) (all []attempt) {
	payments := aws.String(s.Outputs["PaymentsTableName"])
	for name, way := range map[string]func(table *string, key, partition string) func(context.Context, aws.Config) error{
		"put": put, "put in a transaction": putTogether, "update": update, "delete": remove,
	} {
		for _, partition := range []string{dynamo.AuditPartition, "denied", "rails"} {
			all = append(all, attempt{name + " " + partition, allowed[name+" "+partition], way(payments, "pk", partition)})
		}
	}
	return all
}

// An attempt is an act that some may do and nobody else.
type attempt struct {
	what    string
	allowed string // names, between blanks
	try     func(context.Context, aws.Config) error
}

// tried makes attempts with the rights of one of those names.
func tried(t *testing.T, cfg aws.Config, name string, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		allowed := strings.Contains(" "+a.allowed+" ", " "+name+" ")
		if err := a.try(t.Context(), cfg); refusal(err) == allowed {
			t.Errorf("%s, as %s: %v", a.what, name, err)
		}
	}
}

// by is the attempt to make a call with the client of a service that open returns.
func by[C, I, O, F any](open func(aws.Config, ...func(*F)) C, call func(C, context.Context, I, ...func(*F)) (O, error),
	in I) func(context.Context, aws.Config) error {
	return func(ctx context.Context, cfg aws.Config) error { _, err := call(open(cfg), ctx, in); return err }
}

// never is a condition that never holds: the attempts of the following functions change nothing.
var never = aws.String("attribute_exists(never)")

// put puts an item into a partition.
func put(table *string, key, partition string) func(context.Context, aws.Config) error {
	return by(dynamodb.NewFromConfig, (*dynamodb.Client).PutItem,
		&dynamodb.PutItemInput{TableName: table, Item: in(key, partition), ConditionExpression: never})
}

// putTogether is put in a transaction.
func putTogether(table *string, key, partition string) func(context.Context, aws.Config) error {
	return by(dynamodb.NewFromConfig, (*dynamodb.Client).TransactWriteItems,
		&dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: table, Item: in(key, partition), ConditionExpression: never}}}})
}

func update(table *string, key, partition string) func(context.Context, aws.Config) error {
	return by(dynamodb.NewFromConfig, (*dynamodb.Client).UpdateItem, &dynamodb.UpdateItemInput{TableName: table,
		Key: in(key, partition), UpdateExpression: aws.String("SET x = " + key), ConditionExpression: never})
}

func remove(table *string, key, partition string) func(context.Context, aws.Config) error {
	return by(dynamodb.NewFromConfig, (*dynamodb.Client).DeleteItem,
		&dynamodb.DeleteItemInput{TableName: table, Key: in(key, partition), ConditionExpression: never})
}

func query(table *string, partition string) func(context.Context, aws.Config) error {
	return by(dynamodb.NewFromConfig, (*dynamodb.Client).Query,
		&dynamodb.QueryInput{TableName: table, KeyConditionExpression: aws.String("pk = :pk"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":pk": text(partition)}})
}

// in returns the key of an item of a partition.
func in(key, partition string) map[string]types.AttributeValue {
	if key == "pk" {
		return map[string]types.AttributeValue{"pk": text(partition), "sk": text("x")}
	}
	return map[string]types.AttributeValue{key: text(partition)}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// refusal reports whether err says that the caller may not do that.
func refusal(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && strings.HasPrefix(api.ErrorCode(), "AccessDenied")
}

// as returns the configuration of a thief of the role.
func (s *stack) as(t *testing.T, role string) aws.Config {
	t.Helper()
	admin := s.Administrator()
	roles := iam.NewFromConfig(admin)
	found := must.Get(roles.GetRole(t.Context(), &iam.GetRoleInput{RoleName: &role}))(t)
	_, err := roles.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{RoleName: &role, PolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"AWS":"*","Service":"lambda.amazonaws.com"}}]}`)})
	must.OK(t, err)
	session := must.Get(sts.NewFromConfig(admin).AssumeRole(t.Context(),
		&sts.AssumeRoleInput{RoleArn: found.Role.Arn, RoleSessionName: aws.String("thief")}))(t)
	c := session.Credentials
	cfg := s.Account(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
	cfg.BaseEndpoint, cfg.AppID = &s.calls.url, "thief-"+role
	return cfg
}
