package settlement_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestRun: a run makes a round per block while something is pending, waits once for another run's
// claim to end, and frees the wallets when its time is over.
func TestRun(t *testing.T) {
	const block, claim = 12 * second, 15 * second
	mined := func(w *world) error { w.paid(first(w), first(w).TxHash); return nil }
	taken := func(w *world) error { // by another run, despite any claim
		return must.Err(w.Tables.Claim(context.Background(), id, "other", w.Now().Add(time.Hour), w.Now().Add(claim), nil))
	}
	for _, test := range []struct {
		name      string
		before    func(*world)
		script    script
		left      time.Duration // until the run's deadline; zero: for ever
		waits     []time.Duration
		confirmed int
		err       error
	}{
		{"no node is known", sent, breaks("Nodes#1"), 0, nil, 0, porttest.ErrBroken},
		{"no node is known in the first round", sent, breaks("Nodes#2").With("Account#2", mined), 0, []time.Duration{block, block}, 1, nil},
		{"a payment is mined after a block", sent, script{"Account#2": mined}, 0, []time.Duration{block}, 1, nil},
		{"a round fails", sent, breaks("Wallets#1").With("Account#1", mined), 0, []time.Duration{block}, 1, nil},
		{"another run claims the wallet, and goes on", sent, script{"Claim#1": taken, "Claim#2": taken}, 0, []time.Duration{claim}, 0, nil},
		{"another run claims the wallet twice", sent, script{"Claim#1": taken, "Claim#3": taken, "Account#2": mined}, 0,
			[]time.Duration{claim, block, claim}, 1, nil},
		{"the time is over after a block", sent, script{}, block + 5*second, []time.Duration{block}, 0, nil},
		{"the time is over", sent, script{}, block + 5*second - 1, nil, 0, nil},
		{"the time is over, and the wallets cannot be listed", sent, breaks("Wallets#2"), second * 10, nil, 0, porttest.ErrBroken},
		{"the time is over, the claim does not end", sent, breaks("Claim#2"), second * 10, nil, 0, porttest.ErrBroken},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.script)
			test.before(w)
			report, err := w.run(test.left)
			if !errors.Is(err, test.err) || report.Confirmed != test.confirmed {
				t.Errorf("%d confirmed, %v, want %d, %v", report.Confirmed, err, test.confirmed, test.err)
			}
			if !slices.Equal(w.waits, test.waits) {
				t.Errorf("waited %v, want %v, after %v", w.waits, test.waits, w.Calls)
			}
			if test.left > 0 && test.err == nil {
				if held, err := w.Tables.Claim(t.Context(), id, "next", w.Now(), w.Now().Add(second), nil); !held || err != nil {
					t.Errorf("the wallet is not free: %v", err)
				}
			}
			w.scripted()
		})
	}
}

// TestRests: a run ends, and frees the wallet, once all that is pending is mined and the final block is five minutes
// behind. It goes on for a payment that came before the wallet was free.
func TestRests(t *testing.T) {
	const block, near, far = 12 * second, 19, 20 // blocks above number 9
	mines := func(key string) func(w *world) error {
		return func(w *world) error {
			p := w.stored(payment.Payment{ID: payment.KeyID("mer_1", "test", key)})
			w.paid(p, p.TxHash)
			return nil
		}
	}
	mined, another := mines("a"), func(w *world) error { w.commit("b", 0); return nil }
	ends := func(w *world) error { w.final = 5; return nil }
	for name, test := range map[string]struct {
		lag    uint64
		script script
		waits  []time.Duration
	}{
		"at once":                      {far, script{"Account#1": mined}, nil},
		"once it is mined":             {far, script{"Account#2": mined}, []time.Duration{block, 0}},
		"not while the block is near":  {near, script{"Account#1": mined, "Head#2": ends}, []time.Duration{block}},
		"not while one is not counted": {far, breaks("Publish#1").With("Account#1", mined).With("Head#2", ends), []time.Duration{block}},
		"not while another came":       {far, script{"Account#1": mined, "Claim#2": another, "Account#2": mines("b")}, []time.Duration{block, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.script)
			w.commit("a", minute)
			w.pooled, w.final, w.lag, w.named = 2, 4, test.lag, true
			if _, err := w.settler.Run(t.Context(), "run"); err != nil && name != "not while one is not counted" {
				t.Error(err)
			}
			if !slices.Equal(w.waits, test.waits) {
				t.Errorf("waited %v, want %v, after %v", w.waits, test.waits, w.Calls)
			}
			if free, err := w.Tables.Claim(t.Context(), id, "next", w.Now(), w.Now().Add(second), nil); !free || err != nil {
				t.Errorf("the wallet is not free: %v", err)
			}
			w.scripted()
		})
	}
}

