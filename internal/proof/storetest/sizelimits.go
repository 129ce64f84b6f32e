package storetest

import (
	"bytes"
	"crypto/rand"
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
	"github.com/remit-payouts/remit/internal/proof/fieldtest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// bounds are how much a store takes of each list and map that a method of a port takes. Full or Alike reaches each.
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

// Full fills both empty stores of a pair up to their bounds: each takes as much, refuses more, and shows the same. Each
// shows a payment with all its fields.
func Full(t *testing.T, p Pair) {
	f := filler{t, p}
	f.fields()
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
func (f filler) do(want error, c call) {
	f.Helper()
	for _, s := range []Stores{f.Memory, f.Database} {
		if got := c.make(s); got.class != class(want) {
			f.Errorf("%v: %q, want %q", c, got.class, class(want))
		}
	}
}

// fill makes n writes, four at once, and one more, whose answer is want. A database may copy the first one for those in
// between, which are for a name each: it takes minutes for so many.
func (f filler) fill(n int, want error, write func(i int) call, name func(i int) string) {
	f.Helper()
	f.do(nil, write(0))
	made := 1
	if name != nil && f.Copy != nil {
		var copies []string
		for ; made < n-1; made++ {
			write(made).make(f.Memory)
			copies = append(copies, name(made))
		}
		f.Copy(name(0), copies)
	}
	var group errgroup.Group
	group.SetLimit(4)
	for i := made; i < n; i++ {
		group.Go(func() error {
			f.do(nil, write(i))
			return nil
		})
	}
	_ = group.Wait() // no error
	f.do(want, write(n))
}

func (f filler) see(calls ...call) {
	f.Helper()
	if diff := f.differs(calls...); diff != "" {
		f.Error(diff)
	}
}

// fields makes payments and a proposal of a request with every field, and reads them after each write.
func (f filler) fields() {
	kept := func(want any, write, read call) {
		f.Helper()
		f.do(nil, write)
		for _, s := range []Stores{f.Memory, f.Database} {
			if diff := compare(read, answer{values: []any{want}}, read.make(s)); diff != "" {
				f.Errorf("after %s, %s", write.method, strings.Replace(diff, "-memory +database", "-written +read", 1))
			}
		}
	}
	write := func(method string, p payment.Payment) {
		f.Helper()
		kept(p, calls("Payments."+method, p), calls("Payments.Payment", p.ID))
	}
	batch := fieldtest.Filled[payment.Request]()
	bare := payment.Request{To: batch.To, Amount: batch.Amount}
	for _, e := range batch.Entries {
		bare.Entries = append(bare.Entries, payment.Entry{To: e.To, Amount: e.Amount})
	}
	made, found := offer(ids[0], noon, batch), offer(ids[0], noon, bare)
	write("Create", made)
	made = committed(made, 1<<40)
	write("Commit", made)
	made, _ = made.Confirm(chain.Receipt{Tx: made.TxHash, Block: 17, Fee: new(token.Units(1))}, noon)
	write("Finish", made)
	made, _ = made.Redacted()
	write("Redact", made)
	write("Create", found)
	found = committed(found, 1<<40+1)
	write("Commit", found)
	write("Adopt", found.Adopted(batch))
	batch.IdempotencyKey, batch.Key = "proposed", payment.KeyLimits{} // of which package proposal keeps a part
	p := proposal.New(proposal.Proposal{Life: time.Hour}, batch, usdc, 84532, "base-sepolia", noon)
	kept(p, calls("Payments.Propose", p), calls("Payments.Proposal", p.Payment.ID))
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
	f.do(nil, calls("Payments.Create", of))
	of = committed(of, 3)
	of.Attempts[0].Raw = make([]byte, store.MaxRaw)
	f.do(nil, calls("Payments.Commit", of))
	for n := 1; n < store.MaxAttempts; n++ {
		if of = bumped(of, token.MaxAmount().Sub(token.Units(uint64(n)))); n == store.MaxAttempts-1 {
			of.Attempts[n].Raw = make([]byte, store.MaxRaw)
		}
		f.do(nil, calls("Payments.AddAttempt", of))
	}
	tx := store.PendingTxOf(of)
	tx.Hashes = append(tx.Hashes, chain.Hash{1})
	f.do(store.ErrTooLarge, calls("Payments.AddAttempt", bumped(of, token.MaxAmount())))
	f.do(store.ErrTooLarge, calls("Payments.BumpNoop", tx))
	of, _ = of.Confirm(chain.Receipt{Tx: of.LastAttempt().Hash, Succeeded: true, Block: 17}, noon.Add(time.Hour))
	of.Event.Body = make([]byte, store.MaxEvent)
	f.do(nil, calls("Payments.Finish", of))
	f.see(append(paymentOf(of.ID), txsOf(ids[0], 3)...)...)
}

// pages makes more than a page: of a query, which is a megabyte, and of a list.
func (f filler) pages() {
	f.fill(10, nil, func(i int) call {
		tx := noop(ids[1], uint64(i))
		tx.Raw = bytes.Repeat([]byte{byte(i)}, store.MaxRaw)
		return calls("Payments.PutNoop", tx)
	}, nil)
	f.see(txsOf(ids[1], 1)...)
	draft := func(i int) payment.Payment {
		return offer(ids[0], noon.Add(time.Duration(i/2)*time.Second), numbered(i))
	}
	f.fill(102, nil, func(i int) call { return calls("Payments.Create", draft(i)) }, nil)
	f.fill(102, nil, func(i int) call { return calls("Payments.Commit", committed(draft(i), uint64(100+i))) }, nil)
	for _, list := range []store.Filter{{Limit: -1}, {Limit: 1000}, {Limit: 7}, {Reference: "inv-2041", Limit: 7},
		{Status: payment.StatusPending, Limit: 7}, {Asset: coins[0], Limit: 7}, {Status: "unheard of"}} {
		list.Merchant, list.Mode = "mer_a", "test"
		f.see(listOf(list))
	}
}

// wallets has as many merchants, and as many reservations, as a wallet may have.
func (f filler) wallets() {
	full := wallet.Wallet{ID: ids[0], Ceiling: math.MaxUint64, Balance: token.Units(100), Gas: token.Units(100)}
	reserve := func(merchant string, capped uint64) call {
		n := need(full, payment.ID("pay_"+merchant))
		n.Merchant, n.MerchantCap = merchant, capped
		return calls("Payments.Reserve", n)
	}
	f.do(nil, calls("Payments.Open", full, usdc.Contract))
	counts := merchants(wallet.MaxInFlight)
	f.do(nil, calls("Payments.Reconcile", full, full.Balance, full.Gas, counts, new(wallet.Progress)))
	f.do(wallet.ErrMerchantCap, reserve("mer_more", 9))
	f.do(nil, reserve(fmt.Sprintf("mer_%026d", 7), 9)) // it is counted already
	full.ID, full.Reservations = ids[1], reservations(wallet.MaxInFlight)
	f.do(nil, calls("Payments.Open", full, usdc.Contract))
	f.do(wallet.ErrCeiling, reserve("mer_a", 0))
	f.see(walletOf(ids[0]), walletOf(ids[1]))
}

func (f filler) days() {
	most := wallet.Spendable(token.MaxAmount())
	charge := func(key string, amount token.Amount, count uint64) call {
		return calls("Payments.Charge", store.Charge{Merchant: "mer_a", Mode: "test", At: noon, Amount: amount,
			Count: count, Limits: []payment.DailyLimit{{Key: key, Amount: token.MaxAmount(), Count: math.MaxUint64}}})
	}
	key := func(i int) string { return fmt.Sprintf("key_%012d", i) }
	f.fill(store.MaxDayKeys, store.ErrDayKeys, func(i int) call {
		return charge(key(i), most.Sub(token.Units(9)), math.MaxUint64-9)
	}, key)
	f.do(nil, charge(key(7), token.Units(9), 1))            // it is counted already
	f.do(nil, charge(coins[0].String(), token.Units(1), 1)) // it is no key
	f.see(chargedOf(key(7), noon))
}

func (f filler) rules() {
	to := func(i int) token.Address { return token.Address{18: byte(i >> 8), 19: byte(i)} }
	deny := func(i int) call {
		return calls("Payments.Deny", store.Denial{To: to(i), Reason: long(store.MaxReason / 4), At: noon})
	}
	f.fill(store.MaxDenied, store.ErrTooLarge, deny, func(i int) string { return to(i).String() })
	f.do(nil, deny(0)) // replaces
	set := func(chainID, version int) call {
		v := settings.Default(settings.Rail{ChainID: uint64(chainID), Token: usdc, Network: "devnet"})
		v.Version, v.Why = uint64(version), fmt.Sprint("test ", version)
		return calls("Payments.SetSettings", v)
	}
	for i := range store.MaxRails {
		f.do(nil, set(1+i, 0))
	}
	f.do(store.ErrTooLarge, set(1+store.MaxRails, 0))
	for i := range settings.Kept + 2 {
		f.do(nil, set(1, 1+i))
	}
	f.see(rulesOf, historyOf(rail(1)))
	if n := len(must.Get(f.Memory.Payments.SettingsHistory(ctx, rail(1)))(f)); n != settings.Kept {
		f.Errorf("%d versions are kept", n)
	}
}

func (f filler) proposals() {
	proposals := make([]proposal.Proposal, proposal.MaxOpen+3)
	for i := range proposals {
		by := proposal.Proposal{By: proposal.Author{Key: "key_1", Root: "key_1"}, Required: true, Life: time.Hour, NotBefore: noon}
		proposals[i] = proposal.New(by, numbered(1000+i), usdc, 84532, "base-sepolia", noon)
	}
	propose := func(i int) call { return calls("Payments.Propose", proposals[i]) }
	for i := range proposal.MaxOpen { // all count at one item
		f.do(nil, propose(i))
	}
	f.do(store.ErrProposals, propose(proposal.MaxOpen))
	f.do(nil, propose(0))
	from := proposals[0]
	for i, want := range []error{store.ErrProposals, nil, store.ErrProposals} { // ended, closed, and again
		to := from.End(payment.Expired, noon)
		to.Closed = i > 0
		f.do(nil, calls("Payments.Amend", from, to, store.Guard{}))
		f.do(want, propose(proposal.MaxOpen+i))
		from, from.Writes = to, from.Writes+1
	}
}

func (f filler) delivery() {
	d := newDelivery(mailboxes[0], noon)
	d.Event.Body = make([]byte, webhook.MaxBody)
	_, _ = rand.Read(d.Event.Body) // never fails; no store makes it shorter
	f.do(nil, calls("Webhooks.AddDelivery", d))
	try := func() call {
		i := len(d.Attempts)
		d = tried(d, noon, false)
		d.Attempts[i].Error, d.Attempts[i].Response = strings.Repeat("e", 2048), strings.Repeat("\uFFFD", webhook.ResponseLimit)
		return calls("Webhooks.Record", d, i)
	}
	for range webhook.MaxAttempts {
		f.do(nil, try())
	}
	f.do(webhook.ErrTooLarge, try())
	f.see(deliveryAt(d.Ref))
}
