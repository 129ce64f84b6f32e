// Package tableenv opens a stack's tables and log by a function's environment, with the parts that need nothing else.
package tableenv

import (
	"context"
	"crypto/rand"
	"os"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/emf"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/merchants/webhook/guard"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Env is the environment of a function.
type Env struct{ *boot.Env }

// Meter returns a meter of the stack that writes to the function's log.
func (e Env) Meter() *emf.Meter { return emf.New(os.Stdout, e.String("STACK"), e.Now) }

// Payments returns the store in PAYMENTS_TABLE.
func (e Env) Payments() *dynamo.Payments {
	return dynamo.NewPayments(dynamo.Client(e.AWS), e.String("PAYMENTS_TABLE"))
}

// Keys returns the API keys and address books in API_KEYS_TABLE.
func (e Env) Keys() *dynamo.APIKeys {
	return dynamo.NewAPIKeys(dynamo.Client(e.AWS), e.String("API_KEYS_TABLE"))
}

// Webhooks returns the store in WEBHOOKS_TABLE.
func (e Env) Webhooks() *dynamo.Webhooks {
	return dynamo.NewWebhooks(dynamo.Client(e.AWS), e.String("WEBHOOKS_TABLE"))
}

// Registry returns the registry of API keys of the mode MODE.
func (e Env) Registry() *apikey.Registry {
	return &apikey.Registry{Store: e.Keys(), Mode: boot.Parse(e.Env, "MODE", apikey.ParseMode), Now: e.Now, Random: rand.Reader}
}

// Book returns the address books, without a hold.
func (e Env) Book() *recipient.AddressBook {
	return &recipient.AddressBook{Store: e.Keys(), Now: e.Now}
}

// Endpoints returns the registry of the endpoints in a store. urls may be nil for a function that takes no URL.
func (e Env) Endpoints(in webhook.EndpointStore, urls webhook.Checker) *webhook.Registry {
	return &webhook.Registry{Store: in, URLs: urls, Now: e.Now, Random: rand.Reader}
}

// Sender returns the client of merchants' endpoints. In live mode it posts to few ports.
func (e Env) Sender() *guard.Client {
	return guard.NewClient(e.Optional("WEBHOOK_LOOPBACK", "refused") == "allowed", e.String("MODE") == "live")
}

// Assets returns a reader of the stack's assets, at most settings.MaxAge old.
func (e Env) Assets() func(context.Context) (stack.Assets, error) {
	payments := e.Payments()
	var cached settings.Cached[stack.Assets]
	return func(ctx context.Context) (stack.Assets, error) {
		return cached.Get(ctx, e.Now(), func(ctx context.Context) (stack.Assets, error) {
			rules, err := payments.Rules(ctx)
			return rules.Assets(), err
		})
	}
}

// Config returns how a rail's payments are made and settled in the mode MODE.
func (e Env) Config() func(store.Rail) (stack.Config, error) {
	mode := e.String("MODE")
	return func(rail store.Rail) (stack.Config, error) { return chains.Read(mode, rail.Terms()) }
}
