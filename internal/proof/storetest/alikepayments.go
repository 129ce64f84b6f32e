package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A ledger makes operations of store.Store on a few payments and wallets. It draws their arguments from the state in
// memory and, as other processes would, from older states.
type ledger struct {
	*run
	read    map[payment.ID][]proposal.Proposal // as they were read so far
	wallets map[wallet.ID][]wallet.Wallet      // as they were read so far
	tip     uint64                             // of the newest draft: none has another's revision
}

var (
	// longest is the name of a merchant, and owners have wallets of their own or are all others.
	longest = "mer_" + strings.Repeat("z", 26)
	owners  = []string{"", longest, "mer_a"}
	coins   = []token.Coin{rail(84532), rail(1)}
	ids     = []wallet.ID{
		{ChainID: 84532, Address: token.Address{1}}, {ChainID: 84532, Address: token.Address{2}}, {ChainID: 1,
			Address: token.Address{2}},
	}
)

// keys of payments; the payment of one has no request.
const keys, without = 6, 4

func payments(r *run) (map[string]func(), func() []call) {
	l := &ledger{run: r, read: map[payment.ID][]proposal.Proposal{}, wallets: map[wallet.ID][]wallet.Wallet{}}
	for i, id := range ids[:2] {
		at := wallet.Registration{ID: id, Token: usdc.Contract, State: []wallet.State{wallet.Active,
			wallet.Assigned}[i], Key: "a key", Merchant: owners[i], Since: noon}
		w := wallet.Wallet{ID: id, Merchant: owners[i], Ceiling: 5, Balance: token.Units(1000), Gas: token.Units(1000)}
		for _, s := range []Stores{r.Memory, r.Database} {
			if err := errors.Join(s.Payments.Register(ctx, at), s.Payments.Open(ctx, w, usdc.Contract)); err != nil {
				r.Fatal(err)
			}
		}
	}
	return map[string]func(){
		"advance": l.advance, "adopt": l.adopts, "create": l.creates, "reserve": func() { l.reserve(l.payment(), l.id()) },
		"return": l.returns, "release": l.releases, "change": l.changes, "commit": func() { l.commits(l.payment()) },
		"attempt": func() { l.bumps(l.payment()) }, "end": func() { l.ends(l.payment()) }, "no-op": l.noops, "wallet": l.wallet,
		"register": l.registers, "propose": l.proposes, "amend": l.amends, "look": l.looks,
	}, l.whole
}

// whole returns the reads of everything, and damages some of it.
func (l *ledger) whole() (all []call) {
	for k := range keys {
		all = append(all, paymentOf(l.draft(k, token.Units(1), noon).ID))
	}
	for _, id := range ids {
		all = append(all, walletOf(id), txsOf(id, 0))
	}
	for _, c := range coins {
		all = append(all, registryOf(c))
	}
	m := pick(l.run, "merchant", owners...)
	all = append(all, listOf(store.Filter{Merchant: m, Mode: "test", Limit: 2}),
		proposalsOf(store.ProposalFilter{Merchant: m, Mode: "test", Limit: 1}))
	all = append(all, guardOf("guard_0"), guardOf("guard_1"), dueAt(noon.Add(1000*time.Hour)), everything)
	l.same(all...)
	l.damages()
	return all
}

var ctx = context.Background()

// The reads.

func paymentOf(id payment.ID) call {
	return call{name: "Proposal " + string(id), of: func(s Stores) answer {
		p, err := s.Payments.Proposal(ctx, id)
		alone, also := s.Payments.Payment(ctx, id)
		return got(errors.Join(err, also), p, p.Payment, alone)
	}}
}

func walletOf(id wallet.ID) call {
	return view(fmt.Sprint("Wallet ", id), func(s Stores) (wallet.Wallet, error) { return s.Payments.Wallet(ctx, id) })
}

func txsOf(id wallet.ID, from uint64) call {
	return call{name: fmt.Sprint("PendingTxs ", id, from), of: func(s Stores) answer {
		txs, unreadable, err := s.Payments.PendingTxs(ctx, id, from)
		one, also := s.Payments.PendingTx(ctx, id, from)
		return answer{class(errors.Join(err, also)), []any{txs, unreadable, one}}
	}}
}

