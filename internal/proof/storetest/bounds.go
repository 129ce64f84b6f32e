package storetest

import (
	stdcmp "cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// bounds are how much a store takes of each list and map that a method of a port takes. A
// list of bytes is a list too. Each is shown by a promise below, or drawn by Alike.
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
		entries := make([]payment.Entry, payment.MaxEntries)
		for i := range entries {
			entries[i] = payment.Entry{To: token.Address{0xbb, 19: byte(i)}, Amount: disburser.MaxAmount(),
				Reference: long(payment.MaxReference)}
		}
		r, _ := c.request(token.Amount{}).Batch(entries)
		r.IdempotencyKey += strings.Repeat("k", 229)
		r.Reference, r.Metadata = long(payment.MaxReference), map[string]string{}
		for i := range payment.MaxMetadata {
			r.Metadata[fmt.Sprintf("%02d", i)+long(payment.MaxMetadataName-2)] = long(payment.MaxMetadataValue)
		}
		draft := offer(c.walletID(), noon, r)
		for what, more := range map[string]func(*payment.Payment){
			"an entry more": func(p *payment.Payment) { p.Entries = append(slices.Clip(p.Entries), p.Entries[0]) },
			"a pair more": func(p *payment.Payment) {
				p.Metadata = maps.Clone(p.Metadata)
				p.Metadata["more"] = ""
			},
			"a byte more of call data": func(p *payment.Payment) { p.Tx.Data = make([]byte, store.MaxRaw+1) },
		} {
			p := draft
			more(&p)
			_, _, err := c.Create(c.Context(), p)
			c.refused(what, err, store.ErrTooLarge)
		}
		p := c.committing(c.create(draft), 3)
		p.Attempts[0].Raw = make([]byte, store.MaxRaw+1)
		c.refused("a byte more that is signed", c.Commit(c.Context(), p), store.ErrTooLarge)
		p.Attempts[0].Raw = p.Attempts[0].Raw[1:]
		c.ok("committing", c.Commit(c.Context(), p))
		for len(p.Attempts) < store.MaxAttempts {
			most, tx := token.MaxAmount().Sub(token.Units(uint64(len(p.Attempts)))), p.Tx
			tx.Fees = chain.Fees{Tip: most, Cap: most}
			one := signed(p.Revision, 3, most)
			if len(p.Attempts) == store.MaxAttempts-1 {
				one.Raw = make([]byte, store.MaxRaw)
			}
			p = must.Get(p.Bump(one, tx, noon))(c)
			c.ok("adding an attempt", c.AddAttempt(c.Context(), p))
		}
		c.refused("an attempt more", c.AddAttempt(c.Context(), c.bumping(p, 1)), store.ErrTooLarge)
		tx := must.Get(c.PendingTx(c.Context(), idOf(p), 3))(c)
		c.same("its pending transaction", store.PendingTxOf(p), tx)
		tx = rebid(tx, 1)
		c.refused("an attempt more of a no-op", c.BumpNoop(c.Context(), tx), store.ErrTooLarge)
		p = c.confirming(p)
		p.Event.Body = make([]byte, store.MaxEvent+1)
		c.refused("a byte more of the event", c.Finish(c.Context(), p), store.ErrTooLarge)
		p.Event.Body = p.Event.Body[1:]
		c.ok("finishing", c.Finish(c.Context(), p))
		c.same("the payment", p, must.Get(c.Payment(c.Context(), p.ID))(c))
	}},
	{"a wallet of more than a megabyte of pending transactions gives them all, in the order of their nonces", func(c *check) {
		id := c.walletID()
		var want []wallet.PendingTx
		for nonce := range uint64(11) {
			n := noop(id, nonce)
			n.Raw = make([]byte, store.MaxRaw)
			n.Raw[0] = byte(nonce + 1)
			c.ok("putting a no-op", c.PutNoop(c.Context(), n))
			want = append(want, n)
		}
		got, _, err := c.PendingTxs(c.Context(), id, 1)
		c.ok("reading them", err)
		c.same("pending transactions", want[1:], got)
	}},
	{"a list of more than a page has every payment that matches, newest first", func(c *check) {
		id, all := c.walletID(), make([]payment.Payment, 103)
		for i := range all {
			p := c.create(c.draft(id, noon.Add(time.Duration(i/2)*time.Second), token.Units(uint64(i)+1)))
			all[i] = c.committing(p, uint64(i))
			if c.ok("committing", c.Commit(c.Context(), all[i])); i%3 == 0 {
				all[i] = c.confirming(all[i])
				c.ok("finishing", c.Finish(c.Context(), all[i]))
			}
		}
		slices.SortFunc(all, func(a, b payment.Payment) int {
			return stdcmp.Or(b.CreatedAt.Compare(a.CreatedAt), stdcmp.Compare(b.ID, a.ID))
		})
		for _, f := range []store.Filter{{}, {Limit: -1}, {Limit: 1000}, {Limit: 7}, {Status: payment.StatusConfirmed, Limit: 3},
			{Reference: all[0].Reference}, {Reference: all[0].Reference, Status: payment.StatusPending, Limit: 7},
			{Asset: all[0].Coin(), Limit: 7}, {After: noon, Before: noon.Add(30 * time.Second), Limit: 7}, {Status: "unheard of"}} {
			f.Merchant, f.Mode = c.merchant, "test"
			most, want := f.Limit, []payment.ID{}
			if most < 1 || most > 100 {
				most = 100
			}
			for _, p := range all {
				if (f.Status == "" || p.State.Status() == f.Status) && (f.After.IsZero() || p.CreatedAt.After(f.After) &&
					p.CreatedAt.Before(f.Before)) {
					want = append(want, p.ID)
				}
			}
			c.eventually(fmt.Sprintf("%+v", f), func() string {
				got, pages, f := []payment.ID{}, 0, f
				for more := true; more && pages < 200; pages++ {
					page, next, err := c.List(c.Context(), f)
					if c.ok("listing", err); len(page) > most {
						c.Fatalf("a page of %d has %d", most, len(page))
					}
					for _, p := range page {
						got = append(got, p.ID)
					}
					f.From, more = next, !next.IsZero()
				}
				return cmp.Diff(want, got)
			})
		}
	}},
	{"a wallet at the bounds of its reservations and of their merchants takes no more", func(c *check) {
		w := c.opened()
		c.ok("reconciling", c.Reconcile(c.Context(), w, w.Balance, w.Gas, merchants(wallet.MaxInFlight, 1), nil))
		for merchant, want := range map[string]error{"mer_more": wallet.ErrMerchantCap, fmt.Sprintf("mer_%026d", 7): nil} {
			n := need(w, payment.ID("pay_"+merchant))
			n.Merchant, n.MerchantCap = merchant, 9
			c.refused(merchant, must.Err(c.Reserve(c.Context(), n)), want)
		}
		full := wallet.Wallet{ID: c.walletID(), Ceiling: math.MaxUint64, Balance: w.Balance, Gas: w.Gas,
			Reservations: map[payment.ID]wallet.Reservation{}}
		for i := range wallet.MaxInFlight {
			full.Reservations[payment.ID(fmt.Sprintf("pay_%032d", i))] = wallet.Reservation{Nonce: 1<<63 + uint64(i),
				At: noon, For: fmt.Sprintf("%032d", i)}
		}
		c.same("the wallet", c.open(full), c.wallet(full.ID))
		c.refused("a reservation more", must.Err(c.Reserve(c.Context(), need(full, "pay_more"))), wallet.ErrCeiling)
		full.ID, full.Reservations["pay_more"] = c.walletID(), wallet.Reservation{}
		c.refused("opening with one more", c.Open(c.Context(), full, usdc.Contract), store.ErrTooLarge)
	}},
	{"a day counts as many keys as its bound says", func(c *check) {
		charge := func(key string, amount token.Amount, count uint64) error {
			limits := []payment.DailyLimit{{Key: key, Amount: token.MaxAmount(), Count: math.MaxUint64}, {Count: math.MaxUint64}}
			return c.Charge(c.Context(), store.Charge{Merchant: c.merchant, Mode: "test", At: noon, Amount: amount, Count: count,
				Limits: limits[:min(2, 1+count%2)]}) // of one payment, the merchant's too
		}
		for i := range store.MaxDayKeys {
			key, most := fmt.Sprintf("key_%012d", i), wallet.Spendable(token.MaxAmount())
			c.ok("charging", charge(key, most.Sub(token.Units(9)), math.MaxUint64-9))
		}
		c.ok("charging a key that is counted", charge(fmt.Sprintf("key_%012d", 7), token.Units(9), 1))
		c.refused("charging a key more", charge("key_more", token.Units(1), 1), store.ErrDayKeys)
		c.ok("charging an asset, which is no key", charge("eip155:1/erc20:0x", token.Units(1), 1))
	}},
	{"the deny list has as many recipients, and reasons as long, as its bounds say", func(c *check) {
		deny := func(i int) store.Denial {
			return store.Denial{To: token.Address{0xde, 18: byte(i >> 8), 19: byte(i)}, Reason: long(store.MaxReason / 4), At: noon}
		}
		room := store.MaxDenied - len(must.Get(c.Rules(c.Context()))(c).Denied)
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
		c.ok("replacing one", c.Deny(c.Context(), deny(0)))
		c.same("denials", store.MaxDenied, len(must.Get(c.Rules(c.Context()))(c).Denied))
		each(func(i int) error { return c.Allow(c.Context(), deny(i).To) })
	}},
}
