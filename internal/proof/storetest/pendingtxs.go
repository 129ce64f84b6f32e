package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var commitPromises = []promise[*check]{
	{"a commit stores the payment, its pending transaction and its hash", func(c *check) {
		for _, nonce := range []uint64{0, math.MaxUint64} {
			p := c.create(c.draft(c.walletID(), noon, token.MaxAmount()))
			p = c.committed(p, nonce)
			c.holds(p)
			c.holdsTxOf(p)
			c.leads(p, p.TxHash)
		}
	}},
	{"a commit leaves the reservation to its release", func(c *check) {
		w := c.opened()
		p := c.created(w.ID)
		w = c.reserved(w, p.ID)
		c.committed(p, w.Reservations[p.ID].Nonce)
		c.holdsWallet(w)
	}},
	{"a commit for another revision stores nothing", func(c *check) {
		p := c.created(c.walletID())
		stale := c.committing(p.AssignedTo(c.walletID().Address, p.Tx), 3)
		c.refused("committing", c.Commit(c.Context(), stale), store.ErrChanged)
		c.notStored(p, stale)

		missing := c.committing(c.unstored(), 3)
		c.refused("committing a missing payment", c.Commit(c.Context(), missing), store.ErrChanged)
		c.missing(missing.ID)
		c.leadsNowhere(missing.TxHash)
	}},
	{"a payment is committed once", func(c *check) {
		prepared := c.created(c.walletID())
		p := c.committed(prepared, 3)
		c.refused("committing twice", c.Commit(c.Context(), p), store.ErrChanged)
		second := c.committing(prepared, 4)
		c.refused("committing at another nonce", c.Commit(c.Context(), second), store.ErrChanged)
		c.notStored(p, second)
		end := c.confirmed(p)
		c.refused("committing a final payment", c.Commit(c.Context(), second), store.ErrChanged)
		c.notStored(end, second)
		c.holdsTxOf(p)
	}},
	{"a nonce with a pending transaction takes no commit", func(c *check) {
		id := c.walletID()
		first := c.committed(c.created(id), 3)
		p := c.created(id)
		second := c.committing(p, 3)
		c.refused("committing", c.Commit(c.Context(), second), store.ErrNonceTaken)
		c.holds(p)
		c.leadsNowhere(second.TxHash)
		c.holdsTxOf(first)
		c.committed(p, 4)
	}},
	{"a changed payment wins over a taken nonce", func(c *check) {
		id := c.walletID()
		c.committed(c.created(id), 3)
		p := c.created(id)
		c.committed(p, 4)
		c.refused("committing", c.Commit(c.Context(), c.committing(p, 3)), store.ErrChanged)
	}},
	{"of many racing commits one is stored", func(c *check) {
		p := c.created(c.walletID())
		won := c.winner(8, store.ErrChanged, func(ctx context.Context, i int) error {
			return patiently(func() error { return c.Commit(ctx, c.committing(p, uint64(i))) })
		})
		committed := c.committing(p, uint64(won))
		c.holds(committed)
		c.holdsTxOf(committed)
	}},
	{"of many payments and a no-op racing for a nonce one is stored", func(c *check) {
		id := c.walletID()
		no, drafts := noop(id, 7), make([]payment.Payment, 5)
		stored := []wallet.PendingTx{no}
		for i := range drafts {
			drafts[i] = c.created(id)
			stored = append(stored, store.PendingTxOf(c.committing(drafts[i], 7)))
		}
		won := c.winner(len(stored), store.ErrNonceTaken, func(ctx context.Context, i int) error {
			return patiently(func() error {
				if i == 0 {
					return c.PutNoop(ctx, no)
				}
				return c.Commit(ctx, c.committing(drafts[i-1], 7))
			})
		})
		for i, p := range drafts {
			if i == won-1 {
				p = c.committing(p, 7)
			}
			c.holds(p)
		}
		c.holdsPendingTxs(id, stored[won])
	}},
	{"a new attempt is stored in payment, pending transaction and hash", func(c *check) {
		first := c.committed(c.created(c.walletID()), 3)
		p := first
		for tip := uint64(20); tip < 60; tip += 10 {
			p = c.bumped(p, tip)
			c.holds(p)
			c.holdsTxOf(p)
		}
		fees := chain.Fees{Tip: token.Units(60), Cap: token.Units(1060)}
		p = must.Get(p.Cancel(signed("no-op", p.Nonce, fees.Tip), chain.Noop(p.Tx.ChainID, p.Wallet, fees), noon))(c)
		c.ok("adding an attempt that pays nothing", c.AddAttempt(c.Context(), p))
		c.holds(p)
		c.holdsTxOf(p)
		c.leads(p, p.Hashes()...)
		if p.TxHash != first.TxHash || len(p.Attempts) != 6 {
			c.Errorf("%d attempts of %s", len(p.Attempts), p.TxHash)
		}
	}},
	{"an attempt is refused unless all before it are stored", func(c *check) {
		add := func(what string, p payment.Payment) {
			c.Helper()
			c.refused(what, c.AddAttempt(c.Context(), p), store.ErrChanged)
		}
		prepared := c.created(c.walletID())
		attempt := c.bumping(c.committing(prepared, 3), 20)
		add("bumping a prepared payment", attempt)
		c.notStored(prepared, attempt)

		committed := c.committed(prepared, 3)
		other := c.bumping(committed, 30)
		p := c.bumped(committed, 20)
		add("adding the attempt twice", p)
		add("adding another attempt beside it", other)
		add("adding an attempt over an attempt that is not stored", c.bumping(other, 40))
		add("adding two attempts at once", c.bumping(c.bumping(p, 50), 60))
		c.holds(p)
		c.holdsTxOf(p)
		c.leadsNowhere(other.LastAttempt().Hash)

		next := c.bumping(p, 70)
		end := c.confirmed(p)
		add("bumping a final payment", next)
		c.holds(end)
		c.holdsTxOf(p)

		gone := c.committed(c.created(c.walletID()), 3)
		c.ok("deleting", c.DeletePendingTx(c.Context(), idOf(gone), 3))
		add("bumping without a pending transaction", c.bumping(gone, 20))
		c.holds(gone)
		c.holdsPendingTxs(idOf(gone))
	}},
	{"of two racing attempts one is stored", func(c *check) {
		p := c.committed(c.created(c.walletID()), 3)
		bumps := []payment.Payment{c.bumping(p, 20), c.bumping(p, 30), c.bumping(p, 40)}
		won := c.winner(len(bumps), store.ErrChanged, func(ctx context.Context, i int) error {
			return patiently(func() error { return c.AddAttempt(ctx, bumps[i]) })
		})
		c.holds(bumps[won])
		c.holdsTxOf(bumps[won])
	}},
}

