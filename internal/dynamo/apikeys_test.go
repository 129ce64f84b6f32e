package dynamo_test

import (
	"crypto/rand"
	"testing"

	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/storetest"
)

func TestAPIKeys(t *testing.T) {
	db := dynamotest.Client(t)
	id := rand.Text()
	tables := dynamo.Tables{APIKeys: "keys-" + id, Payments: "payments-" + id, Webhooks: "webhooks-" + id}
	for range 2 { // the second time, they exist
		if err := dynamo.CreateTables(t.Context(), db, tables); err != nil {
			t.Fatal(err)
		}
	}
	storetest.APIKeys(t, func(*testing.T) storetest.Keeper { return dynamo.NewAPIKeys(db, tables.APIKeys) })
}
