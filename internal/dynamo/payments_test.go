package dynamo_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/payment"
	"remit/internal/storetest"
	"remit/internal/wallet"
)

// tables makes the tables of a stack of one's own.
func tables(t *testing.T, db *dynamodb.Client) dynamo.Tables {
	t.Helper()
	id := rand.Text()
	names := dynamo.Tables{APIKeys: "keys-" + id, Payments: "payments-" + id, Webhooks: "webhooks-" + id}
	if err := dynamo.CreateTables(t.Context(), db, names); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestPayments(t *testing.T) {
	db := dynamotest.Client(t)
	table := tables(t, db).Payments
	// spoil damages an amount, as no code of ours ever would.
	spoil := func(t *testing.T, pk, sk, attribute string) {
		_, err := db.UpdateItem(context.WithoutCancel(t.Context()), &dynamodb.UpdateItemInput{
			TableName: &table,
			Key: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: pk}, "sk": &types.AttributeValueMemberS{Value: sk},
			},
			UpdateExpression:          aws.String("SET " + attribute + " = :damage"),
			ConditionExpression:       aws.String("attribute_exists(" + attribute + ")"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":damage": &types.AttributeValueMemberS{Value: "1e6"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	storetest.Payments(t, func(t *testing.T) storetest.Protocol {
		return storetest.Protocol{
			Store: dynamo.NewPayments(db, table),
			Spoil: func(id payment.ID) { spoil(t, "payment#"+string(id), "payment", "amount") },
			SpoilPendingTx: func(id wallet.ID, nonce uint64) {
				spoil(t, fmt.Sprintf("wallet#%d#%s", id.ChainID, id.Address), fmt.Sprintf("pendingtx#%020d", nonce), "gas_held")
			},
		}
	})
}
