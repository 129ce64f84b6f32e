package paymenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

var noncePromises = []promise{
	{"a lease takes the next nonce and ties funds up", leaseTaken},
	{"a lease may take the last nonce and the last coin", leaseLast},
	{"a refused lease says why and changes nothing", leaseRefused},
	{"an unknown wallet gives no lease and is not made", leaseUnknown},
	{"a payment keeps its lease, whatever has become of the wallet", leaseKept},
	{"racing leases get every nonce once", racingLeases},
	{"racing leases of one payment are one", racingTakeovers},
	{"racing leases stop at the ceiling", racingCeiling},
	{"a release ends the lease of that very nonce and no other", released},
	{"what is not held is released without an error", releaseNothing},
	{"the ceiling only rises", ceilingRises},
}

var walletPromises = []promise{
	{"an opened wallet is found as it was stored", walletFound},
	{"a wallet is opened once", walletOpenedOnce},
	{"spendable amounts are held to 38 digits", walletClamped},
	{"an unknown wallet is not found, changed or made", walletUnknown},
	{"the roster has every wallet of a chain, by address", roster},
	{"a wallet is attended by one run until its claim ends", attended},
	{"racing claims are held by one run", racingClaims},
	{"spendable amounts are stored unless a lease was taken meanwhile", reconciled},
	{"an advance raises the next nonce and pauses at once", advanced},
	{"a paused wallet gives no lease until it is resumed", paused},
}

func leaseTaken(c *check) {
	w := c.opened()
	got := c.leased(w, "pay_a")
	w.NextNonce, w.Token, w.Gas = 6, token.Units(999_990), token.Units(999_997)
	w.Leases["pay_a"] = wallet.Lease{Nonce: 5, At: noon.Add(456)}
	c.same("leased wallet", w, got)
	c.holdsWallet(w)

	got = c.leased(w, "pay_b")
	w.NextNonce, w.Token, w.Gas = 7, token.Units(999_980), token.Units(999_994)
	w.Leases["pay_b"] = wallet.Lease{Nonce: 6, At: noon.Add(456)}
	c.same("leased wallet", w, got)
	c.holdsWallet(w)
}

func leaseLast(c *check) {
	w := wallet.Wallet{
		ID: c.walletID(), NextNonce: 0, Ceiling: 1, Token: wallet.Spendable(token.MaxAmount()), Gas: token.Units(3),
		Leases: map[payment.ID]wallet.Lease{},
	}
	c.ok("opening", c.Open(c.Context(), w))
	r := c.request(w, "pay_a")
	r.Token = w.Token
	got, err := c.Lease(c.Context(), r)
	c.ok("leasing", err)
	w.NextNonce, w.Token, w.Gas = 1, token.Amount{}, token.Amount{}
	w.Leases["pay_a"] = wallet.Lease{Nonce: 0, At: r.At}
	c.same("leased wallet", w, got)
	c.holdsWallet(w)
}

func leaseRefused(c *check) {
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
			Leases: map[payment.ID]wallet.Lease{"pay_other": {Nonce: 4, At: noon}},
			Token:  token.Units(1_000_000), Gas: token.Units(1_000_000),
		}
		c.ok("opening", c.Open(c.Context(), w))
		r := c.request(w, "pay_a")
		r.Token, r.Gas = row.token, row.gas
		got, err := c.Lease(c.Context(), r)
		c.refused(row.because, err, row.want)
		c.same("wallet when "+row.because, w, got)
		c.holdsWallet(w)
	}
}

func leaseUnknown(c *check) {
	w := wallet.Wallet{ID: c.walletID()}
	for _, amount := range []token.Amount{token.Units(1), token.MaxAmount()} {
		r := c.request(w, "pay_a")
		r.Token = amount
		_, err := c.Lease(c.Context(), r)
		c.refused("leasing", err, wallet.ErrUnknown)
	}
	_, err := c.Wallet(c.Context(), w.ID)
	c.refused("reading", err, wallet.ErrUnknown)
}

