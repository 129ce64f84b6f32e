package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

var noncePromises = []promise{
	{"a reservation takes the next nonce and ties funds up", reservationTaken},
	{"a reservation may take the last nonce and the last coin", reservationLast},
	{"a refused reservation says why and changes nothing", reservationRefused},
	{"an unknown wallet gives no reservation and is not made", reservationUnknown},
	{"a payment keeps its reservation, whatever has become of the wallet", reservationKept},
	{"racing reservations get every nonce once", racingReservations},
	{"racing reservations of one payment are one", racingTakeovers},
	{"racing reservations stop at the ceiling", racingCeiling},
	{"a release ends the reservation of that very nonce and no other", released},
	{"what is not held is released without an error", releaseNothing},
	{"the ceiling only rises", ceilingRises},
}

func reservationTaken(c *check) {
	w := c.opened()
	got := c.reserved(w, "pay_a")
	w.NextNonce, w.Token, w.Gas = 6, token.Units(999_990), token.Units(999_997)
	w.Reservations["pay_a"] = wallet.Reservation{Nonce: 5, At: noon.Add(456)}
	c.same("reserved wallet", w, got)
	c.holdsWallet(w)

	first := got
	got = c.reserved(w, "pay_b")
	c.same("what the first reservation returned, after the second", w, first)
	w.NextNonce, w.Token, w.Gas = 7, token.Units(999_980), token.Units(999_994)
	w.Reservations["pay_b"] = wallet.Reservation{Nonce: 6, At: noon.Add(456)}
	c.same("reserved wallet", w, got)
	c.holdsWallet(w)
}

func reservationLast(c *check) {
	w := wallet.Wallet{
		ID: c.walletID(), NextNonce: 0, Ceiling: 1, Token: wallet.Spendable(token.MaxAmount()), Gas: token.Units(3),
		Reservations: map[payment.ID]wallet.Reservation{},
	}
	c.ok("opening", c.Open(c.Context(), w))
	r := c.request(w, "pay_a")
	r.Token = w.Token
	got, err := c.Reserve(c.Context(), r)
	c.ok("reserving", err)
	w.NextNonce, w.Token, w.Gas = 1, token.Amount{}, token.Amount{}
	w.Reservations["pay_a"] = wallet.Reservation{Nonce: 0, At: r.At}
	c.same("reserved wallet", w, got)
	c.holdsWallet(w)
}

func reservationRefused(c *check) {
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
		{"nobody has so much of the token", "", 5, token.MaxAmount(), token.Units(1), wallet.ErrToken},
		{"nobody has so much gas", "", 5, token.Units(1), token.MaxAmount(), wallet.ErrGas},
		{"it is paused and nobody has so much", "foreign transaction", 5, token.MaxAmount(), token.MaxAmount(), wallet.ErrPaused},
	} {
		w := wallet.Wallet{
			ID: c.walletID(), NextNonce: row.next, Ceiling: 69, Paused: row.paused,
			Reservations: map[payment.ID]wallet.Reservation{"pay_other": {Nonce: 4, At: noon}},
			Token:        token.Units(1_000_000), Gas: token.Units(1_000_000),
		}
		c.ok("opening", c.Open(c.Context(), w))
		r := c.request(w, "pay_a")
		r.Token, r.Gas = row.token, row.gas
		got, err := c.Reserve(c.Context(), r)
		c.refused(row.because, err, row.want)
		c.same("wallet when "+row.because, w, got)
		c.holdsWallet(w)
	}
}

func reservationUnknown(c *check) {
	w := wallet.Wallet{ID: c.walletID()}
	for _, amount := range []token.Amount{token.Units(1), token.MaxAmount()} {
		r := c.request(w, "pay_a")
		r.Token = amount
		_, err := c.Reserve(c.Context(), r)
		c.refused("reserving", err, wallet.ErrUnknown)
	}
	_, err := c.Wallet(c.Context(), w.ID)
	c.refused("reading", err, wallet.ErrUnknown)
}

func reservationKept(c *check) {
	for _, change := range []func(w wallet.Wallet) error{
		func(wallet.Wallet) error { return nil },
		func(w wallet.Wallet) error { return c.Pause(c.Context(), w.ID, "because") },
		func(w wallet.Wallet) error { return c.Advance(c.Context(), w.ID, 69, "because") },
		func(w wallet.Wallet) error {
			return c.Reconcile(c.Context(), w.ID, 6, token.Amount{}, token.Amount{})
		},
	} {
		w := c.reserved(c.opened(), "pay_a")
		c.ok("changing", change(w))
		w, err := c.Wallet(c.Context(), w.ID)
		c.ok("reading", err)
		r := c.request(w, "pay_a")
		r.At = noon.Add(time.Hour)
		for _, amount := range []token.Amount{r.Token, token.MaxAmount()} {
			r.Token = amount
			got, err := c.Reserve(c.Context(), r)
			c.ok("reserving again", err)
			c.same("wallet of a kept reservation", w, got)
		}
		c.holdsWallet(w)
	}
}

