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
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

const (
	blockTime = 250 * time.Millisecond
	merchant  = "mer_bench0000000"

	// window is how many payments of a wallet may wait to be mined: more than one
	// wallet makes, at 3,000 a second, while a block is made and its count is read.
	window = 8192
)

// confirmed is the rule of every rig: a block that has another on top of it.
var confirmed = chain.ConfirmationRule{Depth: 1}

// A distance is the time of a round trip to each service.
type distance struct{ store, rpc time.Duration }

var near, far = distance{}, distance{store: 4 * time.Millisecond, rpc: 50 * time.Millisecond}

func (d distance) String() string { return fmt.Sprintf("store=%v/rpc=%v", d.store, d.rpc) }

// startChain starts a chain with so many wallets and a block every blockTime.
func startChain(b *testing.B, wallets int) *devnet.Chain {
	b.Helper()
	c := must.Get(devnet.Start(b.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: wallets, BlockTime: blockTime, Now: time.Now}))(b)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// A rig is send-payment and check-receipts over one store and one node, in this
// process. Every call of the two is counted, and answered after the distance.
type rig struct {
	handler  http.Handler  // POST /send-payment
	batches  http.Handler  // POST /send-payments
	keys     apikey.Finder // nil: there is one key, and it is valid
	size     int           // of the batches that pay; below 2 each payment is alone
	settler  *settlement.Settler
	release  *dispatch.Proposals
	next     http.RoundTripper
	distance distance

	mu    sync.Mutex
	calls map[string]int // of the store by method, "Hint", and "request" to the node
}

// newRig returns a rig that pays from wallets of the chain. events may be nil in a rig that settles nothing.
func newRig(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet, within store.Store, d distance, events settlement.Events) *rig {
	b.Helper()
	r := &rig{next: ethrpc.NewTransport(), distance: d, calls: map[string]int{}}
	nodes := chain.Nodes{must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID(), Transport: r}))(b)}.Watch(time.Now, time.After)
	held := map[token.Address]keyring.Key{}
	for _, w := range wallets {
		held[w.Address] = must.Get(keyring.ParseKey(w.PrivateKey()))(b)
		r := wallet.Registration{ID: wallet.ID{ChainID: c.ID(), Address: w.Address}, Token: c.Token().Contract,
			State: wallet.Active, Key: wallet.InSecret}
		must.OK(b, within.Register(b.Context(), r))
	}
	keys := keyring.New(func(a token.Address) keyring.Read {
		return func(context.Context) (keyring.Key, error) { return held[a], nil }
	})
	counted := &interpose.Store{Store: within, Around: func(ctx context.Context, call interpose.Call, apply func(context.Context)) error {
		r.count(call.Op, d.store)
		apply(ctx)
		return nil
	}}
	log := slog.New(slog.DiscardHandler) // failures show in the answers
	config := stack.Config{Ephemeral: true, ByCall: true, ChainID: c.ID(), Token: c.Token(), Network: "bench",
		Own: stack.Own{Window: window}, BlockTime: 2 * time.Second, ConfirmationRule: confirmed, BumpAfter: time.Hour}
	initial := settings.Default(settings.Rail{ChainID: c.ID(), Token: c.Token(), Network: "bench"})
	initial.MerchantCap, initial.BatchContract = 100, install.Address()
	if err := within.SetSettings(context.Background(), initial); err != nil {
		panic(err)
	}
	parts := dispatch.Parts{Store: counted,
		Keys: keys, Nodes: nodes, Hints: r, Log: log, Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN}
	dispatcher, paying := dispatch.New(config, parts), config
	announcer, _ := events.(dispatch.Announcer)
	r.release = &dispatch.Proposals{Events: announcer, Terms: r.Terms, Explain: httpapi.Explain, Rails: dispatch.NewRails(dispatch.Wiring{
		Config: func(store.Rail) (stack.Config, error) { return paying, nil },
		Nodes:  func(stack.Config) chain.Provider { return nodes },
	}, parts)}
	all := stack.Assets{{ChainID: c.ID(), Token: c.Token()}}
	assets := func(context.Context) (stack.Assets, error) { return all, nil }
	r.handler = httpapi.SendPayment(dispatcher, counted, assets).Current(r, time.Now)
	r.batches = httpapi.SendPayments(dispatcher, counted, assets).Current(r, time.Now)
	config.BlockTime = blockTime
	r.settler = settlement.New(config, settlement.Parts{Store: counted,
		Keys: keys, Nodes: nodes, Events: events, Log: log, Now: time.Now, Wait: sleep})
	return r
}

