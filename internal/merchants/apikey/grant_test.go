package apikey_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/storetest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

var usd, euro = token.Coin{ChainID: 1, Contract: token.Address{1}}, token.Coin{ChainID: 137, Contract: token.Address{0xec}}

// TestPays: a key pays its asset alone, and amounts without an asset are of the default.
func TestPays(t *testing.T) {
	for _, test := range []struct {
		grant            apikey.Grant
		standard, others bool
	}{
		{apikey.Grant{}, true, true}, {apikey.Grant{Daily: apikey.Limit{Count: 1}, Book: true}, true, true},
		{apikey.Grant{Asset: usd}, true, false}, {apikey.Grant{Asset: euro, Maximum: token.Units(1)}, false, true},
		{apikey.Grant{Maximum: token.Units(1)}, true, false}, {apikey.Grant{Daily: apikey.Limit{Amount: token.Units(1)}}, true, false},
	} {
		if g := test.grant; g.Pays(usd, usd) != test.standard || g.Pays(euro, usd) != test.others {
			t.Errorf("%+v pays the default: %v, another: %v", g, g.Pays(usd, usd), g.Pays(euro, usd))
		}
	}
}

// TestKeyRequests: a key has the requested rights, and of the asking key no more than its scopes and its expiry.
func TestKeyRequests(t *testing.T) {
	_, registry, first := stack(t)
	all, manager := first.Key, first.Key
	all.ExpiresAt = noon.Add(time.Hour)
	manager.Scopes = apikey.ScopesOf(apikey.Keys)
	keys, pays := []apikey.Scope{apikey.PaymentsWrite, apikey.Keys}, []apikey.Scope{apikey.PaymentsWrite}
	limited := []apikey.Grant{{Maximum: token.Units(1)}, {Daily: apikey.Limit{Amount: token.Units(1)}},
		{Daily: apikey.Limit{Key: "key_x", Count: 1}, Root: "key_x"}, {Book: true}, {Asset: euro}, {ApproveAbove: token.Units(1)}, {Guard: 60}}
	for _, want := range limited {
		r := apikey.KeyRequest{Limits: want}
		k, err := issued(t, registry, all, r)
		want.Root, want.Scopes = "", apikey.ScopesOf(apikey.PaymentsWrite, apikey.PaymentsRead, apikey.Webhooks, apikey.Recipients,
			apikey.PaymentsPropose, apikey.PaymentsApprove)
		if want.Daily != (apikey.Limit{}) {
			want.Daily.Key = k.ID
		}
		if err != nil || k.Grant != want {
			t.Errorf("%+v makes %+v, %v", r, k, err)
		}
		if _, err := issued(t, registry, manager, r); !errors.Is(err, apikey.ErrNoScope) {
			t.Errorf("%+v by a key for keys alone: %v", r, err)
		}
		r.Scopes = pays
		if k, err := issued(t, registry, all, r); err != nil || k.Scopes != apikey.ScopesOf(pays...) {
			t.Errorf("%+v makes %+v, %v", r, k, err)
		}
		r.Scopes = keys
		if _, err := issued(t, registry, all, r); !errors.Is(err, apikey.ErrKeysScope) {
			t.Errorf("%+v: %v", r, err)
		}
		if _, err := registry.Create(t.Context(), "Shop", r); !errors.Is(err, apikey.ErrKeysScope) {
			t.Errorf("a first key with %+v: %v", r, err)
		}
	}
	k, err := issued(t, registry, all, apikey.KeyRequest{})
	if err != nil || k.Grant != apikey.Full() || !k.ExpiresAt.Equal(all.ExpiresAt) || k.Label != "" {
		t.Errorf("by default: %+v, %v", k, err)
	}
	all.Label, all.Scopes = "till", apikey.ScopesOf(keys...)
	if k, err = issued(t, registry, all, apikey.KeyRequest{}); err != nil || k.Scopes != all.Scopes || k.Label != "" {
		t.Errorf("of two scopes: %+v, %v", k, err)
	}
}

func issued(t *testing.T, registry *apikey.Registry, by apikey.Key, r apikey.KeyRequest) (apikey.Key, error) {
	t.Helper()
	m, err := registry.Issue(t.Context(), by, r, silent)
	return m.Key, err
}

