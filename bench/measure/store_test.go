package measure_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/emf"
	sqsjobs "github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// newTables returns new tables of DynamoDB Local, and a meter of its calls.
func newTables(b *testing.B) (*meter, *dynamodb.Client, schema.Tables) {
	m, name := &meter{}, rand.Text()
	db := dynamodb.New(dynamotest.Client(b).Options(), func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, m.middleware) })
	tables := schema.Tables{APIKeys: name + "-keys", Payments: name + "-payments", Webhooks: name + "-webhooks"}
	must.OK(b, schema.Create(b.Context(), db, tables))
	return m, db, tables
}

// BenchmarkStore counts the calls and units of DynamoDB over payments' whole
// lives, from the look-up of the API key to the webhook, on DynamoDB Local.
func BenchmarkStore(b *testing.B) { lives(b, pick(400, 40), 1) }

// lives counts over the lives of n payments, or of n batches of so many entries.
func lives(b *testing.B, n, size int) {
	const wallets = 4
	m, db, tables := newTables(b)
	c, payments, hooks, q := startChain(b, wallets),
		dynamo.NewPayments(db, tables.Payments), dynamo.NewWebhooks(db, tables.Webhooks), &sender{}
	jobs := q.jobsOf()
	c.Freeze(true)
	r := newRig(b, c, c.Wallets(), payments, near, &webhook.Publisher{Store: hooks, Queue: jobs})
	r.size = size
	subscribe(b, hooks, "https://merchant.example/hooks/remit")
	phase := func(name string, used operations, messages, payments int) {
		emit(b, "function="+name, used.sum().per(payments, metrics{"messages": float64(messages) / float64(payments)}))
		for _, operation := range slices.Sorted(maps.Keys(used)) {
			if used[operation].calls > 0 {
				emit(b, "caller="+name+"/operation="+operation, used[operation].per(payments, metrics{}))
			}
		}
	}

	keys := dynamo.NewAPIKeys(db, tables.APIKeys)
	registry := &apikey.Registry{Store: keys, Mode: apikey.Test, Now: time.Now, Random: rand.Reader}
	minted := must.Get(registry.Create(b.Context(), "Acme", apikey.KeyRequest{}))(b)
	auth := &apikey.Authenticator{Keys: keys, Mode: apikey.Test}
	m.take()
	for range n { // without the gateway's cache
		must.Get(auth.Authenticate(b.Context(), minted.Secret.Reveal(), time.Now()))(b)
	}
	phase("authorizer", m.take(), 0, n)

	must.OK(b, keys.Create(b.Context(), apikey.Key{ID: "key_bench", MerchantID: merchant, Mode: apikey.Test,
		CreatedAt: time.Now(), Grant: apikey.Full()}))
	r.keys = keys
	payMany(b, r, 1, 1) // the wallets' first use is no payment's
	m.take()
	r.take()
	must.OK(b, each(b.Context(), wallets, n-1, r.pay))
	used := m.take()
	units, hashes := committed(b, db, tables.Payments)
	used["TransactWriteItems"] = usage{calls: used["TransactWriteItems"].calls, writes: used["TransactWriteItems"].calls * units}
	m.take()
	phase("send-payment", used, r.take()["Hint"], n-1)

	time.Sleep(2 * time.Second) // a payment that was just sent is not sent again
	settle(b, r, 0)             // the first round reads the wallets' balances
	m.take()
	settle(b, r, 0)
	look := m.take()
	for range 1 + confirmed.Depth {
		must.OK(b, c.Mine())
	}
	q.jobs, q.requests = nil, 0
	settle(b, r, n)
	settling := m.take()
	for operation, u := range look { // the look itself belongs to no payment
		settling[operation] = settling[operation].plus(usage{-u.calls, -u.reads, -u.writes})
	}
	phase("check-receipts", settling, len(q.jobs), n)
	emit(b, "look=pending payment", usage{reads: look["Query"].reads}.per(n, metrics{}))
	const compared = 1 // the comparison, which a run reads once and this round does too
	emit(b, "look=wallet", look.sum().plus(usage{calls: -compared, reads: -look["Query"].reads - compared}).per(wallets, metrics{}))

	sends := float64(q.requests) / float64(n)
	deliverer := &webhook.Deliverer{Store: hooks, Queue: jobs, Sender: willing{},
		Meter: emf.New(io.Discard, "", time.Now), Now: time.Now, Jitter: func() float64 { return 0.5 }}
	for _, job := range q.jobs {
		must.OK(b, deliverer.Deliver(b.Context(), job))
	}
	delivering := m.take()
	phase("deliver-webhook", delivering, 0, n)
	emit(b, "webhook=all", metrics{"calls": delivering.sum().calls / float64(n), "sends": sends})

	for _, hash := range hashes {
		must.Get(payments.PaymentByHash(b.Context(), must.Get(chain.ParseHash(hash))(b)))(b)
	}
	phase("get-transaction", m.take(), 0, len(hashes))
	kept := func(table string) float64 {
		described := must.Get(db.DescribeTable(b.Context(), &dynamodb.DescribeTableInput{TableName: &table}))(b)
		return float64(*described.Table.TableSizeBytes) / float64(n)
	}
	emit(b, "payment=kept", metrics{"bytes": kept(tables.Payments) + kept(tables.Webhooks)})
	emit(b, "webhook=kept", metrics{"bytes": kept(tables.Webhooks)})
}