// notStored checks that p is stored as it was, and no trace of the attempt to commit it.
func (c *check) notStored(p, attempt payment.Payment) {
	c.Helper()
	c.holds(p)
	c.leadsNowhere(attempt.TxHash)
	_, err := c.PendingTx(c.Context(), idOf(attempt), attempt.Nonce)
	c.refused("reading the pending transaction", err, wallet.ErrUnknown)
}

var pendingTxPromises = []promise[*check]{
	{"a nonce with a pending transaction takes no no-op", func(c *check) {
		p := c.committed(c.created(c.walletID()), 8)
		n := noop(idOf(p), 8)
		c.refused("putting a no-op over a payment", c.PutNoop(c.Context(), n), store.ErrNonceTaken)
		c.holdsTxOf(p)
		c.leads(p, p.TxHash)

		n = c.put(noop(c.walletID(), 8))
		c.refused("putting a no-op twice", c.PutNoop(c.Context(), n), store.ErrNonceTaken)
		q := c.created(n.ID)
		c.refused("committing over a no-op", c.Commit(c.Context(), c.committing(q, 8)), store.ErrNonceTaken)
		c.holds(q)
		c.holdsPendingTxs(n.ID, n)
	}},
	{"a no-op is bumped like a payment", func(c *check) {
		n := c.put(noop(c.walletID(), 8))
		for tip := uint64(2); tip < 5; tip++ {
			n = rebid(n, tip)
			c.ok("bumping", c.BumpNoop(c.Context(), n))
			c.holdsPendingTxs(n.ID, n)
		}
		c.leadsNowhere(n.Hashes...)
	}},
	{"a no-op's bump is refused unless all before it are stored", func(c *check) {
		first := noop(c.walletID(), 8)
		c.refused("bumping a missing no-op", c.BumpNoop(c.Context(), rebid(first, 2)), store.ErrChanged)
		c.holdsPendingTxs(first.ID)
		c.put(first)
		n := rebid(first, 2)
		c.ok("bumping", c.BumpNoop(c.Context(), n))
		c.refused("bumping twice", c.BumpNoop(c.Context(), n), store.ErrChanged)
		c.refused("bumping beside it", c.BumpNoop(c.Context(), rebid(first, 3)), store.ErrChanged)
		c.holdsPendingTxs(n.ID, n)

		p := c.committed(c.created(c.walletID()), 8)
		over := rebid(store.PendingTxOf(p), 9)
		over.Payment = ""
		c.refused("bumping a payment as a no-op", c.BumpNoop(c.Context(), over), store.ErrChanged)
		c.holdsTxOf(p)
	}},
	{"pending transactions come in nonce order, of one wallet on one chain", func(c *check) {
		id := c.walletID()
		sibling := wallet.ID{ChainID: id.ChainID + 1, Address: id.Address}
		c.put(noop(sibling, 1))
		c.put(noop(c.walletID(), 1))
		c.open(wallet.Wallet{ID: id})
		var want []wallet.PendingTx
		for _, nonce := range []uint64{100, 9, math.MaxUint64, 10, 0} {
			want = append(want, c.put(noop(id, nonce)))
		}
		slices.SortFunc(want, func(a, b wallet.PendingTx) int { return cmp.Compare(a.Nonce, b.Nonce) })
		c.holdsPendingTxs(id, want...)
		c.holdsPendingTxs(sibling, noop(sibling, 1))
		for from, rest := range map[uint64][]wallet.PendingTx{1: want[1:], 9: want[1:], 10: want[2:], 101: want[4:], math.MaxUint64: want[4:]} {
			txs, _, err := c.PendingTxs(c.Context(), id, from)
			c.ok("reading from a nonce on", err)
			c.same(fmt.Sprint("pending transactions from ", from), rest, txs)
		}
		_, err := c.PendingTx(c.Context(), id, 11)
		c.refused("reading a nonce without a pending transaction", err, wallet.ErrUnknown)
	}},
	{"a deleted pending transaction is gone, its hash still leads to the payment", func(c *check) {
		id := c.walletID()
		p, q := c.committed(c.created(id), 8), c.committed(c.created(id), 9)
		for range 2 { // the second call finds it gone
			c.ok("deleting", c.DeletePendingTx(c.Context(), id, 8))
			c.holdsTxOf(q)
		}
		c.holds(p)
		c.leads(p, p.TxHash)
	}},
	{"pending transactions that do not decode are left out and counted", func(c *check) {
		id := c.walletID()
		p, q := c.committed(c.created(id), 8), c.committed(c.created(id), 9)
		c.SpoilPendingTx(id, 8)
		txs, unreadable, err := c.PendingTxs(c.Context(), id, 0)
		c.ok("reading pending transactions", err)
		c.same("readable pending transactions", []wallet.PendingTx{store.PendingTxOf(q)}, txs)
		if unreadable != 1 {
			c.Errorf("unreadable = %d, want 1", unreadable)
		}
		c.refused("reading the damaged one", must.Err(c.PendingTx(c.Context(), id, 8)), store.ErrUnreadable)
		c.refused("putting a no-op over it", c.PutNoop(c.Context(), noop(id, 8)), store.ErrNonceTaken)
		c.holds(p)
	}},
	// manyPendingTxs stores more than a megabyte, where a page of DynamoDB ends.
	{"a wallet of many pending transactions gives them all", func(c *check) {
		id := c.walletID()
		var want []wallet.PendingTx
		for nonce := range uint64(9) {
			n := noop(id, nonce)
			n.Raw = make([]byte, store.MaxRaw)
			n.Raw[0] = byte(nonce + 1)
			want = append(want, c.put(n))
		}
		c.holdsPendingTxs(id, want...)
	}},
}

// rebid returns the no-op n with a newer attempt.
func rebid(n wallet.PendingTx, tip uint64) wallet.PendingTx {
	tx := chain.Noop(n.ChainID, n.Address, chain.Fees{Tip: token.Units(tip), Cap: token.Units(50 + tip)})
	tx.GasUnit = chain.GasUnit(n.Nonce % 2 * 1000)
	return n.Bumped(tx, signed("no-op of "+n.Address.String(), n.Nonce, tx.Fees.Tip), noon.Add(time.Minute))
}
