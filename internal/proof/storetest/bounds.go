package storetest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// bounds are how much a store takes of each list and map that a method of a port takes. A
// list of bytes is a list too. Each is shown by the promises below.
var bounds = map[string]int{
	"payment.Payment.Entries":     payment.MaxEntries,
	"payment.Payment.Metadata":    payment.MaxMetadata,
	"chain.Tx.Data":               store.MaxRaw,
	"payment.Payment.Attempts":    store.MaxAttempts,
	"payment.Attempt.Raw":         store.MaxRaw,
	"payment.Event.Body":          store.MaxEvent,
	"wallet.PendingTx.Hashes":     store.MaxAttempts,
	"wallet.PendingTx.Raw":        store.MaxRaw,
	"wallet.Wallet.Reservations":  wallet.MaxInFlight,
	"wallet.Wallet.PerMerchant":   wallet.MaxInFlight, // by Reserve; Open stores none
	"Reconcile map[string]uint64": wallet.MaxInFlight,
	"wallet.Progress.Paid":        wallet.MaxInFlight,
	"store.Charge.Limits":         store.MaxLimits,
	"store.Guard.Payments":        store.MaxGuarded,
	"store.Comparison.Silent":     store.MaxNodes,
	"apikey.Terms.Assets":         apikey.MaxAssetTerms,
	"webhook.Delivery.Attempts":   webhook.MaxAttempts,
	"webhook.Event.Body":          webhook.MaxBody,
	"webhook.Endpoint.EventTypes": webhook.MaxEventTypes,
}

// long returns n of the longest characters in UTF-8.
func long(n int) string { return strings.Repeat("🧾", n) }

// merchants returns the longest names of n merchants, each with so many nonces.
func merchants(n int, each uint64) map[string]uint64 {
	all := map[string]uint64{}
	for i := range n {
		all[fmt.Sprintf("mer_%026d", i)] = each
	}
	return all
}

