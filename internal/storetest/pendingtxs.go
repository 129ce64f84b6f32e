package storetest

import (
	"context"
	"math"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

var pendingTxPromises = []promise{
	{"a no-op fills a nonce and is no payment", noopStored},
	{"a nonce with a pending transaction takes no no-op", noopTaken},
	{"of a commit and a no-op racing for a nonce one is stored", racingNoop},
	{"a no-op is bumped like a payment", noopBumped},
	{"a no-op's bump is refused unless all before it are stored", noopBumpRefused},
	{"pending transactions come in nonce order, of one wallet on one chain", pendingTxsInOrder},
	{"a deleted pending transaction is gone, its hash still leads to the payment", pendingTxDeleted},
	{"pending transactions that do not decode are left out and counted", pendingTxsUnreadable},
	{"a wallet of many pending transactions gives them all", manyPendingTxs},
}

func idOf(p payment.Payment) wallet.ID { return wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet} }

func noopStored(c *check) {
	n := noop(c.walletID(), 8)
	c.ok("putting a no-op", c.PutNoop(c.Context(), n))
	c.holdsPendingTxs(n.ID, n)
	c.leads(payment.Payment{}, n.Hash())
}

func noopTaken(c *check) {
	p := c.committed(c.created(c.walletID()), 8)
	n := noop(idOf(p), 8)
	c.refused("putting a no-op over a payment", c.PutNoop(c.Context(), n), store.ErrNonceTaken)
	c.holdsPendingTxs(n.ID, store.PendingTxOf(p))
	c.leads(p, p.TxHash)

	n = noop(c.walletID(), 8)
	c.ok("putting a no-op", c.PutNoop(c.Context(), n))
	c.refused("putting it twice", c.PutNoop(c.Context(), n), store.ErrNonceTaken)
	q := c.created(n.ID)
	c.refused("committing over a no-op", c.Commit(c.Context(), c.committing(q, 8)), store.ErrNonceTaken)
	c.holds(q)
	c.holdsPendingTxs(n.ID, n)
}

func racingNoop(c *check) {
	p := c.created(c.walletID())
	n := noop(idOf(p), 8)
	var commit, put error
	c.race(2, func(ctx context.Context, i int) {
		if i == 0 {
			commit = c.commitPatiently(ctx, c.committing(p, 8))
			return
		}
		for range 20 {
			if put = c.PutNoop(ctx, n); put == nil || isAny(put, store.ErrNonceTaken) {
				return
			}
		}
	})
	if commit == nil {
		c.refused("putting the no-op", put, store.ErrNonceTaken)
		c.holdsPendingTxs(n.ID, store.PendingTxOf(c.committing(p, 8)))
		return
	}
	c.refused("committing", commit, store.ErrNonceTaken)
	c.ok("putting the no-op", put)
	c.holdsPendingTxs(n.ID, n)
}

// rebid returns n with a newer attempt.
func rebid(n wallet.PendingTx, tip uint64) wallet.PendingTx {
	tx := chain.Noop(n.ChainID, n.Address, chain.Fees{Tip: token.Units(tip), Cap: token.Units(50 + tip)})
	return n.Bumped(tx, signed("no-op of "+n.Address.String(), n.Nonce, tx.Fees.Tip), noon.Add(time.Minute))
}

func noopBumped(c *check) {
	n := noop(c.walletID(), 8)
	c.ok("putting a no-op", c.PutNoop(c.Context(), n))
	for tip := uint64(2); tip < 5; tip++ {
		n = rebid(n, tip)
		c.ok("bumping", c.BumpNoop(c.Context(), n))
		c.holdsPendingTxs(n.ID, n)
	}
	c.leads(payment.Payment{}, n.Hashes...)
}

func noopBumpRefused(c *check) {
	first := noop(c.walletID(), 8)
	c.refused("bumping nothing", c.BumpNoop(c.Context(), rebid(first, 2)), store.ErrChanged)
	c.holdsPendingTxs(first.ID)
	c.ok("putting a no-op", c.PutNoop(c.Context(), first))
	n := rebid(first, 2)
	c.ok("bumping", c.BumpNoop(c.Context(), n))
	c.refused("bumping twice", c.BumpNoop(c.Context(), n), store.ErrChanged)
	c.refused("bumping beside it", c.BumpNoop(c.Context(), rebid(first, 3)), store.ErrChanged)
	c.holdsPendingTxs(n.ID, n)

	p := c.committed(c.created(c.walletID()), 8)
	over := rebid(store.PendingTxOf(p), 9)
	over.Payment = ""
	c.refused("bumping a payment as a no-op", c.BumpNoop(c.Context(), over), store.ErrChanged)
	c.holdsPendingTxs(idOf(p), store.PendingTxOf(p))
}

func pendingTxsInOrder(c *check) {
	id := c.walletID()
	sibling := wallet.ID{ChainID: id.ChainID + 1, Address: id.Address}
	c.ok("putting a no-op", c.PutNoop(c.Context(), noop(sibling, 1)))
	c.ok("putting a no-op", c.PutNoop(c.Context(), noop(c.walletID(), 1)))
	w := wallet.Wallet{ID: id, Reservations: map[payment.ID]wallet.Reservation{}}
	c.ok("opening", c.Open(c.Context(), w))
	var want []wallet.PendingTx
	for _, nonce := range []uint64{100, 9, math.MaxUint64, 10, 0} {
		c.ok("putting a no-op", c.PutNoop(c.Context(), noop(id, nonce)))
	}
	for _, nonce := range []uint64{0, 9, 10, 100, math.MaxUint64} {
		want = append(want, noop(id, nonce))
	}
	c.holdsPendingTxs(id, want...)
	c.holdsPendingTxs(sibling, noop(sibling, 1))
	_, err := c.PendingTx(c.Context(), id, 11)
	c.refused("reading a nonce without a pending transaction", err, wallet.ErrUnknown)
}

func pendingTxDeleted(c *check) {
	id := c.walletID()
	p, q := c.committed(c.created(id), 8), c.committed(c.created(id), 9)
	for range 2 { // the second time, it is gone
		c.ok("deleting", c.DeletePendingTx(c.Context(), id, 8))
		c.holdsPendingTxs(id, store.PendingTxOf(q))
	}
	c.holds(p)
	c.leads(p, p.TxHash)
}

func pendingTxsUnreadable(c *check) {
	id := c.walletID()
	p, q := c.committed(c.created(id), 8), c.committed(c.created(id), 9)
	c.SpoilPendingTx(id, 8)
	pendingTxs, unreadable, err := c.PendingTxs(c.Context(), id)
	c.ok("reading pending transactions", err)
	c.same("readable pending transactions", []wallet.PendingTx{store.PendingTxOf(q)}, pendingTxs)
	if unreadable != 1 {
		c.Errorf("unreadable = %d, want 1", unreadable)
	}
	_, err = c.PendingTx(c.Context(), id, 8)
	c.refused("reading it", err, store.ErrUnreadable)
	c.refused("putting a no-op over it", c.PutNoop(c.Context(), noop(id, 8)), store.ErrNonceTaken)
	c.holds(p)
}

// manyPendingTxs stores more than a megabyte, at which a query of DynamoDB pauses.
func manyPendingTxs(c *check) {
	id := c.walletID()
	var want []wallet.PendingTx
	for nonce := range uint64(8) {
		n := noop(id, nonce)
		n.Raw = make([]byte, 200_000)
		n.Raw[0] = byte(nonce + 1)
		c.ok("putting a no-op", c.PutNoop(c.Context(), n))
		want = append(want, n)
	}
	c.holdsPendingTxs(id, want...)
}
