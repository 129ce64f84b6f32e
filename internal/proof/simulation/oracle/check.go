package oracle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

type paid struct {
	times  int
	amount token.Amount
}

// Violations checks a simulation at its end and returns every violation of an invariant since its start. settled
// reports that enough runs went by since the last fault, so nothing may be pending.
func (o *Oracle) Violations(settled bool) []string {
	var wallets []token.Address
	for _, id := range o.wallets() {
		wallets = append(wallets, id.Address)
	}
	o.checkRefills()
	o.checkCancelled()
	payees := o.payees()
	sum, days := token.Amount{}, map[merchantDay][]payment.Payment{}
	for _, key := range slices.Sorted(maps.Keys(o.orders)) {
		r := o.orders[key]
		p, err := o.Store.Payment(context.Background(), r.ID())
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			o.Violate(Settles, "%s cannot be read: %v", key, err)
			continue
		}
		elsewhere := err == nil && !o.here(p)
		if elsewhere { // under the same key
			p = payment.Payment{}
		}
		seen := payees[r.payee()]
		delete(payees, r.payee())
		if r.Ether && len(o.past) > 0 {
			continue // the chain does not show which transfer of ether it was
		}
		if seen.times > 1 {
			o.Violate(PaidOnce, "%s was paid %d times", key, seen.times)
		}
		if listed := r.some(func(to token.Address) bool {
			return o.barred[to].IsZero() && (o.denied(to) || o.Chain.Listed[to]) // from the start
		}); seen.times > 0 && listed {
			o.Violate(WithinBounds, "%s was paid although a list has its recipient", key)
		}
		if o.Gone(p) {
			if !slices.Contains(wallets, r.To) {
				sum, _ = sum.Add(seen.amount)
			}
			continue
		}
		o.checkState(r, p, seen, settled)
		o.checkFee(r, p)
		o.checkAnswers(r, p)
		if elsewhere {
			continue
		}
		o.checkEvents(r, p, settled)
		if p.State == payment.Confirmed && !slices.Contains(wallets, r.To) {
			sum, _ = sum.Add(p.Coins())
		}
		if day, known := charged(p); err == nil && known && !r.operators() {
			of := merchantDay{r.merchant(), day}
			days[of] = append(days[of], p)
		}
	}
	if len(o.past) == 0 { // restored tables forget charges, and the chain does not show them
		o.checkDays(days)
	}
	for a := range payees {
		o.Violate(PaidOnce, "%s was paid without an order", short(a))
	}
	if settled {
		o.checkWallets(sum)
	}
	return o.violations
}

// Paid adds how often each order was paid, by key.
func (o *Oracle) Paid(times map[string]int) {
	payees := o.payees()
	for key, r := range o.orders {
		if r.Ether { // the chain does not show which transfer it was
			continue
		}
		times[key] += payees[r.payee()].times
	}
}

// charged returns the UTC day on which a payment was charged, and false if none, or if it was committed on another.
func charged(p payment.Payment) (day int64, known bool) {
	if len(p.Attempts) == 0 {
		return 0, false
	}
	day = p.CreatedAt.Unix() / 86_400
	return day, day == p.Attempts[0].At.Unix()/86_400
}

// checkRefills makes an order of every refill that a table has ever had. It checks that each refill
// of a wallet's asset began after the refill before it had ended.
func (o *Oracle) checkRefills() {
	for i, coin := range []string{"USDC", payment.Ether.Symbol} {
		days := map[int64]token.Amount{}
		for _, to := range o.wallets() {
			var before payment.Payment
			for n := 1; ; n++ {
				r := Order{Key: fmt.Sprintf("refill/%s/%s/%d", to.Address, coin, n), To: to.Address, Ether: i == 1}
				p, found := o.ever(payment.KeyID(payment.Operator, "test", r.Key))
				if !found {
					break
				}
				r.From = p.Wallet
				r.Amount, _ = p.Amount.Uint64()
				o.orders[r.Key] = r
				if day, known := charged(p); known {
					days[day], _ = days[day].Add(p.Amount)
				}
				if len(o.past) == 0 && before.Block > 0 && p.Block > 0 && p.Block <= before.Block+o.Depth {
					o.Violate(PaidOnce, "%s was paid in block %d, when the one before it in block %d was under way", r.Key, p.Block, before.Block)
				}
				before = p
			}
		}
		for _, sum := range days {
			if most := o.Refill[i]; len(o.past) == 0 && !most.IsZero() && most.Less(sum) {
				o.Violate(WithinBounds, "refills of a day moved %s of %s, at most %s may move", sum, coin, most)
			}
		}
	}
}