// TestOutOfGas: the pause for lack of gas ends when a node takes the bytes again or none wait, and no other pause does.
func TestOutOfGas(t *testing.T) {
	for _, test := range []struct {
		waits        bool
		reply        chain.Class
		paused, want string
	}{
		{true, chain.Funds, "", wallet.OutOfGas},
		{true, chain.Funds, wallet.OutOfGas, wallet.OutOfGas},
		{true, chain.Funds, "by hand", "by hand"},
		{true, chain.Accepted, wallet.OutOfGas, ""},
		{true, chain.Known, wallet.OutOfGas, ""},
		{true, chain.Full, wallet.OutOfGas, wallet.OutOfGas},
		{true, chain.Accepted, "by hand", "by hand"},
		{false, chain.Full, wallet.OutOfGas, ""},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			w := newWorld(t, script{})
			if w.reply = test.reply; test.waits {
				w.commit("a", minute)
			}
			if test.paused != "" {
				w.Must(w.Tables.Pause(t.Context(), id, test.paused))
			}
			report, err := w.round()
			if got := w.record().Paused; err != nil || got != test.want || report.Paused > 0 != (test.want != "") {
				t.Errorf("paused %q, %v, report %+v", got, err, report)
			}
			if test.paused == test.want && w.Did("Repause#1") {
				t.Errorf("the pause is written again: %v", w.Calls)
			}
		})
	}
}

// TestNoStepIsBegunInTheLastFiveSeconds of a run: they are for ending cleanly. The next round begins it.
func TestNoStepIsBegunInTheLastFiveSeconds(t *testing.T) {
	for call, before := range map[string]func(*world){
		"Commit#1": func(w *world) { w.reserve("a", 2*minute) },
		"Finish#1": paying,
		"Send#1":   func(w *world) { w.commit("a", minute) },
		"Named#1":  func(w *world) { paying(w); w.final = 4 },
	} {
		for left, enough := range map[time.Duration]bool{5*second - 1: false, 5 * second: true} {
			w := newWorld(t, script{})
			before(w)
			ctx, cancel := context.WithDeadline(t.Context(), w.Now().Add(left))
			defer cancel()
			if _, err := w.settler.Round(ctx, "run", true); err != nil || w.Did(call) != enough {
				t.Errorf("with %v left %s is called: %v, %v", left, call, w.Did(call), err)
			}
			if must.Get(w.round())(t); !w.Did(call) {
				t.Errorf("with %v left %s is never called", left, call)
			}
		}
		w := newWorld(t, script{})
		before(w)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _ = w.settler.Run(ctx, "run"); w.Did(call) || len(w.waits) > 0 {
			t.Errorf("after the end: %v", w.Calls)
		}
	}
}

// TestSleep: Sleep, the default Wait, returns when its time or its context is over.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := settlement.New(stack.Config{}, settlement.Parts{}).Wait
		began := time.Now()
		wait(t.Context(), minute)
		if took := time.Since(began); took != minute {
			t.Errorf("slept %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		wait(ctx, minute)
		if took := time.Since(began); took != minute+second {
			t.Errorf("slept %v past the end of the context", took-minute-second)
		}
	})
}

