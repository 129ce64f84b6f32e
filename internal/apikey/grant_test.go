package apikey_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"remit/internal/apikey"
	"remit/internal/memory"
	"remit/internal/storetest"
	"remit/internal/token"
)

// wide and narrow are wishes that differ in every field.
func wide() apikey.Wish {
	return apikey.Wish{
		Scopes: []apikey.Scope{apikey.PaymentsWrite, apikey.Keys, apikey.Recipients}, Maximum: units(50), Amount: units(100),
		Count: new(uint64(10)), Book: new(false), Life: time.Hour,
	}
}

func narrow() apikey.Wish {
	return apikey.Wish{
		Scopes: []apikey.Scope{apikey.PaymentsWrite, apikey.Keys}, Maximum: units(40), Amount: units(90),
		Count: new(uint64(9)), Book: new(true), Life: time.Minute,
	}
}

func units(n uint64) *token.Amount { return new(token.Units(n)) }

// TestOnlyWhatItHasIsGranted: a key makes keys, and rotates and revokes keys, that
// are no wider than itself in any field.
func TestOnlyWhatItHasIsGranted(t *testing.T) {
	_, registry, first := stack(t)
	issue := func(by apikey.Key, w apikey.Wish) (apikey.Key, error) {
		m, err := registry.Issue(t.Context(), by, w, silent)
		return m.Key, err
	}
	for _, test := range []struct {
		what string
		more func(*apikey.Wish) // takes a field of a narrow wish to the wide one's or beyond
	}{
		{"a scope", func(w *apikey.Wish) { w.Scopes = wide().Scopes }},
		{"all scopes", func(w *apikey.Wish) { w.Scopes = apikey.AllScopes() }},
		{"a larger payment", func(w *apikey.Wish) { w.Maximum = wide().Maximum }},
		{"any payment", func(w *apikey.Wish) { w.Maximum = units(0) }},
		{"a larger day", func(w *apikey.Wish) { w.Amount = wide().Amount }},
		{"any day", func(w *apikey.Wish) { w.Amount = units(0) }},
		{"more payments a day", func(w *apikey.Wish) { w.Count = wide().Count }},
		{"any number of payments a day", func(w *apikey.Wish) { w.Count = new(uint64(0)) }},
		{"no limit of a day at all", func(w *apikey.Wish) { w.Amount, w.Count = units(0), new(uint64(0)) }},
		{"any recipient", func(w *apikey.Wish) { w.Book = new(false) }},
		{"a longer life", func(w *apikey.Wish) { w.Life = wide().Life }},
	} {
		by, err := issue(first.Key, narrow())
		must(t, err)
		w := narrow()
		test.more(&w)
		if _, err := issue(by, w); !errors.Is(err, apikey.ErrNotPermitted) {
			t.Errorf("%s is granted: %v", test.what, err)
		}
		wider, err := issue(first.Key, w)
		must(t, err)
		if _, err := registry.Rotate(t.Context(), by, wider.ID, 0, silent); !errors.Is(err, apikey.ErrNotPermitted) {
			t.Errorf("a key with %s more is rotated: %v", test.what, err)
		}
		if _, err := registry.Revoke(t.Context(), by, wider.ID); !errors.Is(err, apikey.ErrNotPermitted) {
			t.Errorf("a key with %s more is revoked: %v", test.what, err)
		}
		for _, id := range []string{by.ID, wider.ID} { // 25 keys are the most
			if _, err := registry.Revoke(t.Context(), first.Key, id); err != nil {
				t.Errorf("the first key revokes any: %v", err)
			}
		}
	}
	by, err := issue(first.Key, wide())
	must(t, err)
	child, err := issue(by, narrow())
	must(t, err)
	same, err := issue(by, apikey.Wish{})
	if err != nil || same.Grant.Limits != by.Limits || same.Scopes != by.Scopes || !same.ExpiresAt.Equal(by.ExpiresAt) {
		t.Errorf("what is absent is as the asking key has it: %+v, %v", same, err)
	}
	for _, k := range []apikey.Key{child, same, by} {
		if _, err := registry.Rotate(t.Context(), by, k.ID, time.Hour, silent); err != nil {
			t.Errorf("rotating %s: %v", k.ID, err)
		}
		if _, err := registry.Revoke(t.Context(), by, k.ID); err != nil {
			t.Errorf("revoking %s: %v", k.ID, err)
		}
	}
}