// ever returns a payment from the tables, or from the lost tables.
func (o *Oracle) ever(id payment.ID) (payment.Payment, bool) {
	for _, tables := range append([]*memory.Payments{o.Store}, o.past...) {
		if p, err := tables.Payment(context.Background(), id); err == nil {
			return p, true
		}
	}
	return payment.Payment{}, false
}

// denied reports whether the operator's deny list has a recipient. Only restores change a list, and take entries out.
func (o *Oracle) denied(to token.Address) bool {
	rules, err := o.Store.Rules(context.Background())
	return err == nil && slices.ContainsFunc(rules.Denied, func(d store.Denial) bool { return d.To == to })
}

// A merchantDay is a UTC day of a merchant.
type merchantDay struct {
	merchant string
	day      int64
}

// checkDays checks that no day of a merchant has more committed payments than its limits allow.
func (o *Oracle) checkDays(days map[merchantDay][]payment.Payment) {
	for _, payments := range days {
		var sum token.Amount
		count := 0
		for _, p := range payments {
			sum, _ = sum.Add(p.Amount)
			count += len(p.Outputs())
		}
		for _, l := range o.Limits {
			if !l.Amount.IsZero() && l.Amount.Less(sum) || l.Count > 0 && l.Count < uint64(count) {
				o.Violate(WithinBounds, "a day has %d payments of %s in all, beyond %+v", count, sum, l)
			}
		}
	}
}

// payees sums up the transfers of the service from the blocks, by Order.payee.
func (o *Oracle) payees() map[token.Address]paid {
	found, orders := map[token.Address]paid{}, o.Orders()
	o.Chain.Canonical(func(tx fakechain.Tx, r chain.Receipt) {
		if o.stolen[r.Tx] || len(r.Logs) == 0 && tx.Value.IsZero() &&
			(tx.To == o.Chain.Token || tx.To == fakechain.Batcher || len(tx.Data) == 0) {
			return
		}
		p, _ := o.known(r.Tx)
		to, moved := tx.To, tx.Value
		if len(r.Logs) > 0 {
			_, memo, _ := chain.ParseTransfer(tx.Data)
			to = fakechain.Outputs(tx.Tx)[0].To
			if tx.To == fakechain.Batcher {
				_, _, memo, _ = disburser.Parse(tx.Data)
			}
			p.ID = payment.MemoID(memo)
			moved = token.Amount{}
			for _, l := range r.Logs {
				amount, _ := token.AmountFromBytes(l.Data)
				moved, _ = moved.Add(amount)
			}
		}
		if i := slices.IndexFunc(orders, func(r Order) bool { return r.byID() && r.ID() == p.ID }); i >= 0 {
			to = orders[i].payee()
			o.checkEntries(orders[i], r)
		}
		seen := found[to]
		seen.times++
		seen.amount, _ = seen.amount.Add(moved)
		found[to] = seen
	})
	return found
}

// checkEntries checks that the logs of a batch are its entries, each as often as asked for. The token may keep a fee.
func (o *Oracle) checkEntries(r Order, receipt chain.Receipt) {
	if how := o.treated(r); r.Entries == nil || how == fakechain.LogsLess || how == fakechain.Guarded {
		return
	}
	var want, got []string
	for _, e := range r.Entries {
		want = append(want, fmt.Sprint(e.To, e.Amount))
	}
	for _, l := range receipt.Logs {
		moved, _ := l.Transfer()
		got = append(got, fmt.Sprint(moved.To, moved.Amount))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		o.Violate(SumsAgree, "%s paid %v, asked for were %v", r.Key, got, want)
	}
}

