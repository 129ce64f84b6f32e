package store_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestUncleared: a rail pays only once no run misses a payment of another in these tables.
func TestUncleared(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	const ran, series = 30 * time.Second, time.Hour // ago
	own, other := token.Coin{ChainID: 1, Contract: token.Address{1}}, token.Coin{ChainID: 2, Contract: token.Address{2}}
	for name, c := range map[string]struct {
		added, closed  time.Duration // ago; 0: two series ago, and never
		ran            time.Duration // the last run, of every rail
		since, abreast time.Duration // of the other rail; 0: never
		marked         bool          // its chain had nodes and no rail
		want           int
		err            error
	}{
		"found abreast in this series":       {0, 0, ran, series, ran, false, 0, nil},
		"found abreast as it began":          {0, 0, ran, series, series, false, 0, nil},
		"found abreast before it":            {0, 0, ran, series, series + time.Second, false, 1, nil},
		"never found abreast":                {0, 0, ran, series, 0, false, 1, nil},
		"by a run of long ago":               {0, 0, store.ComparedFor, series, 2 * time.Minute, false, 1, nil},
		"just not yet":                       {0, 0, store.ComparedFor - time.Second, series, 2 * time.Minute, false, 0, nil},
		"by a run that a clock puts ahead":   {0, 0, -store.Skew, series, ran, false, 0, nil},
		"far ahead":                          {series / 2, 0, -store.Skew - time.Second, series, 0, false, 1, nil},
		"added in this series":               {series - store.Skew - time.Second, 0, ran, series / 2, 0, false, 0, nil},
		"added as it began":                  {series - store.Skew, 0, ran, series / 2, 0, false, 1, nil},
		"added, and runs have stopped":       {series / 2, 0, store.ComparedFor, series / 2, 0, false, 1, nil},
		"added by a clock a bit ahead":       {-store.Skew, 0, ran, series / 2, 0, false, 0, nil},
		"added by a clock far ahead":         {-store.Skew - time.Second, 0, ran, series / 2, 0, false, 1, nil},
		"closed by a clock far ahead":        {0, -store.Skew - time.Second, ran, series / 2, 0, false, 1, nil},
		"closed in this series":              {0, series - store.Skew - time.Second, ran, series, 0, true, 0, nil},
		"closed as it began":                 {0, series - store.Skew, ran, series, 0, false, 1, nil},
		"closed, and runs have stopped":      {0, series / 2, store.ComparedFor, series, 0, false, 1, nil},
		"added, and its chain had nodes":     {series / 2, 0, ran, series / 2, 0, true, 0, store.ErrUncleared},
		"recovered after its chain had them": {0, 0, ran, series, ran, true, 0, nil},
	} {
		tables := memory.NewPayments()
		set := func(of token.Coin, version uint64, closed bool, ago time.Duration) {
			s := settings.Default(settings.Rail{ChainID: of.ChainID, Token: token.Token{Contract: of.Contract, Symbol: "USDC"}, Network: "n"})
			s.Version, s.Closed, s.At = version, closed, now.Add(-ago)
			must.OK(t, tables.SetSettings(t.Context(), s))
		}
		set(own, 0, false, 2*series)
		if set(other, 0, false, cmp.Or(c.added, 2*series)); c.closed != 0 {
			set(other, 1, true, c.closed)
			set(other, 2, true, 0)
		}
		known := store.Comparison{Ran: now.Add(-c.ran), Since: now.Add(-c.since)}
		if c.abreast != 0 {
			known.Abreast = now.Add(-c.abreast)
		}
		must.OK(t, tables.SetCompared(t.Context(), other, known))
		must.OK(t, tables.SetCompared(t.Context(), own, store.Comparison{Ran: now.Add(-c.ran), Since: now.Add(-series)}))
		if c.marked {
			must.OK(t, tables.SetCompared(t.Context(), token.Coin{ChainID: 2}, store.Comparison{Ran: now.Add(-series / 4)}))
		}
		rules := must.Get(tables.Rules(t.Context()))(t)
		uncleared, err := rules.Uncleared(t.Context(), tables, own, now)
		_, itself := rules.Uncleared(t.Context(), tables, other, now)
		if len(uncleared) != c.want || !errors.Is(err, c.err) || errors.Is(itself, store.ErrUncleared) != (c.err != nil) {
			t.Errorf("%s: %d rails, %v; want %d, %v; the rail itself: %v", name, len(uncleared), err, c.want, c.err, itself)
		}
	}
}

// TestRailWithoutUsableSettings: it is an asset without a network, and is settled by the strictest terms.
func TestRailWithoutUsableSettings(t *testing.T) {
	coin := token.Token{Contract: token.Address{1}, Symbol: "USDC"}
	good := settings.Settings{Rail: settings.Rail{ChainID: 1, Network: "n", Confirmation: "latest"}}
	rules := store.Rules{Rails: []store.Rail{{Coin: token.Coin{ChainID: 1}, Token: coin, Settings: good},
		{Coin: token.Coin{ChainID: 2}, Token: coin, Unusable: settings.ErrDamaged}}}
	assets, second := rules.Assets(), rules.Rails[1].Terms()
	if len(assets) != 2 || assets[0].Network != "n" || assets[1].ChainID != 2 || assets[1].Network != "" ||
		rules.Rails[0].Terms() != good.Rail || second.ChainID != 2 || second.Token != coin ||
		second.Confirmation != "finalized" || second.Quorum != "strict" {
		t.Errorf("%+v, %+v", assets, second)
	}
}

// unread are tables of which no comparison can be read.
type unread struct{ *memory.Payments }

func (unread) Compared(context.Context, token.Coin) (store.Comparison, error) {
	return store.Comparison{}, store.ErrUnreadable
}

// TestNoteLost writes nothing over a note that it could not read.
func TestNoteLost(t *testing.T) {
	tables := memory.NewPayments()
	err := store.NoteLost(t.Context(), unread{tables}, 3, time.Unix(60, 0))
	if note, _ := tables.Compared(t.Context(), token.Coin{ChainID: 3}); !errors.Is(err, store.ErrUnreadable) || !note.Ran.IsZero() {
		t.Errorf("%v, %+v", err, note)
	}
}
