package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
)

// paid is what the canonical chain says of one payee.
type paid struct {
	times  int
	amount token.Amount
}

// verdict judges a World at its end and returns every broken promise. settled
// says that two runs went by since the last fault, so nothing may be pending.
func (j *judge) verdict(settled bool) []string {
	payees := j.payees()
	sum := token.Amount{}
	for _, key := range slices.Sorted(maps.Keys(j.requests)) {
		r := j.requests[key]
		p, err := j.w.Store.Payment(context.Background(), r.id())
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			j.breach("%s cannot be read: %v", key, err)
			continue
		}
		seen := payees[r.To]
		if seen.times > 1 {
			j.breach("I1: %s was paid %d times", key, seen.times)
		}
		delete(payees, r.To)
		if j.lost[key] {
			continue // the tables cannot answer for it any more
		}
		j.state(r, p, seen, settled)
		j.answersOf(r, p)
		j.announcementsOf(r, p)
		if p.State == payment.Confirmed {
			sum, _ = sum.Add(p.Amount)
		}
	}
	for a := range payees {
		j.breach("I1: %s was paid and nobody asked for it", short(a))
	}
	if settled {
		j.wallets(sum)
	}
	return j.broken
}

// payees reads all of our transfers from the blocks.
func (j *judge) payees() map[token.Address]paid {
	found := map[token.Address]paid{}
	j.w.Chain.Canonical(func(from token.Address, _ uint64, data []byte, r chain.Receipt) {
		if j.foreign[r.Tx] || len(r.Logs) == 0 {
			return
		}
		to, _ := recipientOf(data)
		seen := found[to]
		moved, _ := token.AmountFromBytes(r.Logs[0].Data)
		seen.times++
		seen.amount, _ = seen.amount.Add(moved)
		found[to] = seen
	})
	return found
}

// state judges where a payment stands.
func (j *judge) state(r Request, p payment.Payment, seen paid, settled bool) {
	behaviour := j.w.Chain.Recipients[r.To]
	short := behaviour == LogsLess // paid less than asked: reported as failed
	switch p.State {
	case payment.Confirmed:
		if seen.times != 1 || seen.amount != token.Units(r.Amount) {
			j.breach("I5: %s is confirmed and was paid %v in %d transfers", r.Key, seen.amount, seen.times)
		}
	case payment.Failed:
		if seen.times != 0 && !short {
			j.breach("I4: %s was reported failed (%s) and is paid", r.Key, p.Failure.Code)
		}
		j.failure(r, p, behaviour)
	case payment.Committed:
		if settled {
			j.breach("I6: %s is still pending", r.Key)
		}
	default:
		if seen.times != 0 {
			j.breach("I1: %s was paid and is not even committed", r.Key)
		}
	}
}

// failure judges the reason of a payment that failed.
func (j *judge) failure(r Request, p payment.Payment, behaviour Recipient) {
	receipt, mined := j.w.Chain.tip.receipt(p.Onchain)
	switch p.Failure.Code {
	case payment.ExecutionReverted:
		if !mined || receipt.Succeeded {
			j.breach("I4: %s failed as reverted, and the chain does not say so", r.Key)
		}
		if behaviour == Pays && !j.wanting {
			j.breach("the wallet promised more than it had: %s reverted", r.Key)
		}
	case payment.TransferMissing:
		if !mined || !receipt.Succeeded || behaviour == Pays && (len(receipt.Logs) > 0 || !j.hopeless(p)) {
			j.breach("I4: %s failed without a transfer, and the chain does not say so", r.Key)
		}
	case payment.NonceConsumed:
		if !j.taken[pendingTxKey{p.Wallet, p.Nonce}] {
			j.breach("I4: %s failed because of a stranger who was not there", r.Key)
		}
	}
}

// answersOf judges what the clients of a payment were told.
func (j *judge) answersOf(r Request, p payment.Payment) {
	refused := 0
	for _, a := range j.answers[r.Key] {
		if a.Refused() {
			refused++
		}
		if a.Err != nil {
			continue
		}
		switch {
		case a.Payment.TxHash.IsZero() || p.State == payment.Prepared || p.State == "":
			j.breach("promise 2: %s was answered with 201 and is not committed", r.Key)
		case a.Payment.TxHash != p.TxHash:
			j.breach("promise 3: %s was answered with two hashes", r.Key)
		case a.Payment.State.Final() && a.Payment.State != p.State:
			j.breach("promise 4: %s was answered as %s and is %s", r.Key, a.Payment.State, p.State)
		}
	}
	if refused > 0 && refused == j.asks[r.Key] && p.State != "" && p.State != payment.Prepared {
		j.breach("every request for %s was told that nothing was started, and it is %s", r.Key, p.State)
	}
}

// announcementsOf judges what was announced of a payment.
func (j *judge) announcementsOf(r Request, p payment.Payment) {
	final := ""
	if p.State.Final() && p.Event != nil {
		final = p.Event.ID
		e := j.events[final]
		if e.times > 0 && (e.body != string(p.Event.Body) || e.kind != p.Event.Type || e.merchant != p.Merchant || e.mode != p.Mode) {
			j.breach("I7: %s was announced otherwise than it is stored", r.Key)
		}
	}
	for _, kind := range []string{"payment.confirmed", "payment.failed"} {
		id := payment.EventID(r.id(), kind)
		if j.events[id].times > 0 && id != final {
			j.breach("I7: %s was announced as %s and is %s", r.Key, kind, p.State)
		}
	}
}

// wallets judges what is left when everything is settled.
func (j *judge) wallets(confirmed token.Amount) {
	ctx := context.Background()
	spent := token.Amount{}
	strangers := len(j.taken) > 0
	for i := range j.w.Setup.Wallets {
		id := walletID(Wallet(i))
		on := j.w.Chain.tip.accounts[id.Address]
		spent, _ = spent.Add(token.Units(j.w.Coins).Sub(on.coin))
		w, err := j.w.Store.Wallet(ctx, id)
		if err != nil {
			continue // never used
		}
		pendingTxs, _, _ := j.w.Store.PendingTxs(ctx, id)
		if len(w.Reservations) > 0 || len(pendingTxs) > 0 {
			j.breach("I6: wallet %s has %d reservations and %d pending transactions left", short(id.Address), len(w.Reservations), len(pendingTxs))
		}
		if strangers {
			continue // a person has to look
		}
		if w.Paused != "" {
			j.breach("I6: wallet %s is paused: %s", short(id.Address), w.Paused)
		}
		if w.NextNonce != on.nonce {
			j.breach("I3: next nonce of %s is %d, the chain has %d", short(id.Address), w.NextNonce, on.nonce)
		}
		if w.Token != on.coin || w.Gas != on.gas {
			j.breach("I6: wallet %s has %v and %v wei, spendable are %v and %v", short(id.Address), on.coin, on.gas, w.Token, w.Gas)
		}
	}
	if !strangers && spent != confirmed && !slices.Contains(slices.Collect(maps.Values(j.w.Chain.Recipients)), LogsLess) {
		j.breach("I5: %v left the wallets, %v were confirmed", spent, confirmed)
	}
	for _, key := range slices.Sorted(maps.Keys(j.requests)) {
		r := j.requests[key]
		p, err := j.w.Store.Payment(ctx, r.id())
		if err == nil && p.State.Final() && j.events[p.Event.ID].times == 0 {
			j.breach("I7: the end of %s was never announced", key)
		}
	}
}