var boundPromises = []promise[*check]{
	{"a payment at all of its bounds is stored, and takes no more of anything", func(c *check) {
		r := c.batch(payment.MaxEntries)
		r.IdempotencyKey, r.Reference, r.Metadata = r.IdempotencyKey+strings.Repeat("k", 229), long(payment.MaxReference), map[string]string{}
		for i := range payment.MaxMetadata {
			r.Metadata[fmt.Sprintf("%02d", i)+long(payment.MaxMetadataName-2)] = long(payment.MaxMetadataValue)
		}
		for i := range r.Entries {
			r.Entries[i].Reference = long(payment.MaxReference)
		}
		refuses := func(what string, err error) { c.Helper(); c.refused(what, err, store.ErrTooLarge) }
		more, pairs := r, r
		more.Entries = append(slices.Clip(r.Entries), r.Entries[0])
		pairs.Metadata = map[string]string{}
		for i := range payment.MaxMetadata + 1 {
			pairs.Metadata[fmt.Sprint(i)] = ""
		}
		for what, r := range map[string]payment.Request{"an entry more": more, "a pair more": pairs} {
			_, _, err := c.Create(c.Context(), offer(c.walletID(), noon, r))
			refuses(what, err)
		}
		p := c.create(offer(c.walletID(), noon, r))
		heavy := c.committing(p, 3)
		heavy.Attempts[0].Raw = make([]byte, store.MaxRaw+1)
		refuses("a byte more that is signed", c.Commit(c.Context(), heavy))
		heavy.Attempts[0].Raw = nil
		heavy.Tx.Data = make([]byte, store.MaxRaw+1)
		refuses("a byte more of call data", c.Commit(c.Context(), heavy))
		p = c.committing(p, 3)
		p.Attempts[0].Raw = make([]byte, store.MaxRaw)
		c.ok("committing", c.Commit(c.Context(), p))
		for len(p.Attempts) < store.MaxAttempts {
			most, tx := token.MaxAmount().Sub(token.Units(uint64(len(p.Attempts)))), p.Tx
			tx.Fees = chain.Fees{Tip: most, Cap: most}
			one := signed(p.Revision, 3, most)
			if len(p.Attempts) == store.MaxAttempts-1 {
				one.Raw = make([]byte, store.MaxRaw)
			}
			next := must.Get(p.Bump(one, tx, noon))(c)
			c.ok("adding an attempt", c.AddAttempt(c.Context(), next))
			p = next
		}
		refuses("an attempt more", c.AddAttempt(c.Context(), c.bumping(p, 1)))
		c.holdsTxOf(p)
		p = c.confirming(p)
		if len(p.Event.Body) > store.MaxEvent {
			c.Errorf("the event has %d bytes", len(p.Event.Body))
		}
		p.Event.Body = make([]byte, store.MaxEvent+1)
		for what, write := range map[string]func(context.Context, payment.Payment) error{
			"finishing": c.Finish, "redacting": c.Redact, "adopting": c.Adopt,
			"moving": func(ctx context.Context, p payment.Payment) error { return c.Reassign(ctx, p, p.Revision) },
		} {
			refuses("a byte more of the event, "+what, write(c.Context(), p))
		}
		p.Event.Body = p.Event.Body[1:]
		c.ok("finishing", c.Finish(c.Context(), p))
		c.holds(p)
	}},
	{"as many nodes are silent as the bound says", func(c *check) {
		chainID := binary.BigEndian.Uint64([]byte(c.merchant[4:])) // of this check alone
		want := store.Comparison{Silent: map[string]time.Time{}}
		for i := range store.MaxNodes {
			want.Silent[fmt.Sprintf("%0259d", i)] = noon.Add(time.Duration(i)) // a host of 253 bytes, and a port
		}
		c.ok("storing", c.SetCompared(c.Context(), rail(chainID), want))
		want.Revision++
		got := must.Get(c.Compared(c.Context(), rail(chainID)))(c)
		c.same("comparison", want, got)
		want.Silent["one more"] = noon
		c.refused("a node more", c.SetCompared(c.Context(), rail(chainID), want), store.ErrTooLarge)
	}},
	{"a no-op has as many attempts, and bytes, as a payment", func(c *check) {
		n := noop(c.walletID(), 8)
		n.Raw = make([]byte, store.MaxRaw+1)
		c.refused("a byte more", c.PutNoop(c.Context(), n), store.ErrTooLarge)
		n.Raw = n.Raw[1:]
		c.put(n)
		for len(n.Hashes) < store.MaxAttempts {
			n = rebid(n, uint64(len(n.Hashes)+1))
			c.ok("bumping", c.BumpNoop(c.Context(), n))
		}
		c.refused("an attempt more", c.BumpNoop(c.Context(), rebid(n, 999)), store.ErrTooLarge)
		c.holdsPendingTxs(n.ID, n)
	}},
	{"a wallet's progress has as many nonces as its bound says", func(c *check) {
		w := c.opened()
		seen := &wallet.Progress{Mined: math.MaxUint64, Sent: math.MaxUint64, Waits: payment.WaitingForFunds}
		for i := range uint64(wallet.MaxInFlight) {
			seen.Paid = append(seen.Paid, math.MaxUint64-i)
		}
		c.ok("reconciling", c.Reconcile(c.Context(), w, w.Balance, w.Gas, nil, seen))
		w.Progress = *seen
		c.holdsWallet(w)
		more := *seen
		more.Paid = append(slices.Clip(seen.Paid), 1)
		c.refused("a nonce more", c.Reconcile(c.Context(), w, w.Balance, w.Gas, nil, &more), store.ErrTooLarge)
		c.refused("a nonce more in a claim", must.Err(c.Claim(c.Context(), w.ID, "run", noon, noon, &more)), store.ErrTooLarge)
		c.holdsWallet(w)
	}},
	{"a wallet holds as many reservations, of as many merchants, as its bounds say", func(c *check) {
		w := c.opened()
		w.ID = c.walletID()
		for i := range wallet.MaxInFlight + 1 {
			if i < wallet.MaxInFlight {
				w.Reservations[payment.ID(fmt.Sprintf("pay_%032d", i))] = wallet.Reservation{Nonce: 1<<63 + uint64(i),
					At: noon, For: fmt.Sprintf("%032d", i)}
				continue
			}
			more := w
			more.Reservations = map[payment.ID]wallet.Reservation{"pay_more": {}}
			for id, r := range w.Reservations {
				more.Reservations[id] = r
			}
			c.refused("opening with one more", c.Open(c.Context(), more, usdc.Contract), store.ErrTooLarge)
		}
		c.open(w)
		counts := merchants(wallet.MaxInFlight, 1<<62)
		c.refused("a merchant more", c.Reconcile(c.Context(), w, w.Balance, w.Gas, merchants(wallet.MaxInFlight+1, 1), nil), store.ErrTooLarge)
		c.ok("reconciling", c.Reconcile(c.Context(), w, w.Balance, w.Gas, counts, nil))
		w.PerMerchant = counts
		c.holdsWallet(w)
		c.refused("a reservation more", must.Err(c.Reserve(c.Context(), need(w, "pay_more"))), wallet.ErrCeiling)

		w = c.opened()
		c.ok("reconciling", c.Reconcile(c.Context(), w, w.Balance, w.Gas, merchants(wallet.MaxInFlight, 1), nil))
		for _, row := range []struct {
			merchant string
			want     error
		}{{"mer_more", wallet.ErrMerchantCap}, {fmt.Sprintf("mer_%026d", 7), nil}} {
			n := need(w, "pay_a")
			n.Merchant, n.MerchantCap = row.merchant, 2
			c.refused(row.merchant, must.Err(c.Reserve(c.Context(), n)), row.want)
		}
	}},
	{"a charge has as many limits as its bound says", func(c *check) {
		charge := c.under(1, payment.DailyLimit{Key: "key_a", Amount: token.MaxAmount(), Count: 9},
			payment.DailyLimit{Amount: token.MaxAmount(), Count: 9})
		c.ok("charging", c.Charge(c.Context(), charge))
		c.ok("refunding", c.Refund(c.Context(), charge))
		charge.Limits = append(charge.Limits, payment.DailyLimit{Key: "key_more", Count: 9})
		c.refused("charging one more", c.Charge(c.Context(), charge), store.ErrTooLarge)
		c.refused("refunding one more", c.Refund(c.Context(), charge), store.ErrTooLarge)
	}},
	{"a day counts as many keys as its bound says", func(c *check) {
		near := wallet.Spendable(token.MaxAmount()).Sub(token.Units(9)) // 38 digits
		of := func(i int) payment.DailyLimit {
			return payment.DailyLimit{Key: fmt.Sprintf("key_%012d", i), Amount: token.MaxAmount(), Count: math.MaxUint64}
		}
		for i := range store.MaxDayKeys {
			all := c.under(0, of(i))
			all.Amount, all.Count = near, math.MaxUint64-9
			c.ok("charging", c.Charge(c.Context(), all))
		}
		c.ok("charging a key that is counted", c.Charge(c.Context(), c.under(1, of(7), payment.DailyLimit{Count: 9})))
		c.ok("charging an asset, which is no key", c.Charge(c.Context(), c.under(1, of(7),
			payment.DailyLimit{Key: "eip155:1/erc20:0x", Count: 9})))
		err := c.Charge(c.Context(), c.under(1, of(store.MaxDayKeys), payment.DailyLimit{Count: 9}))
		c.refused("charging a key more", err, store.ErrDayKeys)
		c.ok("charging the merchant", c.Charge(c.Context(), c.under(1, payment.DailyLimit{Count: 2})))
		c.refused("which the refused charge did not count", c.Charge(c.Context(), c.under(1, payment.DailyLimit{Count: 2})), store.ErrDailyLimit)
	}},
	{"the deny list has as many recipients, and reasons as long, as its bounds say", func(c *check) {
		deny := func(i int) store.Denial {
			return store.Denial{To: token.Address{0xde, 18: byte(i >> 8), 19: byte(i)}, Reason: long(store.MaxReason / 4), At: noon}
		}
		room := store.MaxDenied - len(c.rules().Denied)
		each := func(do func(i int) error) {
			var group errgroup.Group
			group.SetLimit(16)
			for i := range room {
				group.Go(func() error { return do(i) })
			}
			c.ok("changing the list", group.Wait())
		}
		each(func(i int) error { return c.Deny(c.Context(), deny(i)) })
		c.refused("a recipient more", c.Deny(c.Context(), deny(room)), store.ErrTooLarge)
		heavy := deny(0)
		c.ok("replacing one", c.Deny(c.Context(), heavy))
		heavy.Reason += "x"
		c.refused("a byte more of a reason", c.Deny(c.Context(), heavy), store.ErrTooLarge)
		c.same("denials", store.MaxDenied, len(c.rules().Denied))
		each(func(i int) error { return c.Allow(c.Context(), deny(i).To) })
	}},
}