// TestOnlyWhatItHasIsGranted: a key cannot make, rotate or revoke a key with a scope that
// it lacks, nor make or rotate another that expires later.
func TestOnlyWhatItHasIsGranted(t *testing.T) {
	_, registry, first := stack(t)
	keys, both := []apikey.Scope{apikey.Keys}, []apikey.Scope{apikey.Keys, apikey.Webhooks}
	by := must.Get(issued(t, registry, first.Key, apikey.KeyRequest{Scopes: keys, Life: time.Hour}))(t)
	for _, test := range []struct {
		what           string
		other          apikey.KeyRequest
		issued, rotate error
		revoke         error
	}{
		{"the same", apikey.KeyRequest{Scopes: keys, Life: time.Hour}, nil, nil, nil},
		{"a shorter life", apikey.KeyRequest{Scopes: keys, Life: time.Minute}, nil, nil, nil},
		{"a scope more", apikey.KeyRequest{Scopes: both, Life: time.Hour}, apikey.ErrNotPermitted,
			apikey.ErrNotPermitted, apikey.ErrNotPermitted},
		{"a longer life", apikey.KeyRequest{Scopes: keys, Life: time.Hour + 1e9}, apikey.ErrNotPermitted, apikey.ErrNotPermitted, nil},
	} {
		if _, err := issued(t, registry, by, test.other); !errors.Is(err, test.issued) {
			t.Errorf("issuing %s: %v", test.what, err)
		}
		other := must.Get(issued(t, registry, first.Key, test.other))(t)
		for range 2 { // after the first rotation by another, the key itself ends in a minute
			if _, err := registry.Rotate(t.Context(), by, other.ID, time.Minute, silent); !errors.Is(err, test.rotate) {
				t.Errorf("rotating %s: %v", test.what, err)
			}
			must.Get(registry.Rotate(t.Context(), first.Key, other.ID, time.Minute, silent))(t)
		}
		if _, err := registry.Revoke(t.Context(), by, other.ID); !errors.Is(err, test.revoke) {
			t.Errorf("revoking %s: %v", test.what, err)
		}
	}
	if _, err := registry.Rotate(t.Context(), by, first.Key.ID, 0, silent); !errors.Is(err, apikey.ErrNotPermitted) {
		t.Errorf("rotating the first key: %v", err)
	}
	ending := by
	ending.ExpiresAt = noon.Add(time.Minute)
	if m, err := registry.Rotate(t.Context(), ending, by.ID, 0, silent); err != nil || !m.Key.ExpiresAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("a key rotates itself in its overlap: %+v, %v", m.Key, err)
	}
}

// TestNoKeyWithoutItsAnnouncement: a key without its announcement is not stored, and a refused key is not announced.
func TestNoKeyWithoutItsAnnouncement(t *testing.T) {
	s, registry, m := stack(t)
	deaf := func(context.Context, apikey.Key) error { return errLost }
	if _, err := registry.Issue(t.Context(), m.Key, apikey.KeyRequest{}, deaf); !errors.Is(err, errLost) {
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
		must.Get(registry.Issue(t.Context(), m.Key, apikey.KeyRequest{}, loud))(t)
	}
	if _, err := registry.Issue(t.Context(), m.Key, apikey.KeyRequest{}, loud); !errors.Is(err, apikey.ErrLimit) || told != apikey.MaxLive-1 {
		t.Errorf("the 26th key: %v, and %d announcements", err, told)
	}
	if _, err := registry.Rotate(t.Context(), m.Key, m.Key.ID, time.Hour, loud); err != nil {
		t.Errorf("a rotation is refused for the number of keys: %v", err)
	}
}

// TestAsking: a principal that API Gateway remembers makes no key once its own has ended.
func TestAsking(t *testing.T) {
	s := &store{APIKeys: memory.APIKeys{}, calls: map[string]int{}}
	now := noon
	registry := apikey.NewRegistry(s, apikey.Test, func() time.Time { return now }, storetest.Random(5))
	m := must.Get(registry.Create(t.Context(), "Shop", apikey.KeyRequest{Life: time.Hour}))(t)
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

// TestGrantText: a grant survives its text. Text that allows more than this code can
// restrict is refused, and unknown scopes and fields allow nothing.
func TestGrantText(t *testing.T) {
	const huge = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	for text, want := range map[string]string{
		`{}`:                                    `{"scopes":[]}`,
		`{"scopes":["keys","refunds"],"new":1}`: `{"scopes":["keys"]}`,
		`{"scopes":["webhooks"],"max_amount":` + huge + `,"book":true}`:                 "",
		`{"scopes":["payments:write"],"limits":[{"key":"key_a","amount":0,"count":7}]}`: "",
		`{"scopes":["webhooks"],"asset":"` + euro.String() + `"}`:                       "",
	} {
		var g apikey.Grant
		must.OK(t, g.UnmarshalText([]byte(text)))
		if got, err := g.MarshalText(); err != nil || string(got) != cmp.Or(want, text) {
			t.Errorf("%s is %s, %v; want %s", text, got, err, cmp.Or(want, text))
		}
	}
	for _, text := range []string{
		"", `{"scopes":["payments:write"],"limits":[{"key":"key_a","amount":9,"count":0},{"key":"key_b","amount":8,"count":7}]}`,
		`{"scopes":["keys"],"limits":[{"key":"key_a","amount":0,"count":7}]}`, `{"scopes":["keys"],"max_amount":7}`,
		`{"scopes":["keys"],"book":true}`, `{"scopes":["webhooks"],"asset":"EURC"}`, `{"scopes":["keys"],"asset":"` + euro.String() + `"}`,
	} {
		if err := new(apikey.Grant).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a grant", text)
		}
	}
	if (apikey.Grant{}).May(apikey.Keys) {
		t.Error("the zero grant allows something")
	}
}