func registryOf(c token.Coin) call {
	return view("Wallets "+c.String(), func(s Stores) (wallet.Registry, error) { return s.Payments.Wallets(ctx, c) })
}

func guardOf(id string) call {
	return view("Guard "+id, func(s Stores) (store.Guard, error) { return s.Payments.Guard(ctx, id) })
}

func listOf(f store.Filter) call {
	return pages(fmt.Sprintf("List %+v", f), f.Limit, func(s Stores, from store.Position) ([]payment.Payment, store.Position, error) {
		f := f
		f.From = from
		return s.Payments.List(ctx, f)
	})
}

func proposalsOf(f store.ProposalFilter) call {
	name := fmt.Sprintf("ListProposals %+v", f)
	return pages(name, f.Limit, func(s Stores, from store.Position) ([]proposal.Proposal, store.Position, error) {
		f := f
		f.From = from
		return s.Payments.ListProposals(ctx, f)
	})
}

func dueAt(at time.Time) call {
	return call{name: fmt.Sprint("Due ", at), lags: true, of: func(s Stores) answer {
		due, err := s.Payments.Due(ctx, at, 100)
		return got(err, due)
	}}
}

var everything = call{name: "Entries", of: func(s Stores) answer {
	payments, noops, unreadable := map[payment.ID]payment.Payment{}, map[chain.Hash]int{}, false
	for e, err := range s.Payments.Entries(ctx) {
		switch {
		case errors.Is(err, store.ErrUnreadable):
			unreadable = true
		case err != nil:
			return done(err)
		case e.Noop.IsZero():
			payments[e.Payment.ID] = e.Payment
		default:
			noops[e.Noop]++
		}
	}
	gone, stop := context.WithCancel(ctx)
	stop()
	for _, err := range s.Payments.Entries(gone) {
		if class(err) != unknown {
			return answer{class: "an entry after its caller has left"}
		}
	}
	return answer{values: []any{payments, noops, unreadable}}
}}

func byHash(h chain.Hash) call {
	return view("PaymentByHash "+h.String(), func(s Stores) (payment.Payment, error) { return s.Payments.PaymentByHash(ctx, h) })
}

func (l *ledger) looks() {
	id, c := l.id(), pick(l.run, "rail", coins...)
	f := store.Filter{Merchant: pick(l.run, "merchant", owners...), Mode: "test", Limit: pick(l.run, "limit", 1, 2, 100),
		Status: pick(l.run, "status", "", payment.StatusPending, payment.StatusConfirmed, payment.StatusFailed)}
	switch pick(l.run, "what", "list", "list", "list", "proposals", "due", "everything", "hash", "wallet") {
	case "list":
		f.After, f.Before = often(l.run, 2, time.Time{}, l.at), often(l.run, 2, time.Time{}, l.at)
		f.Asset = often(l.run, 2, token.Coin{}, func() token.Coin { return c })
		f.Reference = often(l.run, 2, "", func() string { return l.payment().Reference })
		l.same(listOf(f))
	case "proposals":
		l.same(proposalsOf(store.ProposalFilter{Merchant: f.Merchant, Mode: f.Mode, Limit: f.Limit,
			By:     pick(l.run, "by", "", "key_1", "key_2"),
			Status: pick(l.run, "proposals", "", proposal.StatusAwaiting, proposal.StatusScheduled, proposal.StatusCancelled)}))
	case "due":
		l.same(dueAt(l.at()))
	case "everything":
		l.same(everything)
	case "hash":
		for _, h := range l.payment().Hashes() {
			l.same(byHash(h))
		}
	case "wallet":
		l.same(txsOf(id, l.nonce()), registryOf(c))
	}
}

// The arguments.

func (l *ledger) at() time.Time {
	return noon.Add(pick(l.run, "time", 0, time.Millisecond, time.Second, time.Hour, 2*time.Hour, 24*time.Hour))
}

func (l *ledger) atOrNever() time.Time { return pick(l.run, "bound", time.Time{}, l.at()) }

func (l *ledger) nonce() uint64 { return pick[uint64](l.run, "nonce", 0, 1, 2, 3, 4, 5, 1<<64-1) }

// size draws a size below, at and above a bound, seldom a large one.
func (l *ledger) size(most int) int {
	return often(l.run, 20, 3, func() int { return pick(l.run, "size", 0, most-1, most, most+1) })
}

