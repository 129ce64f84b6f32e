package dynamo_test

import (
	"crypto/rand"
	"testing"

	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/storetest"
	"remit/internal/webhook"
)

func TestWebhooks(t *testing.T) {
	db := dynamotest.Client(t)
	id := rand.Text()
	tables := dynamo.Tables{APIKeys: "keys-" + id, Payments: "payments-" + id, Webhooks: "webhooks-" + id}
	if err := dynamo.CreateTables(t.Context(), db, tables); err != nil {
		t.Fatal(err)
	}
	storetest.Webhooks(t, func(*testing.T) webhook.Store { return dynamo.NewWebhooks(db, tables.Webhooks) })
}
