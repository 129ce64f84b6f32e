package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// guarded returns a guard that is not stored, and a payment of a guarded key.
func (c *check) guarded() (store.Guard, payment.Payment) {
	p := c.unstored()
	p.Guarded = true
	return must.Get(c.Guard(c.Context(), rand.Text()))(c), p
}

// guards returns the guard that is stored with payments, after it has checked them.
func (c *check) guards(id string, payments ...payment.ID) store.Guard {
	c.Helper()
	g := must.Get(c.Guard(c.Context(), id))(c)
	c.same("payments of the guard", payments, g.Payments)
	if (g.Version > 0) != (len(payments) > 0) || g.ID != id {
		c.Errorf("the guard is %+v", g)
	}
	return g
}

var guardPromises = []promise[*check]{
	{"a payment and its guard are stored together, or neither is", func(c *check) {
		create := func(p payment.Payment, g store.Guard, want bool, refusal error) {
			c.Helper()
			stored, created, err := c.CreateGuarded(c.Context(), p, g)
			if created != want || !errors.Is(err, refusal) {
				c.Errorf("created %v, error %v", created, err)
			}
			if refusal == nil {
				c.samePayment("returned payment", p, stored)
			}
		}
		none, first := c.guarded()
		_, second := c.guarded()
		c.guards(none.ID)
		create(first, none, true, nil)
		c.holds(first)
		g := c.guards(none.ID, first.ID)
		create(second, none, false, store.ErrChanged)
		create(first, none, false, nil) // the stored payment comes before the guard that has changed
		c.missing(second.ID)
		c.guards(none.ID, first.ID)

		create(second, g, true, nil)
		newest := c.guards(none.ID, first.ID, second.ID)
		c.ok("discarding", c.Discard(c.Context(), second))
		create(second, g, false, store.ErrChanged)
		create(second, store.Guard{ID: g.ID, Version: newest.Version}, true, nil)
		if again := c.guards(none.ID, second.ID); again.Version <= newest.Version {
			c.Errorf("version %d after %d", again.Version, newest.Version)
		}
	}},
	{"of many racing payments under one guard one is created", func(c *check) {
		g, _ := c.guarded()
		var all []payment.Payment
		for range 8 {
			all = append(all, c.unstored())
		}
		won := c.winner(len(all), store.ErrChanged, func(ctx context.Context, i int) error {
			return patiently(func() error {
				_, created, err := c.CreateGuarded(ctx, all[i], g)
				return othersUnless(created, err)
			})
		})
		c.guards(g.ID, all[won].ID)
	}},
	{"a guard has at most as many payments as the bound says", func(c *check) {
		g, p := c.guarded()
		g.Payments = slices.Repeat([]payment.ID{p.ID}, store.MaxGuarded)
		_, _, err := c.CreateGuarded(c.Context(), p, g)
		c.refused("one more", err, store.ErrTooLarge)
		g.Payments = g.Payments[1:]
		_, _, err = c.CreateGuarded(c.Context(), p, g)
		c.ok("up to the bound", err)
		c.guards(g.ID, append(g.Payments, p.ID)...)
	}},
}