// TestARunTellsThatItHasComparedEveryWallet since it began: new processes rely on it. The next round retries.
func TestARunTellsThatItHasComparedEveryWallet(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(*world)
		script script
		want   bool
		looks  int    // reads of accounts; 0: any number
		final  uint64 // the stored block
	}{
		{"idle wallets", untouched, script{}, true, 2, 5},
		{"a busy one", func(w *world) { w.commit("a", minute) }, script{"Claim#2": func(w *world) error {
			return w.Tables.DeletePendingTx(context.Background(), id, 0)
		}}, true, 3, 5},
		{"a comparison that a node gives in the next round", untouched, breaks("Account#2"), true, 3, 5},
		{"a comparison that no round gets", untouched, breaks("Account#1", "Account#3"), false, 3, 5},
		{"another run claims a wallet all the time", func(w *world) { w.commit("a", minute); w.claim("other", 16*second) }, script{}, false,
			1, 5},
		{"the chain is ahead of one", func(w *world) { w.mined = 7 }, script{}, false, 0, 5},
		{"the write is lost", untouched, breaks("SetCompared#1"), false, 2, 0},
	} {
		w := newWorld(t, test.script)
		w.open(wallet.Wallet{ID: wallet.ID{ChainID: 1, Address: token.Address{2}}, NextNonce: 7, Ceiling: 64})
		test.before(w)
		began := w.Now()
		_, _ = w.run(50 * second)
		at, err := w.Tables.Compared(t.Context(), porttest.Rail.Coin())
		if err != nil || at.At.Equal(began) != test.want || at.Final.Number != test.final ||
			w.Times["Account"] != test.looks && test.looks > 0 || w.Times["SetCompared"] > 1 {
			t.Errorf("%s: stored %v, %v, after %v", test.name, at, err, w.Calls)
		}
	}
}

// TestAnotherRail: a crashed handler's reservation waits until the other rail is cleared, and a run notes its beginning
// before it asks a node: a rail whose nodes hang would look like one without runs.
func TestAnotherRail(t *testing.T) {
	for _, c := range []struct {
		cleared, ephemeral bool
		want               int
	}{{true, false, 1}, {false, false, 0}, {false, true, 1}} {
		cleared, want := c.cleared, c.want
		w := newWorld(t, script{})
		w.settler.Ephemeral = c.ephemeral
		other := settings.Default(settings.Rail{ChainID: 2, Token: token.Token{Contract: token.Address{2}, Symbol: "EURC"}, Network: "other"})
		w.Must(w.Tables.SetSettings(t.Context(), other))
		w.reserve("a", minute)
		known := store.Comparison{Ran: w.Now(), Since: w.Now()}
		if cleared {
			known.Abreast = known.Since
		}
		w.Must(w.Tables.SetCompared(t.Context(), other.Coin(), known))
		report := must.Get(w.run(10 * second))(t)
		if report.Reservations != want || !slices.Contains(w.Calls[:slices.Index(w.Calls, "Nodes#1")], "SetCompared#1") {
			t.Errorf("the other is cleared: %t: %d reservations were finished, after %v", cleared, report.Reservations, w.Calls)
		}
	}
}

// TestNothingIsNotAbreast: a run does not clear a rail of which the tables may have lost wallets, with their payments.
func TestNothingIsNotAbreast(t *testing.T) {
	for name, c := range map[string]struct {
		mined         uint64
		unknown       []token.Address // wallets without a record
		none, retired bool
		cleared       bool
	}{
		"every wallet has a record":      {1, nil, false, false, true},
		"one has none, and has not paid": {0, []token.Address{{2}}, false, false, true},
		"one has none, and has paid":     {1, []token.Address{{2}}, false, false, false},
		"there is no wallet":             {0, nil, true, false, false},
		"every wallet is retired":        {0, nil, false, true, false},
	} {
		w := newWorld(t, script{})
		w.mined, w.settled = c.mined, c.mined
		w.Must(w.Tables.Advance(t.Context(), id, c.mined, 0))
		for _, a := range c.unknown {
			w.register(wallet.ID{ChainID: 1, Address: a}, wallet.Active)
		}
		if c.none {
			w.settler.Token.Contract = token.Address{9}
		}
		if c.retired {
			w.drain()
			w.Must(w.settler.Retire(t.Context(), id, false))
		}
		must.Get(w.settler.Run(t.Context(), "run"))(t)
		if known := must.Get(w.Tables.Compared(t.Context(), w.settler.Coin()))(t); known.Cleared(w.Now()) != c.cleared {
			t.Errorf("%s: %+v, want cleared: %t", name, known, c.cleared)
		}
	}
}

