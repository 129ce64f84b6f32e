package rig

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/dispatch"
	"remit/internal/ethrpc"
	"remit/internal/httpapi"
	"remit/internal/stack"
	"remit/internal/store"
)

// Window is how many payments a wallet of a rig may have in flight.
const Window = 1024

// A Stack is send-payment with its store and its node.
type Stack struct {
	Handler http.Handler
	Store   store.Store // what the engine sees: counted, delayed
	Calls   *Calls      // of the store, and hints
	Wire    *Wire
	Wallets []devnet.Wallet
	Nodes   chain.Nodes
}

// Delays say how far away the services are.
type Delays struct{ Store, RPC time.Duration }

// String is "4 ms / 50 ms".
func (d Delays) String() string {
	return fmt.Sprintf("%d / %d ms", d.Store.Milliseconds(), d.RPC.Milliseconds())
}

// NewStack returns send-payment over a store that holds nothing yet, paying
// from these wallets of the chain.
func NewStack(c *Chain, wallets []devnet.Wallet, store store.Store, d Delays) (*Stack, error) {
	calls := &Calls{}
	s := &Stack{Store: Delayed(store, d.Store, calls), Calls: calls, Wallets: wallets,
		Wire: &Wire{Next: ethrpc.NewTransport(), Delay: d.RPC}}
	node, err := ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID(), Transport: s.Wire})
	if err != nil {
		return nil, err
	}
	keys, err := Keys(wallets)
	if err != nil {
		return nil, err
	}
	s.Nodes = chain.Nodes{node}
	engine := dispatch.New(stack.Config{
		ChainID: c.ID(), Token: c.Token(), Network: "bench", Window: Window, BlockTime: 2 * time.Second, ConfirmationRule: ConfirmationRule,
	}, dispatch.Parts{
		Store: s.Store, Keys: keys, Nodes: s.Nodes,
		Hints: Hints{calls, d.Store}, Log: slog.New(slog.DiscardHandler),
		Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
	})
	s.Handler = httpapi.SendPayment(rand.Text, engine, c.Token())
	return s, nil
}

// Merchant is who pays in rigs.
const Merchant = "mer_bench0000000"

var merchant = apikey.Principal{MerchantID: Merchant, KeyID: "key_bench", Mode: apikey.Test}

// Pay makes one payment through a handler of POST /send-payment and returns
// its status.
func Pay(ctx context.Context, h http.Handler, key string, amount uint64) (int, string) {
	body := fmt.Sprintf(`{"to":"%s","amount":%d,"reference":"inv-2041"}`, Payee, amount)
	r := httptest.NewRequestWithContext(apikey.WithPrincipal(ctx, merchant), http.MethodPost, "/send-payment", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
