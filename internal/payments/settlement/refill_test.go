package settlement_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// A refiller records requests and refuses them.
type refiller []string

func (r *refiller) Refill(_ context.Context, _ token.Address, ether bool, seen uint64) error {
	*r = append(*r, fmt.Sprint(map[bool]string{true: "ether", false: "token"}[ether], " since ", seen))
	return porttest.ErrBroken
}

// TestRefill: Refill's requests. The wallet has a payment of 100 units and 210 wei, and is low by one of either.
func TestRefill(t *testing.T) {
	const token9, ether9 = "token since 9", "ether since 9"
	type change = func(*world, *settings.Refills)
	become := func(state wallet.State) change {
		return func(w *world, _ *settings.Refills) {
			w.Must(w.Tables.SetState(context.Background(), id, wallet.Active, state, w.Now()))
		}
	}
	pause := func(reason string) change {
		return func(w *world, _ *settings.Refills) { w.Must(w.Tables.Pause(context.Background(), id, reason)) }
	}
	unread := func(w *world, _ *settings.Refills) {
		w.Script["Payment#1"] = func(*world) error { return porttest.ErrBroken }
	}
	alter := func(f func(r *settings.Refills)) change { return func(_ *world, r *settings.Refills) { f(r) } }
	coins := func(low token.Amount) change { return alter(func(r *settings.Refills) { r.Token.Low = low }) }
	rich, poor := coins(funds.Balance.Sub(token.Units(100))), coins(token.Units(1_000_001))
	for name, test := range map[string]struct {
		before change
		want   []string
	}{
		"both":         {alter(func(*settings.Refills) {}), []string{token9, ether9}},
		"enough coins": {rich, []string{ether9}},
		"enough ether": {alter(func(r *settings.Refills) { r.Ether.Low = funds.Gas.Sub(token.Units(210)) }), []string{token9}},
		"no coins":     {alter(func(r *settings.Refills) { r.Token.Amount = token.Amount{} }), []string{ether9}},
		"no ether":     {alter(func(r *settings.Refills) { r.Ether.Amount = token.Amount{} }), []string{token9}},

		"what the payment ties up is unknown": {unread, nil},
		"and it is low whatever that is":      {func(w *world, r *settings.Refills) { unread(w, r); poor(w, r) }, []string{token9}},

		"a draining wallet": {become(wallet.Draining), nil},
		"a funding wallet":  {become(wallet.Funding), nil},
		"a merchant's own": {func(w *world, r *settings.Refills) { // with nothing under way, as it has to be
			poor(w, r)
			r.Ether.Low = token.Units(1<<60 + 1)
			become(wallet.Draining)(w, r)
			read, err := w.Tables.Wallet(context.Background(), id)
			w.Must(errors.Join(err, w.Tables.Assign(context.Background(), read, "mer_1", w.Now())))
		}, []string{ether9}},
		"paused":                  {pause("audit"), nil},
		"out of gas":              {pause(wallet.OutOfGas), []string{token9, ether9}},
		"its last nonce is mined": {func(w *world, r *settings.Refills) { w.mined = 1; poor(w, r) }, []string{token9}},
		"the chain is ahead":      {func(w *world, _ *settings.Refills) { w.mined = 2 }, nil},
		"the chain is behind": {func(w *world, _ *settings.Refills) {
			w.known(chain.Block{Number: 5, Hash: chain.Hash{6}})
		}, nil},
		"one of two nodes":    {func(w *world, _ *settings.Refills) { w.second().down = porttest.ErrBroken }, nil},
		"there are two nodes": {func(w *world, _ *settings.Refills) { w.second() }, []string{token9, ether9}},
	} {
		t.Run(name, func(t *testing.T) {
			begin := func(fail string) (*world, *refiller) {
				w, asked := newWorld(t, script{}), &refiller{}
				w.settler.Refiller = asked
				w.Must(w.Tables.SetState(t.Context(), id, wallet.Draining, wallet.Active, w.Now()))
				if name != "a merchant's own" {
					w.reserve("a", 0)
				}
				refills := settings.Refills{Token: settings.Refill{Low: funds.Balance.Sub(token.Units(99)), Amount: token.Units(1)},
					Ether: settings.Refill{Low: funds.Gas.Sub(token.Units(209)), Amount: token.Units(1)}}
				test.before(w, &refills)
				w.Set(func(s *settings.Settings) { s.Refills = refills })
				if fail != "" {
					w.Script[fail] = func(*world) error { return porttest.ErrBroken }
				}
				return w, asked
			}
			w, asked := begin("")
			report, err := w.settler.Refill(t.Context())
			calls := slices.Clone(w.Calls)
			if err != nil || !slices.Equal(*asked, test.want) || report.Unfilled != len(test.want) {
				t.Errorf("asked for %v, want %v; %v, %+v", *asked, test.want, err, report)
			}
			if _, _ = w.round(); len(*asked) != len(test.want) {
				t.Errorf("a round asks for %v", *asked)
			}
			for _, call := range calls {
				broken, _ := begin(call)
				op, _, _ := strings.Cut(call, "#")
				_, err := broken.settler.Refill(t.Context())
				if !errors.Is(err, porttest.ErrBroken) && broken.peer == nil && op != "Payment" && op != "BlockHashes" && op != "Head" {
					t.Errorf("%s is broken: %v", call, err)
				}
			}
		})
	}
}

