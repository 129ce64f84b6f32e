package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A RailStore is a store of which Rails is the only user.
type RailStore interface {
	store.Settings
	store.Denials
}

// Rails checks that an empty store keeps those promises of store.Settings that no run of Alike reaches. spoil makes the
// current settings of its first rail unreadable, but for their version.
func Rails(t *testing.T, s RailStore, spoil func()) {
	c, ctx := tester{t}, t.Context()
	of := func(chainID uint64) settings.Settings {
		return settings.Default(settings.Rail{ChainID: chainID, Token: usdc, Network: "devnet"})
	}
	v, want := of(1), []settings.Settings{}
	read := func() store.Rail { return must.Get(s.Rules(ctx))(c).Rail(v.Coin()) }
	c.refused("before", read().Unusable, settings.ErrMissing)
	for n := range uint64(settings.Kept + 2) {
		v.Stamp = settings.Stamp{Version: n, Needs: settings.Code, Confirmed: n%2 == 0, At: noon, Who: "ada", Why: fmt.Sprint("test ", n)}
		c.ok("setting", s.SetSettings(ctx, v))
		v.Version++
		want = append([]settings.Settings{v}, want...)
	}
	c.same("the history", want[:settings.Kept], must.Get(s.SettingsHistory(ctx, v.Coin()))(c))
	won := c.wins(4, store.ErrChanged, func(ctx context.Context, i int) error {
		mine := v
		mine.Daily = token.Units(uint64(i) + 1)
		return s.SetSettings(ctx, mine)
	})
	c.same("changes that succeeded at once", 1, len(won))

	to := token.Address{1}
	c.ok("denying", s.Deny(ctx, store.Denial{To: to, At: noon}))
	spoil()
	rail := read()
	c.refused("obeying damaged settings", rail.Unusable, settings.ErrDamaged)
	c.same("the token of damaged settings", usdc, rail.Token)
	c.same("the deny list", to, must.Get(s.Rules(ctx))(c).Denied[0].To)
	fixed := v
	fixed.Version, fixed.Token.Decimals = rail.Settings.Version, 7
	c.refused("another token", s.SetSettings(ctx, fixed), settings.ErrFixed)
	fixed.Token = v.Token
	c.ok("setting over damaged settings", s.SetSettings(ctx, fixed))
	c.ok("obeying them", read().Unusable)

	won = c.wins(4, store.ErrChanged, func(ctx context.Context, _ int) error { return s.SetSettings(ctx, of(2)) })
	c.same("rails of one coin that were added at once", 1, len(won))
	c.wins(4, store.ErrChanged, func(ctx context.Context, i int) error { return s.SetSettings(ctx, of(uint64(3+i))) })
	for id := uint64(3); len(must.Get(s.Rules(ctx))(c).Rails) < store.MaxRails; id++ {
		if err := s.SetSettings(ctx, of(id)); err != nil {
			c.refused("adding one of those at once", err, store.ErrChanged)
		}
	}
	c.refused("a rail more", s.SetSettings(ctx, of(99)), store.ErrTooLarge)
}
