package scale_test

import (
	"crypto/rand"
	"flag"
	"testing"
	"time"

	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/plan"
)

var (
	hour  = flag.Bool("hour", false, "simulate an hour of 500 merchants, not five minutes")
	local = flag.Bool("dynamodb", false, "have TestManyMerchants last as long as it says, on DynamoDB Local")
)

// TestManyMerchants: of 500 merchants on one wallet, at the rate that its window allows,
// and on 50 wallets, payments are refused for a window or a merchant cap only. For two
// minutes no round settles. Then none fails, and each sees a top-up of its wallet.
func TestManyMerchants(t *testing.T) {
	for _, row := range []struct {
		name          string
		wallets, rate float64
	}{{"one wallet", 1, 64. / 12}, {"50 wallets", 50, 25}} {
		t.Run(row.name, func(t *testing.T) {
			r := run{Load: plan.Load{Rate: row.rate, Merchants: 500, Chain: plan.Chains["ethereum"], Wallets: row.wallets, Window: 64, Stack: plan.Default}, scale: 1, crowded: true, length: 5 * time.Minute}
			if *hour {
				r.length = 62 * time.Minute
			}
			r.Chain.FinalSeconds, r.Chain.EpochSeconds = 60, 0
			do := func() outcome { return r.simulate(t) }
			if *local {
				names, id := dynamo.Tables{APIKeys: "k", Payments: "p", Webhooks: "w"}, rand.Text()
				names = dynamo.Tables{APIKeys: names.APIKeys + id, Payments: names.Payments + id, Webhooks: names.Webhooks + id}
				db := dynamotest.Client(t)
				if err := dynamo.CreateTables(t.Context(), db, names); err != nil {
					t.Fatal(err)
				}
				r.store = dynamo.NewPayments(db, names.Payments)
				do = func() outcome { return r.perform(t.Context()) }
			}
			o := do()
			t.Logf("%d asked for, %d made, %d refused; %d answers for a window, %d for a cap", o.asked, o.made, o.refused, o.full, o.capped)
			if o.made < o.asked/2 || o.twice+o.lost+o.unseen > 0 {
				t.Errorf("%d of %d made, %d paid twice, %d not confirmed, %d top-ups not seen", o.made, o.asked, o.twice, o.lost, o.unseen)
			}
			for _, err := range o.failed[:min(5, len(o.failed))] {
				t.Errorf("one of %d failures: %v", len(o.failed), err)
			}
		})
	}
}
