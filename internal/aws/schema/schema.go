// Package schema makes and examines a stack's three tables in DynamoDB. For functions, template.yaml makes them.
package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Tables are the names of the three tables of a stack.
type Tables struct{ APIKeys, Payments, Webhooks string }

func (t Tables) names() []string { return []string{t.APIKeys, t.Payments, t.Webhooks} }

// Create creates the missing tables, with the keys and indexes of template.yaml, and returns when all can be used.
func Create(ctx context.Context, db *dynamodb.Client, t Tables) error {
	for _, in := range t.definitions() {
		_, err := db.CreateTable(ctx, in)
		if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
			return fmt.Errorf("creating table %s: %w", *in.TableName, err)
		}
	}
	w := dynamodb.NewTableExistsWaiter(db, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, time.Second
	})
	for _, name := range t.names() {
		if err := w.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
			return fmt.Errorf("waiting for table %s: %w", name, err)
		}
	}
	return nil
}

// Delete deletes those of the tables that exist, with all that they hold, and waits until they are gone.
func Delete(ctx context.Context, db *dynamodb.Client, t Tables) error {
	gone := dynamodb.NewTableNotExistsWaiter(db, func(o *dynamodb.TableNotExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, time.Second
	})
	for _, name := range t.names() {
		_, err := db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
		if _, absent := errors.AsType[*types.ResourceNotFoundException](err); absent || err == nil {
			err = gone.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, time.Minute)
		}
		if err != nil {
			return fmt.Errorf("deleting table %s: %w", name, err)
		}
	}
	return nil
}

// definitions returns the tables' definitions. The merchant index of Payments projects the keys and the state only: a
// list reads from the table the payments of its page and status, whose events and call data are not written twice.
func (t Tables) definitions() []*dynamodb.CreateTableInput {
	return []*dynamodb.CreateTableInput{
		table(t.APIKeys, "key_hash", "", index("merchant", "merchant_id", "created_at", types.ProjectionTypeAll)),
		table(t.Payments, "pk", "sk", index("merchant", "list_pk", "list_sk", types.ProjectionTypeInclude, "state")),
		table(t.Webhooks, "pk", "sk", index("due", "shard", "next_attempt_at", types.ProjectionTypeKeysOnly)),
	}
}

// Lacks lists the properties from template.yaml that the tables lack, a sentence for each: their keys and indexes, and,
// as after a restore, backups to any second, an expiry of items, and, if protected, a protection against deletion.
func (t Tables) Lacks(ctx context.Context, db *dynamodb.Client, protected bool) (lacks []string, err error) {
	for _, want := range t.definitions() {
		name := want.TableName
		found, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: name})
		backups, failed := db.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: name})
		expiry, unread := db.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: name})
		if err := cmp.Or(err, failed, unread); err != nil {
			return nil, fmt.Errorf("describing table %s: %w", *name, err)
		}
		lack := func(is bool, what string) {
			if is {
				lacks = append(lacks, fmt.Sprintf("table %s %s", *name, what))
			}
		}
		index := want.GlobalSecondaryIndexes[0]
		lack(found.Table.TableStatus != types.TableStatusActive, "is "+string(found.Table.TableStatus))
		lack(!sameKeys(found.Table.KeySchema, want.KeySchema), "has the keys of another table")
		usable := func(i types.GlobalSecondaryIndexDescription) bool {
			return aws.ToString(i.IndexName) == *index.IndexName && i.IndexStatus != types.IndexStatusCreating &&
				i.IndexStatus != types.IndexStatusDeleting && sameKeys(i.KeySchema, index.KeySchema) &&
				i.Projection.ProjectionType == index.Projection.ProjectionType
		}
		lack(!slices.ContainsFunc(found.Table.GlobalSecondaryIndexes, usable), "has no usable index "+*index.IndexName)
		recovery := backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription
		lack(recovery == nil || recovery.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled,
			"cannot be restored to a point in time")
		ttl := expiry.TimeToLiveDescription
		expires := ttl != nil && aws.ToString(ttl.AttributeName) == "ttl" &&
			(ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabled || ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabling)
		lack(*name != t.APIKeys && !expires, "does not expire items by ttl")
		lack(protected && !aws.ToBool(found.Table.DeletionProtectionEnabled), "can be deleted by mistake")
	}
	return lacks, nil
}

func sameKeys(a, b []types.KeySchemaElement) bool {
	return slices.EqualFunc(a, b, func(a, b types.KeySchemaElement) bool {
		return aws.ToString(a.AttributeName) == aws.ToString(b.AttributeName) && a.KeyType == b.KeyType
	})
}

// table returns the definition of a table with one index, which shares no key with it.
func table(name, hash, sort string, index types.GlobalSecondaryIndex) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:              &name,
		BillingMode:            types.BillingModePayPerRequest,
		KeySchema:              schema(hash, sort),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{index},
	}
	for _, k := range slices.Concat(in.KeySchema, index.KeySchema) {
		in.AttributeDefinitions = append(in.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: k.AttributeName, AttributeType: types.ScalarAttributeTypeS})
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
