package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A race is n calls at once, so many of which succeed: they have no error, and report that the result is theirs. Every
// other has the refusal.
type race struct {
	n, wins int
	refusal error
	call    func(i int) call
}

// run makes the calls. It repeats those whose outcome the store could not tell, as happens when many transactions meet
// on one item.
func (r race) run(t *testing.T, s Stores) {
	answers, start := make([]answer, r.n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range r.n {
		wg.Go(func() {
			<-start
			for range 20 {
				if answers[i] = r.call(i).make(s); answers[i].class != unknown {
					break
				}
			}
		})
	}
	close(start)
	wg.Wait()
	won := 0
	for i, a := range answers {
		if a.class == "" && !slices.Contains(a.values, any(false)) {
			won++
		} else if a.class != class(r.refusal) {
			t.Errorf("%v: %q, want %q", r.call(i), a.class, class(r.refusal))
		}
	}
	if won != r.wins {
		t.Errorf("%d of %d got in, want %d: %v", won, r.n, r.wins, r.call(0))
	}
}

// Races checks on empty stores that as many of the racing writes succeed as would one after the other. They write
// several items, or one item that many write. Alike covers one conditional write of an item, as in Finish.
func Races(t *testing.T, s Stores) {
	pay, drafts := s.Payments, make([]payment.Payment, 10)
	for i := range drafts {
		drafts[i] = offer(ids[0], noon, numbered(i))
	}
	under, p, same := drafts[:8], drafts[8], drafts[9]
	for _, p := range drafts[8:] {
		_, _, err := pay.Create(ctx, p)
		must.OK(t, err)
	}
	const window = 150
	w := wallet.Wallet{ID: ids[0], NextNonce: 5, Ceiling: 5 + window, Balance: token.Units(10 * window), Gas: token.Units(3 * window)}
	again := w
	again.ID = ids[1]
	must.OK(t, errors.Join(pay.Open(ctx, w, usdc.Contract), pay.Open(ctx, again, usdc.Contract)))
	limits := []payment.DailyLimit{{Key: "key_a", Amount: token.Units(1000), Count: 17}, {Amount: token.Units(170)}}
	for _, r := range []race{
		{8, 1, store.ErrChanged, func(i int) call {
			return calls("Payments.CreateGuarded", under[i], store.Guard{ID: "guard"})
		}},
		{8, 1, store.ErrChanged, func(i int) call { return calls("Payments.Commit", committed(p, uint64(i))) }},
		{6, 1, store.ErrNonceTaken, func(i int) call {
			if i == 0 {
				return calls("Payments.Commit", committed(same, 100))
			}
			return calls("Payments.PutNoop", noop(ids[0], 100))
		}},
		{8, 1, nil, func(i int) call {
			return calls("Payments.Claim", w.ID, fmt.Sprint("run ", i), noon, noon.Add(time.Second), new(wallet.Progress))
		}},
		{50, 17, store.ErrDailyLimit, func(int) call {
			return calls("Payments.Charge", store.Charge{Merchant: "mer_a", Mode: "test", At: noon, Amount: token.Units(10), Count: 1,
				Limits: limits})
		}},
		{200, window, wallet.ErrCeiling, func(i int) call {
			return calls("Payments.Reserve", need(w, payment.ID(fmt.Sprint("pay_", i))))
		}},
		{16, 16, nil, func(int) call { return calls("Payments.Reserve", need(again, "pay_a")) }}, // one payment
		{4, 1, store.ErrChanged, func(int) call {
			return calls("Payments.SetSettings", settings.Default(settings.Rail{ChainID: 84532, Token: usdc, Network: "devnet"}))
		}},
		{20, 10, webhook.ErrLimit, func(i int) call {
			return calls("Webhooks.AddEndpoint", newEndpoint(mailboxes[0], fmt.Sprint("we_", i)), 10)
		}},
		{50, apikey.MaxLive, apikey.ErrLimit, func(i int) call {
			k := newKey(i)
			k.MerchantID, k.CreatedAt = "mer_a", noon.Add(time.Duration(i)*time.Second)
			return calls("Keys.Issue", k, apikey.MaxLive)
		}},
	} {
		r.run(t, s)
	}

	var nonces []uint64
	w = must.Get(pay.Wallet(ctx, w.ID))(t)
	for _, held := range w.Reservations {
		nonces = append(nonces, held.Nonce)
	}
	slices.Sort(nonces)
	if nonces = slices.Compact(nonces); len(nonces) != window || nonces[0] != 5 || nonces[window-1] != 4+window ||
		w.NextNonce != 5+window || !w.Balance.IsZero() || !w.Gas.IsZero() {
		t.Errorf("nonces have a hole or a double, or tie up another amount: %+v", w)
	}
	if again = must.Get(pay.Wallet(ctx, again.ID))(t); again.NextNonce != 6 || len(again.Reservations) != 1 {
		t.Errorf("one payment has reserved twice: %+v", again)
	}
}
