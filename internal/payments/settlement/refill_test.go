package settlement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// A refiller notes which assets it is asked for, and refuses.
type refiller []string

func (r *refiller) Refill(_ context.Context, _ token.Address, ether bool, seen uint64) error {
	*r = append(*r, fmt.Sprint(map[bool]string{true: "ether", false: "token"}[ether], " since ", seen))
	return porttest.ErrBroken
}

// TestRefill: which refills are asked for. The wallet has a payment under way, for 100 units
// and 210 wei, and is low by one of either.
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

		"a draining wallet":       {become(wallet.Draining), nil},
		"a funding wallet":        {become(wallet.Funding), nil},
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
				w.reserve("a", 0)
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

// TestRefillsLeft: how many refills a funding wallet can pay, of the asset that it has less of; of the token
// alone where that pays the gas.
func TestRefillsLeft(t *testing.T) {
	for _, test := range []struct{ unit, token, ether, want uint64 }{
		{0, 500_000, 0, 2}, {0, 500_001, 0, 1}, {0, 1_000_001, 0, 0}, {0, 0, 1 << 58, 4}, {0, 500_000, 1 << 60, 1}, {0, 1, 1, 100},
		{0, 0, 0, 100}, {1, 500_000, 1 << 60, 2},
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