// committed returns the write units of a transaction that commits, and the hashes of all that did. DynamoDB Local tells
// up to twice those units, and not in step with the sizes of the items. A transaction takes two units for each kilobyte
// begun of each item (developer guide, "Capacity management for transactions"): twice those of an update of that item
// that changes nothing. The entry in the index of payments is written after the transaction and takes one.
func committed(b *testing.B, db *dynamodb.Client, table string) (units float64, hashes []string) {
	b.Helper()
	for _, item := range must.Get(db.Scan(b.Context(), &dynamodb.ScanInput{TableName: &table}))(b).Items {
		kind, _, _ := strings.Cut(item["sk"].(*types.AttributeValueMemberS).Value, "#")
		if kind == "tx" {
			hashes = append(hashes, strings.TrimPrefix(item["pk"].(*types.AttributeValueMemberS).Value, "tx#"))
		}
		if kind == "tx" || kind == "payment" || kind == "pendingtx" {
			out := must.Get(db.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{TableName: &table,
				Key: map[string]types.AttributeValue{"pk": item["pk"], "sk": item["sk"]}}))(b)
			units += 2 * *out.ConsumedCapacity.CapacityUnits
		}
	}
	return 1 + units/float64(len(hashes)), hashes
}

// A sender is SQS, a round trip away, which keeps the jobs that it is given.
type sender struct {
	mu       sync.Mutex
	jobs     []string
	requests int
}

// jobsOf returns the queue of webhooks whose requests reach the sender.
func (q *sender) jobsOf() *sqsjobs.Jobs {
	return &sqsjobs.Jobs{Client: sqs.New(sqs.Options{HTTPClient: q, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}), URL: "https://sqs.example/jobs"}
}

func (q *sender) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(far.store)
	var in struct {
		Entries []struct{ Id, MessageBody string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	var taken []map[string]string
	q.mu.Lock()
	q.requests++
	for _, e := range in.Entries {
		q.jobs, taken = append(q.jobs, e.MessageBody), append(taken, map[string]string{"Id": e.Id, "MessageId": "1"})
	}
	q.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	err := json.NewEncoder(w).Encode(map[string]any{"Successful": taken})
	return w.Result(), err
}

// willing is an endpoint that takes everything.
type willing struct{}

func (willing) Post(context.Context, string, http.Header, []byte) (webhook.Answer, error) {
	return webhook.Answer{StatusCode: http.StatusOK}, nil
}

// usage is a number of calls of DynamoDB and the request units they consumed.
type usage struct{ calls, reads, writes float64 }

func (u usage) plus(o usage) usage {
	return usage{u.calls + o.calls, u.reads + o.reads, u.writes + o.writes}
}

// per adds the usage per payment, or per wallet, to metrics.
func (u usage) per(n int, m metrics) metrics {
	m["calls"], m["reads"], m["writes"] = u.calls/float64(n), u.reads/float64(n), u.writes/float64(n)
	return m
}

// operations is the usage of each operation of DynamoDB.
type operations map[string]usage

func (o operations) sum() (all usage) {
	for _, u := range o {
		all = all.plus(u)
	}
	return all
}

// A meter is a middleware of the AWS SDK that asks DynamoDB for the units each call consumed.
type meter struct {
	mu   sync.Mutex
	used operations
}

func (m *meter) middleware(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Meter",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput,
			middleware.Metadata, error) {
			if f := reflect.ValueOf(in.Parameters).Elem().FieldByName("ReturnConsumedCapacity"); f.IsValid() {
				f.SetString(string(types.ReturnConsumedCapacityTotal))
			}
			out, metadata, err := next.HandleInitialize(ctx, in)
			m.note(middleware.GetOperationName(ctx), out.Result)
			return out, metadata, err
		}), middleware.Before)
}