// TestAUsedWalletWithoutARecord pauses every other wallet before it gets a record, which is behind its chain: a new
// process pays if the wallets that have a record are abreast.
func TestAUsedWalletWithoutARecord(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		w, second := newWorld(t, breaks("Repause#1")), wallet.ID{ChainID: 1, Address: token.Address{2}}
		w.settler.Ephemeral, w.mined, w.settled = ephemeral, 1, 1
		w.Must(w.Tables.Advance(t.Context(), id, 1, 0))
		w.register(second, wallet.Active)
		_, err := w.round()
		_, missing := w.Tables.Wallet(t.Context(), second)
		if errors.Is(err, porttest.ErrBroken) == ephemeral || !errors.Is(missing, wallet.ErrUnknown) {
			t.Errorf("no pause is stored: %v, and its record: %v", err, missing)
		}
		must.Get(w.round())(t)
		known, unknown := w.Record(id), must.Get(w.Tables.Wallets(t.Context(), w.settler.Coin()))(t).Working(false)
		if known.Suspect() == ephemeral || (len(unknown) == 1) != ephemeral {
			t.Errorf("ephemeral: %t: %+v, without a record: %v", ephemeral, known, unknown)
		}
		if r := w.Record; !ephemeral && (!r(second).Suspect() || r(second).NextNonce != 1) {
			t.Errorf("opened as %+v", r(second))
		}
	}
}

// TestRoundsStretch: while a node limits its rate, a run pauses as long as its calls have waited, five seconds at most.
func TestRoundsStretch(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{0: second, 3 * second: 3 * second, minute: 5 * second} {
		w := newWorld(t, script{})
		w.commit("a", minute)
		w.pooled = 1
		w.settler.Nodes, w.settler.BlockTime = chain.Nodes{limited{w, waited}}, second
		must.Get(w.run(12 * second))(t)
		if len(w.waits) == 0 || w.waits[0] != want {
			t.Errorf("after a wait of %v: pauses of %v, want %v", waited, w.waits, want)
		}
	}
}

// A limited node makes calls that yield wait.
type limited struct {
	*world
	wait time.Duration
}

func (l limited) Head(ctx context.Context, rule chain.ConfirmationRule) (chain.Head, error) {
	chain.Waited(ctx, l.wait)
	return l.world.Head(ctx, rule)
}

type none struct{}

func (none) Nodes(context.Context) (chain.Nodes, error) { return nil, chain.ErrNoNodes }

// TestNoNodesYet: a new stack rings no alarm, since its runs end well. One whose wallet has paid does.
func TestNoNodesYet(t *testing.T) {
	w := newWorld(t, nil)
	for _, tables := range []*memory.Payments{memory.NewPayments(), w.Tables} {
		_, err := settlement.New(stack.Config{ChainID: 1, Token: porttest.Rail.Token}, settlement.Parts{
			Store: tables, Nodes: none{}, Log: slog.New(slog.DiscardHandler), Now: w.Now}).Run(t.Context(), "run")
		if used := tables == w.Tables; errors.Is(err, chain.ErrNoNodes) != used {
			t.Errorf("a wallet has paid: %t, and the run ends with %v", used, err)
		}
	}
}