// treated returns how the token treats the first recipient of r that it does not simply pay.
func (o *Oracle) treated(r Order) (how fakechain.Recipient) {
	r.some(func(to token.Address) bool { how = o.Chain.Recipients[to]; return how != fakechain.Pays })
	return how
}

// checkState compares the state of a payment with the transfers to its payee.
func (o *Oracle) checkState(r Order, p payment.Payment, seen paid, settled bool) {
	switch p.State {
	case payment.Confirmed:
		if want := token.Units(r.Amount); seen.times != 1 || seen.amount != p.Amount || r.Amount > 0 && p.Amount != want {
			o.Violate(SumsAgree, "%s is confirmed and was paid %v in %d transfers", r.Key, seen.amount, seen.times)
		}
	case payment.Failed:
		if how := o.treated(r); seen.times != 0 && how != fakechain.LogsLess && how != fakechain.Guarded {
			o.Violate(FailedIsUnpaid, "%s was reported failed (%s) and is paid", r.Key, p.Failure.Code)
		}
		o.checkFailure(r, p)
	case payment.Committed:
		if settled {
			o.Violate(Settles, "%s is still pending", r.Key)
		}
	default:
		if seen.times != 0 {
			o.Violate(PaidOnce, "%s was paid and is not even committed", r.Key)
		}
	}
}

// checkFee compares the stored cost of a payment with the chain. It may be missing only
// where nothing was mined, or where nodes lied of receipts.
func (o *Oracle) checkFee(r Order, p payment.Payment) {
	receipt, mined := o.Chain.Receipt(p.Onchain)
	if p.Fee == nil && mined && !o.Chain.Lied || p.Fee != nil && (!mined || *p.Fee != *receipt.Fee) {
		o.Violate(SumsAgree, "%s cost %v, mined %v: %s", r.Key, p.Fee, mined, receipt)
	}
}

// checkFailure compares the reason of a payment that failed with the chain.
func (o *Oracle) checkFailure(r Order, p payment.Payment) {
	receipt, mined := o.Chain.Receipt(p.Onchain)
	guarded := o.treated(r) == fakechain.Guarded
	pays := o.treated(r) == fakechain.Pays
	switch p.Failure.Code {
	case payment.ExecutionReverted:
		if !mined || receipt.Succeeded {
			o.Violate(FailedIsUnpaid, "%s failed as reverted, and the chain does not say so", r.Key)
		}
		_, blocked := o.Chain.Blocked[p.Wallet]
		var starved bool   // L1 data became dear; the tables may have forgotten the attempt, the chain has not
		var seen, out bool // a reorg put received coins behind the payment, or a reverted one before it paid then
		o.Chain.Canonical(func(tx fakechain.Tx, r chain.Receipt) {
			seen = seen || r.Tx == p.Onchain
			starved = starved || r.Tx == p.Onchain && r.GasUsed == tx.Gas
			in, _, _ := chain.ParseTransfer(tx.Data)
			behind := r.Block > receipt.Block || r.Block == receipt.Block && seen
			mended := o.Chain.Mended[r.Tx]
			took := tx.From == p.Wallet && tx.Nonce < p.Nonce && !mended.IsZero() && !p.Attempts[0].At.After(mended)
			first := o.Chain.First[r.Tx] < o.Chain.First[p.Onchain]
			out = out || r.Succeeded && (behind && in.To == p.Wallet && first || took)
		})
		// A node may have vouched for a batch that its wallet has not approved.
		passed := slices.ContainsFunc(o.Chain.Nodes, (*fakechain.Node).Lied) && o.Chain.Approved != nil &&
			!p.BatchContract.IsZero() && !o.Chain.Approved[p.Wallet]
		if pays && !blocked && !starved && !out && !passed && !o.Stolen() {
			o.Violate(WithinBounds, "the wallet promised more than it had: %s reverted", r.Key)
		}
	case payment.TransferMissing:
		if !mined || !receipt.Succeeded || guarded && len(receipt.Logs) > 0 ||
			pays && (len(receipt.Logs) > 0 || !o.hopeless(p) && len(o.past) == 0) {
			o.Violate(FailedIsUnpaid, "%s failed without a transfer, and the chain does not say so", r.Key)
		}
	case payment.AmountDiffers:
		arrived := chain.Arrived(receipt, p.Transfers()...)
		if !mined || !receipt.Succeeded || arrived.IsZero() && !guarded || arrived == p.Amount {
			o.Violate(FailedIsUnpaid, "%s failed with another amount, and the chain does not say so", r.Key)
		}
	case payment.NonceConsumed:
		if !o.taken[nonce{p.Wallet, p.Nonce}] {
			o.Violate(FailedIsUnpaid, "%s failed because of a thief who was not there", r.Key)
		}
	}
}

