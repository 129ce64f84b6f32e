package paymenttest

import (
	"context"
	"math"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

var slotPromises = []promise{
	{"a no-op fills a nonce and is no payment", noopStored},
	{"a nonce with a slot takes no no-op", noopTaken},
	{"of a seal and a no-op racing for a nonce one is stored", racingNoop},
	{"a no-op is bumped like a payment", noopBumped},
	{"a no-op's bump is refused unless all before it are stored", noopBumpRefused},
	{"slots come in nonce order, of one wallet on one chain", slotsInOrder},
	{"a deleted slot is gone, its hash still leads to the payment", slotDeleted},
	{"slots that do not decode are left out and counted", slotsUnreadable},
	{"a wallet of many slots gives them all", manySlots},
}

func idOf(p payment.Payment) wallet.ID { return wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet} }

func noopStored(c *check) {
	n := noop(c.walletID(), 8)
	c.ok("putting a no-op", c.PutNoop(c.Context(), n))
	c.holdsSlots(n.ID, n)
	c.leads(payment.Payment{}, n.Hash())
}

func noopTaken(c *check) {
	p := c.sealed(c.created(c.walletID()), 8)
	n := noop(idOf(p), 8)
	c.refused("putting a no-op over a payment", c.PutNoop(c.Context(), n), wallet.ErrSlotTaken)
	c.holdsSlots(n.ID, wallet.SlotOf(p))
	c.leads(p, p.TxHash)

	n = noop(c.walletID(), 8)
	c.ok("putting a no-op", c.PutNoop(c.Context(), n))
	c.refused("putting it twice", c.PutNoop(c.Context(), n), wallet.ErrSlotTaken)
	q := c.created(n.ID)
	c.refused("sealing over a no-op", c.Seal(c.Context(), c.sealing(q, 8)), wallet.ErrSlotTaken)
	c.holds(q)
	c.holdsSlots(n.ID, n)
}

func racingNoop(c *check) {
	p := c.created(c.walletID())
	n := noop(idOf(p), 8)
	var seal, put error
	c.race(2, func(ctx context.Context, i int) {
		if i == 0 {
			seal = c.sealPatiently(ctx, c.sealing(p, 8))
			return
		}
		for range 20 {
			if put = c.PutNoop(ctx, n); put == nil || isAny(put, wallet.ErrSlotTaken) {
				return
			}
		}
	})
	if seal == nil {
		c.refused("putting the no-op", put, wallet.ErrSlotTaken)
		c.holdsSlots(n.ID, wallet.SlotOf(c.sealing(p, 8)))
		return
	}
	c.refused("sealing", seal, wallet.ErrSlotTaken)
	c.ok("putting the no-op", put)
	c.holdsSlots(n.ID, n)
}

// rebid returns n with a newer attempt.
func rebid(n wallet.Slot, tip uint64) wallet.Slot {
	tx := chain.Noop(n.ChainID, n.Address, chain.Fees{Tip: token.Units(tip), Cap: token.Units(50 + tip)})
	return n.Bumped(tx, signed("no-op of "+n.Address.String(), n.Nonce, tx.Fees.Tip), noon.Add(time.Minute))
}

func noopBumped(c *check) {
	n := noop(c.walletID(), 8)
	c.ok("putting a no-op", c.PutNoop(c.Context(), n))
	for tip := uint64(2); tip < 5; tip++ {
		n = rebid(n, tip)
		c.ok("bumping", c.BumpNoop(c.Context(), n))
		c.holdsSlots(n.ID, n)
	}
	c.leads(payment.Payment{}, n.Hashes...)
}

func noopBumpRefused(c *check) {
	first := noop(c.walletID(), 8)
	c.refused("bumping nothing", c.BumpNoop(c.Context(), rebid(first, 2)), wallet.ErrChanged)
	c.holdsSlots(first.ID)
	c.ok("putting a no-op", c.PutNoop(c.Context(), first))
	n := rebid(first, 2)
	c.ok("bumping", c.BumpNoop(c.Context(), n))
	c.refused("bumping twice", c.BumpNoop(c.Context(), n), wallet.ErrChanged)
	c.refused("bumping beside it", c.BumpNoop(c.Context(), rebid(first, 3)), wallet.ErrChanged)
	c.holdsSlots(n.ID, n)

	p := c.sealed(c.created(c.walletID()), 8)
	over := rebid(wallet.SlotOf(p), 9)
	over.Payment = ""
	c.refused("bumping a payment as a no-op", c.BumpNoop(c.Context(), over), wallet.ErrChanged)
	c.holdsSlots(idOf(p), wallet.SlotOf(p))
}

func slotsInOrder(c *check) {
	id := c.walletID()
	sibling := wallet.ID{ChainID: id.ChainID + 1, Address: id.Address}
	c.ok("putting a no-op", c.PutNoop(c.Context(), noop(sibling, 1)))
	c.ok("putting a no-op", c.PutNoop(c.Context(), noop(c.walletID(), 1)))
	w := wallet.Wallet{ID: id, Leases: map[payment.ID]wallet.Lease{}}
	c.ok("opening", c.Open(c.Context(), w))
	var want []wallet.Slot
	for _, nonce := range []uint64{100, 9, math.MaxUint64, 10, 0} {
		c.ok("putting a no-op", c.PutNoop(c.Context(), noop(id, nonce)))
	}
	for _, nonce := range []uint64{0, 9, 10, 100, math.MaxUint64} {
		want = append(want, noop(id, nonce))
	}
	c.holdsSlots(id, want...)
	c.holdsSlots(sibling, noop(sibling, 1))
	_, err := c.Slot(c.Context(), id, 11)
	c.refused("reading a nonce without a slot", err, wallet.ErrUnknown)
}

func slotDeleted(c *check) {
	id := c.walletID()
	p, q := c.sealed(c.created(id), 8), c.sealed(c.created(id), 9)
	for range 2 { // the second time, it is gone
		c.ok("deleting", c.DeleteSlot(c.Context(), id, 8))
		c.holdsSlots(id, wallet.SlotOf(q))
	}
	c.holds(p)
	c.leads(p, p.TxHash)
}

func slotsUnreadable(c *check) {
	id := c.walletID()
	p, q := c.sealed(c.created(id), 8), c.sealed(c.created(id), 9)
	c.SpoilSlot(id, 8)
	slots, unreadable, err := c.Slots(c.Context(), id)
	c.ok("reading slots", err)
	c.same("readable slots", []wallet.Slot{wallet.SlotOf(q)}, slots)
	if unreadable != 1 {
		c.Errorf("unreadable = %d, want 1", unreadable)
	}
	_, err = c.Slot(c.Context(), id, 8)
	c.refused("reading it", err, payment.ErrUnreadable)
	c.refused("putting a no-op over it", c.PutNoop(c.Context(), noop(id, 8)), wallet.ErrSlotTaken)
	c.holds(p)
}

// manySlots stores more than a megabyte, at which a query of DynamoDB pauses.
func manySlots(c *check) {
	id := c.walletID()
	var want []wallet.Slot
	for nonce := range uint64(8) {
		n := noop(id, nonce)
		n.Raw = make([]byte, 200_000)
		n.Raw[0] = byte(nonce + 1)
		c.ok("putting a no-op", c.PutNoop(c.Context(), n))
		want = append(want, n)
	}
	c.holdsSlots(id, want...)
}