func racingReservations(c *check) {
	const payments = 200
	w := c.opened()
	c.ok("raising the ceiling", c.RaiseCeiling(c.Context(), w.ID, 5+payments))
	nonces := make([]uint64, payments)
	c.race(payments, func(ctx context.Context, i int) {
		id := payment.ID(fmt.Sprintf("pay_%d", i))
		got, err := c.Reserve(ctx, c.request(w, id))
		if err != nil {
			c.Errorf("reserving for %s: %v", id, err)
			return
		}
		nonces[i] = got.Reservations[id].Nonce
	})
	stored, err := c.Wallet(c.Context(), w.ID)
	c.ok("reading", err)
	for i, nonce := range nonces {
		if held := stored.Reservations[payment.ID(fmt.Sprintf("pay_%d", i))]; held.Nonce != nonce {
			c.Errorf("payment %d was given nonce %d and holds %d", i, nonce, held.Nonce)
		}
	}
	slices.Sort(nonces)
	for i, nonce := range nonces {
		if nonce != uint64(5+i) {
			c.Fatalf("nonces have a hole or a double at %d: %v", i, nonces)
		}
	}
	if stored.NextNonce != 5+payments || stored.Token != token.Units(1_000_000-10*payments) || stored.Gas != token.Units(1_000_000-3*payments) {
		c.Errorf("next %d, token %s, gas %s", stored.NextNonce, stored.Token, stored.Gas)
	}
}

func racingTakeovers(c *check) {
	w := c.opened()
	c.race(16, func(ctx context.Context, _ int) {
		got, err := c.Reserve(ctx, c.request(w, "pay_a"))
		if err != nil || got.Reservations["pay_a"].Nonce != 5 {
			c.Errorf("reservation %v, error %v", got.Reservations["pay_a"], err)
		}
	})
	w.NextNonce, w.Token, w.Gas = 6, token.Units(999_990), token.Units(999_997)
	w.Reservations["pay_a"] = wallet.Reservation{Nonce: 5, At: noon.Add(456)}
	c.holdsWallet(w)
}

func racingCeiling(c *check) {
	w := c.opened()
	results := make([]error, 80)
	c.race(len(results), func(ctx context.Context, i int) {
		_, results[i] = c.Reserve(ctx, c.request(w, payment.ID(fmt.Sprintf("pay_%d", i))))
	})
	given := 0
	for _, err := range results {
		if err == nil {
			given++
			continue
		}
		c.refused("reserving", err, wallet.ErrCeiling)
	}
	if given != 64 {
		c.Errorf("%d reservations were given, want 64", given)
	}
}

func released(c *check) {
	w := c.opened()
	c.reserved(w, "pay_a")
	w = c.reserved(w, "pay_b")
	c.ok("releasing another nonce", c.Release(c.Context(), "pay_a", noop(w.ID, 6)))
	c.holdsWallet(w)
	delete(w.Reservations, "pay_a")
	for range 2 { // the second time, it is
		c.ok("releasing", c.Release(c.Context(), "pay_a", noop(w.ID, 5)))
		c.holdsWallet(w)
	}
	again := c.reserved(w, "pay_a")
	if again.Reservations["pay_a"].Nonce != 7 {
		c.Errorf("reserved %v after the release, want a nonce nobody had", again.Reservations["pay_a"])
	}
	c.ok("releasing the first nonce late", c.Release(c.Context(), "pay_a", noop(w.ID, 5)))
	c.holdsWallet(again)
}

func releaseNothing(c *check) {
	w := c.opened()
	c.ok("releasing", c.Release(c.Context(), "pay_a", noop(w.ID, 0)))
	c.holdsWallet(w)
	id := c.walletID()
	c.ok("releasing on an unknown wallet", c.Release(c.Context(), "pay_a", noop(id, 0)))
	_, err := c.Wallet(c.Context(), id)
	c.refused("reading", err, wallet.ErrUnknown)
}

func ceilingRises(c *check) {
	w := c.opened()
	for _, step := range []struct{ to, want uint64 }{{70, 70}, {69, 70}, {70, 70}, {0, 70}, {200, 200}} {
		c.ok("raising", c.RaiseCeiling(c.Context(), w.ID, step.to))
		w.Ceiling = step.want
		c.holdsWallet(w)
	}
}
