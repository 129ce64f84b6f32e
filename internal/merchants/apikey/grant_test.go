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

// TestRotate: a key of an hour rotates itself in its overlap, and its successor ends when it would have.
func TestRotate(t *testing.T) {
	_, registry, m := stack(t)
	by := must.Get(registry.Issue(t.Context(), m.Key, apikey.KeyRequest{Scopes: []apikey.Scope{apikey.Keys}, Life: time.Hour}, silent))(t).Key
	ending := by
	ending.ExpiresAt = noon.Add(time.Minute)
	for _, overlap := range []time.Duration{0, apikey.MaxOverlap} {
		next, err := registry.Rotate(t.Context(), ending, by.ID, overlap, silent)
		if err != nil || !next.Key.ExpiresAt.Equal(noon.Add(time.Hour)) {
			t.Errorf("for %v more: %+v, %v", overlap, next.Key, err)
		}
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
	if k, err := s.Store.Find(t.Context(), m.Key.Hash); err != nil || !k.Valid(noon) {
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
	s, _, _ := stack(t)
	now := noon
	registry := &apikey.Registry{Store: s, Mode: apikey.Test, Now: func() time.Time { return now }, Random: storetest.Random(5)}
	m := must.Get(registry.Create(t.Context(), "Shop", apikey.KeyRequest{Life: time.Hour}))(t)
	who := apikey.Principal{MerchantID: m.Key.MerchantID, KeyID: m.Key.ID, Mode: apikey.Test, Hash: m.Key.Hash, Grant: m.Key.Grant}
	if k, err := registry.Asking(t.Context(), who); err != nil || k != m.Key {
		t.Errorf("%+v, %v", k, err)
	}
	s.failing = "Find"
	if _, err := registry.Asking(t.Context(), who); !errors.Is(err, errLost) || errors.Is(err, apikey.ErrInvalid) {
		t.Errorf("with a store that is down: %v", err)
	}
	s.failing = ""
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