// note adds a call. DynamoDB tells read and write units in one number, so the operation decides which they are.
func (m *meter) note(operation string, output any) {
	out := reflect.Indirect(reflect.ValueOf(output))
	if out.Kind() != reflect.Struct || !out.FieldByName("ConsumedCapacity").IsValid() {
		return
	}
	units := 0.0
	switch told := out.FieldByName("ConsumedCapacity").Interface().(type) {
	case *types.ConsumedCapacity:
		if told != nil {
			units = aws.ToFloat64(told.CapacityUnits)
		}
	case []types.ConsumedCapacity:
		for _, one := range told {
			units += aws.ToFloat64(one.CapacityUnits)
		}
	}
	u := usage{calls: 1, writes: units}
	if strings.Contains(operation, "Get") || operation == "Query" || operation == "Scan" {
		u = usage{calls: 1, reads: units}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used == nil {
		m.used = operations{}
	}
	m.used[operation] = m.used[operation].plus(u)
}

func (m *meter) take() operations {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.used = nil }()
	return m.used
}

// BenchmarkProposals releases the proposals of ten merchants that are due at once, by the runs of a minute, on DynamoDB
// Local and blocks of a second. The chain must hold each once, and proposals that are not due must cost a run no read.
func BenchmarkProposals(b *testing.B) {
	const merchants, wallets = 10, 16
	n, ctx := pick(1000, 50), b.Context()
	m, db, tables := newTables(b)
	c := must.Get(devnet.Start(ctx, devnet.Config{Listen: "127.0.0.1:0", Wallets: wallets, BlockTime: time.Second, Now: time.Now}))(b)
	b.Cleanup(func() { _ = c.Close() })
	r := newRig(b, c, c.Wallets(), dynamo.NewPayments(db, tables.Payments), far,
		&webhook.Publisher{Store: dynamo.NewWebhooks(db, tables.Webhooks), Queue: (&sender{}).jobsOf()})
	propose := func(before int, at time.Time) {
		by := proposal.Author{Key: "key_bench", Root: "key_bench"}
		must.OK(b, each(ctx, wallets, n, func(ctx context.Context, i int) error {
			_, _, err := r.release.Propose(ctx, proposal.Proposal{By: by, Life: time.Hour, NotBefore: at},
				payment.Request{Merchant: fmt.Sprint(merchant, i%merchants), Mode: "test", IdempotencyKey: fmt.Sprint("order-", before+i),
					To: must.Get(token.ParseAddress(payee))(b), Amount: token.Units(uint64(base + before + i))}, true)
			return err
		}))
	}
	run := func() (released int) {
		ctx, cancel := context.WithTimeout(ctx, 55*time.Second) // the function's
		defer cancel()
		released, _, err := r.release.Run(ctx)
		must.OK(b, err)
		return released
	}
	for _, waiting := range []int{0, n} {
		if waiting > 0 {
			propose(n, time.Now().Add(time.Hour))
		}
		m.take()
		released, used := run(), m.take().sum()
		if released > 0 {
			b.Fatalf("%d were released early", released)
		}
		emit(b, fmt.Sprint("waiting=", waiting), used.per(1, metrics{}))
	}
	settling, stop := context.WithCancel(ctx)
	var settled sync.WaitGroup
	settled.Go(func() {
		for ; settling.Err() == nil; sleep(settling, time.Second) {
			if _, err := r.settler.Round(settling, "bench", true); err != nil && settling.Err() == nil {
				b.Error(err)
			}
		}
	})
	propose(0, time.Time{})
	released, runs, began := 0, 0, time.Now()
	for ; released < n && runs < 5; runs++ {
		sleep(ctx, time.Until(began.Add(time.Duration(runs)*time.Minute)))
		released += run()
	}
	took := time.Since(began)
	await(b, c, c.Wallets(), released)
	stop()
	settled.Wait()
	emit(b, "due", metrics{"s": took.Seconds(), "runs": float64(runs), "proposals": float64(released)})
	node := must.Get(ethclient.DialContext(ctx, c.URL()))(b)
	paid := must.Get(transfers(ctx, node, common.Address(c.Token().Contract)))(b)
	for i := range n {
		if len(paid[i]) != 1 {
			b.Errorf("proposal %d was paid %d times", i, len(paid[i]))
		}
	}
	if len(paid) != n {
		b.Errorf("%d payments, not %d", len(paid), n)
	}
}
