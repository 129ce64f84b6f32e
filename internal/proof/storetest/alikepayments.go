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

	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

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

// opens makes the first two wallets, one of them a merchant's.
func (r *run) opens() {
	for i, id := range ids[:2] {
		r.same(calls("Payments.Register", wallet.Registration{ID: id, Token: usdc.Contract, State: []wallet.State{wallet.Active,
			wallet.Assigned}[i], Key: "a key", Merchant: owners[i], Since: noon}))
		r.same(calls("Payments.Open", wallet.Wallet{ID: id, Merchant: owners[i], Ceiling: 5, Balance: token.Units(1000),
			Gas: token.Units(1000)}, usdc.Contract))
	}
}

func (r *run) ledger() (all []call) {
	for k := range keys {
		all = append(all, paymentOf(r.draft(k, token.Units(1), noon).ID)...)
	}
	for _, id := range ids {
		all = append(append(all, walletOf(id)), txsOf(id, 0)...)
	}
	m := pick(r, "merchant", owners...)
	all = append(all, registryOf(coins[0]), registryOf(coins[1]), listOf(store.Filter{Merchant: m, Mode: "test", Limit: 2}),
		proposalsOf(store.ProposalFilter{Merchant: m, Mode: "test", Limit: 1}),
		guardOf("guard_0"), guardOf("guard_1"), dueAt(noon.Add(1000*time.Hour)), everything)
	r.same(all...)
	r.damages()
	return all
}

var ctx = context.Background()

// The reads.

func paymentOf(id payment.ID) []call {
	return []call{calls("Payments.Proposal", id), calls("Payments.Payment", id)}
}

func txsOf(id wallet.ID, from uint64) []call {
	return []call{calls("Payments.PendingTxs", id, from), calls("Payments.PendingTx", id, from)}
}

func walletOf(id wallet.ID) call   { return calls("Payments.Wallet", id) }
func registryOf(c token.Coin) call { return calls("Payments.Wallets", c) }
func guardOf(id string) call       { return calls("Payments.Guard", id) }

func listOf(f store.Filter) call {
	return pages(calls("Payments.List", f), f.Limit, &f.From, func(s Stores) ([]payment.Payment, store.Position, error) {
		return s.Payments.List(ctx, f)
	})
}

func proposalsOf(f store.ProposalFilter) call {
	return pages(calls("Payments.ListProposals", f), f.Limit, &f.From, func(s Stores) ([]proposal.Proposal, store.Position, error) {
		return s.Payments.ListProposals(ctx, f)
	})
}

func dueAt(at time.Time) call { return call{method: "Payments.Due", args: []any{at, 100}, lags: true} }

