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
	versioned(c, first, settings.Payments, func(context.Context) (settings.Settings, error) {
		rail := rules().Rail(first.Coin())
		return rail.Settings, rail.Unusable
	}, s.SetSettings, func(ctx context.Context) ([]settings.Settings, error) {
		return s.SettingsHistory(ctx, first.Coin())
	}, func(s *settings.Settings, n uint64) { s.Daily = token.Units(n) })

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

// rules returns the stored rules.
func (c *check) rules() store.Rules {
	c.Helper()
	return must.Get(c.Rules(c.Context()))(c)
}

// KeySettings checks that a store keeps the promises of settings.KeyStore.
func KeySettings(t *testing.T, s settings.KeyStore) {
	versioned(tester{t}, settings.DefaultKeys(true), settings.APIKeys, s.KeySettings, s.SetKeySettings,
		s.KeySettingsHistory, func(k *settings.Keys, n uint64) { k.Hold = time.Duration(n) * time.Second })
}

// versioned checks that settings are kept in versions. differ makes a version unlike others.
func versioned[T any](c tester, start T, t settings.Table[T], read func(context.Context) (T, error),
	set func(context.Context, T) error, history func(context.Context) ([]T, error), differ func(*T, uint64),
) {
	c.Helper()
	ctx := c.Context()
	v, err := read(ctx)
	first := t.Stamp(&v).Version
	if first == 0 {
		c.refused("before", err, settings.ErrMissing)
	}
	v = start
	var want []T
	for n := first; n < first+settings.Kept+2; n++ {
		*t.Stamp(&v) = settings.Stamp{Version: n, Needs: settings.Code, Confirmed: n%2 == 0, At: noon, Who: "ada", Why: fmt.Sprint("test ", n)}
		differ(&v, n+1)
		c.ok("setting", set(ctx, v))
		t.Stamp(&v).Version++
		got := must.Get(read(ctx))(c)
		c.same("the settings", v, got)
		want = append([]T{v}, want...)
	}
	all := must.Get(history(ctx))(c)
	c.same("the history", want[:settings.Kept], all)
	old := want[1]
	c.refused("setting on an old version", set(ctx, old), store.ErrChanged)
	bad := v
	t.Stamp(&bad).Why = string(make([]byte, 1000))
	if err := set(ctx, bad); err == nil {
		c.Error("a long reason was stored")
	}
	won := c.wins(4, store.ErrChanged, func(ctx context.Context, i int) error {
		mine := v
		differ(&mine, uint64(i)+1)
		return set(ctx, mine)
	})
	c.same("writes that succeeded at once", 1, len(won))
	newer := v
	t.Stamp(&newer).Version++
	t.Stamp(&newer).Needs = settings.Code + 1
	c.ok("setting what newer code wrote", set(ctx, newer))
	v, err = read(ctx)
	c.refused("reading what newer code wrote", err, settings.ErrNewer)
	t.Stamp(&newer).Needs, t.Stamp(&newer).Version = settings.Code, t.Stamp(&v).Version
	c.ok("setting over it", set(ctx, newer))
}

var denialPromises = []promise[*check]{
	{"a denial is listed until it is removed, and replaced by another", func(c *check) {
		to := c.walletID().Address // drawn at random: the list is of all checks
		ours := func() (found []store.Denial) {
			c.Helper()
			for _, d := range c.rules().Denied {
				if d.To == to {
					found = append(found, d)
				}
			}
			return found
		}
		c.same("before", []store.Denial(nil), ours())
		for i, reason := range []string{"court order", ""} {
			d := store.Denial{To: to, Reason: reason, At: noon.Add(time.Duration(i) * time.Hour)}
			c.ok("denying", c.Deny(c.Context(), d))
			c.same("denied", []store.Denial{d}, ours())
		}
		for range 2 {
			c.ok("allowing", c.Allow(c.Context(), to))
			c.same("allowed", []store.Denial(nil), ours())
		}
	}},
}