// TestMakingKeysMultipliesNoLimit: all that a limited key can make or rotate counts
// for its limit.
func TestMakingKeysMultipliesNoLimit(t *testing.T) {
	_, registry, first := stack(t)
	issue := func(by apikey.Key, w apikey.Wish) apikey.Key {
		m, err := registry.Issue(t.Context(), by, w, silent)
		must(t, err)
		return m.Key
	}
	limited := issue(first.Key, apikey.Wish{Amount: units(100)})
	other := issue(first.Key, apikey.Wish{Amount: units(100)})
	if _, err := registry.Rotate(t.Context(), limited, other.ID, 0, silent); !errors.Is(err, apikey.ErrNotPermitted) {
		t.Errorf("a key took over another limit beside its own: %v", err)
	}
	if _, err := registry.Revoke(t.Context(), limited, other.ID); err != nil {
		t.Errorf("revoking a key that is no wider: %v", err)
	}
	child := issue(limited, apikey.Wish{Count: new(uint64(3))})
	grandchild := issue(child, apikey.Wish{Amount: units(10)})
	rotated, err := registry.Rotate(t.Context(), limited, grandchild.ID, 0, silent)
	must(t, err)
	for _, test := range []struct {
		what string
		of   apikey.Key
		want string
	}{
		{"its own limit", limited, "100/0"},
		{"a child's", child, "100/0 100/3"},
		{"a grandchild's", grandchild, "100/0 100/3 10/3"},
		{"a rotated key's", rotated.Key, "100/0 100/3 10/3"},
	} {
		var got []string
		for _, l := range test.of.Limits.List() {
			got = append(got, fmt.Sprintf("%s/%d", l.Amount, l.Count))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.what, got, test.want)
		}
	}
	if rotated.Key.Limits != grandchild.Limits {
		t.Errorf("a rotated key has another day: %v, not %v", rotated.Key.Limits, grandchild.Limits)
	}
}

// TestKeysDescendThreeDeep and no deeper; a rotated key is where the old one was.
func TestKeysDescendThreeDeep(t *testing.T) {
	_, registry, m := stack(t)
	by := m.Key
	for depth := 1; depth <= 4; depth++ {
		next, err := registry.Issue(t.Context(), by, apikey.Wish{}, silent)
		if (err == nil) != (depth < 4) || err != nil && !errors.Is(err, apikey.ErrNotPermitted) {
			t.Fatalf("the key %d deep: %v", depth, err)
		}
		if err != nil {
			break
		}
		rotated, err := registry.Rotate(t.Context(), next.Key, next.Key.ID, 0, silent)
		must(t, err)
		by = rotated.Key
	}
}

// TestARotatedKeyKeepsItsTerm: also when the old key ends earlier by its rotation.
func TestARotatedKeyKeepsItsTerm(t *testing.T) {
	_, registry, m := stack(t)
	k, err := registry.Issue(t.Context(), m.Key, apikey.Wish{Label: new("till 3"), Life: 48 * time.Hour}, silent)
	must(t, err)
	for range 2 {
		next, err := registry.Rotate(t.Context(), m.Key, k.Key.ID, time.Minute, silent)
		if err != nil || !next.Key.ExpiresAt.Equal(noon.Add(48*time.Hour)) || next.Key.Label != "till 3" {
			t.Errorf("%+v, %v", next.Key, err)
		}
	}
}

