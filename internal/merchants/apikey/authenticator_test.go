package apikey_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/storetest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

var errLost = errors.New("connection reset")

// A store counts its calls and fails those of the methods in failing with
// errLost, before they are applied or, with applied, after.
type store struct {
	memory.APIKeys
	calls   map[string]int
	failing []string
	applied bool
}

func (s *store) call(method string, apply func() error) error {
	s.calls[method]++
	if !slices.Contains(s.failing, method) {
		return apply()
	}
	if s.applied {
		return errors.Join(apply(), errLost)
	}
	return errLost
}

func (s *store) Find(ctx context.Context, h apikey.Hash) (k apikey.Key, err error) {
	err = s.call("Find", func() (err error) { k, err = s.APIKeys.Find(ctx, h); return err })
	return k, err
}

func (s *store) Touch(ctx context.Context, h apikey.Hash, at, since time.Time) error {
	return s.call("Touch", func() error { return s.APIKeys.Touch(ctx, h, at, since) })
}

func (s *store) Create(ctx context.Context, k apikey.Key) error {
	return s.call("Create", func() error { return s.APIKeys.Create(ctx, k) })
}

func (s *store) Replace(ctx context.Context, m string, h apikey.Hash, at time.Time, k apikey.Key) error {
	return s.call("Replace", func() error { return s.APIKeys.Replace(ctx, m, h, at, k) })
}

func (s *store) Revoke(ctx context.Context, m string, h apikey.Hash, at time.Time) (k apikey.Key, err error) {
	err = s.call("Revoke", func() (err error) { k, err = s.APIKeys.Revoke(ctx, m, h, at); return err })
	return k, err
}

func (s *store) Issue(ctx context.Context, k apikey.Key, most int) error {
	return s.call("Issue", func() error { return s.APIKeys.Issue(ctx, k, most) })
}

func (s *store) Named(ctx context.Context, m, id string) (k apikey.Key, err error) {
	err = s.call("Named", func() (err error) { k, err = s.APIKeys.Named(ctx, m, id); return err })
	return k, err
}

func (s *store) List(ctx context.Context, m string) (keys []apikey.Key, err error) {
	err = s.call("List", func() (err error) { keys, err = s.APIKeys.List(ctx, m); return err })
	return keys, err
}

func (s *store) Terms(ctx context.Context, m string) (terms apikey.Terms, err error) {
	err = s.call("Terms", func() (err error) { terms, err = s.APIKeys.Terms(ctx, m); return err })
	return terms, err
}

// silent announces nothing.
func silent(context.Context, apikey.Key) error { return nil }

// stack returns a test-mode stack with one merchant, whose key was made at noon.
func stack(t *testing.T) (*store, *apikey.Registry, apikey.Minted) {
	t.Helper()
	s := &store{calls: map[string]int{}}
	registry := apikey.NewRegistry(s, apikey.Test, func() time.Time { return noon }, storetest.Random(3))
	m := must.Get(registry.Create(t.Context(), "Shop", apikey.KeyRequest{}))(t)
	return s, registry, m
}

func TestAuthenticate(t *testing.T) {
	f, registry, m := stack(t)
	auth := apikey.NewAuthenticator(f, apikey.Test)
	key := m.Secret.Reveal()
	successor := must.Get(registry.Rotate(t.Context(), m.Key, m.Key.ID, time.Hour, silent))(t)
	gone := must.Get(registry.Create(t.Context(), "Gone", apikey.KeyRequest{}))(t)
	must.Get(registry.Revoke(t.Context(), gone.Key, gone.Key.ID))(t)
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
			before := f.calls["Find"]
			who, err := auth.Authenticate(t.Context(), test.presented, test.at)
			if !errors.Is(err, test.want) {
				t.Errorf("error = %v, want %v", err, test.want)
			}
			if reads := f.calls["Find"] - before; reads != test.reads {
				t.Errorf("%d reads, want %d", reads, test.reads)
			}
			if (who == apikey.Principal{}) != (test.want != nil) {
				t.Errorf("principal = %+v", who)
			}
		})
	}
}

func TestStoreOutageIsNotARefusal(t *testing.T) {
	f, _, m := stack(t)
	for _, method := range []string{"Find", "Terms"} {
		f.failing = []string{method}
		_, err := apikey.NewAuthenticator(f, apikey.Test).Authenticate(t.Context(), m.Secret.Reveal(), noon)
		if !errors.Is(err, errLost) || errors.Is(err, apikey.ErrInvalid) {
			t.Errorf("%s fails: %v, want the store's error", method, err)
		}
	}
}

func TestUseIsRecordedOnceAMinute(t *testing.T) {
	f, _, m := stack(t)
	auth := apikey.NewAuthenticator(f, apikey.Test)
	for second := range 180 {
		must.Get(auth.Authenticate(t.Context(), m.Secret.Reveal(), noon.Add(time.Duration(second)*time.Second)))(t)
	}
	if touches := f.calls["Touch"]; touches != 3 {
		t.Errorf("%d writes in three minutes of requests, want 3", touches)
	}
	if k, err := f.APIKeys.Find(t.Context(), m.Key.Hash); err != nil || !k.LastUsedAt.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("LastUsedAt = %v, %v", k.LastUsedAt, err)
	}
}

func TestUnrecordedUseFailsNothing(t *testing.T) {
	for _, applied := range []bool{false, true} {
		f, _, m := stack(t)
		f.failing, f.applied = []string{"Touch"}, applied
		if _, err := apikey.NewAuthenticator(f, apikey.Test).Authenticate(t.Context(), m.Secret.Reveal(), noon); err != nil {
			t.Errorf("write applied: %v: %v", applied, err)
		}
	}
}
