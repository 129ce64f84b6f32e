package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// The store may be shared with other checks: each starts from the version that it finds.
var settingsPromises = []promise[*check]{
	{"settings are one version after another, and a write on an old one changes nothing", func(c *check) {
		versioned(c.tester, settings.Default(), settings.Payments, func(context.Context) (settings.Settings, error) {
			rules := c.rules()
			return rules.Settings, rules.Unusable
		}, c.SetSettings, c.SettingsHistory, func(s *settings.Settings, n uint64) { s.Daily = token.Units(n) })
	}},
	{"a table is of one coin, the first that it is told", func(c *check) {
		if c.rules().Coin == (store.Coin{}) { // another check may have shared the store
			c.winner(4, store.ErrOtherCoin, func(ctx context.Context, i int) error {
				return c.Bind(ctx, store.Coin{ChainID: 1<<64 - 4 + uint64(i), Token: usdc.Contract}, noon)
			})
		}
		is := c.rules().Coin
		for _, other := range []store.Coin{{ChainID: 1, Token: is.Token}, {ChainID: is.ChainID, Token: token.Address{1}}} {
			c.refused("binding to another", c.Bind(c.Context(), other, noon), store.ErrOtherCoin)
			c.ok("binding to the same", c.Bind(c.Context(), is, noon.Add(time.Hour)))
			c.same("the coin", is, c.rules().Coin)
		}
	}},
	{"damaged settings leave the deny list", func(c *check) {
		to := c.walletID().Address
		c.ok("denying", c.Deny(c.Context(), store.Denial{To: to, At: noon}))
		next := settings.Default()
		next.Version = c.rules().Settings.Version
		c.ok("setting", c.SetSettings(c.Context(), next))
		c.SpoilSettings()
		rules := c.rules()
		c.refused("obeying damaged settings", rules.Unusable, settings.ErrDamaged)
		listed := slices.ContainsFunc(rules.Denied, func(d store.Denial) bool { return d.To == to })
		c.same("the deny list has the recipient", true, listed)
		next.Version++
		c.same("the version of damaged settings", next.Version, rules.Settings.Version)
		c.ok("setting over damaged settings", c.SetSettings(c.Context(), next))
		c.ok("obeying them", c.rules().Unusable)
	}},
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
