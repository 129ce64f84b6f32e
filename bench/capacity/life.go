package capacity

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"remit/bench/rig"
	"remit/internal/apikey"
	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/payment"
	"remit/internal/settlement"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/webhook"
)

// Phases of a payment's life, in order.
const (
	Authorize = "authorizer"
	Post      = "send-payment"
	Settle    = "check-receipts, to settle"
	Deliver   = "deliver-webhook"
	Get       = "get-transaction"
	Look      = "check-receipts, one look while pending"
)

var phases = []string{Authorize, Post, Settle, Deliver, Get}

const wallets = 4

// A life is what n payments consumed, by phase and operation.
type life struct {
	n            int
	used         map[string]map[string]Units
	sent         map[string]float64 // SQS messages by phase
	perLook      Units              // of one round, for each wallet, without its pending transactions
	perPendingTx float64            // read units of one round for each payment pending
	items        []item
}

// bed is what a life is lived on.
type bed struct {
	db      *dynamodb.Client
	tables  dynamo.Tables
	meter   *meter
	chain   *rig.Chain
	stack   *rig.Stack
	settler *settlement.Settler
	jobs    *jobs
	closers []func()
}

// jobs is the webhook queue.
type jobs struct {
	mu   sync.Mutex
	refs []string
}

// Enqueue implements webhook.Queue.
func (q *jobs) Enqueue(_ context.Context, job string, _ time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refs = append(q.refs, job)
	return nil
}

// willing is an endpoint that takes everything.
type willing struct{}

// Post implements webhook.Sender.
func (willing) Post(context.Context, string, http.Header, []byte) (webhook.Answer, error) {
	return webhook.Answer{StatusCode: http.StatusOK}, nil
}

func open(ctx context.Context) (*bed, error) {
	endpoint, end, err := dynamotest.Open()
	if err != nil {
		return nil, err
	}
	b := &bed{meter: &meter{}, jobs: &jobs{}, closers: []func(){end}, tables: dynamo.Tables{APIKeys: "keys", Payments: "payments", Webhooks: "webhooks"}}
	b.db = dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", ""),
		APIOptions:  []func(*middleware.Stack) error{b.meter.middleware}})
	if err := dynamo.CreateTables(ctx, b.db, b.tables); err != nil {
		return b, err
	}
	if b.chain, err = rig.StartChain(ctx, wallets); err != nil {
		return b, err
	}
	b.closers = append(b.closers, func() { _ = b.chain.Close() })
	b.chain.Pause()
	payments := dynamo.NewPayments(b.db, b.tables.Payments)
	if b.stack, err = rig.NewStack(b.chain, b.chain.Wallets(), payments, rig.Delays{}); err != nil {
		return b, err
	}
	keys, err := rig.Keys(b.chain.Wallets())
	if err != nil {
		return b, err
	}
	b.settler = settlement.New(stack.Config{
		ChainID: b.chain.ID(), Token: b.chain.Token(), Window: rig.Window, ConfirmationRule: rig.ConfirmationRule, BlockTime: time.Second,
		ReservationAge: 45 * time.Second, BumpAfter: time.Hour,
	}, settlement.Parts{
		Store: payments, Keys: keys, Nodes: b.stack.Nodes,
		Events: webhook.NewPublisher(dynamo.NewWebhooks(b.db, b.tables.Webhooks), b.jobs),
		Log:    slog.New(slog.DiscardHandler), Now: time.Now, Wait: func(context.Context, time.Duration) {},
	})
	return b, b.subscribe(ctx)
}

// subscribe registers one endpoint.
func (b *bed) subscribe(ctx context.Context) error {
	secret, err := webhook.MintSecret(rand.Reader)
	if err != nil {
		return err
	}
	return dynamo.NewWebhooks(b.db, b.tables.Webhooks).AddEndpoint(ctx, webhook.Endpoint{
		Owner: webhook.Owner{Merchant: rig.Merchant, Mode: "test"}, ID: "we_0aB1cD2eF3gH4iJ5", URL: "https://merchant.example/hooks/remit",
		Status: webhook.Enabled, Secret: secret, CreatedAt: time.Now().UTC(), EnabledAt: time.Now().UTC(), Version: 1,
	}, webhook.EndpointLimit)
}

func (b *bed) close() {
	for i := len(b.closers) - 1; i >= 0; i-- {
		b.closers[i]()
	}
}

