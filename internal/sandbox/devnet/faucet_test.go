package devnet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// start runs a chain until the test ends.
func start(t *testing.T, config devnet.Config) *devnet.Chain {
	t.Helper()
	config.Listen, config.BlockTime, config.Now = "127.0.0.1:0", 50*time.Millisecond, time.Now
	chain := must.Get(devnet.Start(t.Context(), config))(t)
	t.Cleanup(func() { _ = chain.Close() })
	return chain
}

// TestGive: the balances of an empty account are the sum of its gifts.
func TestGive(t *testing.T) {
	to := token.Address{19: 0x77}
	for _, config := range []devnet.Config{{}, devnet.Config{}.EURC()} {
		chain := start(t, config)
		for n := range uint64(2) {
			must.OK(t, devnet.Give(t.Context(), chain.URL(), to, token.Units(5), token.Units(7)))
			if has := must.Get(chain.Account(t.Context(), to))(t); has.Balance != token.Units(5*(n+1)) || has.Gas != token.Units(7*(n+1)) {
				t.Errorf("%+v: after %d gifts: %v tokens, %v wei", config, n+1, has.Balance, has.Gas)
			}
		}
	}
}

// TestOtherChains: one with another id and one with other keys are refused.
func TestOtherChains(t *testing.T) {
	for _, config := range []devnet.Config{{ChainID: 1}, {Seed: "another"}} {
		chain := start(t, config)
		if err := devnet.Give(t.Context(), chain.URL(), token.Address{19: 0x77}, token.Units(1),
			token.Units(1)); !errors.Is(err, devnet.ErrForeign) {
			t.Errorf("%+v: %v", config, err)
		}
	}
}