// TestARestoredNonce: no run commits a reservation that may have come with restored tables: not while a chain has nodes
// and no rail, nor before a run of this series has compared the wallets.
func TestARestoredNonce(t *testing.T) {
	for name, before := range map[string]func(w *world){
		"a lost rail": func(w *world) {
			w.settler.Chains = func(context.Context) ([]uint64, error) { return []uint64{1, 3}, nil }
		},
		"unreadable chains": func(w *world) {
			w.settler.Chains = func(context.Context) ([]uint64, error) { return nil, porttest.ErrBroken }
		},
		"a table of the same name": func(w *world) { w.down = porttest.ErrBroken; w.Pass(5 * minute) },
	} {
		w := newWorld(t, script{})
		w.reserve("a", minute)
		before(w)
		if report, _ := w.run(10 * second); report.Reservations != 0 {
			t.Errorf("%s: %d reservations were finished", name, report.Reservations)
		}
	}
}

// TestALostRail: a run notes a chain that has nodes and no rail, once there is a rail.
func TestALostRail(t *testing.T) {
	w := newWorld(t, script{})
	parts := w.settler.Parts
	parts.Chains = func(context.Context) ([]uint64, error) { return []uint64{1, 3}, nil }
	for of, lost := range map[uint64]bool{1: false, 3: true} {
		for range 2 {
			must.Get(settlement.NewRails(settlement.Wiring{
				Config: func(store.Rail) (stack.Config, error) { return w.settler.Config, nil },
				Nodes:  func(stack.Config) chain.Provider { return w },
			}, parts).Run(t.Context(), "run"))(t)
		}
		if note := must.Get(w.Tables.Compared(t.Context(), token.Coin{ChainID: of}))(t); note.Ran.IsZero() == lost {
			t.Errorf("chain %d: %+v", of, note)
		}
	}
}

// TestADamagedRegistrationWithoutARecord: runs compare its wallet too, so that dead handlers' reservations end.
func TestADamagedRegistrationWithoutARecord(t *testing.T) {
	w := newWorld(t, nil)
	other := wallet.ID{ChainID: 1, Address: token.Address{2}}
	w.register(other, wallet.Active)
	w.Tables.SpoilRegistration(other)
	must.Get(w.run(30 * time.Second))(t)
	w.Pass(10 * time.Minute) // without a run
	p := w.prepare("a", 0)
	must.Get(w.Tables.Reserve(t.Context(), store.NeedOf(p, w.Now())))(t)
	w.Pass(time.Minute) // its handler is dead
	for range 2 {
		_, _ = w.run(30 * time.Second)
		w.Pass(30 * time.Second)
	}
	if got := w.stored(p).State; got != payment.Committed {
		t.Errorf("a reservation of another wallet's handler is %s", got)
	}
}

// TestADeadRail: a run fails if all rails do, and not while one is settled: the alarm of a run that stopped would hide
// that. One with nothing under way is given up after two rounds. Two that wait wait together: none holds up another.
func TestADeadRail(t *testing.T) {
	for dead, fails := range map[uint64]bool{1: true, 2: false} { // chains from here on
		w := newWorld(t, script{})
		other := settings.Default(settings.Rail{ChainID: 2, Token: token.Token{Contract: token.Address{2}, Symbol: "EURC"}, Network: "other"})
		w.Must(w.Tables.SetSettings(t.Context(), other))
		w.Must(w.Tables.Open(t.Context(), wallet.Wallet{ID: wallet.ID{ChainID: 2, Address: payer}}, other.Token.Contract))
		var waits atomic.Int64
		var logs strings.Builder
		parts, meet := w.settler.Parts, make(chan bool)
		parts.Log = slog.New(slog.NewTextHandler(&logs, nil))
		parts.Wait = func(context.Context, time.Duration) {
			waits.Add(1)
			select {
			case meet <- true:
			case <-meet:
			case <-time.After(map[bool]time.Duration{true: 5 * second}[fails]): // else one waits alone
				if fails {
					t.Error("one rail waits for the other")
				}
			}
		}
		accounts, err := settlement.NewRails(settlement.Wiring{
			Config: func(r store.Rail) (stack.Config, error) {
				config := w.settler.Config
				config.ChainID, config.Token = r.Coin.ChainID, r.Token
				return config, nil
			},
			Nodes: func(c stack.Config) chain.Provider {
				if c.ChainID >= dead {
					return chain.Nodes{&world{down: porttest.ErrBroken}}
				}
				return w
			},
		}, parts).Run(t.Context(), "run")
		if (err != nil) != fails || (accounts[0].Err != nil) != fails || waits.Load() != 3-int64(dead) ||
			!strings.HasPrefix(fmt.Sprint(accounts[1].Err), "rail ") || strings.Count(logs.String(), " rail=") < strings.Count(logs.String(), "\n") {
			t.Errorf("dead from %d: %v, %v and %v, after %d waits:\n%s", dead, err, accounts[0].Err, accounts[1].Err, waits.Load(), &logs)
		}
	}
}

