// Package measure_test holds the benchmarks of Remit: how fast it starts, pays,
// settles and tells merchants, and what it asks of its services meanwhile. Each
// is one long measurement, so it runs with -benchtime 1x; `make bench` does.
// docs/performance.md explains every measure.
package measure_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/bench/lab"
	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/dispatch"
	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/ethrpc"
	"remit/internal/httpapi"
	"remit/internal/interpose"
	"remit/internal/keyring"
	"remit/internal/settlement"
	"remit/internal/store"
	"remit/internal/webhook"
)

const (
	blockTime = 250 * time.Millisecond
	window    = 1024 // payments in flight of a wallet
	merchant  = "mer_bench0000000"
)

// confirmed is the rule of every rig: a block that has another on top of it.
var confirmed = chain.ConfirmationRule{Depth: 1}

// pick returns full, or short under -short.
func pick[T any](full, short T) T {
	if testing.Short() {
		return short
	}
	return full
}

// A distance is how long a round trip to each service takes.
type distance struct{ store, rpc time.Duration }

var (
	near = distance{}
	far  = distance{store: 4 * time.Millisecond, rpc: 50 * time.Millisecond}
)

func (d distance) String() string { return fmt.Sprintf("store=%v/rpc=%v", d.store, d.rpc) }

// startChain starts a chain with so many wallets that makes a block every
// blockTime.
func startChain(b *testing.B, wallets int) *devnet.Chain {
	b.Helper()
	c, err := devnet.Start(b.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: wallets, BlockTime: blockTime, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// A rig is send-payment and check-receipts over one store and one node, in this
// process. Every call of the two is counted, and answered after the rig's
// distance.
type rig struct {
	handler  http.Handler // POST /send-payment
	settler  *settlement.Settler
	requests atomic.Int64 // HTTP requests to the node
	next     http.RoundTripper
	distance distance

	mu    sync.Mutex
	calls map[string]int // of the store, and hints, by method
}

// newRig returns a rig that pays from wallets of the chain. events may be nil in
// a rig that settles nothing.
func newRig(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet, within store.Store, d distance, transport http.RoundTripper, events settlement.Events) *rig {
	b.Helper()
	r := &rig{next: transport, distance: d, calls: map[string]int{}}
	node, err := ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID(), Transport: r})
	if err != nil {
		b.Fatal(err)
	}
	var entries []keyring.Entry
	for _, w := range wallets {
		key, err := keyring.ParseKey(w.PrivateKey())
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, keyring.Entry{Key: key})
	}
	secret := keyring.Encode(entries)
	keys := keyring.New(func(context.Context) ([]byte, error) { return secret, nil }, nil)
	counted := &interpose.Store{Store: within, Around: func(ctx context.Context, call interpose.Call, apply func(context.Context)) error {
		r.count(call.Op)
		apply(ctx)
		return nil
	}}
	log := slog.New(slog.DiscardHandler) // failures show in the answers
	engine := dispatch.New(dispatch.Config{
		ChainID: c.ID(), Token: c.Token(), Network: "bench", Window: window, BlockTime: 2 * time.Second, ConfirmationRule: confirmed,
	}, dispatch.Parts{
		Store: counted, Keys: keys, Nodes: chain.Nodes{node}, Hints: hints{r}, Log: log, Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
	})
	r.handler = httpapi.SendPayment(rand.Text, engine, c.Token())
	r.settler = settlement.New(settlement.Config{
		ChainID: c.ID(), Token: c.Token(), Window: window, ConfirmationRule: confirmed, BlockTime: blockTime,
		ReservationAge: 45 * time.Second, BumpAfter: time.Hour,
	}, settlement.Parts{
		Store: counted, Keys: keys, Nodes: chain.Nodes{node}, Events: events, Log: log, Now: time.Now, Wait: lab.Sleep,
	})
	return r
}

// count notes a call of the store or of the queue and takes as long as it would.
func (r *rig) count(op string) {
	r.mu.Lock()
	r.calls[op]++
	r.mu.Unlock()
	time.Sleep(r.distance.store)
}

// RoundTrip implements http.RoundTripper: it carries a request to the node.
func (r *rig) RoundTrip(q *http.Request) (*http.Response, error) {
	r.requests.Add(1)
	time.Sleep(r.distance.rpc)
	return r.next.RoundTrip(q)
}

// hints are check-receipts' hints, which reach nothing.
type hints struct{ *rig }

// Hint implements dispatch.Hinter.
func (h hints) Hint(context.Context) error { h.count("Hint"); return nil }

// take returns the counts of calls and of requests, and begins anew.
func (r *rig) take() (calls map[string]int, requests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, r.calls = r.calls, map[string]int{}
	return calls, int(r.requests.Swap(0))
}

// total adds counts up, but for hints.
func total(calls map[string]int) int {
	n := -calls["Hint"]
	for v := range maps.Values(calls) {
		n += v
	}
	return n
}

// pay asks a handler of POST /send-payment for one payment.
func pay(ctx context.Context, h http.Handler, key string, amount int) error {
	ctx = apikey.WithPrincipal(ctx, apikey.Principal{MerchantID: merchant, KeyID: "key_bench", Mode: apikey.Test})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/send-payment",
		strings.NewReader(fmt.Sprintf(`{"to":"%s","amount":%d,"reference":"inv-2041"}`, lab.Payee, amount)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusCreated {
		return fmt.Errorf("a payment was answered %d %s", w.Code, w.Body)
	}
	return nil
}

// payMany makes n payments, the first alone: it opens connections and makes the
// wallets' first use.
func payMany(b *testing.B, h http.Handler, width, n int) {
	b.Helper()
	name := rand.Text()
	one := func(ctx context.Context, i int) error { return pay(ctx, h, fmt.Sprint(name, i), lab.Base+i) }
	err := one(b.Context(), n)
	if err == nil {
		err = lab.Each(b.Context(), width, n-1, one)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// processor returns the processor time of this process so far.
func processor(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// A queue keeps the jobs of deliver-webhook and when each was made.
type queue struct {
	mu   sync.Mutex
	jobs []string
	at   []time.Time
}

// Enqueue implements webhook.Queue.
func (q *queue) Enqueue(_ context.Context, job string, _ time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs, q.at = append(q.jobs, job), append(q.at, time.Now())
	return nil
}

// subscribe registers an endpoint for all events of the rigs' merchant.
func subscribe(b *testing.B, hooks webhook.Store, url string) {
	b.Helper()
	secret, err := webhook.MintSecret(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now().UTC()
	if err := hooks.AddEndpoint(b.Context(), webhook.Endpoint{
		Owner: webhook.Owner{Merchant: merchant, Mode: "test"}, ID: "we_0aB1cD2eF3gH4iJ5", URL: url,
		Status: webhook.Enabled, Secret: secret, CreatedAt: now, EnabledAt: now, Version: 1,
	}, webhook.EndpointLimit); err != nil {
		b.Fatal(err)
	}
}

// database returns fresh tables in DynamoDB Local and a client of them.
func database(b *testing.B, options ...func(*dynamodb.Options)) (*dynamodb.Client, dynamo.Tables) {
	b.Helper()
	db := dynamodb.New(dynamotest.Client(b).Options(), options...)
	name := rand.Text()
	tables := dynamo.Tables{APIKeys: name + "-keys", Payments: name + "-payments", Webhooks: name + "-webhooks"}
	if err := dynamo.CreateTables(b.Context(), db, tables); err != nil {
		b.Fatal(err)
	}
	return db, tables
}
