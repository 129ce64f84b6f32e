package settlement_test

import (
	"errors"
	"testing"
	"time"

	"remit/internal/settings"
	"remit/internal/store"
	"remit/internal/token"
)

// TestTablesOfAnotherCoin: their payments are not settled, and no balance of
// another token is stored.
func TestTablesOfAnotherCoin(t *testing.T) {
	for _, c := range []store.Coin{{ChainID: 2, Token: coin.Contract}, {ChainID: 1, Token: token.Address{0xc1}},
		{ChainID: 1, Token: coin.Contract}} {
		w := newWorld(t, script{})
		p := w.commit("a", time.Minute)
		w.paid(p, p.TxHash)
		w.must(w.tables.Bind(t.Context(), c, w.now))
		report, err := w.round()
		ours := c == store.Coin{ChainID: 1, Token: coin.Contract}
		if errors.Is(err, store.ErrOtherCoin) == ours || (report.Unruled == 0) != ours ||
			w.did("Finish#1") != ours || w.did("Reconcile#1") != ours {
			t.Errorf("%+v: %+v, %v, after %v", c, report, err, w.calls)
		}
	}
}

// TestWithoutSettings: payments are committed and settled, and nothing is signed that has
// no fee limit; no ceiling moves. All of it is made up for once there are settings.
func TestWithoutSettings(t *testing.T) {
	for name, test := range map[string]struct {
		before func(w *world)
		late   func(w *world) bool // what needs settings was done
	}{
		"a stuck payment": {func(w *world) { w.commit("a", time.Hour); w.pooled, w.price = 1, 500 },
			func(w *world) bool { return w.did("AddAttempt#1") }},
		"an orphan": {func(w *world) {
			w.must(w.tables.Discard(t.Context(), w.reserve("a", time.Hour)))
		}, func(w *world) bool { return w.did("PutNoop#1") }},
		"a mined payment": {func(w *world) { p := w.commit("a", time.Minute); w.paid(p, p.TxHash) },
			func(w *world) bool { return w.did("RaiseCeiling#1") }},
	} {
		w := newWorld(t, script{})
		test.before(w)
		crashed := w.reserve("crashed", time.Hour)
		w.tables.SpoilSettings(settings.ErrDamaged)
		report, err := w.round()
		if err != nil || report.Unruled != 1 || report.Reservations == 0 || test.late(w) || w.record().Ceiling != 64 ||
			w.stored(crashed).TxHash.IsZero() {
			t.Errorf("%s, without settings: %+v, %v, after %v", name, report, err, w.calls)
		}
		if name == "a mined payment" && report.Confirmed != 1 {
			t.Errorf("%s is not settled without settings: %+v", name, report)
		}
		w.set(100)
		report, err = w.round()
		if err != nil || report.Unruled != 0 || !test.late(w) {
			t.Errorf("%s, once there are settings: %+v, %v, after %v", name, report, err, w.calls)
		}
	}
}
