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

// A race is n calls of write at once, so many of which succeed. Every other has the refusal.
type race struct {
	what    string
	n, wins int
	refusal error
	write   func(i int) error
}

// errOthers is the refusal of a racing call that found another's result.
var errOthers = errors.New("another call's")

// othersUnless returns errOthers for a call that is not the one.
func othersUnless(own bool, err error) error {
	if err == nil && !own {
		return errOthers
	}
	return err
}

// run makes the calls. It repeats those whose outcome the store could not tell, as happens when many transactions meet
// on one item.
func (r race) run(t *testing.T) {
	errs, start := make([]error, r.n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range r.n {
		wg.Go(func() {
			<-start
			for range 20 {
				if errs[i] = r.write(i); class(errs[i]) != unknown || errors.Is(errs[i], errOthers) {
					break
				}
			}
		})
	}
	close(start)
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, r.refusal) {
			t.Errorf("%s: %v, want %v", r.what, err, r.refusal)
		}
	}
	if won != r.wins {
		t.Errorf("%d of %d racing %s got in, want %d", won, r.n, r.what, r.wins)
	}
}

// Races checks on empty stores that as many of the racing writes succeed as would one after the other. They write
// several items, or one item that many write. Alike covers one conditional write of an item, as in Finish.
func Races(t *testing.T, s Stores) {
	pay, hooks, made := s.Payments, s.Webhooks, new(maker)
	prepared := func() payment.Payment {
		p, _, err := pay.Create(ctx, made.draft(noon))
		return must.Get(p, err)(t)
	}
	under, p, same := make([]payment.Payment, 8), prepared(), prepared()
	for i := range under {
		under[i] = made.draft(noon)
	}
	const window = 150
	w := wallet.Wallet{ID: ids[0], NextNonce: 5, Ceiling: 5 + window, Balance: token.Units(10 * window), Gas: token.Units(3 * window)}
	again := w
	again.ID = ids[1]
	must.OK(t, errors.Join(pay.Open(ctx, w, usdc.Contract), pay.Open(ctx, again, usdc.Contract)))
	limits := []payment.DailyLimit{{Key: "key_a", Amount: token.Units(1000), Count: 17}, {Amount: token.Units(170)}}
	for _, r := range []race{
		{"payments under a guard", 8, 1, store.ErrChanged, func(i int) error {
			_, created, err := pay.CreateGuarded(ctx, under[i], store.Guard{ID: "guard"})
			return othersUnless(created, err)
		}},
		{"commits of a payment", 8, 1, store.ErrChanged, func(i int) error { return pay.Commit(ctx, committed(p, uint64(i))) }},
		{"a payment and no-ops at a nonce", 6, 1, store.ErrNonceTaken, func(i int) error {
			if i == 0 {
				return pay.Commit(ctx, committed(same, 100))
			}
			return pay.PutNoop(ctx, noop(ids[0], 100))
		}},
		{"claims", 8, 1, errOthers, func(i int) error {
			return othersUnless(pay.Claim(ctx, w.ID, fmt.Sprint("run ", i), noon, noon.Add(time.Second), nil))
		}},
		{"charges", 50, 17, store.ErrDailyLimit, func(int) error {
			return pay.Charge(ctx, store.Charge{Merchant: "mer_a", Mode: "test", At: noon, Amount: token.Units(10), Count: 1, Limits: limits})
		}},
		{"reservations", 200, window, wallet.ErrCeiling, func(i int) error {
			return must.Err(pay.Reserve(ctx, need(w, payment.ID(fmt.Sprint("pay_", i)))))
		}},
		{"reservations of one payment", 16, 16, nil, func(int) error { return must.Err(pay.Reserve(ctx, need(again, "pay_a"))) }},
		{"rails of one coin", 4, 1, store.ErrChanged, func(int) error {
			return pay.SetSettings(ctx, settings.Default(settings.Rail{ChainID: 84532, Token: usdc, Network: "devnet"}))
		}},
		{"endpoints", 20, 10, webhook.ErrLimit, func(i int) error {
			return hooks.AddEndpoint(ctx, newEndpoint(mailboxes[0], fmt.Sprint("we_", i)), 10)
		}},
		{"issued keys", 50, apikey.MaxLive, apikey.ErrLimit, func(i int) error {
			k := newKey(i)
			k.MerchantID, k.CreatedAt = "mer_a", noon.Add(time.Duration(i)*time.Second)
			return s.Keys.Issue(ctx, k, apikey.MaxLive)
		}},
	} {
		r.run(t)
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
