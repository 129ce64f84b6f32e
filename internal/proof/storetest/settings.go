package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

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

// Rails checks that an empty store keeps the promises of store.Settings. spoil makes the current settings of its first
// rail unreadable, but for their version.
func Rails(t *testing.T, s RailStore, spoil func()) {
	c := tester{t}
	rules := func() store.Rules {
		t.Helper()
		return must.Get(s.Rules(t.Context()))(t)
	}
	of := func(chainID uint64) settings.Settings {
		return settings.Default(settings.Rail{ChainID: chainID, Token: usdc, Network: "devnet"})
	}
	first := of(1)
	versioned(c, s, first)

	to := token.Address{1}
	c.ok("denying", s.Deny(t.Context(), store.Denial{To: to, At: noon}))
	spoil()
	rail := rules().Rail(first.Coin())
	c.refused("obeying damaged settings", rail.Unusable, settings.ErrDamaged)
	c.same("the token of damaged settings", usdc, rail.Token)
	c.same("the deny list", to, rules().Denied[0].To)
	first.Version = rail.Settings.Version
	fixed := first
	fixed.Token.Decimals++
	c.refused("another token", s.SetSettings(t.Context(), fixed), settings.ErrFixed)
	c.ok("setting over damaged settings", s.SetSettings(t.Context(), first))
	c.ok("obeying them", rules().Rail(first.Coin()).Unusable)

	for i, step := range []struct {
		closed bool
		at     time.Time // of the change
		want   time.Time
	}{{true, noon, noon}, {true, noon.Add(time.Hour), noon}, {false, noon.Add(time.Hour), time.Time{}},
		{true, noon.Add(2 * time.Hour), noon.Add(2 * time.Hour)}} {
		first = rules().Rail(first.Coin()).Settings
		first.Closed, first.At = step.closed, step.at
		c.ok("closing and opening", s.SetSettings(t.Context(), first))
		c.same(fmt.Sprintf("since when it is closed, step %d", i), step.want, rules().Rail(first.Coin()).ClosedAt)
	}

	won := c.wins(4, store.ErrChanged, func(ctx context.Context, _ int) error { return s.SetSettings(ctx, of(2)) })
	c.same("rails of one coin that were added at once", 1, len(won))
	c.refused("adding it again", s.SetSettings(t.Context(), of(2)), store.ErrChanged)
	c.wins(4, store.ErrChanged, func(ctx context.Context, i int) error { return s.SetSettings(ctx, of(uint64(3+i))) })
	unknown := of(99)
	unknown.Version = 1
	c.refused("changing an unknown rail", s.SetSettings(t.Context(), unknown), store.ErrChanged)
	for id := uint64(3); len(rules().Rails) < store.MaxRails; id++ {
		if err := s.SetSettings(t.Context(), of(id)); err != nil {
			c.refused("adding one of those at once", err, store.ErrChanged)
		}
	}
	c.refused("a rail more", s.SetSettings(t.Context(), of(99)), store.ErrTooLarge)
	for i, r := range rules().Rails[:2] {
		c.same("the order", of(uint64(i+1)).Coin(), r.Coin)
	}
	c.same("another rail's history", 1, len(must.Get(s.SettingsHistory(t.Context(), of(2).Coin()))(t)))
	c.same("no rail's history", 0, len(must.Get(s.SettingsHistory(t.Context(), unknown.Coin()))(t)))
}

// versioned checks that a rail's settings are kept in versions.
func versioned(c tester, s RailStore, v settings.Settings) {
	c.Helper()
	ctx, coin := c.Context(), v.Coin()
	read := func() (settings.Settings, error) {
		c.Helper()
		rail := must.Get(s.Rules(ctx))(c).Rail(coin)
		return rail.Settings, rail.Unusable
	}
	_, err := read()
	c.refused("before", err, settings.ErrMissing)
	var want []settings.Settings
	for n := uint64(0); n < settings.Kept+2; n++ {
		v.Stamp = settings.Stamp{Version: n, Needs: settings.Code, Confirmed: n%2 == 0, At: noon, Who: "ada", Why: fmt.Sprint("test ", n)}
		v.Daily = token.Units(n + 1)
		c.ok("setting", s.SetSettings(ctx, v))
		v.Version++
		c.same("the settings", v, must.Get(read())(c))
		want = append([]settings.Settings{v}, want...)
	}
	c.same("the history", want[:settings.Kept], must.Get(s.SettingsHistory(ctx, coin))(c))
	c.refused("setting on an old version", s.SetSettings(ctx, want[1]), store.ErrChanged)
	bad := v
	bad.Why = string(make([]byte, 1000))
	if err := s.SetSettings(ctx, bad); err == nil {
		c.Error("a long reason was stored")
	}
	won := c.wins(4, store.ErrChanged, func(ctx context.Context, i int) error {
		mine := v
		mine.Daily = token.Units(uint64(i) + 1)
		return s.SetSettings(ctx, mine)
	})
	c.same("writes that succeeded at once", 1, len(won))
	newer := v
	newer.Version++
	newer.Needs = settings.Code + 1
	c.ok("setting what newer code wrote", s.SetSettings(ctx, newer))
	v, err = read()
	c.refused("reading what newer code wrote", err, settings.ErrNewer)
	newer.Needs, newer.Version = settings.Code, v.Version
	c.ok("setting over it", s.SetSettings(ctx, newer))
}
