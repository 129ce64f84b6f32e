package memory_test

import (
	"testing"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/storetest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

func TestPayments(t *testing.T) {
	storetest.Places(t, memory.NewPayments())
	rails := memory.NewPayments()
	storetest.Rails(t, rails, func() {
		rails.SpoilSettings(must.Get(rails.Rules(t.Context()))(t).Rails[0].Coin, settings.ErrDamaged)
	})
	storetest.Payments(t, func(*testing.T) storetest.Protocol {
		s := memory.NewPayments()
		return storetest.Protocol{Store: s, Spoil: s.Spoil, SpoilPendingTx: s.SpoilPendingTx,
			SpoilWallet: s.SpoilWallet, SpoilRegistration: s.SpoilRegistration}
	})
}

func TestWebhooks(t *testing.T) {
	storetest.Webhooks(t, func(*testing.T) webhook.Store { return memory.NewWebhooks() })
}

func TestAPIKeys(t *testing.T) {
	keys := new(memory.APIKeys)
	storetest.APIKeys(t, keys, keys)
}