// request returns the request of a key: two payments, the second with the longest names, batches of one and of three, a
// payment that was found on a chain without its request, and another payment.
func request(k int, amount token.Amount) payment.Request {
	r := payment.Request{Merchant: "mer_a", Mode: "test", IdempotencyKey: fmt.Sprint("key ", k),
		To: token.Address{0xaa, 19: byte(k)}, Amount: amount,
		Reference: "«é» 🧾", Metadata: map[string]string{"order": "2041", "empty": ""}}
	if k%2 == 1 {
		r.Merchant, r.IdempotencyKey = longest, strings.Repeat(fmt.Sprint(k), 255)
		r.Reference, r.Metadata = long(payment.MaxReference), map[string]string{}
		for i := range payment.MaxMetadata {
			r.Metadata[fmt.Sprintf("%02d", i)+long(payment.MaxMetadataName-2)] = long(payment.MaxMetadataValue)
		}
	}
	if n := []int{0, 0, 1, 3, 0, 0}[k]; n > 0 {
		var entries []payment.Entry
		for i := range n {
			entries = append(entries, payment.Entry{To: token.Address{0xbb, 19: byte(i)}, Amount: amount,
				Reference: strings.Repeat("é", i)})
		}
		r, _ = r.Batch(entries)
	}
	return r
}

func (l *ledger) draft(k int, amount token.Amount, at time.Time) payment.Payment {
	p := offer(ids[0], at, request(k, amount))
	if k == without {
		return found(p)
	}
	return p
}

func (l *ledger) aDraft() (int, payment.Payment) {
	k := pick(l.run, "key", 0, 1, 2, 3, 4, 5)
	p := l.draft(k, token.Units(pick[uint64](l.run, "amount", 10, 11)), l.at())
	return k, l.elsewhere(p)
}

// elsewhere returns p, assigned to a wallet that is drawn and with fees of its own.
func (l *ledger) elsewhere(p payment.Payment) payment.Payment {
	id := l.id()
	l.tip++
	return p.AssignedTo(id.Address, unsigned(id, p, l.tip))
}

// id draws a wallet, seldom the one that has no record at first.
func (l *ledger) id() wallet.ID { return ids[pick(l.run, "wallet", 0, 1, 0, 1, 0, 1, 2)] }

func (l *ledger) payment() payment.Payment { return l.proposal().Payment }

func (l *ledger) proposal() proposal.Proposal {
	_, p := l.aDraft()
	now, err := l.Memory.Payments.Proposal(ctx, p.ID)
	if err != nil {
		now = proposal.Proposal{Payment: p}
	}
	l.read[p.ID] = append(l.read[p.ID], now)
	return often(l.run, 6, now, func() proposal.Proposal { return pick(l.run, "read before", l.read[p.ID]...) })
}

// record returns a wallet as it is stored, or was; zero but for its ID if it never was.
func (l *ledger) record(id wallet.ID) wallet.Wallet {
	now, err := l.Memory.Payments.Wallet(ctx, id)
	if err != nil {
		now = wallet.Wallet{ID: id}
	}
	l.wallets[id] = append(l.wallets[id], now)
	return often(l.run, 6, now, func() wallet.Wallet { return pick(l.run, "read before", l.wallets[id]...) })
}

func (l *ledger) guard() store.Guard {
	g, _ := l.Memory.Payments.Guard(ctx, pick(l.run, "guard", "guard_0", "guard_1"))
	return often(l.run, 5, g, func() store.Guard {
		g.Version -= min(g.Version, 1)
		g.Payments = slices.Repeat([]payment.ID{"pay_" + payment.ID(strings.Repeat("z", 32))}, l.size(store.MaxGuarded))
		return g
	})
}

func about(p payment.Payment) []call {
	return []call{paymentOf(p.ID), walletOf(idOf(p)), txsOf(idOf(p), p.Nonce)}
}

// sign returns the bytes of a transaction, seldom of a size around the bound.
func (l *ledger) sign(of string, nonce uint64, tip token.Amount) chain.Signed {
	s := signed(of, nonce, tip)
	return often(l.run, 30, s, func() chain.Signed {
		s.Raw = make([]byte, l.size(store.MaxRaw))
		return s
	})
}

// The operations.

