package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var racePromises = []promise[*check]{
	{"of many racing writes as many get in as would one after the other", func(c *check) {
		prepared, committed, bumps := c.stage("prepared"), c.stage("committed"), c.stage("committed")
		p, s, released, w := c.unstored(), c.stage("prepared"), c.stage("proposed"), c.opened()
		failed := must.Get(committed.committed.Fail(payment.NonceConsumed, chain.Receipt{}, noon))(c)
		ends := []payment.Payment{committed.final, failed}
		guards := store.Guard{ID: c.merchant}
		limits := []payment.DailyLimit{{Key: "key_a", Amount: token.Units(1000), Count: 17}, {Amount: token.Units(170)}}
		for _, race := range []struct {
			what    string
			n, wins int
			refusal error
			write   func(ctx context.Context, i int) error
		}{
			{"creations", 8, 1, errOthers, func(ctx context.Context, _ int) error {
				_, created, err := c.Create(ctx, p)
				return othersUnless(created, err)
			}},
			{"payments under a guard", 8, 1, store.ErrChanged, func(ctx context.Context, _ int) error {
				_, created, err := c.CreateGuarded(ctx, c.unstored(), guards)
				return othersUnless(created, err)
			}},
			{"commits of a payment", 8, 1, store.ErrChanged, func(ctx context.Context, i int) error {
				return c.Commit(ctx, c.committing(prepared.prepared, uint64(i)))
			}},
			{"a payment and no-ops at a nonce", 6, 1, store.ErrNonceTaken, func(ctx context.Context, i int) error {
				if i == 0 {
					return c.Commit(ctx, s.committed)
				}
				return c.PutNoop(ctx, noop(idOf(s.prepared), 3))
			}},
			{"attempts", 3, 1, store.ErrChanged, func(ctx context.Context, i int) error {
				return c.AddAttempt(ctx, c.bumping(bumps.committed, uint64(20+i)))
			}},
			{"ends", 2, 1, store.ErrChanged, func(ctx context.Context, i int) error { return c.Finish(ctx, ends[i]) }},
			{"amendments", 5, 1, store.ErrChanged, func(ctx context.Context, i int) error {
				by := proposal.Author{Key: fmt.Sprint("key_", i)}
				return c.Amend(ctx, released.proposed, released.proposed.Approve(by, noon), store.Guard{})
			}},
			{"claims", 8, 1, errOthers, func(ctx context.Context, i int) error {
				return othersUnless(c.Claim(ctx, w.ID, fmt.Sprint("run ", i), noon, noon.Add(time.Second), nil))
			}},
			{"charges", 50, 17, store.ErrDailyLimit, func(ctx context.Context, _ int) error {
				return c.Charge(ctx, store.Charge{Merchant: c.merchant, Mode: "test", At: noon, Amount: token.Units(10), Count: 1,
					Limits: limits})
			}},
		} {
			won := c.wins(race.n, race.refusal, func(ctx context.Context, i int) error {
				return patiently(func() error { return race.write(ctx, i) })
			})
			if len(won) != race.wins {
				c.Errorf("%d of %d racing %s got in, want %d", len(won), race.n, race.what, race.wins)
			}
		}
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
		w.NextNonce, w.Ceiling, w.Reservations = 5+room, 5+room, stored.Reservations
		w.Balance, w.Gas = token.Units(1_000_000-10*room), token.Units(1_000_000-3*room)
		c.same("the wallet", w, stored)
		again := c.opened()
		c.race(16, func(ctx context.Context, _ int) {
			c.ok("reserving for one", must.Err(c.Reserve(ctx, need(again, "pay_a"))))
		})
		c.same("a wallet of racing reservations of one payment", after(again, need(again, "pay_a")), c.wallet(again.ID))
	}},
}