// count notes a call of a service that is so far away.
func (r *rig) count(op string, away time.Duration) {
	r.mu.Lock()
	r.calls[op]++
	r.mu.Unlock()
	time.Sleep(away)
}

// RoundTrip implements http.RoundTripper: it carries a request to the node.
func (r *rig) RoundTrip(q *http.Request) (*http.Response, error) {
	r.count("request", r.distance.rpc)
	return r.next.RoundTrip(q)
}

// Hint implements dispatch.Hinter: a hint to check-receipts reaches nothing.
func (r *rig) Hint(context.Context) error { r.count("Hint", r.distance.store); return nil }

// Find and the two methods below implement apikey.Finder.
func (r *rig) Find(ctx context.Context, hash apikey.Hash) (apikey.Key, error) {
	r.count("Find", r.distance.store)
	if r.keys != nil {
		return r.keys.Find(ctx, hash)
	}
	return apikey.Key{MerchantID: merchant, Grant: apikey.Full()}, nil
}

func (r *rig) Terms(ctx context.Context, merchantID string) (apikey.Terms, error) {
	r.count("Terms", r.distance.store)
	if r.keys != nil {
		return r.keys.Terms(ctx, merchantID)
	}
	return apikey.Terms{}, nil
}

func (r *rig) Touch(context.Context, apikey.Hash, time.Time, time.Time) error { return nil }

func (r *rig) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer clear(r.calls)
	return maps.Clone(r.calls)
}

// pay asks the handler for payment n, under a new idempotency key.
func (r *rig) pay(ctx context.Context, n int) error {
	ctx = apikey.WithPrincipal(ctx, apikey.Principal{MerchantID: merchant, KeyID: "key_bench", Mode: apikey.Test, Grant: apikey.Full()})
	handler, path, body := r.handler, "/send-payment", fmt.Sprintf(`{"to":"%s","amount":%d}`, payee, base+n)
	if r.size > 1 {
		body = strings.Replace(body, "}", `,"reference":"inv-2041"}`, 1)
		handler, path = r.batches, "/send-payments"
		body = fmt.Sprintf(`{"payments":[%s]}`, strings.TrimSuffix(strings.Repeat(body+",", r.size), ","))
	}
	q := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Idempotency-Key", rand.Text()[:8])
	w := httptest.NewRecorder()
	if handler.ServeHTTP(w, q); w.Code != http.StatusCreated {
		return fmt.Errorf("a payment was answered %d %s", w.Code, w.Body)
	}
	return nil
}

// payMany makes n payments, the first alone: it opens connections and makes the wallets' first use.
func payMany(b *testing.B, r *rig, width, n int) {
	b.Helper()
	must.OK(b, r.pay(b.Context(), n))
	must.OK(b, each(b.Context(), width, n-1, r.pay))
}

// A queue drops the jobs of deliver-webhook.
type queue struct{}

// Enqueue implements webhook.Queue.
func (queue) Enqueue(context.Context, string, time.Duration) error { return nil }

// subscribe registers an endpoint for all events of the rigs' merchant.
func subscribe(b *testing.B, hooks webhook.Store, url string) {
	b.Helper()
	now := time.Now().UTC()
	must.OK(b, hooks.AddEndpoint(b.Context(), webhook.Endpoint{Owner: webhook.Owner{Merchant: merchant, Mode: "test"},
		ID: "we_0aB1cD2eF3gH4iJ5", URL: url, Status: webhook.Enabled,
		Secret: webhook.MintSecret(rand.Reader), CreatedAt: now, EnabledAt: now, Version: 1}, webhook.EndpointLimit))
}