// A provider gives one world's nodes, and counts how often.
type provider struct {
	*world
	asked int
}

func (p *provider) Nodes(ctx context.Context) (chain.Nodes, error) {
	p.asked++
	return p.world.Nodes(ctx)
}

// TestRailKeepsItsSettler, and what that remembers, until its configuration changes. What it lacks ends the run.
func TestRailKeepsItsSettler(t *testing.T) {
	w := newWorld(t, script{})
	var made []*provider
	var noConfig, noRefiller error
	parts := w.settler.Parts
	parts.Chains = func(context.Context) ([]uint64, error) { return []uint64{1}, nil }
	rails := settlement.NewRails(settlement.Wiring{
		Config: func(store.Rail) (stack.Config, error) { return w.settler.Config, noConfig },
		Nodes: func(stack.Config) chain.Provider {
			made = append(made, &provider{world: w})
			return made[len(made)-1]
		},
		Refiller: func(context.Context, token.Coin) (settlement.Refiller, error) { return nil, noRefiller },
	}, parts)
	w.settler.Config.ReservationAge, w.settler.Config.BumpAfter = 0, time.Hour
	for range 2 {
		accounts := must.Get(rails.Run(t.Context(), "run"))(t)
		if c := accounts[0].Config; c.ReservationAge != settlement.ReservationAge || c.BumpAfter != time.Hour || accounts[0].Rail.ChainID != 1 {
			t.Errorf("%+v", accounts[0])
		}
	}
	w.settler.Config.BumpAfter = time.Minute
	must.Get(rails.Run(t.Context(), "run"))(t)
	if made[0].asked == 0 || made[1].asked > 0 || made[2].asked == 0 {
		t.Errorf("the nodes are asked %d, %d and %d times", made[0].asked, made[1].asked, made[2].asked)
	}
	for _, lacks := range []*error{&noRefiller, &noConfig} {
		*lacks = porttest.ErrBroken
		if accounts, err := rails.Run(t.Context(), "run"); !errors.Is(err, *lacks) || accounts[0].Err.Error() != "broken" {
			t.Errorf("%v, %v", accounts, err)
		}
		*lacks = nil
	}
	w.Script["Rules#"+fmt.Sprint(w.Times["Rules"]+1)] = func(*world) error { return porttest.ErrLost }
	_, err := rails.Run(t.Context(), "run")
	if note := must.Get(w.Tables.Compared(t.Context(), token.Coin{ChainID: 1}))(t); !errors.Is(err, porttest.ErrLost) || !note.Ran.IsZero() {
		t.Errorf("without rules: %v, and of the chain: %+v", err, note)
	}
}

// TestAccept forgets the known final block, or nothing.
func TestAccept(t *testing.T) {
	for _, call := range []string{"", "Compared#1", "SetCompared#1"} {
		w := newWorld(t, breaks(call))
		w.known(chain.Block{Number: 7, Hash: chain.Hash{7}})
		err := w.settler.Accept(t.Context())
		known := must.Get(w.Tables.Compared(t.Context(), porttest.Rail.Coin()))(t).Final.Number
		if calm := call == ""; (err == nil) != calm || (known == 0) != calm {
			t.Errorf("%s fails: %v, and known is %d", call, err, known)
		}
	}
}