func leaseKept(c *check) {
	for _, change := range []func(w wallet.Wallet) error{
		func(wallet.Wallet) error { return nil },
		func(w wallet.Wallet) error { return c.Pause(c.Context(), w.ID, "because") },
		func(w wallet.Wallet) error { return c.Advance(c.Context(), w.ID, 69, "because") },
		func(w wallet.Wallet) error {
			return c.Reconcile(c.Context(), w.ID, 6, token.Amount{}, token.Amount{})
		},
	} {
		w := c.leased(c.opened(), "pay_a")
		c.ok("changing", change(w))
		w, err := c.Wallet(c.Context(), w.ID)
		c.ok("reading", err)
		r := c.request(w, "pay_a")
		r.At = noon.Add(time.Hour)
		for _, amount := range []token.Amount{r.Token, token.MaxAmount()} {
			r.Token = amount
			got, err := c.Lease(c.Context(), r)
			c.ok("leasing again", err)
			c.same("wallet of a kept lease", w, got)
		}
		c.holdsWallet(w)
	}
}

func racingLeases(c *check) {
	const payments = 200
	w := c.opened()
	c.ok("raising the ceiling", c.RaiseCeiling(c.Context(), w.ID, 5+payments))
	nonces := make([]uint64, payments)
	c.race(payments, func(ctx context.Context, i int) {
		id := payment.ID(fmt.Sprintf("pay_%d", i))
		got, err := c.Lease(ctx, c.request(w, id))
		if err != nil {
			c.Errorf("leasing for %s: %v", id, err)
			return
		}
		nonces[i] = got.Leases[id].Nonce
	})
	stored, err := c.Wallet(c.Context(), w.ID)
	c.ok("reading", err)
	for i, nonce := range nonces {
		if held := stored.Leases[payment.ID(fmt.Sprintf("pay_%d", i))]; held.Nonce != nonce {
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
		got, err := c.Lease(ctx, c.request(w, "pay_a"))
		if err != nil || got.Leases["pay_a"].Nonce != 5 {
			c.Errorf("lease %v, error %v", got.Leases["pay_a"], err)
		}
	})
	w.NextNonce, w.Token, w.Gas = 6, token.Units(999_990), token.Units(999_997)
	w.Leases["pay_a"] = wallet.Lease{Nonce: 5, At: noon.Add(456)}
	c.holdsWallet(w)
}

func racingCeiling(c *check) {
	w := c.opened()
	results := make([]error, 80)
	c.race(len(results), func(ctx context.Context, i int) {
		_, results[i] = c.Lease(ctx, c.request(w, payment.ID(fmt.Sprintf("pay_%d", i))))
	})
	given := 0
	for _, err := range results {
		if err == nil {
			given++
			continue
		}
		c.refused("leasing", err, wallet.ErrCeiling)
	}
	if given != 64 {
		c.Errorf("%d leases were given, want 64", given)
	}
}

