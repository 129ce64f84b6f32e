package apikey_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/storetest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestStoreOutage: nothing is told that may not be stored. Applied or not, a call succeeds when it is repeated.
func TestStoreOutage(t *testing.T) {
	for method, want := range map[string]int{"Create": 1, "Issue": 1, "List": 2, "Named": 2, "Replace": 1, "Revoke": 1} {
		for _, applied := range []bool{false, true} {
			s, registry, m := stack(t)
			s.failing, s.applied = method, applied
			lost := 0
			note := func(made apikey.Minted, err error) {
				if errors.Is(err, errLost) && made == (apikey.Minted{}) {
					lost++
				}
			}
			note(registry.Create(t.Context(), "Shop", apikey.KeyRequest{}))
			note(registry.Issue(t.Context(), m.Key, apikey.KeyRequest{}, silent))
			note(registry.Rotate(t.Context(), m.Key, m.Key.ID, time.Hour, silent))
			note(apikey.Minted{}, must.Err(registry.Revoke(t.Context(), m.Key, m.Key.ID)))
			note(apikey.Minted{}, must.Err(registry.Store.List(t.Context(), m.Key.MerchantID)))
			if lost != want {
				t.Errorf("%s fails, applied %v: %d calls failed, want %d", method, applied, lost, want)
			}
			s.failing = ""
			must.Get(registry.Rotate(t.Context(), m.Key, m.Key.ID, time.Hour, silent))(t)
			if k := must.Get(registry.Revoke(t.Context(), m.Key, m.Key.ID))(t); k.Valid(noon) {
				t.Errorf("%s failed, applied %v: %+v is not revoked", method, applied, k)
			}
		}
	}
}

var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

var errLost = errors.New("connection reset")

// A store counts its calls and fails those of one method with errLost, before they are applied or, with applied, after.
type store struct {
	interpose.Keys
	mu      sync.Mutex
	calls   map[string]int
	failing string
	applied bool
}

func (s *store) around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	s.mu.Lock()
	s.calls[c.Op]++
	s.mu.Unlock()
	if c.Op != s.failing || s.applied {
		apply(ctx)
	}
	return map[bool]error{true: errLost}[c.Op == s.failing]
}

// silent announces nothing.
func silent(context.Context, apikey.Key) error { return nil }

// stack returns a test-mode stack with one merchant, whose key was made at noon.
func stack(t *testing.T) (*store, *apikey.Registry, apikey.Minted) {
	t.Helper()
	s := &store{calls: map[string]int{}}
	s.Keys = interpose.Keys{Store: new(memory.APIKeys), Around: s.around}
	registry := &apikey.Registry{Store: s, Mode: apikey.Test, Now: func() time.Time { return noon }, Random: storetest.Random(3)}
	return s, registry, must.Get(registry.Create(t.Context(), "Shop", apikey.KeyRequest{}))(t)
}

func TestAuthenticate(t *testing.T) {
	f, registry, m := stack(t)
	auth := &apikey.Authenticator{Keys: f, Mode: apikey.Test}
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
		{"a revoked key, by a clock that is behind", gone.Secret.Reveal(), noon.Add(-time.Hour), apikey.ErrInvalid, 1},
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
			if (who.MerchantID == "") != (test.want != nil) {
				t.Errorf("principal = %+v", who)
			}
		})
	}
}

func TestStoreOutageIsNotARefusal(t *testing.T) {
	f, _, m := stack(t)
	for _, method := range []string{"Find", "Terms"} {
		f.failing = method
		_, err := (&apikey.Authenticator{Keys: f, Mode: apikey.Test}).Authenticate(t.Context(), m.Secret.Reveal(), noon)
		if !errors.Is(err, errLost) || errors.Is(err, apikey.ErrInvalid) {
			t.Errorf("%s fails: %v, want the store's error", method, err)
		}
	}
}

func TestUseIsRecordedOnceAMinute(t *testing.T) {
	f, _, m := stack(t)
	auth := &apikey.Authenticator{Keys: f, Mode: apikey.Test}
	for second := range 180 {
		must.Get(auth.Authenticate(t.Context(), m.Secret.Reveal(), noon.Add(time.Duration(second)*time.Second)))(t)
	}
	if touches := f.calls["Touch"]; touches != 3 {
		t.Errorf("%d writes in three minutes of requests, want 3", touches)
	}
	if k, err := f.Store.Find(t.Context(), m.Key.Hash); err != nil || !k.LastUsedAt.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("LastUsedAt = %v, %v", k.LastUsedAt, err)
	}
}

func mint(t testing.TB, mode apikey.Mode) apikey.Secret {
	t.Helper()
	return apikey.Mint(storetest.Random(7), mode)
}

