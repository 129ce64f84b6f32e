package dynamo_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/storetest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestAlike runs the same random operations on this package and on the store in memory. Without flags the few operations
// are the same each time.
func TestAlike(t *testing.T) {
	if checks := flag.Lookup("rapid.checks").Value; checks.String() == "100" {
		must.OK(t, errors.Join(checks.Set("25"), flag.Set("rapid.seed", "1")))
	}
	w := new(wire)
	db := w.client(t)
	storetest.Alike(t, func(ctx context.Context) storetest.Pair {
		id := rand.Text()
		tables := schema.Tables{APIKeys: "keys-" + id, Payments: "payments-" + id, Webhooks: "webhooks-" + id}
		must.OK(t, schema.Create(ctx, db, tables))
		return storetest.Pair{
			Memory: storetest.Stores{Payments: memory.NewPayments(), Webhooks: memory.NewWebhooks(), Keys: new(memory.APIKeys)},
			Database: storetest.Stores{Payments: dynamo.NewPayments(db, tables.Payments), Webhooks: dynamo.NewWebhooks(db, tables.Webhooks),
				Keys: dynamo.NewAPIKeys(db, tables.APIKeys)},
			Lose: func(n int) {
				w.meddle = nil
				if n == 0 {
					return
				}
				w.lose(n)
				lose := w.meddle
				w.meddle = func(op string, send func() (*http.Response, error)) (*http.Response, error) {
					if op == "GetItem" || op == "BatchGetItem" || op == "Query" || op == "Scan" {
						return send()
					}
					return lose(op, send)
				}
			},
			Close: func() {
				w.meddle = nil
				for _, name := range []string{tables.APIKeys, tables.Payments, tables.Webhooks} {
					must.Get(db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}))(t)
				}
			},
		}
	})
}
