package measure_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/bench/lab"
	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/dynamo"
	"remit/internal/ethrpc"
	"remit/internal/webhook"
)

// An item sums up the stored items of one kind.
type item struct{ count, bytes, largest int }

// BenchmarkStore counts the calls and units of DynamoDB over payments' whole
// lives, from the look-up of the API key to the webhook, on DynamoDB Local.
func BenchmarkStore(b *testing.B) {
	const wallets = 4
	n := pick(400, 40)
	m := &meter{}
	db, tables := database(b, func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, m.middleware) })
	c := startChain(b, wallets)
	c.Freeze()
	payments, hooks, q := dynamo.NewPayments(db, tables.Payments), dynamo.NewWebhooks(db, tables.Webhooks), &queue{}
	r := newRig(b, c, c.Wallets(), payments, near, ethrpc.NewTransport(), webhook.NewPublisher(hooks, q))
	subscribe(b, hooks, "https://merchant.example/hooks/remit")
	phase := func(name string, used operations, messages, payments int) {
		each := func(u usage) map[string]float64 {
			return map[string]float64{"calls": u.calls, "reads": u.reads, "writes": u.writes}
		}
		all := each(used.all().times(1 / float64(payments)))
		all["messages"] = float64(messages) / float64(payments)
		lab.Emit(b, "function="+name, all)
		for _, operation := range slices.Sorted(maps.Keys(used)) {
			if u := used[operation].times(1 / float64(payments)); u.calls > 0.001 {
				lab.Emit(b, "caller="+name+"/operation="+operation, each(u))
			}
		}
	}

	authenticate(b, db, tables, m, n)
	phase("authorizer", m.take(), 0, n)

	payMany(b, r.handler, 1, 1) // the wallets' first use is no payment's
	m.take()
	r.take()
	if err := lab.Each(b.Context(), wallets, n-1, func(ctx context.Context, i int) error {
		return pay(ctx, r.handler, fmt.Sprint("life-", i), lab.Base+i)
	}); err != nil {
		b.Fatal(err)
	}
	used := m.take()
	calls, _ := r.take()
	sent := weigh(b, db, tables)
	// The index that lists payments is written after the transaction, so its entry
	// is one unit and does not count double.
	commit := used["TransactWriteItems"]
	commit.writes = commit.calls * (1 + transacted(sent["payments.payment"].largest, sent["payments.wallet.pendingtx"].largest, sent["payments.tx"].largest))
	used["TransactWriteItems"] = commit
	phase("send-payment", used, calls["Hint"], n-1)

	time.Sleep(2 * time.Second) // a payment that was just sent is not sent again
	settle(b, r, 0)             // the first round reads the wallets' balances
	m.take()
	settle(b, r, 0)
	look := m.take()
	for range 1 + confirmed.Depth {
		if err := c.Mine(); err != nil {
			b.Fatal(err)
		}
	}
	q.jobs = nil
	settle(b, r, n)
	settling := m.take()
	for operation, u := range look { // a look without an end is no payment's
		settling[operation] = settling[operation].plus(u.times(-1))
	}
	phase("check-receipts", settling, len(q.jobs), n)
	lab.Emit(b, "look=wallet", map[string]float64{"calls": look.all().calls / wallets, "writes": look.all().writes / wallets,
		"reads": (look.all().reads - look["Query"].reads) / wallets})
	lab.Emit(b, "look=pending payment", map[string]float64{"calls": 0, "writes": 0, "reads": look["Query"].reads / float64(n)})

	deliverer := webhook.NewDeliverer(hooks, q, willing{}, webhook.NoMeter{}, time.Now, func() float64 { return 0.5 })
	for _, job := range q.jobs {
		if err := deliverer.Deliver(b.Context(), job); err != nil {
			b.Fatal(err)
		}
	}
	delivering := m.take()
	phase("deliver-webhook", delivering, 0, n)
	lab.Emit(b, "webhook=all", map[string]float64{"calls": (delivering.all().calls + settling["PutItem"].calls) / float64(n)})

	var hashes []string
	scan(b, db, tables, func(kind string, item map[string]types.AttributeValue) {
		if kind == "payments.tx" {
			hashes = append(hashes, strings.TrimPrefix(item["pk"].(*types.AttributeValueMemberS).Value, "tx#"))
		}
	})
	m.take()
	for _, hash := range hashes {
		parsed, err := chain.ParseHash(hash)
		if err == nil {
			_, err = payments.PaymentByHash(b.Context(), parsed)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	phase("get-transaction", m.take(), 0, n)

	stored := 0
	for _, items := range []struct {
		when  string
		kinds map[string]*item
	}{{"sent", sent}, {"kept", weigh(b, db, tables)}} {
		for _, kind := range slices.Sorted(maps.Keys(items.kinds)) {
			i := items.kinds[kind]
			if items.when == "kept" {
				stored += i.bytes
			}
			lab.Emit(b, "when="+items.when+"/item="+kind, map[string]float64{
				"count": float64(i.count), "mean-bytes": float64(i.bytes / i.count), "largest-bytes": float64(i.largest)})
		}
	}
	lab.Emit(b, "payment=kept", map[string]float64{"bytes": float64(stored) / float64(n)})
}

// willing is an endpoint that takes everything.
type willing struct{}

// Post implements webhook.Sender.
func (willing) Post(context.Context, string, http.Header, []byte) (webhook.Answer, error) {
	return webhook.Answer{StatusCode: http.StatusOK}, nil
}

// authenticate looks an API key up n times, without the gateway's cache.
func authenticate(b *testing.B, db *dynamodb.Client, tables dynamo.Tables, m *meter, n int) {
	b.Helper()
	store := dynamo.NewAPIKeys(db, tables.APIKeys)
	minted, err := apikey.NewBook(store, apikey.Test, time.Now, rand.Reader).Create(b.Context(), "Acme")
	if err != nil {
		b.Fatal(err)
	}
	m.take()
	auth := apikey.NewAuthenticator(store, apikey.Test)
	for range n {
		if _, err := auth.Authenticate(b.Context(), minted.Secret.Reveal(), time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}

// scan reads every item of the tables of payments and webhooks.
func scan(b *testing.B, db *dynamodb.Client, tables dynamo.Tables, each func(kind string, item map[string]types.AttributeValue)) {
	b.Helper()
	for name, table := range map[string]string{"payments": tables.Payments, "webhooks": tables.Webhooks} {
		pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: &table})
		for pages.HasMorePages() {
			page, err := pages.NextPage(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for _, item := range page.Items {
				pk, sk := prefix(item["pk"]), prefix(item["sk"])
				kind := name + "." + pk
				if sk != "" && sk != pk {
					kind += "." + sk
				}
				each(kind, item)
			}
		}
	}
}

// prefix returns the kind that a key begins with: the part before "#" or "_".
func prefix(key types.AttributeValue) string {
	text, _ := key.(*types.AttributeValueMemberS)
	if text == nil {
		return ""
	}
	return text.Value[:max(0, strings.IndexAny(text.Value+"#", "#_"))]
}

// weigh returns the sizes of all items by their kind.
func weigh(b *testing.B, db *dynamodb.Client, tables dynamo.Tables) map[string]*item {
	b.Helper()
	items := map[string]*item{}
	scan(b, db, tables, func(kind string, attributes map[string]types.AttributeValue) {
		i := items[kind]
		if i == nil {
			i = &item{}
			items[kind] = i
		}
		size := sizeOf(attributes)
		i.count, i.bytes, i.largest = i.count+1, i.bytes+size, max(i.largest, size)
	})
	return items
}