// TestRefillsLeft: how many refills a funding wallet can pay, of the scarcer asset, or the token if it pays the gas.
func TestRefillsLeft(t *testing.T) {
	for _, test := range []struct{ unit, token, ether, want uint64 }{
		{0, 500_000, 0, 2}, {0, 500_001, 0, 1}, {0, 1_000_001, 0, 0}, {0, 0, 1 << 58, 4}, {0, 500_000, 1 << 60, 1},
		{0, 1, 1, 100}, {0, 0, 0, 100}, {1, 500_000, 1 << 60, 2},
	} {
		w := newWorld(t, script{})
		w.settler.GasUnit = chain.GasUnit(test.unit)
		w.Must(w.Tables.SetState(t.Context(), id, wallet.Draining, wallet.Funding, w.Now()))
		w.Set(func(s *settings.Settings) {
			s.Refills.Token.Amount, s.Refills.Ether.Amount = token.Units(test.token), token.Units(test.ether)
		})
		if report, err := w.round(); err != nil || !slices.Equal(report.Funding, []uint64{test.want}) {
			t.Errorf("%+v: %d, %v", test, report.Funding, err)
		}
	}
}

// TestReportsAddUp: alarms use these counts. Add sums the reports of a round's wallets. Next adds a
// later round's counts of finished work, and replaces the counts of open work.
func TestReportsAddUp(t *testing.T) {
	fund := func(n byte, gap uint64) settlement.Funds {
		return settlement.Funds{Address: token.Address{n}, Gap: gap}
	}
	one := settlement.Report{Busy: true, Resting: 30, Confirmed: 1, Failed: 2, Reservations: 3, Noops: 4, Bumps: 5,
		Resent: 6, Refused: 7, Unreadable: 8, Unruled: 1, Suspect: 9, Undecided: 10, Paused: 11, Unfilled: 12,
		Funding: []uint64{13}, Pending: 14, Oldest: 15, ToFinal: []time.Duration{16},
		Spent: []settlement.Spent{{Noop: true}}, Wallets: []settlement.Funds{fund(1, 1), fund(2, 2)}}
	other := settlement.Report{ClaimedElsewhere: true, Confirmed: 100, Failed: 100, Reservations: 100, Noops: 100,
		Bumps: 100, Resent: 100, Refused: 100, Unreadable: 100, Suspect: 100, Undecided: 100, Paused: 4, Unfilled: 100,
		Funding: []uint64{100}, Pending: 100, Oldest: 10, ToFinal: []time.Duration{100}, Spent: []settlement.Spent{{}},
		Wallets: []settlement.Funds{fund(1, 3)}}
	added := settlement.Report{Busy: true, Resting: 30, ClaimedElsewhere: true, Confirmed: 101, Failed: 102,
		Reservations: 103, Noops: 104, Bumps: 105, Resent: 106, Refused: 107, Unreadable: 108, Unruled: 1, Suspect: 109,
		Undecided: 110, Paused: 15, Unfilled: 112, Funding: []uint64{13, 100}, Pending: 114, Oldest: 15,
		ToFinal: []time.Duration{16, 100}, Spent: []settlement.Spent{{Noop: true}, {}},
		Wallets: []settlement.Funds{fund(1, 1), fund(2, 2), fund(1, 3)}}
	followed := added // one by other
	followed.Busy, followed.Resting, followed.Unreadable, followed.Unruled, followed.Undecided, followed.Pending = false, 0, 100, 0, 100, 100
	followed.Paused = 11 // later rounds skip a wallet that is paused and idle
	followed.Wallets = []settlement.Funds{fund(2, 2), fund(1, 3)}
	preceded := added // one by other
	preceded.ClaimedElsewhere, preceded.Unreadable, preceded.Undecided, preceded.Paused, preceded.Pending = false, 8, 10, 11, 14
	preceded.Funding, preceded.ToFinal = []uint64{100, 13}, []time.Duration{100, 16}
	preceded.Spent, preceded.Wallets = []settlement.Spent{{}, {Noop: true}}, one.Wallets

	for field, value := range reflect.ValueOf(added).Fields() {
		if value.IsZero() {
			t.Errorf("no report has a %s", field.Name)
		}
	}
	for _, test := range []struct {
		name          string
		first, second settlement.Report
		join          func(*settlement.Report, settlement.Report)
		want          settlement.Report
	}{
		{"of two wallets", one, other, (*settlement.Report).Add, added},
		{"of a later round", one, other, (*settlement.Report).Next, followed},
		{"of a round before", other, one, (*settlement.Report).Next, preceded},
	} {
		got := test.first
		got.Funding, got.Wallets = append([]uint64(nil), got.Funding...), append([]settlement.Funds(nil), got.Wallets...)
		test.join(&got, test.second)
		if diff := cmp.Diff(test.want, got, cmpopts.EquateComparable(settlement.Funds{}, settlement.Spent{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func (w *world) drain() {
	w.Must(w.Tables.SetState(context.Background(), id, wallet.Active, wallet.Draining, w.Now()))
}

// unused is a draining wallet without a record.
var unused = wallet.ID{ChainID: 1, Address: token.Address{2}}

// ended makes three transactions final, and registers a wallet without a record.
func (w *world) ended() {
	w.Must(w.Tables.Advance(context.Background(), id, 3, 0))
	w.register(unused, wallet.Draining)
	w.mined, w.settled, w.pooled = 3, 3, 3
}

// TestRetire: a wallet retires once all its transactions are final on every node or, if its key is
// stolen, once its payments have ended.
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

// TestRetireFaults: if any call fails or loses its answer, another Retire succeeds.
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

// TestRetiredWalletIsWatched: one request a day, and one log line if its key is in use.
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