var hookBoundPromises = []promise[hookCheck]{
	{"deliveries at all of their bounds are stored, and take no more of anything", func(c hookCheck) {
		o := owner()
		ds := make([]webhook.Delivery, webhook.EndpointLimit)
		for i := range ds {
			ds[i] = deliveryOf(o, fmt.Sprint("we_", i), noon)
			ds[i].Event.Body = make([]byte, webhook.MaxBody)
			_, _ = rand.Read(ds[i].Event.Body) // never fails; no store makes it shorter
		}
		c.add(ds...)
		d := ds[0]
		for i := range webhook.MaxAttempts {
			d = tried(d, noon, false)
			d.Attempts[i].Error, d.Attempts[i].Response = strings.Repeat("e", 2048), strings.Repeat("\uFFFD", webhook.ResponseLimit)
			c.record(d, i)
		}
		d = tried(d, noon, false)
		c.refused("an attempt more", must.Err(c.Record(c.Context(), d, webhook.MaxAttempts)), webhook.ErrTooLarge)
		heavy := deliveryOf(o, "we_1", noon)
		heavy.Event.Body = make([]byte, webhook.MaxBody+1)
		c.refused("a byte more of the event", c.AddDelivery(c.Context(), heavy), webhook.ErrTooLarge)
		_, err := c.Record(c.Context(), ended(heavy, webhook.Cancelled), 0)
		c.refused("the same with its first result", err, webhook.ErrTooLarge)
		e := c.endpoint(o, noon)
		e.EventTypes = slices.Repeat([]string{webhook.RecipientCreated}, webhook.MaxEventTypes)
		c.ok("adding an endpoint", c.AddEndpoint(c.Context(), e, 1))
		e.EventTypes = append(e.EventTypes, webhook.KeyCreated)
		c.refused("a type of events more", must.Err(c.SaveEndpoint(c.Context(), e)), webhook.ErrTooLarge)
		c.refused("the same when it is added", c.AddEndpoint(c.Context(), e, 2), webhook.ErrTooLarge)
	}},
}