// TestSuspectedMeanwhile: another run pauses the wallets and raises next_nonce, after this one has read the wallet and
// before a node counts. This one does not clear the rail.
func TestSuspectedMeanwhile(t *testing.T) {
	w := newWorld(t, script{"Account#1": func(w *world) error {
		w.Must(w.Tables.Pause(context.Background(), id, wallet.Suspicion))
		w.Must(w.Tables.Advance(context.Background(), id, 2, 0))
		return nil
	}})
	w.mined, w.settled = 2, 2
	must.Get(w.settler.Run(t.Context(), "run"))(t)
	if known := must.Get(w.Tables.Compared(t.Context(), porttest.Rail.Coin()))(t); known.Cleared(w.Now()) {
		t.Errorf("%+v", known)
	}
}

// A speaker is a node that gives its head, or an error.
type speaker struct {
	chain.Node
	name string
	err  error
}

func (s speaker) String() string { return s.name }
func (s speaker) Head(context.Context, chain.ConfirmationRule) (chain.Head, error) {
	return chain.Head{}, s.err
}

// TestNoteSilent: a round notes since when nodes are silent, unless none answers or too many are silent.
func TestNoteSilent(t *testing.T) {
	now := time.Date(2100, time.January, 2, 3, 4, 5, 0, time.UTC)
	a, b := speaker{name: "a"}, speaker{name: "b", err: errors.New("429")}
	several := func(n int) chain.Nodes {
		nodes := chain.Nodes{a}
		for i := range n {
			nodes = append(nodes, speaker{name: fmt.Sprint("b", i), err: b.err})
		}
		return nodes
	}
	for name, test := range map[string]struct {
		nodes  chain.Nodes
		ago    time.Duration
		silent int
		names  int
	}{
		"below its time":  {chain.Nodes{a, b}, minute - 1, 0, 1},
		"beyond it":       {chain.Nodes{a, b}, minute, 1, 1},
		"busy":            {chain.Nodes{a, speaker{name: "b", err: chain.ErrBusy}}, minute, 0, 0},
		"no node answers": {chain.Nodes{b}, minute, 0, 1},
		"as many as fit":  {several(store.MaxNodes), minute, 0, store.MaxNodes},
		"too many":        {several(store.MaxNodes + 1), minute, 0, 1},
	} {
		known := store.Comparison{Silent: map[string]time.Time{"b": now.Add(-test.ago)}}
		before := maps.Clone(known.Silent)
		s := settlement.New(stack.Config{SilentAfter: minute},
			settlement.Parts{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
		silent, changed := s.NoteSilent(t.Context(), test.nodes.Heads(t.Context(), chain.ConfirmationRule{}), &known)
		if silent != test.silent || len(known.Silent) != test.names || changed == maps.Equal(before, known.Silent) {
			t.Errorf("%s: %d silent, changed %t, %v", name, silent, changed, known.Silent)
		}
	}
}

// TestChecksBeginAfterTheCall: passes that wait while a check runs share the next one.
func TestChecksBeginAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks settlement.Checks
		var begun atomic.Int32
		for i := range 4 {
			go checks.Join(func() bool {
				begun.Add(1)
				time.Sleep(minute)
				return true
			})
			time.Sleep(minute / 5) // all four are there before the first check ends
			if begun.Load() != 1 {
				t.Errorf("pass %d does not wait: %d checks", i, begun.Load())
			}
		}
		time.Sleep(2 * minute)
		if begun.Load() != 2 {
			t.Errorf("%d checks", begun.Load())
		}
	})
}

// TestSilentNodesAreNamed in the log, where an alarm's page sends people.
func TestSilentNodesAreNamed(t *testing.T) {
	w := newWorld(t, breaks("Head#1"))
	w.second()
	var log bytes.Buffer
	w.settler.Log, w.settler.SilentAfter = slog.New(slog.NewJSONHandler(&log, nil)), 5*minute
	must.Get(w.settler.Run(t.Context(), "run"))(t)
	if !regexp.MustCompile(`"node is silent","node":"(node|peer)",.*"left_out_after":"5m0s"`).Match(log.Bytes()) {
		t.Error(log.String())
	}
}