func (l *ledger) creates() {
	_, p := l.aDraft()
	if pick(l.run, "guarded", false, true) {
		g := l.guard()
		p.Guarded = true
		l.do(call{name: fmt.Sprintf("CreateGuarded %s under %s version %d", p.ID, g.ID, g.Version), of: func(s Stores) answer {
			stored, created, err := s.Payments.CreateGuarded(ctx, p, g)
			return got(err, stored, created)
		}}, append(about(p), guardOf(g.ID))...)
		return
	}
	switch often(l.run, 5, 0, func() int { return pick(l.run, "large", 1, 2, 3) }) {
	case 1:
		p.Entries = slices.Repeat(p.Entries, pick(l.run, "times", 33, 34)) // 99 of three are within the bound
		p = l.elsewhere(p)
	case 2:
		more := map[string]string{"more": ""} // than the most, if p has the longest names
		maps.Copy(more, p.Metadata)
		p.Metadata = more
	case 3:
		p.Tx.Data = make([]byte, store.MaxRaw+1)
	}
	l.create(p)
}

func (l *ledger) create(p payment.Payment) {
	l.do(call{name: fmt.Sprint("Create ", p.ID), of: func(s Stores) answer {
		stored, created, err := s.Payments.Create(ctx, p)
		return got(err, stored, created)
	}}, about(p)...)
}

func (l *ledger) need(p payment.Payment, w wallet.Wallet) wallet.Need {
	n := wallet.Need{Wallet: w.ID, Payment: p.ID, For: p.Revision, Amount: token.Units(10), Gas: token.Units(3), At: l.at(),
		Owner:    often(l.run, 4, w.Merchant, func() string { return pick(l.run, "owner", append(owners, wallet.Anyone)...) }),
		Merchant: p.Merchant}
	if pick(l.run, "capped", false, true, true) && n.Merchant != "" {
		n.MerchantCap = max(1, w.PerMerchant[n.Merchant]) + pick[uint64](l.run, "cap", 0, 1)
	}
	return often(l.run, 4, n, func() wallet.Need {
		n.Amount = pick(l.run, "amount", n.Amount, token.Units(1000), token.Units(1001), token.MaxAmount())
		n.Gas = pick(l.run, "gas", n.Gas, token.Units(1000), token.Units(1001), token.MaxAmount())
		return n
	})
}

func (l *ledger) reserve(p payment.Payment, id wallet.ID) {
	n := l.need(p, l.record(id))
	l.do(call{name: fmt.Sprintf("Reserve %+v", n), of: func(s Stores) answer {
		w, err := s.Payments.Reserve(ctx, n)
		if class(err) == unknown {
			return done(err)
		}
		return answer{class(err), []any{w}} // a refusal comes with the wallet
	}}, walletOf(id))
}

func (l *ledger) returns() {
	p := l.payment()
	w := l.record(l.id())
	p.ID = l.holder(w, p.ID)
	n, held := l.need(p, w), w.Reservations[p.ID]
	if held.For == "" && pick(l.run, "reserve", false, true, true) {
		l.reserve(p, w.ID)
		return
	}
	n.Amount, n.Gas = token.Units(10), token.Units(3) // no larger ones were ever reserved
	n.At = often(l.run, 3, held.At, l.at)
	nonce := often(l.run, 4, held.Nonce, func() uint64 { return pick(l.run, "nonce", w.NextNonce-1, l.nonce()) })
	if pick(l.run, "orphan", false, true) {
		l.write(fmt.Sprint("Orphan ", w.ID, p.ID, nonce),
			func(s Stores) error { return s.Payments.Orphan(ctx, w.ID, p.ID, nonce) }, walletOf(w.ID))
		return
	}
	l.write(fmt.Sprintf("Return %d of %+v", nonce, n),
		func(s Stores) error { return s.Payments.Return(ctx, n, nonce) }, walletOf(w.ID))
}

// holder draws a payment that holds a nonce of w, the newest first, seldom p.
func (l *ledger) holder(w wallet.Wallet, p payment.ID) payment.ID {
	holders := slices.SortedFunc(maps.Keys(w.Reservations), func(a, b payment.ID) int {
		return cmp.Compare(w.Reservations[b].Nonce, w.Reservations[a].Nonce)
	})
	if len(holders) == 0 || often(l.run, 6, false, func() bool { return true }) {
		return p
	}
	return pick(l.run, "holder", holders...)
}

