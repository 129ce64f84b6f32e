package apikey_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"remit/internal/apikey"
	"remit/internal/memory"
	"remit/internal/storetest"
)

var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// finder counts what is asked of a store and breaks it on demand.
type finder struct {
	memory.APIKeys
	finds, touches     int
	findErr, touchErr  error
	touchAppliedThough bool // the error comes after the write
}

func (f *finder) Find(ctx context.Context, hash apikey.Hash) (apikey.Key, error) {
	f.finds++
	if f.findErr != nil {
		return apikey.Key{}, f.findErr
	}
	return f.APIKeys.Find(ctx, hash)
}

func (f *finder) Touch(ctx context.Context, hash apikey.Hash, at, since time.Time) error {
	f.touches++
	if f.touchErr != nil && !f.touchAppliedThough {
		return f.touchErr
	}
	return errors.Join(f.APIKeys.Touch(ctx, hash, at, since), f.touchErr)
}

// stack is a test-mode stack with one merchant, whose key was made at noon.
func stack(t *testing.T) (*finder, *apikey.Registry, apikey.Minted) {
	t.Helper()
	f := new(finder)
	registry := apikey.NewRegistry(f, apikey.Test, func() time.Time { return noon }, storetest.Random(3))
	m, err := registry.Create(t.Context(), "Shop")
	if err != nil {
		t.Fatal(err)
	}
	return f, registry, m
}

func TestAuthenticate(t *testing.T) {
	f, registry, m := stack(t)
	auth := apikey.NewAuthenticator(f, apikey.Test)
	key := m.Secret.Reveal()
	successor, err := registry.Rotate(t.Context(), m.Key.MerchantID, m.Key.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := registry.Create(t.Context(), "Gone")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Revoke(t.Context(), gone.Key.MerchantID, gone.Key.ID); err != nil {
		t.Fatal(err)
	}
	live, unheard := mint(t, apikey.Live), mint(t, apikey.Test)

	for _, test := range []struct {
		why, presented string
		at             time.Time
		want           error
		reads          int
	}{
		{"a key within its overlap", key, noon.Add(time.Hour - 1), nil, 1},
		{"a key at the instant it expires", key, noon.Add(time.Hour), apikey.ErrInvalid, 1},
		{"its successor", successor.Secret.Reveal(), noon.Add(100 * time.Hour), nil, 1},
		{"a revoked key, even on a clock that is behind", gone.Secret.Reveal(), noon.Add(-time.Hour), apikey.ErrInvalid, 1},
		{"a well-formed key that was never handed out", unheard.Reveal(), noon, apikey.ErrInvalid, 1},
		{"a key of the other mode is not looked up", live.Reveal(), noon, apikey.ErrInvalid, 0},
		{"a mistyped key is not looked up", key[:len(key)-1] + "!", noon, apikey.ErrInvalid, 0},
		{"no key is not looked up", "", noon, apikey.ErrInvalid, 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			f.finds = 0
			who, err := auth.Authenticate(t.Context(), test.presented, test.at)
			if !errors.Is(err, test.want) {
				t.Errorf("error = %v, want %v", err, test.want)
			}
			if f.finds != test.reads {
				t.Errorf("%d reads, want %d", f.finds, test.reads)
			}
			if (who == apikey.Principal{}) != (test.want != nil) {
				t.Errorf("principal = %+v", who)
			}
		})
	}
}

func TestPrincipal(t *testing.T) {
	f, _, m := stack(t)
	who, err := apikey.NewAuthenticator(f, apikey.Test).Authenticate(t.Context(), m.Secret.Reveal(), noon)
	want := apikey.Principal{MerchantID: m.Key.MerchantID, KeyID: m.Key.ID, Mode: apikey.Test}
	if err != nil || who != want {
		t.Errorf("Authenticate = %+v, %v; want %+v", who, err, want)
	}
	if got, ok := apikey.PrincipalFrom(apikey.WithPrincipal(t.Context(), who)); !ok || got != who {
		t.Errorf("PrincipalFrom = %+v, %v; want %+v", got, ok, who)
	}
	if got, ok := apikey.PrincipalFrom(t.Context()); ok {
		t.Errorf("a context without a principal has %+v", got)
	}
}

func TestStoreOutageIsNotARefusal(t *testing.T) {
	f, _, m := stack(t)
	f.findErr = errors.New("throttled")
	_, err := apikey.NewAuthenticator(f, apikey.Test).Authenticate(t.Context(), m.Secret.Reveal(), noon)
	if !errors.Is(err, f.findErr) || errors.Is(err, apikey.ErrInvalid) {
		t.Errorf("error = %v, want the store's", err)
	}
}

func TestUseIsRecordedOnceAMinute(t *testing.T) {
	f, _, m := stack(t)
	auth := apikey.NewAuthenticator(f, apikey.Test)
	for second := range 180 {
		if _, err := auth.Authenticate(t.Context(), m.Secret.Reveal(), noon.Add(time.Duration(second)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if f.touches != 3 {
		t.Errorf("%d writes in three minutes of requests, want 3", f.touches)
	}
	if k, err := f.APIKeys.Find(t.Context(), m.Key.Hash); err != nil || !k.LastUsedAt.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("LastUsedAt = %v, %v", k.LastUsedAt, err)
	}
}

func TestUnrecordedUseFailsNothing(t *testing.T) {
	for _, applied := range []bool{false, true} {
		f, _, m := stack(t)
		f.touchErr, f.touchAppliedThough = errors.New("throttled"), applied
		if _, err := apikey.NewAuthenticator(f, apikey.Test).Authenticate(t.Context(), m.Secret.Reveal(), noon); err != nil {
			t.Errorf("write applied: %v: %v", applied, err)
		}
	}
}