var everything = call{method: "Payments.Entries", of: func(s Stores) answer {
	payments, noops, unreadable := map[payment.ID]payment.Payment{}, map[chain.Hash]int{}, false
	for e, err := range s.Payments.Entries(ctx) {
		switch {
		case errors.Is(err, store.ErrUnreadable):
			unreadable = true
		case err != nil:
			return got(err)
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

func (r *run) looks() {
	id, c := r.id(), pick(r, "rail", coins...)
	f := store.Filter{Merchant: pick(r, "merchant", owners...), Mode: "test", Limit: pick(r, "limit", 1, 2, 100),
		Status: pick(r, "status", "", payment.StatusPending, payment.StatusConfirmed, payment.StatusFailed)}
	switch pick(r, "what", "list", "list", "list", "proposals", "due", "everything", "hash", "wallet") {
	case "list":
		f.After, f.Before = often(r, 2, time.Time{}, r.at), often(r, 2, time.Time{}, r.at)
		f.Asset = often(r, 2, token.Coin{}, func() token.Coin { return c })
		f.Reference = often(r, 2, "", func() string { return r.payment().Reference })
		r.same(listOf(f))
	case "proposals":
		r.same(proposalsOf(store.ProposalFilter{Merchant: f.Merchant, Mode: f.Mode, Limit: f.Limit,
			By:     pick(r, "by", "", "key_1", "key_2"),
			Status: pick(r, "proposals", "", proposal.StatusAwaiting, proposal.StatusScheduled, proposal.StatusCancelled)}))
	case "due":
		r.same(dueAt(r.at()))
	case "everything":
		r.same(everything)
	case "hash":
		r.sameByHash(r.payment())
	case "wallet":
		r.same(append(txsOf(id, r.nonce()), registryOf(c))...)
	}
}

func (r *run) sameByHash(p payment.Payment) {
	for _, h := range p.Hashes() {
		r.same(calls("Payments.PaymentByHash", h))
	}
}

// The arguments.

func (r *run) at() time.Time {
	return noon.Add(pick(r, "time", 0, time.Millisecond, time.Second, time.Hour, 2*time.Hour, 24*time.Hour))
}

func (r *run) atOrNever() time.Time { return pick(r, "bound", time.Time{}, r.at()) }

func (r *run) nonce() uint64 { return pick[uint64](r, "nonce", 0, 1, 2, 3, 4, 5, 1<<64-1) }

// size draws a size below, at and above a bound, seldom a large one.
func (r *run) size(most int) int {
	return often(r, 20, 3, func() int { return pick(r, "size", 0, most-1, most, most+1) })
}

// request returns the request of a key: two payments, the second with the longest names, batches of one and of three, a
// payment that was found on a chain without its request, and another payment.
func request(k int, amount token.Amount) payment.Request {
	r := payment.Request{Merchant: "mer_a", Mode: "test", IdempotencyKey: fmt.Sprint("key ", k),
		To: token.Address{0xaa, 19: byte(k)}, Amount: amount,
		Reference: "«é» 🧾", Metadata: map[string]string{"order no.": "2041", "no value": ""}}
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

func (r *run) draft(k int, amount token.Amount, at time.Time) payment.Payment {
	p := offer(ids[0], at, request(k, amount))
	if k == without { // as a chain shows it: without the request that asked for it
		p.Merchant, p.Mode, p.IdempotencyKey, p.Fingerprint, p.Reference, p.Metadata = "", "", "", "", "", nil
	}
	return p
}

func (r *run) key() int                { return rapid.IntRange(0, keys-1).Draw(r.T, "key") }
func (r *run) amount() token.Amount    { return token.Units(pick[uint64](r, "amount", 10, 11)) }
func (r *run) aDraft() payment.Payment { return r.elsewhere(r.draft(r.key(), r.amount(), r.at())) }

// elsewhere returns p, assigned to a wallet that is drawn and with fees of its own.
func (r *run) elsewhere(p payment.Payment) payment.Payment {
	id := r.id()
	r.tip++
	return p.AssignedTo(id.Address, unsigned(id, p, r.tip))
}

// id draws a wallet, seldom the one that has no record at first.
func (r *run) id() wallet.ID { return ids[pick(r, "wallet", 0, 1, 0, 1, 0, 1, 2)] }

func (r *run) payment() payment.Payment { return r.proposal().Payment }

func (r *run) proposal() proposal.Proposal {
	p := r.aDraft()
	now, err := r.Memory.Payments.Proposal(ctx, p.ID)
	if err != nil {
		now = proposal.Proposal{Payment: p}
	}
	r.read[p.ID] = append(r.read[p.ID], now)
	return often(r, 6, now, func() proposal.Proposal { return pick(r, "read before", r.read[p.ID]...) })
}

// record returns a wallet as it is stored, or was; zero but for its ID if it never was.
func (r *run) record(id wallet.ID) wallet.Wallet {
	now, err := r.Memory.Payments.Wallet(ctx, id)
	if err != nil {
		now = wallet.Wallet{ID: id}
	}
	r.wallets[id] = append(r.wallets[id], now)
	return often(r, 6, now, func() wallet.Wallet { return pick(r, "read before", r.wallets[id]...) })
}

func (r *run) guard() store.Guard {
	g, _ := r.Memory.Payments.Guard(ctx, pick(r, "guard", "guard_0", "guard_1"))
	return often(r, 5, g, func() store.Guard {
		g.Version -= min(g.Version, 1)
		g.Payments = slices.Repeat([]payment.ID{"pay_" + payment.ID(strings.Repeat("z", 32))}, r.size(store.MaxGuarded))
		return g
	})
}

func about(p payment.Payment) []call {
	return append(append(paymentOf(p.ID), walletOf(idOf(p))), txsOf(idOf(p), p.Nonce)...)
}

// sign returns the bytes of a transaction, seldom of a size around the bound.
func (r *run) sign(of string, nonce uint64, tip token.Amount) chain.Signed {
	s := signed(of, nonce, tip)
	return often(r, 30, s, func() chain.Signed {
		s.Raw = make([]byte, r.size(store.MaxRaw))
		return s
	})
}

// The operations.

func (r *run) creates() {
	p := r.aDraft()
	if pick(r, "guarded", false, true) {
		g := r.guard()
		p.Guarded = true
		r.do(calls("Payments.CreateGuarded", p, g), append(about(p), guardOf(g.ID))...)
		return
	}
	switch often(r, 5, 0, func() int { return pick(r, "large", 1, 2, 3) }) {
	case 1:
		p.Entries = slices.Repeat(p.Entries, pick(r, "times", 33, 34)) // 99 of three are within the bound
		p = r.elsewhere(p)
	case 2:
		more := map[string]string{"one more": ""} // than the most, if p has the longest names
		maps.Copy(more, p.Metadata)
		p.Metadata = more
	case 3:
		p.Tx.Data = make([]byte, store.MaxRaw+1)
	}
	r.do(calls("Payments.Create", p), about(p)...)
}

func (r *run) need(p payment.Payment, w wallet.Wallet) wallet.Need {
	n := wallet.Need{Wallet: w.ID, Payment: p.ID, For: p.Revision, Amount: token.Units(10), Gas: token.Units(3), At: r.at(),
		Owner:    often(r, 4, w.Merchant, func() string { return pick(r, "owner", append(owners, wallet.Anyone)...) }),
		Merchant: p.Merchant}
	if pick(r, "capped", false, true, true) && n.Merchant != "" {
		n.MerchantCap = max(1, w.PerMerchant[n.Merchant]) + pick[uint64](r, "cap", 0, 1)
	}
	return often(r, 4, n, func() wallet.Need {
		n.Amount = pick(r, "amount", n.Amount, token.Units(1000), token.Units(1001), token.MaxAmount())
		n.Gas = pick(r, "gas", n.Gas, token.Units(1000), token.Units(1001), token.MaxAmount())
		return n
	})
}

func (r *run) reserve(p payment.Payment, id wallet.ID) {
	n := r.need(p, r.record(id))
	r.do(call{method: "Payments.Reserve", args: []any{n}, beside: true}, walletOf(id))
}

func (r *run) returns() {
	p := r.payment()
	w := r.record(r.id())
	p.ID = r.holder(w, p.ID)
	n, held := r.need(p, w), w.Reservations[p.ID]
	if held.For == "" && pick(r, "reserve", false, true, true) {
		r.reserve(p, w.ID)
		return
	}
	n.Amount, n.Gas = token.Units(10), token.Units(3) // no larger ones were ever reserved
	n.At = often(r, 3, held.At, r.at)
	nonce := often(r, 4, held.Nonce, func() uint64 { return pick(r, "nonce", w.NextNonce-1, r.nonce()) })
	r.do(pick(r, "how", calls("Payments.Return", n, nonce), calls("Payments.Orphan", w.ID, p.ID, nonce)), walletOf(w.ID))
}

// holder draws a payment that holds a nonce of w, the newest first, seldom p.
func (r *run) holder(w wallet.Wallet, p payment.ID) payment.ID {
	holders := slices.SortedFunc(maps.Keys(w.Reservations), func(a, b payment.ID) int {
		return cmp.Compare(w.Reservations[b].Nonce, w.Reservations[a].Nonce)
	})
	if len(holders) == 0 || r.seldom(6) {
		return p
	}
	return pick(r, "holder", holders...)
}

func (r *run) releases() {
	p := r.payment()
	w := r.record(idOf(p))
	p.ID = r.holder(w, p.ID)
	tx := wallet.PendingTx{ID: w.ID, Nonce: often(r, 3, w.Reservations[p.ID].Nonce, r.nonce)}
	r.do(pick(r, "how", calls("Payments.Release", p.ID, tx), calls("Payments.DeletePendingTx", w.ID, tx.Nonce)), about(p)...)
}

// changes moves a payment that is not signed, or is redacted after it was.
func (r *run) changes() {
	p := r.payment()
	hows := []string{"reassign", "discard", "mined", "redact"}
	if p.State.Final() {
		hows = append(hows, "redact", "redact", "redact")
	}
	switch pick(r, "how", hows...) {
	case "reassign":
		to := r.elsewhere(p)
		r.do(calls("Payments.Reassign", to, p.Revision), about(to)...)
	case "discard":
		r.do(calls("Payments.Discard", p), about(p)...)
	case "mined":
		r.do(calls("Payments.SetMined", p.ID, r.at().Add(time.Microsecond)), about(p)...)
	case "redact":
		if now, err := r.Memory.Payments.Payment(ctx, p.ID); err == nil {
			p = now
		}
		to := p
		to.Event = &payment.Event{Body: make([]byte, r.size(store.MaxEvent))}
		if final, err := p.Redacted(); err == nil {
			to = final
		}
		r.do(calls("Payments.Redact", to), about(p)...)
	}
}

// adopts gives the payment without a request its own, once it is committed, seldom before.
func (r *run) adopts() {
	draft := r.elsewhere(r.draft(without, token.Units(10), r.at()))
	p, err := r.Memory.Payments.Payment(ctx, draft.ID)
	if early := r.seldom(4); !early && (err != nil || p.State == payment.Prepared) {
		r.step(draft)
		return
	}
	if err != nil {
		p = draft
	}
	p.Version -= often[int64](r, 4, 0, func() int64 { return 1 })
	r.do(calls("Payments.Adopt", p.Adopted(request(without, p.Amount))), about(p)...)
}

func (r *run) commits(p payment.Payment) {
	w := r.record(idOf(p))
	nonce := often(r, 5, w.Reservations[p.ID].Nonce, r.nonce)
	if p.State == payment.Proposed {
		p.State = payment.Prepared // which the store refuses
	}
	p.WalletOf = pick(r, "wallet of", "", p.Merchant)
	to, err := p.Commit(r.sign(p.Revision, nonce, p.Tx.Fees.Tip), r.at().Add(789))
	if err != nil {
		to = p // it is committed: once more
	}
	if to.State.Signed() {
		r.do(calls("Payments.Commit", to), about(to)...)
	}
}

func (r *run) bumps(p payment.Payment) {
	fees := chain.Fees{Tip: token.Units(pick[uint64](r, "tip", 20, 21)), Cap: token.Units(1020)}
	tx := p.Tx
	tx.Fees, tx.Gas = fees, tx.Gas+pick[uint64](r, "gas", 0, 5)
	retry := p.Bump
	if pick(r, "cancel", false, true) {
		retry = p.Cancel
	}
	to, err := retry(r.sign(fmt.Sprint(p.Revision, len(p.Attempts)), p.Nonce, fees.Tip), tx, r.at())
	if err == nil {
		r.do(calls("Payments.AddAttempt", to), about(p)...)
	}
}

func (r *run) ends(p payment.Payment) {
	if p.State != payment.Committed {
		return
	}
	receipt := chain.Receipt{Tx: p.LastAttempt().Hash, Succeeded: true, Block: r.nonce(), Fee: pick(r, "fee", nil,
		new(token.MaxAmount()))}
	to, err := p.Confirm(receipt, r.at())
	if pick(r, "failed", false, true) {
		to, err = p.Fail(pick(r, "code", payment.NonceConsumed, payment.ExecutionReverted), pick(r,
			"receipt", chain.Receipt{}, receipt), r.at())
	}
	if err != nil {
		return
	}
	to.Event.Body = often(r, 20, to.Event.Body, func() []byte { return make([]byte, r.size(store.MaxEvent)) })
	r.do(calls("Payments.Finish", to), about(p)...)
}

// step takes a payment a step further, as the engines would.
func (r *run) step(draft payment.Payment) {
	p, err := r.Memory.Payments.Payment(ctx, draft.ID)
	switch {
	case err != nil:
		r.do(calls("Payments.Create", draft), about(draft)...)
	case p.State == payment.Prepared:
		w, _ := r.Memory.Payments.Wallet(ctx, idOf(p))
		if _, held := w.Holds(p.ID, p.Revision); !held {
			r.reserve(p, idOf(p))
		} else {
			r.commits(p)
		}
	case p.State == payment.Committed && pick(r, "more", false, true):
		r.bumps(p)
	default:
		r.ends(p)
	}
}

func (r *run) noops() {
	id, nonce := r.id(), r.nonce()
	fees := chain.Fees{Tip: token.Units(pick[uint64](r, "tip", 1, 2)), Cap: token.Units(50)}
	tx := chain.Noop(id.ChainID, id.Address, fees)
	tx.GasUnit = pick[chain.GasUnit](r, "unit", 0, 1000)
	there, err := r.Memory.Payments.PendingTx(ctx, id, nonce)
	if err == nil && pick(r, "bump", true, false) {
		there.Payment = "" // also over a payment's, which is refused
		there.Hashes = there.Hashes[:len(there.Hashes)-often(r, 5, 0, func() int { return 1 })]
		to := there.Bumped(tx, r.sign(fmt.Sprint("no-op", len(there.Hashes)), nonce, fees.Tip), r.at())
		r.do(calls("Payments.BumpNoop", to), txsOf(id, nonce)...)
		return
	}
	to := wallet.PendingNoop(id, tx, r.sign(fmt.Sprint("no-op of ", id), nonce, fees.Tip), r.at())
	r.do(calls("Payments.PutNoop", to), txsOf(id, nonce)...)
}

func (r *run) seen() *wallet.Progress {
	return pick(r, "seen", nil, &wallet.Progress{}, &wallet.Progress{Mined: 1<<64 - 1,
		Paid: make([]uint64, r.size(wallet.MaxInFlight)), Sent: 7, Waits: payment.WaitingForFees})
}

func (r *run) counts() map[string]uint64 {
	counts := map[string]uint64{"mer_a": pick[uint64](r, "count", 0, 1, 2)}
	return pick(r, "counts", nil, counts, often(r, 20, counts,
		func() map[string]uint64 { return merchants(r.size(wallet.MaxInFlight)) }))
}

func (r *run) wallet() {
	id := r.id()
	w, n := r.record(id), r.nonce()
	from, to := pick(r, "from", w.Paused, "", "by hand", wallet.OutOfGas), pick(r, "to", "", "by hand", wallet.OutOfGas)
	seen, counts := r.seen(), r.counts()
	by, now := pick(r, "by", "run 1", "run 2"), r.at()
	until := r.at().Add(pick[time.Duration](r, "nanosecond", 0, 1))
	balance := pick(r, "balance", token.Units(1000), token.Units(9), token.Units(1<<64-1))
	r.do(pick(r, "act",
		calls("Payments.Reconcile", w, balance, balance, counts, seen),
		calls("Payments.Claim", id, by, now, until, seen),
		calls("Payments.Advance", id, n, n+2),
		calls("Payments.Pause", id, to),
		calls("Payments.Repause", id, from, to),
		calls("Payments.RaiseCeiling", id, n),
		call{method: "Payments.LowerCeiling", args: []any{id, n}, twofold: true}), walletOf(id))
}

// registers changes a wallet's registration, and the record with it.
func (r *run) registers() {
	id := pick(r, "wallet", ids...)
	c := rail(id.ChainID)
	of := pick(r, "token", usdc.Contract, token.Address{0xee})
	registry, _ := r.Memory.Payments.Wallets(ctx, c)
	now, _ := registry.Find(id.Address)
	to, at, m := pick(r, "state", wallet.States()...), r.at(), pick(r, "merchant", owners...)
	from := often(r, 4, now.State, func() wallet.State { return pick(r, "from", wallet.States()...) })
	registered := wallet.Registration{ID: id, Token: of, State: wallet.Active, Key: "a key", Since: at, Merchant: m}
	if m != "" {
		registered.State = wallet.Assigned
	}
	w := r.record(id)
	opened := wallet.Wallet{ID: id, Ceiling: 5, Balance: token.MaxAmount(), Gas: token.Units(1000),
		Merchant:     often(r, 3, now.Merchant, func() string { return m }),
		Reservations: reservations(often(r, 20, 0, func() int { return r.size(wallet.MaxInFlight) }))}
	acts := []call{calls("Payments.Register", registered), calls("Payments.Open", opened, of),
		calls("Payments.SetState", id, from, to, at)}
	if now.Opened { // else nobody has read a record
		acts = append(acts, calls("Payments.Retire", w, at), calls("Payments.Assign", w, m, at))
	}
	act := pick(r, "act", acts...)
	if (act.method == "Payments.Retire" || act.method == "Payments.Assign") && pick(r, "drain", true, true, false) {
		r.do(calls("Payments.SetState", id, now.State, wallet.Draining, at))
	}
	r.do(act, walletOf(id), registryOf(c), registryOf(token.Coin{ChainID: id.ChainID, Contract: token.Address{0xee}}))
}

// damages makes items unreadable, at the end of a run: some writes would mend them in one of the stores alone.
func (r *run) damages() {
	id, nonce := r.id(), r.nonce()
	draft := r.aDraft()
	both := func(spoil func(Damage)) {
		spoil(r.Memory.Damage)
		spoil(r.Database.Damage)
	}
	if p, err := r.Memory.Payments.Payment(ctx, draft.ID); err == nil {
		both(func(d Damage) { d.Spoil(p.ID) })
		r.do(calls("Payments.Create", p), about(p)...)
		r.sameByHash(p)
	}
	if tx, err := r.Memory.Payments.PendingTx(ctx, id, nonce); err == nil {
		both(func(d Damage) { d.SpoilPendingTx(id, nonce) })
		r.do(calls("Payments.PutNoop", tx), txsOf(id, nonce)...)
	}
	if w, err := r.Memory.Payments.Wallet(ctx, id); err == nil {
		both(func(d Damage) { d.SpoilWallet(id) })
		if r.reserve(draft, id); pick(r, "mended", false, true) {
			r.do(calls("Payments.Reconcile", w, w.Balance, w.Gas, r.counts(), r.seen()), walletOf(id))
		}
	}
	of, _ := r.Memory.Payments.Wallets(ctx, rail(id.ChainID))
	if _, registered := of.Find(id.Address); registered {
		both(func(d Damage) { d.SpoilRegistration(id) })
	}
}

func (r *run) proposes() {
	by := pick(r, "by", "key_1", "key_2")
	p := proposal.New(proposal.Proposal{By: proposal.Author{Key: by, Root: by}, Required: pick(r, "required", true, false),
		Life: time.Hour, NotBefore: r.atOrNever()}, request(r.key(), r.amount()), usdc, 84532, "base-sepolia", r.at())
	r.do(calls("Payments.Propose", p), paymentOf(p.Payment.ID)...)
}

// amends moves a proposal, as it is stored or was.
func (r *run) amends() {
	from := r.proposal()
	var proposed []proposal.Proposal
	for k := range keys {
		p, err := r.Memory.Payments.Proposal(ctx, r.draft(k, token.Units(1), noon).ID)
		if err == nil && p.Payment.Proposal {
			proposed = append(proposed, p)
		}
	}
	if len(proposed) > 0 && !from.Payment.Proposal {
		from = pick(r, "proposal", proposed...)
	}
	if !from.Payment.Proposal {
		return
	}
	now, published, closed := r.at(), from, from
	published.Event, closed.Event, closed.Closed = "", "", true
	moves, s := []proposal.Proposal{published}, from.Payment.State
	switch {
	case s.Signed() || s.UsedUp():
		moves = append(moves, closed)
	case s == payment.Prepared:
		moves = append(moves, from.Refused(proposal.Refusal{Code: pick(r, "code", "x", "")}, now), from.End(payment.Cancelled, now))
	case s == payment.Proposed:
		begun := from.Begin(r.elsewhere(payment.New(from.Payment.ID, from.Request(), usdc, "base-sepolia", now)))
		moves = append(moves, begun, from.Approve(proposal.Author{Key: "key_3", Root: "key_3"}, now),
			from.End(payment.Expired, now), from.End(payment.Cancelled, now))
	}
	to, g := pick(r, "move", moves...), store.Guard{}
	if s == payment.Proposed && to.Payment.State == payment.Prepared && pick(r, "guarded", false, true) {
		g, to.Payment.Guarded = r.guard(), true
	}
	r.do(calls("Payments.Amend", from, to, g), append(about(to.Payment), guardOf("guard_0"), guardOf("guard_1"))...)
}