func (l *ledger) releases() {
	p := l.payment()
	w := l.record(idOf(p))
	p.ID = l.holder(w, p.ID)
	tx := wallet.PendingTx{ID: w.ID, Nonce: often(l.run, 3, w.Reservations[p.ID].Nonce, l.nonce)}
	if pick(l.run, "delete", false, true) {
		l.write(fmt.Sprint("DeletePendingTx ", w.ID, tx.Nonce),
			func(s Stores) error { return s.Payments.DeletePendingTx(ctx, w.ID, tx.Nonce) }, about(p)...)
		return
	}
	l.write(fmt.Sprint("Release ", p.ID, w.ID, tx.Nonce),
		func(s Stores) error { return s.Payments.Release(ctx, p.ID, tx) }, about(p)...)
}

// changes moves a payment that is not signed, or is redacted after it was.
func (l *ledger) changes() {
	p := l.payment()
	hows := []string{"reassign", "discard", "mined", "redact"}
	if p.State.Final() {
		hows = append(hows, "redact", "redact", "redact")
	}
	switch pick(l.run, "how", hows...) {
	case "reassign":
		to := l.elsewhere(p)
		l.write(fmt.Sprint("Reassign ", p.ID, " to ", to.Wallet),
			func(s Stores) error { return s.Payments.Reassign(ctx, to, p.Revision) }, about(to)...)
	case "discard":
		l.write(fmt.Sprint("Discard ", p.ID), func(s Stores) error { return s.Payments.Discard(ctx, p) }, about(p)...)
	case "mined":
		at := l.at().Add(time.Microsecond)
		l.do(view(fmt.Sprint("SetMined ", p.ID, at),
			func(s Stores) (payment.Payment, error) { return s.Payments.SetMined(ctx, p.ID, at) }), about(p)...)
	case "redact":
		if now, err := l.Memory.Payments.Payment(ctx, p.ID); err == nil {
			p = now
		}
		to := p
		to.Event = &payment.Event{Body: make([]byte, l.size(store.MaxEvent))}
		if final, err := p.Redacted(); err == nil {
			to = final
		}
		l.write(fmt.Sprint("Redact ", p.ID), func(s Stores) error { return s.Payments.Redact(ctx, to) }, about(p)...)
	}
}

// adopts gives the payment without a request its own, once it is committed, seldom before.
func (l *ledger) adopts() {
	draft := l.elsewhere(l.draft(without, token.Units(10), l.at()))
	p, err := l.Memory.Payments.Payment(ctx, draft.ID)
	if early := often(l.run, 4, false, func() bool { return true }); !early && (err != nil || p.State == payment.Prepared) {
		l.step(draft)
		return
	}
	if err != nil {
		p = draft
	}
	p.Version -= often[int64](l.run, 4, 0, func() int64 { return 1 })
	to := p.Adopted(request(without, p.Amount))
	l.write(fmt.Sprint("Adopt ", p.ID), func(s Stores) error { return s.Payments.Adopt(ctx, to) }, about(p)...)
}

func (l *ledger) commits(p payment.Payment) {
	w := l.record(idOf(p))
	nonce := often(l.run, 5, w.Reservations[p.ID].Nonce, l.nonce)
	if p.State == payment.Proposed {
		p.State = payment.Prepared // which the store refuses
	}
	to, err := p.Commit(l.sign(p.Revision, nonce, p.Tx.Fees.Tip), l.at().Add(789))
	if err != nil {
		to = p // it is committed: once more
	}
	if !to.State.Signed() {
		return
	}
	l.write(fmt.Sprint("Commit ", p.ID, " at ", nonce),
		func(s Stores) error { return s.Payments.Commit(ctx, to) }, about(to)...)
}

func (l *ledger) bumps(p payment.Payment) {
	fees := chain.Fees{Tip: token.Units(pick[uint64](l.run, "tip", 20, 21)), Cap: token.Units(1020)}
	tx := p.Tx
	tx.Fees, tx.Gas = fees, tx.Gas+pick[uint64](l.run, "gas", 0, 5)
	retry := p.Bump
	if pick(l.run, "cancel", false, true) {
		retry = p.Cancel
	}
	to, err := retry(l.sign(fmt.Sprint(p.Revision, len(p.Attempts)), p.Nonce, fees.Tip), tx, l.at())
	if err != nil {
		return
	}
	l.write(fmt.Sprint("AddAttempt ", len(to.Attempts), " of ", p.ID),
		func(s Stores) error { return s.Payments.AddAttempt(ctx, to) }, about(p)...)
}

