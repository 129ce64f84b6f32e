package storetest

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"remit/internal/chain"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

var pendingTxPromises = []promise[*check]{
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

func noopStored(c *check) {
	n := c.put(noop(c.walletID(), 8))
	c.holdsPendingTxs(n.ID, n)
	c.leadsNowhere(n.Hash())
}

func noopTaken(c *check) {
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
}

func racingNoop(c *check) {
	p := c.committing(c.created(c.walletID()), 8)
	n := noop(idOf(p), 8)
	stored := []wallet.PendingTx{store.PendingTxOf(p), n}
	won := c.winner(2, store.ErrNonceTaken, func(ctx context.Context, i int) error {
		return patiently(func() error {
			if i == 0 {
				return c.Commit(ctx, p)
			}
			return c.PutNoop(ctx, n)
		})
	})
	c.holdsPendingTxs(n.ID, stored[won])
}

// rebid returns the no-op n with a newer attempt.
func rebid(n wallet.PendingTx, tip uint64) wallet.PendingTx {
	tx := chain.Noop(n.ChainID, n.Address, chain.Fees{Tip: token.Units(tip), Cap: token.Units(50 + tip)})
	return n.Bumped(tx, signed("no-op of "+n.Address.String(), n.Nonce, tx.Fees.Tip), noon.Add(time.Minute))
}

func noopBumped(c *check) {
	n := c.put(noop(c.walletID(), 8))
	for tip := uint64(2); tip < 5; tip++ {
		n = rebid(n, tip)
		c.ok("bumping", c.BumpNoop(c.Context(), n))
		c.holdsPendingTxs(n.ID, n)
	}
	c.leadsNowhere(n.Hashes...)
}

func noopBumpRefused(c *check) {
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
}

func pendingTxsInOrder(c *check) {
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
	_, err := c.PendingTx(c.Context(), id, 11)
	c.refused("reading a nonce without a pending transaction", err, wallet.ErrUnknown)
}

func pendingTxDeleted(c *check) {
	id := c.walletID()
	p, q := c.committed(c.created(id), 8), c.committed(c.created(id), 9)
	for range 2 { // the second call finds it gone
		c.ok("deleting", c.DeletePendingTx(c.Context(), id, 8))
		c.holdsTxOf(q)
	}
	c.holds(p)
	c.leads(p, p.TxHash)
}

func pendingTxsUnreadable(c *check) {
	id := c.walletID()
	p, q := c.committed(c.created(id), 8), c.committed(c.created(id), 9)
	c.SpoilPendingTx(id, 8)
	txs, unreadable, err := c.PendingTxs(c.Context(), id)
	c.ok("reading pending transactions", err)
	c.same("readable pending transactions", []wallet.PendingTx{store.PendingTxOf(q)}, txs)
	if unreadable != 1 {
		c.Errorf("unreadable = %d, want 1", unreadable)
	}
	_, err = c.PendingTx(c.Context(), id, 8)
	c.refused("reading the damaged one", err, store.ErrUnreadable)
	c.refused("putting a no-op over it", c.PutNoop(c.Context(), noop(id, 8)), store.ErrNonceTaken)
	c.holds(p)
}

// manyPendingTxs stores more than a megabyte, where a page of DynamoDB ends.
func manyPendingTxs(c *check) {
	id := c.walletID()
	var want []wallet.PendingTx
	for nonce := range uint64(8) {
		n := noop(id, nonce)
		n.Raw = make([]byte, 200_000)
		n.Raw[0] = byte(nonce + 1)
		want = append(want, c.put(n))
	}
	c.holdsPendingTxs(id, want...)
}
