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
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestForbidden tries, under each function's role, the acts that a thief would
// steal it for, and expects AWS to refuse them.
func TestForbidden(t *testing.T) {
	s := start(t)
	item := map[string]types.AttributeValue{"pk": text("payment#pay_x"), "sk": text("payment"), "key_hash": text("x")}
	key := map[string]types.AttributeValue{"pk": text("payment#pay_x"), "sk": text("payment")}
	payments, keys := aws.String(s.Outputs["PaymentsTableName"]), aws.String(s.Outputs["ApiKeysTableName"])
	key0 := s.Outputs["WalletSecrets"] + s.Chain.Wallets()[0].Address.String()
	attempts := []attempt{
		{"reading the wallets' keys", "SendPayment SendPayments CheckReceipts",
			by(secretsmanager.NewFromConfig, (*secretsmanager.Client).GetSecretValue,
				&secretsmanager.GetSecretValueInput{SecretId: &key0})},
		{"replacing the wallets' keys", "", by(secretsmanager.NewFromConfig, (*secretsmanager.Client).PutSecretValue,
			&secretsmanager.PutSecretValueInput{SecretId: &key0, SecretString: aws.String("{}")})},
		{"reading the nodes' URLs", "SendPayment SendPayments CheckReceipts RefillWallets GetBalance",
			by(secretsmanager.NewFromConfig, (*secretsmanager.Client).GetSecretValue,
				&secretsmanager.GetSecretValueInput{SecretId: aws.String(s.Outputs["RpcSecretArn"])})},
		{"storing a payment", "SendPayment SendPayments RefillWallets", by(dynamodb.NewFromConfig, (*dynamodb.Client).PutItem,
			&dynamodb.PutItemInput{TableName: payments, Item: item, ConditionExpression: aws.String("attribute_exists(pk)")})},
		{"storing a payment in a transaction", "SendPayment SendPayments RefillWallets",
			by(dynamodb.NewFromConfig, (*dynamodb.Client).TransactWriteItems,
				&dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
					{Put: &types.Put{TableName: payments, Item: item, ConditionExpression: aws.String("attribute_exists(pk)")}},
				}})},
		{"reading a payment", "SendPayment SendPayments CheckReceipts RefillWallets GetTransaction ListTransactions",
			by(dynamodb.NewFromConfig, (*dynamodb.Client).GetItem, &dynamodb.GetItemInput{TableName: payments, Key: key})},
		{"charging a merchant's day", "SendPayment SendPayments RefillWallets",
			by(dynamodb.NewFromConfig, (*dynamodb.Client).UpdateItem,
				&dynamodb.UpdateItemInput{TableName: payments, Key: in("pk", "merchant#x"),
					UpdateExpression: aws.String("SET x = :x"), ConditionExpression: aws.String("attribute_exists(pk)"),
					ExpressionAttributeValues: map[string]types.AttributeValue{":x": text("x")}})},
		{"reading all payments", "", by(dynamodb.NewFromConfig, (*dynamodb.Client).Scan,
			&dynamodb.ScanInput{TableName: payments})},
		{"handing out a key", "CreateApiKey CreateRecipient IssueApiKey RotateApiKey",
			by(dynamodb.NewFromConfig, (*dynamodb.Client).PutItem,
				&dynamodb.PutItemInput{TableName: keys, Item: item, ConditionExpression: aws.String("attribute_exists(key_hash)")})},
		{"changing settings", "", writes(payments, "pk", "settings")},
		{"changing settings in a transaction", "", writesTogether(payments, "pk", "settings")},
		{"allowing a blocked recipient", "", deletes(payments, "pk", "denied")},
		{"replacing a blocked recipient", "", writes(payments, "pk", "denied")},
		{"storing the coin", "SendPayment SendPayments RefillWallets", writes(payments, "pk", "coin")},
		{"forgetting the coin", "", deletes(payments, "pk", "coin")},
		{"changing settings of keys", "", writes(keys, "key_hash", "settings")},
		{"hiding an operator", "", writes(payments, "pk", "audit")},
		{"reading all keys", "", by(dynamodb.NewFromConfig, (*dynamodb.Client).Scan, &dynamodb.ScanInput{TableName: keys})},
		{"dropping a table", "", by(dynamodb.NewFromConfig, (*dynamodb.Client).DeleteTable,
			&dynamodb.DeleteTableInput{TableName: payments})},
		{"emptying the webhook queue", "", by(sqs.NewFromConfig, (*sqs.Client).PurgeQueue,
			&sqs.PurgeQueueInput{QueueUrl: aws.String(s.Outputs["WebhookQueueUrl"])})},
	}
	roles := 0
	for logical, role := range s.Resources {
		function, ok := strings.CutSuffix(logical, "FunctionRole")
		if !ok {
			continue
		}
		roles++
		tried(t, s.as(t, role), function, attempts)
	}
	if roles != 25 {
		t.Errorf("%d functions have a role of their own", roles)
	}
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

// writes puts an item into a partition, on a condition that never holds.
func writes(table *string, key, partition string) func(context.Context, aws.Config) error {
	return by(dynamodb.NewFromConfig, (*dynamodb.Client).PutItem,
		&dynamodb.PutItemInput{TableName: table, Item: in(key, partition), ConditionExpression: aws.String("attribute_exists(never)")})
}

// writesTogether is writes in a transaction.
func writesTogether(table *string, key, partition string) func(context.Context, aws.Config) error {
	return by(dynamodb.NewFromConfig, (*dynamodb.Client).TransactWriteItems,
		&dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: table, Item: in(key, partition), ConditionExpression: aws.String("attribute_exists(never)")}},
		}})
}

// deletes deletes an item of a partition, on a condition that never holds.
func deletes(table *string, key, partition string) func(context.Context, aws.Config) error {
	return by(dynamodb.NewFromConfig, (*dynamodb.Client).DeleteItem,
		&dynamodb.DeleteItemInput{TableName: table, Key: in(key, partition), ConditionExpression: aws.String("attribute_exists(never)")})
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
	return s.Account(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
}
