// Package storetest checks that the adapters of a store's port are alike and keep its promises. Alike compares two of
// them in random operations. The suites have what no such run shows: the meaning of each method that moves money, once;
// writers that race; values at their bounds; lists of many pages; damage. Each subtest is named after the sentence of
// the contract that it checks. Every merchant, wallet and key in a suite is new, so all subtests may share one store.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
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

// Places checks that a store has room for as many places as the bound says, of the longest names, and for none more.
func Places(t *testing.T, s store.Places) {
	c := tester{t}
	take := func(id string, most int) error {
		return s.Take(t.Context(), store.Place{Merchant: longest, ID: id, Until: noon.Add(time.Minute)}, noon, most)
	}
	for i := range store.MaxPlaces {
		c.ok("up to the bound", take(fmt.Sprintf("%026d", i), store.MaxPlaces))
	}
	c.refused("one more", take("z", store.MaxPlaces), store.ErrFull)
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
	if diff := cmp.Diff(want, got, append(options, byEquality, wholeBytes, bare)...); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// byEquality compares types with hidden fields by ==.
var byEquality = cmpopts.EquateComparable(token.Amount{}, webhook.Secret{})

// wholeBytes compares byte slices at once: a diff of a megabyte takes seconds.
var wholeBytes = cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal))

// wins calls f n times at once and returns the indices of the calls without an
// error. It checks that every other call was refused with the error refusal.
func (c tester) wins(n int, refusal error, f func(ctx context.Context, i int) error) (won []int) {
	c.Helper()
	errs, start := make([]error, n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(c.Context(), i)
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			won = append(won, i)
			continue
		}
		c.refused(fmt.Sprint("racing call ", i), err, refusal)
	}
	return won
}

// A race is n calls of write at once, so many of which succeed. Every other has the refusal.
type race struct {
	what    string
	n, wins int
	refusal error
	write   func(ctx context.Context, i int) error
}

// races checks one race after the other.
func (c tester) races(all ...race) {
	c.Helper()
	for _, race := range all {
		won := c.wins(race.n, race.refusal, func(ctx context.Context, i int) error {
			return patiently(func() error { return race.write(ctx, i) })
		})
		if len(won) != race.wins {
			c.Errorf("%d of %d racing %s got in, want %d", len(won), race.n, race.what, race.wins)
		}
	}
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

// patiently repeats a write whose outcome the store could not tell, as happens when many transactions meet on one item.
func patiently(write func() error) error {
	var err error
	for range 20 {
		err = write()
		if class(err) != unknown || errors.Is(err, errOthers) {
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