// TestNoKeyWithoutItsAnnouncement: a key that was not announced is not stored, and
// one that is refused is not announced.
func TestNoKeyWithoutItsAnnouncement(t *testing.T) {
	s, registry, m := stack(t)
	deaf := func(context.Context, apikey.Key) error { return errLost }
	if _, err := registry.Issue(t.Context(), m.Key, apikey.Wish{}, deaf); !errors.Is(err, errLost) {
		t.Errorf("issued: %v", err)
	}
	if _, err := registry.Rotate(t.Context(), m.Key, m.Key.ID, 0, deaf); !errors.Is(err, errLost) {
		t.Errorf("rotated: %v", err)
	}
	if s.calls["Issue"]+s.calls["Replace"] != 0 {
		t.Errorf("stored after %v", s.calls)
	}
	if k, err := s.APIKeys.Find(t.Context(), m.Key.Hash); err != nil || !k.Valid(noon) {
		t.Errorf("the key that was not rotated: %+v, %v", k, err)
	}
	told := 0
	loud := func(context.Context, apikey.Key) error { told++; return nil }
	for range apikey.MaxLive - 1 {
		_, err := registry.Issue(t.Context(), m.Key, apikey.Wish{}, loud)
		must(t, err)
	}
	if _, err := registry.Issue(t.Context(), m.Key, apikey.Wish{}, loud); !errors.Is(err, apikey.ErrLimit) || told != apikey.MaxLive-1 {
		t.Errorf("the 26th key: %v, and %d announcements", err, told)
	}
	if _, err := registry.Rotate(t.Context(), m.Key, m.Key.ID, time.Hour, loud); err != nil {
		t.Errorf("a rotation is refused for the number of keys: %v", err)
	}
}

// TestAsking: a principal that API Gateway remembers makes no key once its own has
// ended.
func TestAsking(t *testing.T) {
	s := &store{APIKeys: memory.APIKeys{}, calls: map[string]int{}}
	now := noon
	registry := apikey.NewRegistry(s, apikey.Test, func() time.Time { return now }, storetest.Random(5))
	m, err := registry.Create(t.Context(), "Shop", apikey.Wish{Life: time.Hour})
	must(t, err)
	who := apikey.Principal{MerchantID: m.Key.MerchantID, KeyID: m.Key.ID, Mode: apikey.Test, Hash: m.Key.Hash, Grant: m.Key.Grant}
	if k, err := registry.Asking(t.Context(), who); err != nil || k != m.Key {
		t.Errorf("%+v, %v", k, err)
	}
	s.failing = []string{"Find"}
	if _, err := registry.Asking(t.Context(), who); !errors.Is(err, errLost) || errors.Is(err, apikey.ErrInvalid) {
		t.Errorf("with a store that is down: %v", err)
	}
	s.failing = nil
	for why, wrong := range map[string]apikey.Principal{
		"another merchant": {MerchantID: "mer_x", Hash: m.Key.Hash}, "no hash": {MerchantID: m.Key.MerchantID},
	} {
		if _, err := registry.Asking(t.Context(), wrong); !errors.Is(err, apikey.ErrInvalid) {
			t.Errorf("%s: %v", why, err)
		}
	}
	now = noon.Add(time.Hour)
	if _, err := registry.Asking(t.Context(), who); !errors.Is(err, apikey.ErrInvalid) {
		t.Errorf("an expired key: %v", err)
	}
}

// TestGrantText: a grant survives its text, and text from other versions never
// allows more.
func TestGrantText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      `{"scopes":["payments:write","payments:read","webhooks","keys","recipients"]}`,
		`{}`:                                    `{"scopes":[]}`,
		`{"scopes":["keys","refunds"],"new":1}`: `{"scopes":["keys"]}`,
		`{"scopes":["webhooks"],"max_amount":115792089237316195423570985008687907853269984665640564039457584007913129639935,"book":true,"depth":3}`: `{"scopes":["webhooks"],"max_amount":115792089237316195423570985008687907853269984665640564039457584007913129639935,"book":true,"depth":3}`,
		`{"scopes":["keys"],"limits":[{"key":"key_a","amount":0,"count":7}]}`:                                                                       `{"scopes":["keys"],"limits":[{"key":"key_a","amount":0,"count":7}]}`,
	} {
		var g apikey.Grant
		must(t, g.UnmarshalText([]byte(text)))
		if got, err := g.MarshalText(); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	if (apikey.Grant{}).May(apikey.Keys) {
		t.Error("the zero grant allows something")
	}
}
