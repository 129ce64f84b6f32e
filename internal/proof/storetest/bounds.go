package storetest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// bounds are how much a store takes of each list and map that a method of a port takes. Full reaches each, or Alike
// draws it.
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

// Full fills both stores of a pair, which are empty, up to their bounds: each takes as much, refuses more, and shows the same.
func Full(t *testing.T, p Pair) {
	f := filler{t, p}
	f.payment()
	f.pages()
	f.wallets()
	f.days()
	f.rules()
	f.proposals()
	f.delivery()
}

// A filler makes writes on both stores of a pair.
type filler struct {
	*testing.T
	Pair
}

// do makes a write, whose answer is want.
func (f filler) do(what string, want error, write func(Stores) error) {
	f.Helper()
	for _, s := range []Stores{f.Memory, f.Database} {
		if err := write(s); !errors.Is(err, want) {
			f.Errorf("%s: %v, want %v", what, err, want)
		}
	}
}

// fill makes n writes, 16 at once, and one more, whose answer is want.
func (f filler) fill(what string, n int, want error, write func(s Stores, i int) error) {
	f.Helper()
	f.do(what, nil, func(s Stores) error {
		var group errgroup.Group
		group.SetLimit(16)
		for i := range n {
			group.Go(func() error { return write(s, i) })
		}
		return group.Wait()
	})
	f.do("one more of "+what, want, func(s Stores) error { return write(s, n) })
}

func (f filler) see(calls ...call) {
	f.Helper()
	if diff := f.differs(calls...); diff != "" {
		f.Error(diff)
	}
}

// payment makes the largest payment: the longest names, the most entries, attempts and bytes.
func (f filler) payment() {
	r := request(1, token.Units(1))
	for i := range payment.MaxEntries {
		r.Entries = append(r.Entries, payment.Entry{To: token.Address{0xbb, 19: byte(i)}, Amount: disburser.MaxAmount(),
			Reference: long(payment.MaxReference)})
	}
	r, _ = r.Batch(r.Entries)
	of := offer(ids[0], noon, r)
	f.do("creating", nil, func(s Stores) error { return create(s, of) })
	of = committed(of, 3)
	of.Attempts[0].Raw = make([]byte, store.MaxRaw)
	f.do("committing", nil, func(s Stores) error { return s.Payments.Commit(ctx, of) })
	bump := func(s Stores) error { return s.Payments.AddAttempt(ctx, of) }
	for n := 1; n < store.MaxAttempts; n++ {
		if of = bumped(of, token.MaxAmount().Sub(token.Units(uint64(n)))); n == store.MaxAttempts-1 {
			of.Attempts[n].Raw = make([]byte, store.MaxRaw)
		}
		f.do("bumping", nil, bump)
	}
	last, tx := of, store.PendingTxOf(of)
	of, tx.Hashes = bumped(of, token.MaxAmount()), append(tx.Hashes, chain.Hash{1})
	f.do("bumping once more", store.ErrTooLarge, bump)
	f.do("bumping a no-op once more", store.ErrTooLarge, func(s Stores) error { return s.Payments.BumpNoop(ctx, tx) })
	of = confirmed(last)
	of.Event.Body = make([]byte, store.MaxEvent)
	f.do("finishing", nil, func(s Stores) error { return s.Payments.Finish(ctx, of) })
	f.see(paymentOf(of.ID), txsOf(ids[0], 3))
}

func create(s Stores, p payment.Payment) error {
	_, _, err := s.Payments.Create(ctx, p)
	return err
}

// pages makes more than a page: of a query, which is a megabyte, and of a list.
func (f filler) pages() {
	f.fill("no-ops", 10, nil, func(s Stores, i int) error {
		tx := noop(ids[1], uint64(i))
		tx.Raw = bytes.Repeat([]byte{byte(i)}, store.MaxRaw)
		return s.Payments.PutNoop(ctx, tx)
	})
	f.see(txsOf(ids[1], 1))
	f.fill("payments", 102, nil, func(s Stores, i int) error {
		made := maker{uint64(i)}
		draft := made.draft(noon.Add(time.Duration(i/2) * time.Second))
		return errors.Join(create(s, draft), s.Payments.Commit(ctx, committed(draft, uint64(100+i))))
	})
	for _, list := range []store.Filter{{Limit: -1}, {Limit: 1000}, {Limit: 7}, {Reference: "inv-2041", Limit: 7},
		{Status: payment.StatusPending, Limit: 7}, {Asset: coins[0], Limit: 7}, {Status: "unheard of"}} {
		list.Merchant, list.Mode = "mer_a", "test"
		f.see(listOf(list))
	}
}

