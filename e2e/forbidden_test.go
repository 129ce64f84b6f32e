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
		{"reading the wallets' keys", "SendPayment SendPayments CheckReceipts", func(ctx context.Context, cfg aws.Config) error {
			_, err := secretsmanager.NewFromConfig(cfg).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &key0})
			return err
		}},
		{"replacing the wallets' keys", "", func(ctx context.Context, cfg aws.Config) error {
			_, err := secretsmanager.NewFromConfig(cfg).PutSecretValue(ctx,
				&secretsmanager.PutSecretValueInput{SecretId: &key0, SecretString: aws.String("{}")})
			return err
		}},
		{"reading the nodes' URLs", "SendPayment SendPayments CheckReceipts RefillWallets GetBalance",
			func(ctx context.Context, cfg aws.Config) error {
				_, err := secretsmanager.NewFromConfig(cfg).GetSecretValue(ctx,
					&secretsmanager.GetSecretValueInput{SecretId: aws.String(s.Outputs["RpcSecretArn"])})
				return err
			}},
		{"storing a payment", "SendPayment SendPayments RefillWallets", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).PutItem(ctx,
				&dynamodb.PutItemInput{TableName: payments, Item: item, ConditionExpression: aws.String("attribute_exists(pk)")})
			return err
		}},
		{"storing a payment in a transaction", "SendPayment SendPayments RefillWallets", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
				{Put: &types.Put{TableName: payments, Item: item, ConditionExpression: aws.String("attribute_exists(pk)")}},
			}})
			return err
		}},
		{"reading a payment", "SendPayment SendPayments CheckReceipts RefillWallets GetTransaction ListTransactions",
			func(ctx context.Context, cfg aws.Config) error {
				_, err := dynamodb.NewFromConfig(cfg).GetItem(ctx, &dynamodb.GetItemInput{TableName: payments, Key: key})
				return err
			}},
		{"charging a merchant's day", "SendPayment SendPayments RefillWallets", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: payments, Key: in("pk", "merchant#x"),
				UpdateExpression: aws.String("SET x = :x"), ConditionExpression: aws.String("attribute_exists(pk)"),
				ExpressionAttributeValues: map[string]types.AttributeValue{":x": text("x")}})
			return err
		}},
		{"reading all payments", "", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).Scan(ctx, &dynamodb.ScanInput{TableName: payments})
			return err
		}},
		{"handing out a key", "CreateApiKey CreateRecipient IssueApiKey RotateApiKey", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).PutItem(ctx,
				&dynamodb.PutItemInput{TableName: keys, Item: item, ConditionExpression: aws.String("attribute_exists(key_hash)")})
			return err
		}},
		{"changing settings", "", writes(payments, "pk", "denied")},
		{"changing settings in a transaction", "", writesTogether(payments, "pk", "settings")},
		{"changing settings of keys", "", writes(keys, "key_hash", "settings")},
		{"hiding an operator", "", writes(payments, "pk", "audit")},
		{"reading all keys", "", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).Scan(ctx, &dynamodb.ScanInput{TableName: keys})
			return err
		}},
		{"dropping a table", "", func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: payments})
			return err
		}},
		{"emptying the webhook queue", "", func(ctx context.Context, cfg aws.Config) error {
			_, err := sqs.NewFromConfig(cfg).PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: aws.String(s.Outputs["WebhookQueueUrl"])})
			return err
		}},
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

// writes puts an item into a partition, with values as settings have them, on a condition
// that never holds.
func writes(table *string, key, partition string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, cfg aws.Config) error {
		_, err := dynamodb.NewFromConfig(cfg).PutItem(ctx,
			&dynamodb.PutItemInput{TableName: table, Item: valued(key, partition), ConditionExpression: aws.String("attribute_exists(never)")})
		return err
	}
}

// writesTogether is writes in a transaction.
func writesTogether(table *string, key, partition string) func(context.Context, aws.Config) error {
	return func(ctx context.Context, cfg aws.Config) error {
		_, err := dynamodb.NewFromConfig(cfg).TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: table, Item: valued(key, partition), ConditionExpression: aws.String("attribute_exists(never)")}},
		}})
		return err
	}
}

func valued(key, partition string) map[string]types.AttributeValue {
	item := in(key, partition)
	item["values"] = text("x")
	return item
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