// TestGolden fixes the format: keys in merchants' hands must go on being read.
// The checksums were computed with another implementation of CRC-32.
func TestGolden(t *testing.T) {
	for _, key := range []string{
		"remit_test_0aB1cD2eF3gH_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg1K7XZ5",
		"remit_live_zzzzzzzzzzzz_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz0N3G6b",
		"remit_test_000000000000_00000000000000000000000000000000000000000040t32JA", // a checksum with a leading zero
	} {
		if s, err := apikey.Parse(key); err != nil || s.Reveal() != key {
			t.Errorf("Parse(%q) = %v, %v", key, s, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	test, live := mint(t, apikey.Test).Reveal(), mint(t, apikey.Live).Reveal()
	body := test[:len(test)-6]
	words := map[string]string{"key": test, "live": live, "prefix": mint(t, apikey.Test).Prefix(), "KEY": strings.ToUpper(test),
		"other scheme": summed(strings.Replace(body, "remit", "remix", 1)), "_prod_": strings.Replace(test, "_test_", "_prod_", 1),
		"_prod_ summed": summed(strings.Replace(body, "_test_", "_prod_", 1)), "_live_": strings.Replace(test, "_test_", "_live_", 1),
		"no mark": summed(strings.Replace(body, "_test_", "_test.", 1)), "no id": summed(body[:23] + "." + body[24:]),
		"marked id": summed(body[:12] + "_" + body[13:]), "marked": summed(body[:30] + "_" + body[31:]),
		"not UTF-8": test[:20] + "\xff" + test[21:], "alike": strings.Replace(test, "e", "е", 1)[:len(test)]}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		if _, err := apikey.Parse(c.In[0]); !errors.Is(err, apikey.ErrInvalid) {
			t.Errorf("error = %v, want ErrInvalid", err)
		}
	})
}

// summed returns a key's text with its checksum.
func summed(body string) string {
	n, sum := crc32.ChecksumIEEE([]byte(body)), ""
	for range 6 {
		sum = string("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[n%62]) + sum
		n /= 62
	}
	return body + sum
}

func FuzzParse(f *testing.F) {
	f.Add(mint(f, apikey.Test).Reveal())
	f.Add("remit_live_")
	f.Fuzz(func(t *testing.T, in string) {
		s, err := apikey.Parse(in)
		if (err == nil) != (s.Reveal() != "") {
			t.Fatalf("Parse(%q) = %v, %v", in, s, err)
		}
		if err == nil && s.Reveal() != in {
			t.Fatalf("Parse(%q) holds %q", in, s.Reveal())
		}
	})
}

func TestSecretIsNotPrinted(t *testing.T) {
	s := mint(t, apikey.Test)
	hidden := s.Reveal()[len(s.Prefix())+1:]
	m := apikey.Minted{Secret: s}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("minted", "secret", s, "minted", m, "pointer", &m)
	slog.New(slog.NewTextHandler(&log, nil)).Info("minted", "secret", s, "minted", m)
	printed := log.String() + string(must.Get(json.Marshal(m))(t))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		printed += fmt.Sprintf(verb, s) + fmt.Sprintf(verb, &s) + fmt.Sprintf(verb, m) + fmt.Sprintf(verb, &m)
	}
	if got := fmt.Sprint(s); got != s.Prefix()+"_…" {
		t.Errorf("a secret prints as %q", got)
	}
	for i := range len(hidden) - 6 {
		if part := hidden[i : i+7]; strings.Contains(printed, part) {
			t.Fatalf("the key's characters %q are in %s", part, printed)
		}
	}
	if got := fmt.Sprint(apikey.Secret{}); got != "(no key)" {
		t.Errorf("the zero secret prints as %q", got)
	}
}

// TestEveryDigitIsAsLikely: bytes from 248 on, 4 times 62, are passed over. Nothing is made with too little randomness.
func TestEveryDigitIsAsLikely(t *testing.T) {
	want := apikey.Mint(strings.NewReader("\xf7"+strings.Repeat("a", 54)), apikey.Test)
	got := apikey.Mint(strings.NewReader("\xf8\xff\xf7"+strings.Repeat("a", 54)), apikey.Test)
	if got != want {
		t.Errorf("minted %s, want %s", got.Reveal(), want.Reveal())
	}
	defer func() { _ = recover() }()
	t.Errorf("minted %s of 54 bytes", apikey.Mint(strings.NewReader(strings.Repeat("a", 54)), apikey.Test).Reveal())
}

// TestTermsOfAssets: each asset has limits of its own, and terms that were read stay as they are.
func TestTermsOfAssets(t *testing.T) {
	five, six := apikey.AssetTerms{Maximum: token.Units(5)}, apikey.AssetTerms{Daily: token.Units(6)}
	read := apikey.Terms{}.With(token.Coin{}, five).With(euro, six)
	if text := read.Text(); text != `{"max_amount":5,"assets":{"`+euro.String()+`":{"daily_amount":6}}}` {
		t.Error(text)
	}
	changed := read.With(token.Coin{}, six).With(euro, apikey.AssetTerms{})
	if read.Of(token.Coin{}) != five || read.Of(euro) != six || changed.Text() != `{"daily_amount":6}` || read.Of(usd) != (apikey.AssetTerms{}) {
		t.Errorf("%+v became %+v", read, changed)
	}
}

func TestTermsText(t *testing.T) {
	for want, terms := range map[string]apikey.Terms{
		"": {}, `{"suspended":"fraud","max_amount":5}`: {Suspended: "fraud", AssetTerms: apikey.AssetTerms{Maximum: token.Units(5)}},
	} {
		if got, err := apikey.ParseTerms(want); err != nil || !reflect.DeepEqual(got, terms) || terms.Text() != want {
			t.Errorf("%+v is %s; read as %+v, %v", terms, terms.Text(), got, err)
		}
	}
	if _, err := apikey.ParseTerms("{"); err == nil {
		t.Error("half an object is read")
	}
}

func TestCheckName(t *testing.T) {
	outcomes := map[string]error{
		"taken": nil, "blank": apikey.ErrNameBlank, "too long": apikey.ErrNameTooLong,
		"control": apikey.ErrNameControl, "encoding": apikey.ErrNameEncoding,
	}
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		if err := apikey.CheckName(c.In[0]); !errors.Is(err, outcomes[c.Want]) {
			t.Errorf("CheckName(%q) = %v, want %v", c.In[0], err, outcomes[c.Want])
		}
	})
}

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
