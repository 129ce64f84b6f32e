package settlement_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// drain stops new payments from the wallet.
func (w *world) drain() {
	w.Must(w.Tables.SetState(context.Background(), id, wallet.Active, wallet.Draining, w.Now()))
}

// unused is a draining wallet without a record.
var unused = wallet.ID{ChainID: 1, Address: token.Address{2}}

// ended has three transactions of the wallet final. It registers a wallet without a record.
func (w *world) ended() {
	w.Must(w.Tables.Advance(context.Background(), id, 3, 0))
	w.Must(w.Tables.Register(context.Background(), wallet.Registration{ID: unused, State: wallet.Draining, Key: wallet.InSecret}))
	w.mined, w.settled, w.pooled = 3, 3, 3
}

// TestRetire: a wallet is retired once all that it has signed is final on every node, or,
// if its key is stolen, once its payments have ended.
func TestRetire(t *testing.T) {
	meanwhile := func(act func(w *world) error) func(w *world) {
		return func(w *world) { w.ended(); w.Script.With("Retire#1", act) }
	}
	for name, test := range map[string]struct {
		before       func(w *world)
		want, stolen error
	}{
		"all has ended": {(*world).ended, nil, nil},
		"it is active": {func(w *world) {
			w.Must(w.Tables.SetState(context.Background(), id, wallet.Draining, wallet.Active, w.Now()))
		}, settlement.ErrNotDraining, settlement.ErrNotDraining},
		"a reservation is held":        {func(w *world) { w.reserve("a", 0) }, settlement.ErrUnsettled, settlement.ErrUnsettled},
		"a payment is pending":         {func(w *world) { w.commit("a", 0) }, settlement.ErrUnsettled, settlement.ErrUnsettled},
		"a no-op is pending":           {func(w *world) { w.ended(); w.noop(2, 0) }, settlement.ErrUnsettled, nil},
		"a transaction is not final":   {func(w *world) { w.ended(); w.settled = 2 }, settlement.ErrUnsettled, nil},
		"a node's pool holds another":  {func(w *world) { w.ended(); w.pooled = 4 }, settlement.ErrUnsettled, nil},
		"another program uses its key": {func(w *world) { w.ended(); w.mined, w.settled, w.pooled = 4, 4, 4 }, settlement.ErrUnsettled, nil},
		"a nonce was given out meanwhile": {meanwhile(func(w *world) error {
			return w.Tables.Advance(context.Background(), id, 4, 0)
		}), store.ErrChanged, store.ErrChanged},
		"a recovery paused it meanwhile": {meanwhile(func(w *world) error {
			return w.Tables.Pause(context.Background(), id, wallet.Suspicion)
		}), store.ErrChanged, store.ErrChanged},
		"restored tables may lack a payment": {func(w *world) {
			w.ended()
			w.Must(w.Tables.Pause(context.Background(), id, wallet.Suspicion+": restored"))
		}, settlement.ErrUnsettled, nil},
	} {
		for _, stolen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stolen %t", name, stolen), func(t *testing.T) {
				w, want := newWorld(t, script{}), test.want
				if stolen {
					want = test.stolen
				}
				w.drain()
				test.before(w)
				if err := w.settler.Retire(t.Context(), id, stolen); !errors.Is(err, want) ||
					(w.record().Paused == wallet.RetiredReason) != (err == nil) {
					t.Errorf("%v, want %v; paused %q", err, want, w.record().Paused)
				}
			})
		}
	}
	w := newWorld(t, script{})
	w.ended()
	for _, stolen := range []bool{false, true} {
		if err := w.settler.Retire(t.Context(), unused, stolen); !errors.Is(err, settlement.ErrUnsettled) {
			t.Errorf("a wallet with transactions and without a record: %v", err)
		}
	}
	if err := w.settler.Retire(t.Context(), wallet.ID{ChainID: 1}, false); !errors.Is(err, wallet.ErrUnknown) {
		t.Errorf("an unknown wallet: %v", err)
	}
}

// TestRetireFaults: each call of a command may fail or lose its answer; it is run again.
func TestRetireFaults(t *testing.T) {
	for name, wanted := range map[string]wallet.ID{"a used wallet": id, "an unused wallet": unused} {
		begin := func(s script) *world {
			w := newWorld(t, s)
			w.drain()
			w.ended()
			if wanted == unused {
				w.mined, w.settled, w.pooled = 0, 0, 0
			}
			return w
		}
		calm := begin(script{})
		calm.Must(calm.settler.Retire(t.Context(), wanted, false))
		for _, call := range calm.Calls {
			for _, fault := range []error{porttest.ErrBroken, porttest.ErrLost} {
				w := begin(again(call, fault))
				if err := w.settler.Retire(t.Context(), wanted, false); !errors.Is(err, fault) {
					t.Errorf("%s: %s %v: %v", name, call, fault, err)
				}
				w.Must(w.settler.Retire(t.Context(), wanted, false))
				record, err := w.Tables.Wallet(t.Context(), wanted)
				if err != nil || record.Paused != wallet.RetiredReason {
					t.Errorf("%s: after %s %v it is paused for %q, %v", name, call, fault, record.Paused, err)
				}
			}
		}
	}
}

// TestRetiredWalletIsWatched: one request a day, which says in one line that its key is used.
func TestRetiredWalletIsWatched(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, script{})
	w.settler.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.drain()
	w.Must(w.Tables.Advance(t.Context(), id, 3, 0))
	w.mined, w.settled, w.pooled = 3, 3, 3
	w.Must(w.settler.Retire(t.Context(), id, false))
	for hour := range 73 { // the thief sends, a run looks
		w.mined, w.pooled = w.mined+14, w.pooled+14
		if report, err := w.settler.Run(t.Context(), fmt.Sprint("run ", hour)); err != nil || !cmp.Equal(report, settlement.Report{}) {
			t.Fatalf("after %d transactions of a thief: %+v, %v", w.mined-3, report, err)
		}
		w.Pass(time.Hour)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 4 || w.Times["Account"] != 4+1 || w.Times["Claim"] != 4 ||
		!strings.Contains(log.String(), "transactions=14\n") || !strings.Contains(log.String(), "transactions=1022\n") {
		t.Errorf("in three days and an hour %d looks wrote\n%s", w.Times["Account"], &log)
	}
}