// wallets has as many merchants, and as many reservations, as a wallet may have.
func (f filler) wallets() {
	full := wallet.Wallet{ID: ids[0], Ceiling: math.MaxUint64, Balance: token.Units(100), Gas: token.Units(100),
		Reservations: map[payment.ID]wallet.Reservation{}}
	open := func(s Stores) error { return s.Payments.Open(ctx, full, usdc.Contract) }
	reserve := func(merchant string, capped uint64) func(Stores) error {
		n := need(full, payment.ID("pay_"+merchant))
		n.Merchant, n.MerchantCap = merchant, capped
		return func(s Stores) error { return must.Err(s.Payments.Reserve(ctx, n)) }
	}
	f.do("opening", nil, open)
	f.do("reconciling", nil, func(s Stores) error {
		return s.Payments.Reconcile(ctx, full, full.Balance, full.Gas, merchants(wallet.MaxInFlight, 1), nil)
	})
	f.do("a nonce of a merchant more", wallet.ErrMerchantCap, reserve("mer_more", 9))
	f.do("a nonce of one that is counted", nil, reserve(fmt.Sprintf("mer_%026d", 7), 9))
	full.ID = ids[1]
	for i := range wallet.MaxInFlight {
		full.Reservations[payment.ID(fmt.Sprintf("pay_%032d", i))] = wallet.Reservation{Nonce: 1<<63 + uint64(i), At: noon,
			For: strings.Repeat("r", 32)}
	}
	f.do("opening at the bound", nil, open)
	f.do("a reservation more", wallet.ErrCeiling, reserve("mer_a", 0))
	f.see(walletOf(ids[0]), walletOf(ids[1]))
}

func (f filler) days() {
	most := wallet.Spendable(token.MaxAmount())
	charge := func(key string, amount token.Amount, count uint64) func(Stores) error {
		return func(s Stores) error {
			return s.Payments.Charge(ctx, store.Charge{Merchant: "mer_a", Mode: "test", At: noon, Amount: amount, Count: count,
				Limits: []payment.DailyLimit{{Key: key, Amount: token.MaxAmount(), Count: math.MaxUint64}}})
		}
	}
	key := func(i int) string { return fmt.Sprintf("key_%012d", i) }
	f.fill("keys of a day", store.MaxDayKeys, store.ErrDayKeys, func(s Stores, i int) error {
		return charge(key(i), most.Sub(token.Units(9)), math.MaxUint64-9)(s)
	})
	f.do("charging a key that is counted", nil, charge(key(7), token.Units(9), 1))
	f.do("charging an asset, which is no key", nil, charge(coins[0].String(), token.Units(1), 1))
	f.see(chargedOf(key(7), noon))
}

func (f filler) rules() {
	deny := func(s Stores, i int) error {
		return s.Payments.Deny(ctx, store.Denial{To: token.Address{18: byte(i >> 8), 19: byte(i)}, Reason: long(store.MaxReason / 4), At: noon})
	}
	f.fill("denials", store.MaxDenied, store.ErrTooLarge, deny)
	f.do("replacing a denial", nil, func(s Stores) error { return deny(s, 0) })
	set := func(s Stores, chainID, version int) error {
		v := settings.Default(settings.Rail{ChainID: uint64(chainID), Token: usdc, Network: "devnet"})
		v.Version, v.Why = uint64(version), fmt.Sprint("test ", version)
		return s.Payments.SetSettings(ctx, v)
	}
	for i := range store.MaxRails {
		f.do("a rail", nil, func(s Stores) error { return set(s, 1+i, 0) })
	}
	f.do("one more rail", store.ErrTooLarge, func(s Stores) error { return set(s, 1+store.MaxRails, 0) })
	for i := range settings.Kept + 2 {
		f.do("a version", nil, func(s Stores) error { return set(s, 1, 1+i) })
	}
	f.see(rulesOf, historyOf(rail(1)))
	if n := len(must.Get(f.Memory.Payments.SettingsHistory(ctx, rail(1)))(f)); n != settings.Kept {
		f.Errorf("%d versions are kept", n)
	}
}

func (f filler) proposals() {
	made, proposals := maker{1000}, make([]proposal.Proposal, proposal.MaxOpen+3)
	for i := range proposals {
		proposals[i] = proposed(made.request())
	}
	propose := func(s Stores, i int) error { return must.Err(s.Payments.Propose(ctx, proposals[i])) }
	for i := range proposal.MaxOpen { // all count at one item
		f.do("an open proposal", nil, func(s Stores) error { return propose(s, i) })
	}
	f.do("one more", store.ErrProposals, func(s Stores) error { return propose(s, proposal.MaxOpen) })
	f.do("proposing again", nil, func(s Stores) error { return propose(s, 0) })
	for i, want := range []error{store.ErrProposals, nil, store.ErrProposals} { // ended, closed, and again
		f.do("ending", nil, func(s Stores) error {
			from, err := s.Payments.Proposal(ctx, proposals[0].Payment.ID)
			to := from.End(payment.Expired, noon)
			to.Closed = i > 0
			return errors.Join(err, s.Payments.Amend(ctx, from, to, store.Guard{}))
		})
		f.do("one more", want, func(s Stores) error { return propose(s, proposal.MaxOpen+i) })
	}
}

func (f filler) delivery() {
	d := newDelivery(mailboxes[0], noon)
	d.Event.Body = make([]byte, webhook.MaxBody)
	_, _ = rand.Read(d.Event.Body) // never fails; no store makes it shorter
	f.do("a delivery", nil, func(s Stores) error { return s.Webhooks.AddDelivery(ctx, d) })
	try := func(s Stores) error {
		_, now, err := s.Webhooks.Load(ctx, d.Ref)
		i := len(now.Attempts)
		now = tried(now, noon, false)
		now.Attempts[i].Error, now.Attempts[i].Response = strings.Repeat("e", 2048), strings.Repeat("\uFFFD", webhook.ResponseLimit)
		return errors.Join(err, must.Err(s.Webhooks.Record(ctx, now, i)))
	}
	for range webhook.MaxAttempts {
		f.do("an attempt", nil, try)
	}
	f.do("one more attempt", webhook.ErrTooLarge, try)
	f.see(deliveryAt(d.Ref))
}