func (l *ledger) ends(p payment.Payment) {
	if p.State != payment.Committed {
		return
	}
	r := chain.Receipt{Tx: p.LastAttempt().Hash, Succeeded: true, Block: l.nonce(), Fee: pick(l.run, "fee", nil,
		new(token.MaxAmount()))}
	to, err := p.Confirm(r, l.at())
	if pick(l.run, "failed", false, true) {
		to, err = p.Fail(pick(l.run, "code", payment.NonceConsumed, payment.ExecutionReverted), pick(l.run,
			"receipt", chain.Receipt{}, r), l.at())
	}
	if err != nil {
		return
	}
	to.Event.Body = often(l.run, 20, to.Event.Body, func() []byte { return make([]byte, l.size(store.MaxEvent)) })
	l.write(fmt.Sprint("Finish ", p.ID, " ", to.State),
		func(s Stores) error { return s.Payments.Finish(ctx, to) }, about(p)...)
}

// advance takes a payment a step further, as the engines would.
func (l *ledger) advance() {
	_, draft := l.aDraft()
	l.step(draft)
}

func (l *ledger) step(draft payment.Payment) {
	p, err := l.Memory.Payments.Payment(ctx, draft.ID)
	switch {
	case err != nil:
		l.create(draft)
	case p.State == payment.Prepared:
		w, _ := l.Memory.Payments.Wallet(ctx, idOf(p))
		if _, held := w.Holds(p.ID, p.Revision); !held {
			l.reserve(p, idOf(p))
		} else {
			l.commits(p)
		}
	case p.State == payment.Committed && pick(l.run, "more", false, true):
		l.bumps(p)
	default:
		l.ends(p)
	}
}

func (l *ledger) noops() {
	id, nonce := l.id(), l.nonce()
	fees := chain.Fees{Tip: token.Units(pick[uint64](l.run, "tip", 1, 2)), Cap: token.Units(50)}
	tx := chain.Noop(id.ChainID, id.Address, fees)
	tx.GasUnit = pick[chain.GasUnit](l.run, "unit", 0, 1000)
	there, err := l.Memory.Payments.PendingTx(ctx, id, nonce)
	if err == nil && pick(l.run, "bump", true, false) {
		there.Payment = "" // also over a payment's, which is refused
		there.Hashes = there.Hashes[:len(there.Hashes)-often(l.run, 5, 0, func() int { return 1 })]
		to := there.Bumped(tx, l.sign(fmt.Sprint("no-op", len(there.Hashes)), nonce, fees.Tip), l.at())
		l.write(fmt.Sprint("BumpNoop ", id, nonce),
			func(s Stores) error { return s.Payments.BumpNoop(ctx, to) }, txsOf(id, nonce))
		return
	}
	to := wallet.PendingNoop(id, tx, l.sign(fmt.Sprint("no-op of ", id), nonce, fees.Tip), l.at())
	l.write(fmt.Sprint("PutNoop ", id, nonce),
		func(s Stores) error { return s.Payments.PutNoop(ctx, to) }, txsOf(id, nonce))
}

func (l *ledger) seen() *wallet.Progress {
	return pick(l.run, "seen", nil, &wallet.Progress{}, &wallet.Progress{Mined: 1<<64 - 1,
		Paid: make([]uint64, l.size(wallet.MaxInFlight)), Sent: 7, Waits: payment.WaitingForFees})
}

func (l *ledger) counts() map[string]uint64 {
	counts := map[string]uint64{"mer_a": pick[uint64](l.run, "count", 0, 1, 2)}
	return pick(l.run, "counts", nil, counts, often(l.run, 20, counts,
		func() map[string]uint64 { return merchants(l.size(wallet.MaxInFlight), 1) }))
}

