package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Tables names the three tables of a stack.
type Tables struct{ APIKeys, Payments, Webhooks string }

// CreateTables creates the tables that do not exist, with the keys and indexes of
// template.yaml, and returns when all can be used. It leaves existing tables as
// they are. It is for stacks on one machine and for tests; a deployed stack gets
// its tables from the template.
func CreateTables(ctx context.Context, db *dynamodb.Client, t Tables) error {
	for _, in := range t.definitions() {
		_, err := db.CreateTable(ctx, in)
		if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
			return fmt.Errorf("creating table %s: %w", *in.TableName, err)
		}
	}
	for _, name := range []string{t.APIKeys, t.Payments, t.Webhooks} {
		w := dynamodb.NewTableExistsWaiter(db, func(o *dynamodb.TableExistsWaiterOptions) {
			o.MinDelay, o.MaxDelay = 50*time.Millisecond, time.Second
		})
		if err := w.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
			return fmt.Errorf("waiting for table %s: %w", name, err)
		}
	}
	return nil
}

// definitions returns the tables' definitions. The merchant index of Payments
// projects the keys and the state only, so that event bodies and call data are not
// written twice. A list reads the payments of a page from the table, and the state
// keeps it from reading payments of another status.
func (t Tables) definitions() []*dynamodb.CreateTableInput {
	return []*dynamodb.CreateTableInput{
		definition(t.APIKeys, attrKeyHash, "",
			index(indexMerchant, attrMerchantID, attrCreatedAt, types.ProjectionTypeAll)),
		definition(t.Payments, attrPK, attrSK,
			index(indexMerchant, attrListPK, attrListSK, types.ProjectionTypeInclude, attrState)),
		definition(t.Webhooks, attrPK, attrSK,
			index(indexDue, attrShard, attrNextAttemptAt, types.ProjectionTypeKeysOnly)),
	}
}

func definition(name, hash, sort string, indexes ...types.GlobalSecondaryIndex) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:              &name,
		BillingMode:            types.BillingModePayPerRequest,
		KeySchema:              schema(hash, sort),
		GlobalSecondaryIndexes: indexes,
	}
	seen := map[string]bool{}
	define := func(keys []types.KeySchemaElement) {
		for _, k := range keys {
			if !seen[*k.AttributeName] {
				seen[*k.AttributeName] = true
				in.AttributeDefinitions = append(in.AttributeDefinitions,
					types.AttributeDefinition{AttributeName: k.AttributeName, AttributeType: types.ScalarAttributeTypeS})
			}
		}
	}
	define(in.KeySchema)
	for _, i := range indexes {
		define(i.KeySchema)
	}
	return in
}

func index(name, hash, sort string, projected types.ProjectionType, included ...string) types.GlobalSecondaryIndex {
	return types.GlobalSecondaryIndex{
		IndexName:  &name,
		KeySchema:  schema(hash, sort),
		Projection: &types.Projection{ProjectionType: projected, NonKeyAttributes: included},
	}
}

func schema(hash, sort string) []types.KeySchemaElement {
	keys := []types.KeySchemaElement{{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash}}
	if sort != "" {
		keys = append(keys, types.KeySchemaElement{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange})
	}
	return keys
}
