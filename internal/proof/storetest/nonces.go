package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var noncePromises = []promise[*check]{
	{"a reservation takes the next nonce and ties up funds", func(c *check) {
		w := c.opened()
		first := after(w, need(w, "pay_a"))
		got := c.reserved(w, "pay_a")
		c.same("reserved wallet", first, got)
		c.holdsWallet(first)

		second := after(first, need(w, "pay_b"))
		c.same("second reserved wallet", second, c.reserved(w, "pay_b"))
		c.same("answer to the first reservation, after the second", first, got)
		c.holdsWallet(second)
	}},
	{"a reservation may take the last nonce and the last unit", func(c *check) {
		w := c.open(wallet.Wallet{
			ID: c.walletID(), NextNonce: 0, Ceiling: 1, Balance: wallet.Spendable(token.MaxAmount()), Gas: token.Units(3),
			Reservations: map[payment.ID]wallet.Reservation{},
		})
		n := need(w, "pay_a")
		n.Amount = w.Balance
		got := must.Get(c.Reserve(c.Context(), n))(c)
		w = after(w, n)
		c.same("reserved wallet", w, got)
		c.holdsWallet(w)
	}},
	{"a refused reservation says why and changes nothing", func(c *check) {
		much := token.Units(2_000_000)
		for _, row := range []struct {
			because string
			paused  string
			next    uint64
			token   token.Amount
			gas     token.Amount
			want    error
		}{
			{"everything is wrong", "foreign transaction", 69, much, much, wallet.ErrPaused},
			{"it is paused", "foreign transaction", 5, token.Units(1), token.Units(1), wallet.ErrPaused},
			{"it is at its ceiling and short of both", "", 69, much, much, wallet.ErrCeiling},
			{"it is above its ceiling", "", 70, token.Units(1), token.Units(1), wallet.ErrCeiling},
			{"it is short of both", "", 5, much, much, wallet.ErrToken},
			{"it is short of the token by one", "", 5, token.Units(1_000_001), token.Units(1), wallet.ErrToken},
			{"it is short of gas by one", "", 5, token.Units(1_000_000), token.Units(1_000_001), wallet.ErrGas},
			{"no wallet can have so much of the token", "", 5, token.MaxAmount(), token.Units(1), wallet.ErrToken},
			{"no wallet can have so much gas", "", 5, token.Units(1), token.MaxAmount(), wallet.ErrGas},
			{"it is paused and no wallet can have so much", "foreign transaction", 5, token.MaxAmount(), token.MaxAmount(), wallet.ErrPaused},
		} {
			w := c.open(wallet.Wallet{
				ID: c.walletID(), NextNonce: row.next, Ceiling: 69, Paused: row.paused,
				Reservations: map[payment.ID]wallet.Reservation{"pay_other": {Nonce: 4, At: noon}},
				Balance:      token.Units(1_000_000), Gas: token.Units(1_000_000),
			})
			n := need(w, "pay_a")
			n.Amount, n.Gas = row.token, row.gas
			got, err := c.Reserve(c.Context(), n)
			c.refused(row.because, err, row.want)
			c.same("wallet when "+row.because, w, got)
			c.holdsWallet(w)
		}
	}},
	{"a merchant gets as many nonces as its cap, which a run counts anew", func(c *check) {
		w := c.opened()
		capped := func(id payment.ID, merchant string) wallet.Need {
			n := need(w, id)
			n.Merchant, n.MerchantCap = merchant, 2
			return n
		}
		reserve := func(id payment.ID, merchant string) error {
			got, err := c.Reserve(c.Context(), capped(id, merchant))
			c.holdsWallet(got)
			return err
		}
		counted := func(want map[string]uint64) {
			c.Helper()
			c.same("counts", want, c.wallet(w.ID).PerMerchant)
		}
		c.ok("the first", reserve("pay_a", "mer_a"))
		c.ok("the first again", reserve("pay_a", "mer_a"))
		c.ok("the second", reserve("pay_b", "mer_a"))
		c.refused("the third", reserve("pay_c", "mer_a"), wallet.ErrMerchantCap)
		c.ok("another merchant's", reserve("pay_d", "mer_b"))
		c.reserved(w, "pay_e") // without a cap
		counted(map[string]uint64{"mer_a": 2, "mer_b": 1})
		read := c.wallet(w.ID)
		c.ok("reconciling without counts", c.Reconcile(c.Context(), read, w.Balance, w.Gas, nil, nil))
		counted(read.PerMerchant)
		c.ok("reconciling", c.Reconcile(c.Context(), read, w.Balance, w.Gas, map[string]uint64{"mer_a": 1}, nil))
		counted(map[string]uint64{"mer_a": 1})
		c.ok("the third, later", reserve("pay_c", "mer_a"))
		c.refused("reconciling from an old reading", c.Reconcile(c.Context(), read, w.Balance, w.Gas, nil, nil), store.ErrChanged)
		c.ok("returning the third", c.Return(c.Context(), capped("pay_c", "mer_a"), 9))
		counted(map[string]uint64{"mer_a": 1})
		c.ok("the third once more", reserve("pay_c", "mer_a"))
		counted(map[string]uint64{"mer_a": 2})
	}},
	{"a payment keeps its reservation when the wallet is paused, advanced or empty", func(c *check) {
		for _, change := range []func(w wallet.Wallet) error{
			func(wallet.Wallet) error { return nil },
			func(w wallet.Wallet) error { return c.Pause(c.Context(), w.ID, "because") },
			func(w wallet.Wallet) error { return c.Advance(c.Context(), w.ID, 69, 0) },
			func(w wallet.Wallet) error {
				return c.Reconcile(c.Context(), w, token.Amount{}, token.Amount{}, nil, nil)
			},
		} {
			w := c.reserved(c.opened(), "pay_a")
			c.ok("changing", change(w))
			w = c.wallet(w.ID)
			n := need(w, "pay_a")
			n.At = noon.Add(time.Hour)
			for _, n.Amount = range []token.Amount{n.Amount, token.MaxAmount()} {
				got := must.Get(c.Reserve(c.Context(), n))(c)
				c.same("wallet of a kept reservation", w, got)
			}
			c.holdsWallet(w)
		}
	}},
	{"a reservation is of one revision", func(c *check) {
		w := c.reserved(c.opened(), "pay_b")
		n := need(w, "pay_b")
		n.For = "another"
		for _, n.Amount = range []token.Amount{n.Amount, token.MaxAmount()} {
			got, err := c.Reserve(c.Context(), n)
			c.refused("reserving for another revision", err, wallet.ErrHeld)
			c.same("wallet", w, got)
		}
		c.ok("pausing", c.Pause(c.Context(), w.ID, "because"))
		c.refused("reserving on a paused wallet", must.Err(c.Reserve(c.Context(), n)), wallet.ErrPaused)
		c.ok("releasing", c.Release(c.Context(), "pay_b", noop(w.ID, 5)))
		c.ok("ending the pause", c.Repause(c.Context(), w.ID, "because", ""))
		n = need(w, "pay_b")
		n.For = "another"
		delete(w.Reservations, "pay_b")
		w = after(w, n)
		got := must.Get(c.Reserve(c.Context(), n))(c)
		c.same("wallet", w, got)
		c.holdsWallet(w)
	}},
	{"racing reservations get every nonce below the ceiling once", func(c *check) {
		const payments, room = 200, 150
		w := c.opened()
		c.ok("raising the ceiling", c.RaiseCeiling(c.Context(), w.ID, 5+room))
		var nonces [payments]uint64
		won := c.wins(payments, wallet.ErrCeiling, func(ctx context.Context, i int) error {
			id := payment.ID(fmt.Sprint("pay_", i))
			got, err := c.Reserve(ctx, need(w, id))
			nonces[i] = got.Reservations[id].Nonce
			return err
		})
		stored, got := c.wallet(w.ID), []uint64{}
		for _, i := range won {
			if held := stored.Reservations[payment.ID(fmt.Sprint("pay_", i))]; held.Nonce != nonces[i] {
				c.Errorf("payment %d was given nonce %d and holds %d", i, nonces[i], held.Nonce)
			}
			got = append(got, nonces[i])
		}
		slices.Sort(got)
		if got = slices.Compact(got); len(won) != room || len(got) != room || got[0] != 5 || got[room-1] != 4+room {
			c.Errorf("nonces have a hole or a double: %v", got)
		}
		if stored.NextNonce != 5+room || stored.Balance != token.Units(1_000_000-10*room) || stored.Gas != token.Units(1_000_000-3*room) {
			c.Errorf("next %d, token %s, gas %s", stored.NextNonce, stored.Balance, stored.Gas)
		}
	}},
	{"racing reservations of one payment are one", func(c *check) {
		w := c.opened()
		c.race(16, func(ctx context.Context, _ int) {
			got, err := c.Reserve(ctx, need(w, "pay_a"))
			if err != nil || got.Reservations["pay_a"].Nonce != 5 {
				c.Errorf("reservation %v, error %v", got.Reservations["pay_a"], err)
			}
		})
		c.holdsWallet(after(w, need(w, "pay_a")))
	}},
	{"a release ends the reservation of that very nonce and no other", func(c *check) {
		w := c.opened()
		c.reserved(w, "pay_a")
		w = c.reserved(w, "pay_b")
		c.ok("releasing another nonce", c.Release(c.Context(), "pay_a", noop(w.ID, 6)))
		c.ok("releasing for a payment that holds none", c.Release(c.Context(), "pay_c", noop(w.ID, 5)))
		c.holdsWallet(w)
		delete(w.Reservations, "pay_a")
		for range 2 { // the second call finds it released
			c.ok("releasing", c.Release(c.Context(), "pay_a", noop(w.ID, 5)))
			c.holdsWallet(w)
		}
		again := c.reserved(w, "pay_a")
		if again.Reservations["pay_a"].Nonce != 7 {
			c.Errorf("reserved %v after the release, want nonce 7, which no payment had", again.Reservations["pay_a"])
		}
		c.ok("releasing the first nonce late", c.Release(c.Context(), "pay_a", noop(w.ID, 5)))
		c.holdsWallet(again)
	}},
	{"a nonce is returned by its taker if it is the last, and the wallet is as before", func(c *check) {
		for _, row := range []struct {
			because  string
			need     func(*wallet.Need)
			nonce    uint64
			change   func(w wallet.Wallet) error
			returned bool
		}{
			{"nothing has changed", func(*wallet.Need) {}, 6, func(wallet.Wallet) error { return nil }, true},
			{"another nonce is meant", func(*wallet.Need) {}, 5, func(wallet.Wallet) error { return nil }, false},
			{"another request has taken it", func(n *wallet.Need) { n.At = n.At.Add(1) }, 6, func(wallet.Wallet) error { return nil }, false},
			{"the payment holds none", func(n *wallet.Need) { n.Payment = "pay_c" }, 6, func(wallet.Wallet) error { return nil }, false},
			{"the next nonce is reserved", func(*wallet.Need) {}, 6, func(w wallet.Wallet) error {
				return must.Err(c.Reserve(c.Context(), need(w, "pay_c")))
			}, false},
			{"the wallet is paused", func(*wallet.Need) {}, 6, func(w wallet.Wallet) error { return c.Pause(c.Context(), w.ID, "because") }, false},
			{"it is an orphan", func(*wallet.Need) {}, 6, func(w wallet.Wallet) error { return c.Orphan(c.Context(), w.ID, "pay_b", 6) }, false},
		} {
			before := c.reserved(c.opened(), "pay_a")
			n := need(before, "pay_b")
			row.need(&n)
			c.reserved(before, "pay_b")
			c.ok("changing", row.change(before))
			want := c.wallet(before.ID)
			for range 2 { // the second call finds it returned
				err := c.Return(c.Context(), n, row.nonce)
				if row.returned {
					c.ok("returning when "+row.because, err)
					want, row.returned = before, false
					want.Returned = 1
				} else {
					c.refused("returning when "+row.because, err, store.ErrChanged)
				}
				c.holdsWallet(want)
			}
		}
	}},
}