func (l *ledger) wallet() {
	id := l.id()
	w, n := l.record(id), l.nonce()
	from, to := pick(l.run, "from", w.Paused, "", "by hand", wallet.OutOfGas), pick(l.run, "to", "", "by hand", wallet.OutOfGas)
	seen, counts := l.seen(), l.counts()
	by, now := pick(l.run, "by", "run 1", "run 2"), l.at()
	until := l.at().Add(pick[time.Duration](l.run, "nanosecond", 0, 1))
	balance := pick(l.run, "balance", token.Units(1000), token.Units(9), token.Units(1<<64-1))
	acts := map[string]func(store.Store) error{
		"Reconcile": func(s store.Store) error { return s.Reconcile(ctx, w, balance, balance, counts, seen) },
		"Claim": func(s store.Store) error {
			held, err := s.Claim(ctx, id, by, now, until, seen)
			return othersUnless(held, err)
		},
		"Advance":      func(s store.Store) error { return s.Advance(ctx, id, n, n+2) },
		"Pause":        func(s store.Store) error { return s.Pause(ctx, id, to) },
		"Repause":      func(s store.Store) error { return s.Repause(ctx, id, from, to) },
		"RaiseCeiling": func(s store.Store) error { return s.RaiseCeiling(ctx, id, n) },
		"LowerCeiling": func(s store.Store) error { return s.LowerCeiling(ctx, id, n) },
	}
	act := pick(l.run, "act", slices.Sorted(maps.Keys(acts))...)
	l.do(call{name: fmt.Sprintf("%s of %v at %d: %q to %q, %s, seen %v", act, id, n, from, to, by, seen != nil),
		twofold: act == "LowerCeiling", of: func(s Stores) answer { return done(acts[act](s.Payments)) }}, walletOf(id))
}

// registers changes a wallet's registration, and the record with it.
func (l *ledger) registers() {
	id := pick(l.run, "wallet", ids...)
	c := rail(id.ChainID)
	of := pick(l.run, "token", usdc.Contract, token.Address{0xee})
	registry, _ := l.Memory.Payments.Wallets(ctx, c)
	now, _ := registry.Find(id.Address)
	to, at, m := pick(l.run, "state", wallet.States()...), l.at(), pick(l.run, "merchant", owners...)
	from := often(l.run, 4, now.State, func() wallet.State { return pick(l.run, "from", wallet.States()...) })
	r := wallet.Registration{ID: id, Token: of, State: wallet.Active, Key: "a key", Since: at, Merchant: m}
	if m != "" {
		r.State = wallet.Assigned
	}
	w := l.record(id)
	opened := wallet.Wallet{ID: id, NextNonce: 0, Ceiling: 5, Balance: token.MaxAmount(), Gas: token.Units(1000),
		Merchant: often(l.run, 3, now.Merchant, func() string { return m }), Reservations: map[payment.ID]wallet.Reservation{}}
	for i := range often(l.run, 20, 0, func() int { return l.size(wallet.MaxInFlight) }) {
		opened.Reservations[payment.ID(fmt.Sprintf("pay_%032d", i))] = wallet.Reservation{Nonce: 1<<63 + uint64(i),
			At: noon, For: "revision"}
	}
	acts := map[string]func(store.Store) error{
		"Register": func(s store.Store) error { return s.Register(ctx, r) },
		"Open":     func(s store.Store) error { return s.Open(ctx, opened, of) },
		"SetState": func(s store.Store) error { return s.SetState(ctx, id, from, to, at) },
	}
	if now.Opened { // else nobody has read a record
		acts["Retire"] = func(s store.Store) error { return s.Retire(ctx, w, at) }
		acts["Assign"] = func(s store.Store) error { return s.Assign(ctx, w, m, at) }
	}
	act := pick(l.run, "act", slices.Sorted(maps.Keys(acts))...)
	if (act == "Retire" || act == "Assign") && pick(l.run, "drain", true, true, false) {
		l.write("SetState to draining", func(s Stores) error { return s.Payments.SetState(ctx, id, now.State, wallet.Draining, at) })
	}
	l.write(fmt.Sprintf("%s of %v: %s to %s, merchant %q", act, id, from, to, m), func(s Stores) error { return acts[act](s.Payments) },
		walletOf(id), registryOf(c), registryOf(token.Coin{ChainID: id.ChainID, Contract: token.Address{0xee}}))
}