func released(c *check) {
	w := c.opened()
	c.leased(w, "pay_a")
	w = c.leased(w, "pay_b")
	c.ok("releasing another nonce", c.Release(c.Context(), "pay_a", noop(w.ID, 6)))
	c.holdsWallet(w)
	delete(w.Leases, "pay_a")
	for range 2 { // the second time, it is
		c.ok("releasing", c.Release(c.Context(), "pay_a", noop(w.ID, 5)))
		c.holdsWallet(w)
	}
	again := c.leased(w, "pay_a")
	if again.Leases["pay_a"].Nonce != 7 {
		c.Errorf("leased %v after the release, want a nonce nobody had", again.Leases["pay_a"])
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

func walletFound(c *check) {
	w := wallet.Wallet{
		ID: c.walletID(), NextNonce: 1 << 62, Ceiling: 1<<62 + 64, Leases: map[payment.ID]wallet.Lease{"pay_a": {Nonce: 3, At: noon}},
		Token: token.Units(7), Gas: token.Amount{}, Paused: "foreign transaction", Attended: noon.Add(time.Second),
	}
	c.ok("opening", c.Open(c.Context(), w))
	c.holdsWallet(w)
}

func walletOpenedOnce(c *check) {
	w := c.opened()
	w = c.leased(w, "pay_a")
	other := wallet.Wallet{ID: w.ID, NextNonce: 99, Ceiling: 100, Token: token.Units(1)}
	c.ok("opening again", c.Open(c.Context(), other))
	c.holdsWallet(w)
	c.race(8, func(ctx context.Context, _ int) {
		if err := c.Open(ctx, other); err != nil {
			c.Errorf("opening: %v", err)
		}
	})
	c.holdsWallet(w)
}

func walletClamped(c *check) {
	w := wallet.Wallet{
		ID: c.walletID(), NextNonce: 5, Ceiling: 9, Token: token.MaxAmount(), Gas: token.MaxAmount(),
		Leases: map[payment.ID]wallet.Lease{},
	}
	c.ok("opening", c.Open(c.Context(), w))
	most, err := token.ParseAmount("99999999999999999999999999999999999999")
	c.ok("parsing", err)
	w.Token, w.Gas = most, most
	c.holdsWallet(w)
	c.leased(w, "pay_a")
	c.ok("reconciling", c.Reconcile(c.Context(), w.ID, 6, token.MaxAmount(), token.MaxAmount()))
	stored, err := c.Wallet(c.Context(), w.ID)
	c.ok("reading", err)
	if stored.Token != most || stored.Gas != most {
		c.Errorf("token %s, gas %s", stored.Token, stored.Gas)
	}
}

func walletUnknown(c *check) {
	id := c.walletID()
	for name, err := range map[string]error{
		"RaiseCeiling": c.RaiseCeiling(c.Context(), id, 5),
		"Reconcile":    c.Reconcile(c.Context(), id, 0, token.Units(1), token.Units(1)),
		"Advance":      c.Advance(c.Context(), id, 5, "because"),
		"Pause":        c.Pause(c.Context(), id, "because"),
		"Resume":       c.Resume(c.Context(), id),
	} {
		c.refused(name, err, wallet.ErrUnknown)
	}
	held, err := c.Attend(c.Context(), id, "run", noon, noon.Add(time.Second))
	c.refused("Attend", err, wallet.ErrUnknown)
	if held {
		c.Error("an unknown wallet is attended")
	}
	_, err = c.Wallet(c.Context(), id)
	c.refused("reading", err, wallet.ErrUnknown)
}

func roster(c *check) {
	var chain [8]byte
	copy(chain[:], c.merchant[4:])
	chainID := uint64(0)
	for _, b := range chain {
		chainID = chainID<<7 | uint64(b)
	}
	ids, err := c.Roster(c.Context(), chainID)
	c.ok("reading the roster", err)
	c.same("empty roster", []wallet.ID{}, ids)
	var want []wallet.ID
	for range 5 {
		id := c.walletID()
		id.ChainID = chainID
		want = append(want, id)
	}
	for _, id := range append(want, want[0], wallet.ID{ChainID: chainID + 1, Address: want[1].Address}) {
		c.ok("opening", c.Open(c.Context(), wallet.Wallet{ID: id}))
	}
	slices.SortFunc(want, func(a, b wallet.ID) int { return bytes.Compare(a.Address[:], b.Address[:]) })
	ids, err = c.Roster(c.Context(), chainID)
	c.ok("reading the roster", err)
	c.same("roster", want, ids)
}

func attended(c *check) {
	w := c.opened()
	for _, row := range []struct {
		what       string
		by         string
		now, until time.Duration
		held       bool
		after      time.Duration
	}{
		{"nobody attends it", "one", 0, 5 * time.Second, true, 5 * time.Second},
		{"another's claim lasts", "two", time.Second, 9 * time.Second, false, 5 * time.Second},
		{"its own claim lasts", "one", 2 * time.Second, 7 * time.Second, true, 7 * time.Second},
		{"another's claim lasts a nanosecond more", "two", 7*time.Second - 1, 9 * time.Second, false, 7 * time.Second},
		{"another's claim ends now", "two", 7 * time.Second, 12 * time.Second, true, 12 * time.Second},
		{"it gives its claim up", "two", 8 * time.Second, 8 * time.Second, true, 8 * time.Second},
		{"the claim was given up", "one", 8 * time.Second, 9 * time.Second, true, 9 * time.Second},
	} {
		held, err := c.Attend(c.Context(), w.ID, row.by, noon.Add(row.now), noon.Add(row.until))
		c.ok(row.what, err)
		if held != row.held {
			c.Errorf("%s: held = %v", row.what, held)
		}
		w.Attended = noon.Add(row.after)
		c.holdsWallet(w)
	}
}

func racingClaims(c *check) {
	w := c.opened()
	held := make([]bool, 8)
	c.race(len(held), func(ctx context.Context, i int) {
		var err error
		if held[i], err = c.Attend(ctx, w.ID, fmt.Sprint("run ", i), noon, noon.Add(time.Second)); err != nil {
			c.Errorf("attending: %v", err)
		}
	})
	if n := len(slices.DeleteFunc(held, func(held bool) bool { return !held })); n != 1 {
		c.Errorf("%d runs hold the claim", n)
	}
}

func reconciled(c *check) {
	w := c.opened()
	c.ok("reconciling", c.Reconcile(c.Context(), w.ID, 5, token.Units(70), token.Amount{}))
	w.Token, w.Gas = token.Units(70), token.Amount{}
	c.holdsWallet(w)
	c.ok("reconciling again", c.Reconcile(c.Context(), w.ID, 5, token.Units(80), token.Units(90)))
	w = c.leased(w, "pay_a")
	c.refused("reconciling too late", c.Reconcile(c.Context(), w.ID, 5, token.Units(1), token.Units(1)), wallet.ErrChanged)
	c.refused("reconciling too early", c.Reconcile(c.Context(), w.ID, 7, token.Units(1), token.Units(1)), wallet.ErrChanged)
	c.holdsWallet(w)
}

func advanced(c *check) {
	w := c.leased(c.opened(), "pay_a")
	for _, step := range []struct{ to, want uint64 }{{9, 9}, {9, 9}, {3, 9}} {
		c.ok("advancing", c.Advance(c.Context(), w.ID, step.to, "foreign transaction"))
		w.NextNonce, w.Paused = step.want, "foreign transaction"
		c.holdsWallet(w)
	}
	c.ok("resuming", c.Resume(c.Context(), w.ID))
	c.ok("advancing to where it is", c.Advance(c.Context(), w.ID, 9, ""))
	w, err := c.Wallet(c.Context(), w.ID)
	c.ok("reading", err)
	if w.Paused == "" {
		c.Error("an advance without a reason does not pause")
	}
	c.ok("resuming", c.Resume(c.Context(), w.ID))
	if w = c.leased(w, "pay_b"); w.Leases["pay_b"].Nonce != 9 || w.Leases["pay_a"].Nonce != 5 {
		c.Errorf("leases after an advance: %v", w.Leases)
	}
}

func paused(c *check) {
	w := c.opened()
	for _, reason := range []string{"low on gas", "low on gas", "foreign transaction"} {
		c.ok("pausing", c.Pause(c.Context(), w.ID, reason))
		w.Paused = reason
		c.holdsWallet(w)
	}
	got, err := c.Lease(c.Context(), c.request(w, "pay_a"))
	c.refused("leasing", err, wallet.ErrPaused)
	c.same("paused wallet", w, got)
	w.Paused = ""
	for range 2 { // the second time, it is not paused
		c.ok("resuming", c.Resume(c.Context(), w.ID))
		c.holdsWallet(w)
	}
	c.leased(w, "pay_a")
	c.ok("pausing without a reason", c.Pause(c.Context(), w.ID, ""))
	_, err = c.Lease(c.Context(), c.request(w, "pay_b"))
	c.refused("leasing", err, wallet.ErrPaused)
}
