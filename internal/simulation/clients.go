package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"remit/internal/dispatch"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A Request is what a client wants paid.
type Request struct {
	Key    string
	To     token.Address
	Amount uint64
}

// Payee is the address of the n-th payee: each payment of a test has its own,
// so that the judge knows from the chain alone what was paid.
func Payee(n int) token.Address { return token.Address{0: 0xee, 18: byte(n >> 8), 19: byte(n)} }

func (r Request) payment() payment.Request {
	return payment.Request{Merchant: "mer_1", Mode: "test", Key: r.Key, To: r.To, Amount: token.Units(r.Amount)}
}

// serve starts a handler for r on an instance. Its answer comes on the channel
// unless it dies.
func (w *World) serve(name string, instance int, r Request) <-chan Answer {
	ctx, cancel, a := w.actor(name, lambda)
	d := w.instances[instance%len(w.instances)]
	answers := make(chan Answer, 1)
	committed := w.judge.asked(r)
	go func() {
		defer a.ended.Store(true)
		defer cancel()
		result, err := d.Send(skewed{ctx, d.off}, r.payment())
		if a.dead.Load() || errors.Is(err, errOver) {
			return
		}
		w.trace(name, fmt.Sprintf("answers %s %v", result.Payment.State, err))
		answer := Answer{Request: r, Payment: result.Payment, Err: err}
		w.judge.answered(answer, committed)
		answers <- answer
	}()
	return answers
}

// StartClient starts somebody who posts r up to tries times, until an answer
// says that it is committed; a stubborn one asks again even then.
func (w *World) StartClient(name string, r Request, tries int, stubborn bool) {
	ctx, _, a := w.actor(name, 0)
	go func() {
		defer a.ended.Store(true)
		for try := range tries {
			if answer, ok := w.post(ctx, fmt.Sprintf("%s.%d", name, try), len(name)+try, r); ok && answer.Err == nil && !stubborn {
				return
			}
			w.wait(ctx, 2*time.Second)
		}
	}()
}

// post makes one request. Both ways may fail: a request that is lost, or
// arrives late, and an answer that never comes.
func (w *World) post(ctx context.Context, name string, instance int, r Request) (Answer, bool) {
	answers, err := effect(ctx, &w.desk, "POST", r.Key, func(context.Context) (<-chan Answer, error) {
		return w.serve(name, instance, r), nil
	})
	if err != nil {
		return Answer{}, false
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case answer := <-answers:
		_, err := effect(ctx, &w.desk, "answer", r.Key, func(context.Context) (struct{}, error) { return struct{}{}, nil })
		return answer, err == nil
	case <-timer.C:
	case <-w.desk.over:
	}
	return Answer{}, false
}

// An Answer is what a client was told.
type Answer struct {
	Request Request
	Payment payment.Payment
	Err     error
}

// refusals are the errors that say that nothing was started.
var refusals = []error{
	dispatch.ErrUnavailable, dispatch.ErrInsufficient, dispatch.ErrRecipient, dispatch.ErrOwnWallet,
	dispatch.ErrAmountBelow, dispatch.ErrAmountAbove, store.ErrDailyLimit,
}

// Refused reports whether the answer says that nothing was started.
func (a Answer) Refused() bool {
	return !errors.Is(a.Err, dispatch.ErrInProgress) &&
		slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(a.Err, r) })
}

// id is where the tables keep a request's payment.
func (r Request) id() payment.ID { return payment.KeyID("mer_1", "test", r.Key) }

func walletID(a token.Address) wallet.ID { return wallet.ID{ChainID: chainID, Address: a} }