// damages makes items unreadable, at the end of a run: some writes would mend them in one of the stores alone.
func (l *ledger) damages() {
	id, nonce := l.id(), l.nonce()
	_, draft := l.aDraft()
	both := func(spoil func(Damage)) {
		spoil(l.Memory.Damage)
		spoil(l.Database.Damage)
	}
	p, missing := l.Memory.Payments.Payment(ctx, draft.ID)
	if missing == nil {
		both(func(d Damage) { d.Spoil(p.ID) })
		l.create(p)
		for _, h := range p.Hashes() {
			l.same(byHash(h))
		}
	}
	if tx, err := l.Memory.Payments.PendingTx(ctx, id, nonce); err == nil {
		both(func(d Damage) { d.SpoilPendingTx(id, nonce) })
		l.write("PutNoop over a damaged one", func(s Stores) error { return s.Payments.PutNoop(ctx, tx) }, txsOf(id, nonce))
	}
	if w, err := l.Memory.Payments.Wallet(ctx, id); err == nil {
		both(func(d Damage) { d.SpoilWallet(id) })
		if l.reserve(draft, id); pick(l.run, "mended", false, true) {
			l.write("Reconcile", func(s Stores) error { return s.Payments.Reconcile(ctx, w, w.Balance, w.Gas, nil, nil) }, walletOf(id))
		}
	}
	of, _ := l.Memory.Payments.Wallets(ctx, rail(id.ChainID))
	if _, registered := of.Find(id.Address); registered {
		both(func(d Damage) { d.SpoilRegistration(id) })
	}
}

func (l *ledger) proposes() {
	k, _ := l.aDraft()
	r := request(k, token.Units(pick[uint64](l.run, "amount", 10, 11)))
	by := pick(l.run, "by", "key_1", "key_2")
	p := proposal.New(proposal.Proposal{By: proposal.Author{Key: by, Root: by}, Required: pick(l.run, "required", true, false),
		Life: time.Hour, NotBefore: l.atOrNever()}, r, usdc, 84532, "base-sepolia", l.at())
	l.do(view(fmt.Sprint("Propose ", p.Payment.ID), func(s Stores) (bool, error) { return s.Payments.Propose(ctx, p) }),
		paymentOf(p.Payment.ID))
}

// amends moves a proposal, as it is stored or was.
func (l *ledger) amends() {
	from := l.proposal()
	var proposed []proposal.Proposal
	for k := range keys {
		p, err := l.Memory.Payments.Proposal(ctx, l.draft(k, token.Units(1), noon).ID)
		if err == nil && p.Payment.Proposal {
			proposed = append(proposed, p)
		}
	}
	if len(proposed) > 0 && !from.Payment.Proposal {
		from = pick(l.run, "proposal", proposed...)
	}
	if !from.Payment.Proposal {
		return
	}
	now, moves := l.at(), map[string]proposal.Proposal{}
	published, closed := from, from
	published.Event, closed.Event, closed.Closed = "", "", true
	moves["published"] = published
	switch s := from.Payment.State; {
	case s.Signed() || s.UsedUp():
		moves["closed"] = closed
	case s == payment.Prepared:
		moves["refused"] = from.Refused(proposal.Refusal{Code: pick(l.run, "code", "x", "")}, now)
		moves["cancelled"] = from.End(payment.Cancelled, now)
	case s == payment.Proposed:
		moves["approved"] = from.Approve(proposal.Author{Key: "key_3", Root: "key_3"}, now)
		moves["expired"], moves["cancelled"] = from.End(payment.Expired, now), from.End(payment.Cancelled, now)
		moves["begun"] = from.Begin(l.elsewhere(payment.New(from.Payment.ID, from.Request(), usdc, "base-sepolia", now)))
	}
	move := pick(l.run, "move", slices.Sorted(maps.Keys(moves))...)
	to, g := moves[move], store.Guard{}
	if move == "begun" && pick(l.run, "guarded", false, true) {
		g, to.Payment.Guarded = l.guard(), true
	}
	l.do(call{name: fmt.Sprintf("Amend %s %s, written %d times, guard %s %d", to.Payment.ID, move, from.Writes, g.ID, g.Version),
		of: func(s Stores) answer { return done(s.Payments.Amend(ctx, from, to, g)) }},
		append(about(to.Payment), guardOf("guard_0"), guardOf("guard_1"))...)
}