// live lives n payments through.
func (b *bed) live(ctx context.Context, n int) (*life, error) {
	l := &life{n: n, used: map[string]map[string]Units{}, sent: map[string]float64{}}
	if err := b.authorize(ctx, n); err != nil {
		return nil, err
	}
	l.used[Authorize] = b.meter.take()
	if status, body := rig.Pay(ctx, b.stack.Handler, "first-sight", 1); status != http.StatusCreated {
		return nil, fmt.Errorf("paying: %d %s", status, body)
	}
	b.meter.take()
	b.stack.Calls.Take()
	if err := rig.Many(ctx, b.stack.Handler, 4, n-1); err != nil {
		return nil, err
	}
	l.used[Post] = b.meter.take()
	l.sent[Post] = float64(b.stack.Calls.Take()["Hint"])
	if err := b.weigh(ctx, l, sent); err != nil {
		return nil, err
	}
	l.committed()
	if err := b.settle(ctx, l); err != nil {
		return nil, err
	}
	hashes, err := b.deliver(ctx, l)
	if err != nil {
		return nil, err
	}
	payments := dynamo.NewPayments(b.db, b.tables.Payments)
	for _, p := range hashes {
		if _, err := payments.PaymentByHash(ctx, p.TxHash); err != nil {
			return nil, err
		}
	}
	l.used[Get] = b.meter.take()
	return l, b.weigh(ctx, l, kept)
}

// authorize looks a key up as often as payments are made, without the gateway's
// cache.
func (b *bed) authorize(ctx context.Context, n int) error {
	store := dynamo.NewAPIKeys(b.db, b.tables.APIKeys)
	minted, err := apikey.NewRegistry(store, apikey.Test, time.Now, rand.Reader).Create(ctx, "Acme")
	if err != nil {
		return err
	}
	b.meter.take()
	auth := apikey.NewAuthenticator(store, apikey.Test)
	for range n {
		if _, err := auth.Authenticate(ctx, minted.Secret.Reveal(), time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// settle looks once while all are pending, mines them, and settles them. What
// an idle look costs is not part of settling.
func (b *bed) settle(ctx context.Context, l *life) error {
	time.Sleep(2 * time.Second) // nothing was just sent
	if _, err := b.settler.Round(ctx, "bench", true); err != nil {
		return err
	}
	b.meter.take() // reconciled
	if _, err := b.settler.Round(ctx, "bench", true); err != nil {
		return err
	}
	look := b.meter.take()
	l.used[Look] = look
	pendingTxs := look["Query"].Reads
	l.perPendingTx = pendingTxs / float64(l.n)
	fixed := total(look)
	fixed.Reads -= pendingTxs
	l.perLook = fixed.Per(wallets)
	for range 2 { // mined, and final
		if err := b.chain.Mine(); err != nil {
			return err
		}
	}
	report, err := b.settler.Round(ctx, "bench", true)
	if err != nil {
		return err
	}
	if report.Confirmed != l.n {
		return fmt.Errorf("%d of %d payments were confirmed", report.Confirmed, l.n)
	}
	l.used[Settle] = b.meter.take()
	for operation, idle := range look {
		u := l.used[Settle][operation]
		l.used[Settle][operation] = Units{u.Calls - idle.Calls, u.Reads - idle.Reads, u.Writes - idle.Writes}
	}
	l.sent[Settle] = float64(len(b.jobs.refs))
	return nil
}

// deliver does every webhook job and returns the payments.
func (b *bed) deliver(ctx context.Context, l *life) ([]payment.Payment, error) {
	hooks := dynamo.NewWebhooks(b.db, b.tables.Webhooks)
	d := webhook.NewDeliverer(hooks, b.jobs, willing{}, webhook.NoMeter{}, time.Now, func() float64 { return 0.5 })
	for _, job := range b.jobs.refs {
		if err := d.Deliver(ctx, job); err != nil {
			return nil, err
		}
	}
	l.used[Deliver] = b.meter.take()
	var all []payment.Payment
	from := store.Position{}
	for more := true; more; {
		var page []payment.Payment
		var err error
		page, more, err = dynamo.NewPayments(b.db, b.tables.Payments).List(ctx, store.Filter{Merchant: rig.Merchant, Mode: "test", From: from})
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) > 0 {
			last := page[len(page)-1]
			from = store.Position{CreatedAt: last.CreatedAt, ID: last.ID}
		}
	}
	b.meter.take()
	return all, nil
}
