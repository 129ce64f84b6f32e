package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestUncleared: a rail pays only once no run misses a payment of another in these tables. A row has how long ago the
// other one was added (0s: two series) and closed (0s: never), the last run was, and the other was first and last found
// abreast (0s: never); whether its chain had nodes and no rail; and how many are not cleared.
func TestUncleared(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	const series = time.Hour // ago
	own, other := token.Coin{ChainID: 1, Contract: token.Address{1}}, token.Coin{ChainID: 2, Contract: token.Address{2}}
	words := map[string]string{"skew": store.Skew.String(), "over skew": (store.Skew + time.Second).String(),
		"compared": store.ComparedFor.String(), "just compared": (store.ComparedFor - time.Second).String(),
		"series began": (series - store.Skew).String(), "in series": (series - store.Skew - time.Second).String()}
	for _, c := range tabletest.Read(t, words) {
		var ago []time.Duration
		for text := range strings.FieldsSeq(c.In[0]) {
			ago = append(ago, must.Get(time.ParseDuration(text))(t))
		}
		added, closed, ran, since, abreast := ago[0], ago[1], ago[2], ago[3], ago[4]
		tables := memory.NewPayments()
		set := func(of token.Coin, version uint64, closed bool, ago time.Duration) {
			s := settings.Default(settings.Rail{ChainID: of.ChainID, Token: token.Token{Contract: of.Contract, Symbol: "USDC"}, Network: "n"})
			s.Version, s.Closed, s.At = version, closed, now.Add(-ago)
			must.OK(t, tables.SetSettings(t.Context(), s))
		}
		set(own, 0, false, 2*series)
		if set(other, 0, false, cmp.Or(added, 2*series)); closed != 0 {
			set(other, 1, true, closed)
			set(other, 2, true, 0)
		}
		known := store.Comparison{Ran: now.Add(-ran), Since: now.Add(-since)}
		if abreast != 0 {
			known.Abreast = now.Add(-abreast)
		}
		must.OK(t, tables.SetCompared(t.Context(), other, known))
		must.OK(t, tables.SetCompared(t.Context(), own, store.Comparison{Ran: now.Add(-ran), Since: now.Add(-series)}))
		if c.In[1] == "marked" {
			must.OK(t, tables.SetCompared(t.Context(), token.Coin{ChainID: 2}, store.Comparison{Ran: now.Add(-series / 4)}))
		}
		rules := must.Get(tables.Rules(t.Context()))(t)
		uncleared, err := rules.Uncleared(t.Context(), tables, own, now)
		_, itself := rules.Uncleared(t.Context(), tables, other, now)
		got := fmt.Sprint(len(uncleared))
		if errors.Is(err, store.ErrUncleared) {
			got = "uncleared"
		}
		if got != c.Want || got != "uncleared" && err != nil || errors.Is(itself, store.ErrUncleared) != (got == "uncleared") {
			t.Errorf("%s: %s, %v, want %s; the rail itself: %v", c.Name, got, err, c.Want, itself)
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
