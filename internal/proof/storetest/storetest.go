// Package storetest holds the suites that every adapter of a store's port passes: Payments for the ports of package
// store, Webhooks for webhook.Store, APIKeys for apikey.Store and apikey.Finder, Recipients for recipient.Store. Each
// subtest is named after the sentence of the contract that it checks. Every merchant, wallet and key in a suite is new,
// so all subtests may share one store.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// noon is the present of the suites. Payments keep milliseconds; a store keeps every other time to the nanosecond.
var noon = time.Date(2026, time.January, 2, 12, 0, 0, 123_000_000, time.UTC)

// A promise is a sentence of a port's contract and the check that the store C keeps it.
type promise[C any] struct {
	sentence string
	keep     func(C)
}

// examine checks each promise in a subtest, on the store that open returns.
func examine[C any](t *testing.T, promises []promise[C], open func(tester) C) {
	for _, p := range promises {
		t.Run(p.sentence, func(t *testing.T) { p.keep(open(tester{t})) })
	}
}

// Places checks that a store keeps the promises of store.Places.
func Places(t *testing.T, s store.Places) {
	c := tester{t}
	place := func(merchant, id string, ends time.Duration) store.Place {
		return store.Place{Merchant: merchant, ID: id, Until: noon.Add(ends)}
	}
	first, second := place("mer_1", "a", time.Minute), place("mer_1", "b", 2*time.Minute)
	c.ok("the first of two", s.Take(t.Context(), first, noon, 2))
	c.ok("the second", s.Take(t.Context(), second, noon, 2))
	c.ok("a place that is taken already", s.Take(t.Context(), first, noon, 2))
	c.refused("the third", s.Take(t.Context(), place("mer_1", "c", time.Minute), noon, 2), store.ErrFull)
	c.ok("another merchant's", s.Take(t.Context(), place("mer_2", "a", time.Minute), noon, 2))
	c.ok("once the first has ended", s.Take(t.Context(), place("mer_1", "d", 3*time.Minute), noon.Add(90*time.Second), 2))
	c.refused("not once more", s.Take(t.Context(), place("mer_1", "e", 3*time.Minute), noon.Add(90*time.Second), 2), store.ErrFull)
	for range 2 {
		c.ok("leaving", s.Leave(t.Context(), second))
	}
	c.ok("in the place that was left", s.Take(t.Context(), place("mer_1", "e", 3*time.Minute), noon.Add(90*time.Second), 2))
	c.refused("beyond the bound", s.Take(t.Context(), first, noon, store.MaxPlaces+1), store.ErrTooLarge)
	for i := range store.MaxPlaces {
		c.ok("up to the bound", s.Take(t.Context(), place("mer_"+strings.Repeat("x", 20),
			fmt.Sprint(i, strings.Repeat("y", 26)), time.Minute), noon, store.MaxPlaces))
	}
	c.refused("one more", s.Take(t.Context(), place("mer_"+strings.Repeat("x", 20), "z", time.Minute), noon, store.MaxPlaces), store.ErrFull)
}

// AuditLog checks that a log keeps the promises of store.AuditLog.
func AuditLog(t *testing.T, log store.AuditLog) {
	c := tester{t}
	begun := store.Act{ID: "a", At: noon, Who: "ada", Command: "wallet pause --all", Effect: "no new payment", Outcome: store.Begun}
	done, later := begun, begun
	done.At, done.Effect, done.Outcome = noon.Add(time.Nanosecond), "", store.Done
	later.ID, later.At = "b", noon.Add(time.Hour)
	for _, a := range []store.Act{begun, done, begun, later} { // begun again, after an answer that was lost
		c.ok("appending", log.Append(t.Context(), a))
	}
	all := must.Get(log.Acts(t.Context(), noon))(c)
	c.same("the log", []store.Act{begun, done, later}, all)
	since := must.Get(log.Acts(t.Context(), later.At))(c)
	c.same("the log's end", []store.Act{later}, since)
}

// A tester is one subtest with the assertions that all suites share.
type tester struct{ *testing.T }

// ok ends the subtest if the named call returned an error.
func (c tester) ok(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// refused checks that the named call returned the error want.
func (c tester) refused(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s: error = %v, want %v", what, err, want)
	}
}

// same compares values.
func (c tester) same(what string, want, got any, options ...cmp.Option) {
	c.Helper()
	if diff := cmp.Diff(want, got, append(options, byEquality, wholeBytes)...); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// byEquality compares types with hidden fields by ==.
var byEquality = cmpopts.EquateComparable(token.Amount{}, webhook.Secret{})

// wholeBytes compares byte slices at once: a diff of a megabyte takes seconds.
var wholeBytes = cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal))

// race calls f n times at once.
func (c tester) race(n int, f func(ctx context.Context, i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(c.Context(), i)
		})
	}
	close(start)
	wg.Wait()
}

// wins calls f n times at once and returns the indices of the calls without an
// error. It checks that every other call was refused with the error refusal.
func (c tester) wins(n int, refusal error, f func(ctx context.Context, i int) error) (won []int) {
	c.Helper()
	errs := make([]error, n)
	c.race(n, func(ctx context.Context, i int) { errs[i] = f(ctx, i) })
	for i, err := range errs {
		if err == nil {
			won = append(won, i)
			continue
		}
		c.refused(fmt.Sprint("racing call ", i), err, refusal)
	}
	return won
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

// winner is wins where exactly one call may succeed.
func (c tester) winner(n int, refusal error, f func(ctx context.Context, i int) error) int {
	c.Helper()
	won := c.wins(n, refusal, f)
	if len(won) != 1 {
		c.Fatalf("%d racing calls succeeded, want 1: %v", len(won), won)
	}
	return won[0]
}

// patiently repeats a write whose outcome the store could not tell, as happens when many transactions meet on one item.
func patiently(write func() error) error {
	var err error
	for range 20 {
		err = write()
		if err == nil || errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrNonceTaken) {
			break
		}
	}
	return err
}

// eventually repeats read, which compares an index with its table, until it
// returns no difference: an index may lag. It gives up after a second or more.
func (c tester) eventually(what string, read func() (diff string)) {
	c.Helper()
	var diff string
	for range 50 {
		if diff = read(); diff == "" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.Errorf("%s (-want +got):\n%s", what, diff)
}
