package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/apikey"
)

// A Keeper is a store complete: what books and authenticators ask of it.
type Keeper interface {
	apikey.Store
	apikey.Finder
}

// Suite checks that the stores open returns keep the promises of apikey.Store
// and apikey.Finder. Every call of open may return the same store.
func APIKeys(t *testing.T, open func(t *testing.T) Keeper) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Keeper)
	}{
		{"a key is found as it was stored", keyAsStored},
		{"an unknown key is not found", unknown},
		{"storing the same key again changes nothing", sameAgain},
		{"a hash that is taken by another merchant is refused", taken},
		{"a merchant's keys are listed newest first", newestFirst},
		{"a use is recorded once per span", touchOnce},
		{"one of many racing uses is recorded", touchRace},
		{"a use of an unknown key creates nothing", touchUnknown},
		{"a replaced key expires and has a successor", replaced},
		{"a replacement never lengthens a life", replacedEarlier},
		{"replacing another merchant's key changes nothing", replacedForeign},
		{"a successor under a taken hash changes nothing", replacedTaken},
		{"a replacement may be repeated", replacedTwice},
		{"a revoked key keeps its first instant", revoked},
		{"revoking another merchant's key changes nothing", revokedForeign},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// fresh returns a key nobody has, of a merchant nobody is.
func fresh(t *testing.T) apikey.Key {
	t.Helper()
	return keyOf(t, "mer_"+rand.Text(), noon)
}

func keyOf(t *testing.T, merchantID string, at time.Time) apikey.Key {
	t.Helper()
	s, err := apikey.Mint(rand.Reader, apikey.Test)
	if err != nil {
		t.Fatal(err)
	}
	return apikey.Key{
		Hash: s.Hash(), ID: s.ID(), MerchantID: merchantID, MerchantName: "Crème & Søn 🧁",
		Mode: s.Mode(), Prefix: s.Prefix(), Last4: s.Last4(), CreatedAt: at,
	}
}

func create(t *testing.T, s Keeper, keys ...apikey.Key) {
	t.Helper()
	for _, k := range keys {
		if err := s.Create(t.Context(), k); err != nil {
			t.Fatalf("creating %s: %v", k.ID, err)
		}
	}
}

// holds checks that want is what the store has under its hash.
func holds(t *testing.T, s Keeper, want apikey.Key) {
	t.Helper()
	got, err := s.Find(t.Context(), want.Hash)
	if err != nil {
		t.Fatalf("finding %s: %v", want.ID, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored key (-want +got):\n%s", diff)
	}
}

func refused(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
}

func absent(t *testing.T, s Keeper, k apikey.Key) {
	t.Helper()
	_, err := s.Find(t.Context(), k.Hash)
	refused(t, err, apikey.ErrNotFound)
}

func keyAsStored(t *testing.T, s Keeper) {
	k := fresh(t)
	k.ExpiresAt, k.RevokedAt, k.LastUsedAt = noon.Add(time.Hour), noon.Add(time.Minute), noon.Add(time.Second)
	create(t, s, k)
	holds(t, s, k)
}

func unknown(t *testing.T, s Keeper) { absent(t, s, fresh(t)) }

func sameAgain(t *testing.T, s Keeper) {
	k := fresh(t)
	create(t, s, k)
	if _, err := s.Revoke(t.Context(), k.MerchantID, k.Hash, noon); err != nil {
		t.Fatal(err)
	}
	create(t, s, k)
	k.RevokedAt = noon
	holds(t, s, k)
	listed(t, s, k.MerchantID, k)
}

func taken(t *testing.T, s Keeper) {
	k := fresh(t)
	create(t, s, k)
	other := fresh(t)
	other.Hash = k.Hash
	refused(t, s.Create(t.Context(), other), apikey.ErrExists)
	holds(t, s, k)
	listed(t, s, other.MerchantID)
}

// listed checks the merchant's list. An index may keyLag, so it is read until it
// is right or the test's patience ends.
func listed(t *testing.T, s Keeper, merchantID string, want ...apikey.Key) {
	t.Helper()
	var diff string
	for range 50 {
		got, err := s.List(t.Context(), merchantID)
		if err != nil {
			t.Fatal(err)
		}
		if diff = cmp.Diff(append([]apikey.Key{}, want...), got); diff == "" {
			return
		}
		keyLag(t.Context())
	}
	t.Errorf("list of %s (-want +got):\n%s", merchantID, diff)
}

// keyLag gives an index a moment to follow its table.
func keyLag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	<-ctx.Done()
}

func newestFirst(t *testing.T, s Keeper) {
	first := fresh(t)
	m := first.MerchantID
	second, third := keyOf(t, m, noon.Add(time.Microsecond)), keyOf(t, m, noon.Add(time.Hour))
	a, b := keyOf(t, m, noon.Add(time.Minute)), keyOf(t, m, noon.Add(time.Minute))
	if a.ID > b.ID {
		a, b = b, a
	}
	create(t, s, second, a, third, first, b, fresh(t))
	listed(t, s, m, third, b, a, second, first)
	listed(t, s, "mer_"+rand.Text())
}

func touchOnce(t *testing.T, s Keeper) {
	k := fresh(t)
	create(t, s, k)
	for _, test := range []struct{ at, want time.Duration }{
		{0, 0},                             // never used before
		{59 * time.Second, 0},              // within the span
		{time.Minute, time.Minute},         // the span is over
		{30 * time.Second, time.Minute},    // a clock that is behind
		{3 * time.Minute, 3 * time.Minute}, // after a pause
	} {
		at := noon.Add(test.at)
		if err := s.Touch(t.Context(), k.Hash, at, at.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		k.LastUsedAt = noon.Add(test.want)
		holds(t, s, k)
	}
}

func touchRace(t *testing.T, s Keeper) {
	k := fresh(t)
	create(t, s, k)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := s.Touch(t.Context(), k.Hash, noon.Add(time.Duration(i)*time.Microsecond), noon.Add(-time.Minute)); err != nil {
				t.Errorf("use %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	got, err := s.Find(t.Context(), k.Hash)
	if err != nil || got.LastUsedAt.Before(noon) || got.LastUsedAt.After(noon.Add(7*time.Microsecond)) {
		t.Errorf("LastUsedAt = %v, %v; want one of the eight", got.LastUsedAt, err)
	}
}

func touchUnknown(t *testing.T, s Keeper) {
	k := fresh(t)
	refused(t, s.Touch(t.Context(), k.Hash, noon, noon.Add(-time.Minute)), apikey.ErrNotFound)
	absent(t, s, k)
}

func replaced(t *testing.T, s Keeper) {
	old := fresh(t)
	create(t, s, old)
	next := keyOf(t, old.MerchantID, noon.Add(time.Hour))
	old.ExpiresAt = noon.Add(25 * time.Hour)
	if err := s.Replace(t.Context(), old.MerchantID, old.Hash, old.ExpiresAt, next); err != nil {
		t.Fatal(err)
	}
	holds(t, s, old)
	holds(t, s, next)
	listed(t, s, old.MerchantID, next, old)
}

func replacedEarlier(t *testing.T, s Keeper) {
	old := fresh(t)
	old.ExpiresAt = noon.Add(time.Minute)
	create(t, s, old)
	next := keyOf(t, old.MerchantID, noon.Add(time.Second))
	if err := s.Replace(t.Context(), old.MerchantID, old.Hash, noon.Add(time.Hour), next); err != nil {
		t.Fatal(err)
	}
	holds(t, s, old)
	holds(t, s, next)

	last := keyOf(t, old.MerchantID, noon.Add(2*time.Second))
	old.ExpiresAt = noon.Add(2 * time.Second)
	if err := s.Replace(t.Context(), old.MerchantID, old.Hash, old.ExpiresAt, last); err != nil {
		t.Fatal(err)
	}
	holds(t, s, old)
}

func replacedForeign(t *testing.T, s Keeper) {
	old, thief := fresh(t), fresh(t)
	create(t, s, old)
	refused(t, s.Replace(t.Context(), thief.MerchantID, old.Hash, noon, thief), apikey.ErrNotFound)
	holds(t, s, old)
	absent(t, s, thief)
	missing := fresh(t)
	refused(t, s.Replace(t.Context(), thief.MerchantID, missing.Hash, noon, thief), apikey.ErrNotFound)
	absent(t, s, thief)
	absent(t, s, missing)
}

func replacedTaken(t *testing.T, s Keeper) {
	old, other := fresh(t), fresh(t)
	create(t, s, old, other)
	next := keyOf(t, old.MerchantID, noon)
	next.Hash = other.Hash
	refused(t, s.Replace(t.Context(), old.MerchantID, old.Hash, noon, next), apikey.ErrExists)
	holds(t, s, old)
	holds(t, s, other)
}

func replacedTwice(t *testing.T, s Keeper) {
	old := fresh(t)
	create(t, s, old)
	next := keyOf(t, old.MerchantID, noon.Add(time.Second))
	old.ExpiresAt = noon.Add(time.Hour)
	for range 2 {
		if err := s.Replace(t.Context(), old.MerchantID, old.Hash, old.ExpiresAt, next); err != nil {
			t.Fatal(err)
		}
	}
	listed(t, s, old.MerchantID, next, old)
}

func revoked(t *testing.T, s Keeper) {
	k := fresh(t)
	create(t, s, k)
	k.RevokedAt = noon.Add(time.Second)
	for _, at := range []time.Duration{time.Second, 0, time.Hour} {
		got, err := s.Revoke(t.Context(), k.MerchantID, k.Hash, noon.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(k, got); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	}
	holds(t, s, k)
}

func revokedForeign(t *testing.T, s Keeper) {
	k := fresh(t)
	create(t, s, k)
	_, err := s.Revoke(t.Context(), "mer_somebody_else", k.Hash, noon)
	refused(t, err, apikey.ErrNotFound)
	holds(t, s, k)
	missing := fresh(t)
	_, err = s.Revoke(t.Context(), missing.MerchantID, missing.Hash, noon)
	refused(t, err, apikey.ErrNotFound)
	absent(t, s, missing)
}

// Random returns a source of bytes that is the same for the same seed, for
// tests that mint keys.
func Random(seed byte) io.Reader {
	return mathrand.NewChaCha8([32]byte(bytes.Repeat([]byte{seed}, 32)))
}