// checkAnswers compares a payment with the answers to its requests.
func (o *Oracle) checkAnswers(r Order, p payment.Payment) {
	refused := 0
	for _, a := range o.answers[r.Key] {
		if a.Refused() {
			refused++
		}
		if a.Err != nil {
			continue
		}
		switch {
		case r.operators() && a.Payment.State == payment.Prepared: // it is under way, and no promise
		case a.Payment.TxHash.IsZero() || !p.State.Signed():
			o.Violate(AnswersHold, "%s was answered with 201 and is not committed", r.Key)
		case a.Payment.TxHash != p.TxHash:
			o.Violate(AnswersHold, "%s was answered with two hashes", r.Key)
		case a.Payment.State.Final() && a.Payment.State != p.State:
			o.Violate(AnswersHold, "%s was answered as %s and is %s", r.Key, a.Payment.State, p.State)
		}
	}
	if refused > 0 && refused == o.requests[r.Key] && p.State.Signed() && !p.Proposal {
		o.Violate(AnswersHold, "every request for %s was told that nothing was started, and it is %s", r.Key, p.State)
	}
}

// checkEvents compares a payment with the events that were published of it.
func (o *Oracle) checkEvents(r Order, p payment.Payment, settled bool) {
	final := ""
	if p.State.Final() && p.Event != nil {
		final = p.Event.ID
		events := o.events[final]
		want := webhook.Event{Merchant: p.Merchant, Mode: p.Mode, ID: final, Type: p.Event.Type,
			At: p.UpdatedAt.UTC().Truncate(time.Millisecond), Body: p.Event.Body}
		if len(events) > 0 && !reflect.DeepEqual(events[0], want) {
			o.Violate(Announced, "%s was announced otherwise than it is stored", r.Key)
		}
		w, _ := o.Store.Wallet(context.Background(), wallet.ID{ChainID: o.Chain.ID, Address: p.Wallet})
		if w.ProgressOf(p) != nil || !strings.Contains(string(p.Event.Body), `"progress":null`) {
			o.Violate(ProgressHolds, "%s is %s and has progress", r.Key, p.State)
		}
		if settled && (len(events) == 0 || o.Bus && !o.forwarded[final]) && len(o.past) == 0 && !r.operators() {
			o.Violate(Announced, "the end of %s was never announced, %d times to its merchant", r.Key, len(events))
		}
		if settled && !p.Onchain.IsZero() && !p.Cancelled(p.Onchain) && len(o.past) == 0 && WantsMined(p.Merchant) && !o.told(p.ID) {
			o.Violate(Announced, "that %s is mined was never announced", r.Key)
		}
	}
	for _, kind := range []string{"payment.confirmed", "payment.failed"} {
		id := payment.EventID(r.ID(), kind)
		if len(o.events[id]) > 0 && id != final {
			o.Violate(Announced, "%s was announced as %s and is %s", r.Key, kind, p.State)
		}
	}
}

// checkWallets compares the wallets with the chain when everything is settled.
func (o *Oracle) checkWallets(confirmed token.Amount) {
	had, has, gas := token.Amount{}, token.Amount{}, token.Amount{}
	thieves := len(o.taken) > 0 // then an operator has to look at the wallets
	for _, id := range o.wallets() {
		a := id.Address
		on := o.Chain.Account(a, 0)
		had, _ = had.Add(o.Chain.Funded()[a])
		has, _ = has.Add(on.Coins)
		gas, _ = gas.Add(on.Gas)
		if o.Chain.Unit > 0 {
			on.Gas = token.Amount{} // it is in Coins
		}
		w, err := o.Store.Wallet(context.Background(), id)
		if err != nil {
			continue // never used
		}
		txs, _, _ := o.Store.PendingTxs(context.Background(), id, 0)
		if w.Paused == wallet.RetiredReason { // a no-op whose write arrives after all is done has a nonce that is used up, and nobody looks
			txs = slices.DeleteFunc(txs, func(tx wallet.PendingTx) bool { return tx.Noop() && tx.Nonce < on.Nonce })
		}
		if len(w.Reservations) > 0 || len(txs) > 0 {
			o.Violate(Settles, "wallet %s has %d reservations and %d pending transactions left", short(a), len(w.Reservations), len(txs))
		}
		if thieves || w.Paused == wallet.RetiredReason {
			continue
		}
		registry, _ := o.Store.Wallets(context.Background(), o.rail().Coin)
		if r, _ := registry.Find(a); r.State == wallet.Retired { // no run looks at it
			if w.Paused != wallet.RetiredReason || w.NextNonce != on.Nonce {
				o.Violate(Settles, "retired wallet %s is paused for %q, next nonce is %d, the chain has %d", short(a), w.Paused, w.NextNonce, on.Nonce)
			}
			continue
		}
		if _, blocked := o.Chain.Blocked[a]; w.Paused != "" && w.Paused != wallet.Retiring &&
			(!blocked || !strings.HasPrefix(w.Paused, "blocked:")) {
			o.Violate(Settles, "wallet %s is paused: %s", short(a), w.Paused)
		}
		if w.NextNonce != on.Nonce {
			o.Violate(NonceOwned, "next nonce of %s is %d, the chain has %d", short(a), w.NextNonce, on.Nonce)
		}
		if most := on.Nonce + o.window(); w.Ceiling != most {
			o.Violate(WithinBounds, "the ceiling of %s is %d, its count and the window allow %d", short(a), w.Ceiling, most)
		}
		if coins := on.Coins; w.Balance != coins || w.Gas != on.Gas || len(w.PerMerchant) > 0 {
			o.Violate(Settles, "wallet %s has %v and %v wei, spendable are %v and %v, in flight %v", short(a), coins, on.Gas, w.Balance, w.Gas,
				w.PerMerchant)
		}
	}
	spent := had.Sub(has)
	if o.Chain.Unit > 0 { // in wei, with the fees
		had, _ = had.Times(o.Chain.Unit)
		confirmed, _ = confirmed.Times(o.Chain.Unit)
		confirmed, _ = confirmed.Add(o.fees())
		spent = had.Sub(gas)
	}
	if !thieves && spent != confirmed && !slices.ContainsFunc(slices.Collect(maps.Values(o.Chain.Recipients)),
		func(r fakechain.Recipient) bool { return r == fakechain.LogsLess || r == fakechain.Guarded }) {
		o.Violate(SumsAgree, "%v left the wallets, %v were confirmed", spent, confirmed)
	}
}

func (o *Oracle) fees() (sum token.Amount) {
	o.Chain.Canonical(func(_ fakechain.Tx, r chain.Receipt) { sum, _ = sum.Add(o.Chain.Fee(*r.Fee)) })
	return sum
}
