package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestSuspended: a suspended merchant may read, and every other endpoint that needs a key refuses it;
// limits of its own reach the engine in place of the stack's.
func TestSuspended(t *testing.T) {
	a := newAPI(t)
	limited := apikey.Terms{AssetTerms: apikey.AssetTerms{Own: "1", Maximum: token.Units(7), Daily: token.Units(9)}}
	limited.Assets = map[string]apikey.AssetTerms{words["eurc"]: {Maximum: token.Units(8)}}
	must.OK(t, a.keyStore.SetTerms(t.Context(), a.merchant, apikey.Terms{}, limited))
	a.pay().want(t, 201)
	a.post("/send-payment", `{"to":"`+alice+`","amount":1,"asset":"`+words["eurc"]+`"}`).want(t, 201)
	for i, want := range []apikey.AssetTerms{limited.AssetTerms, {Maximum: token.Units(8)}} {
		if got := a.payments.got[i].Key; got.OwnWallets != (want.Own != "") ||
			got.MerchantMaximum != want.Maximum || got.MerchantDaily != want.Daily {
			t.Errorf("the engine was told of %+v", got)
		}
	}
	must.OK(t, a.keyStore.SetTerms(t.Context(), a.merchant, limited, apikey.Terms{Suspended: "a stolen key"}))
	for _, r := range httpapi.Routes {
		got := a.send(r.Method, concrete(r.Path), "")
		refused := got.status == 403 && got.member(t, "code") == "merchant_suspended" && !strings.Contains(got.body, "stolen")
		if r.Scopes != 0 && refused == (r.Method == "GET") {
			t.Errorf("%s %s: %d %s", r.Method, r.Path, got.status, got.body)
		}
	}
}

// TestScopes: every endpoint that needs a key takes one with one of its scopes alone, and none with all others.
func TestScopes(t *testing.T) {
	seen := apikey.Scopes(0)
	for _, r := range httpapi.Routes {
		if r.Scopes == 0 {
			continue
		}
		others := apikey.Full().Scopes &^ r.Scopes
		if others != 0 {
			seen |= r.Scopes
		}
		with := [][]apikey.Scope{others.List()}
		for _, s := range r.Scopes.List() {
			with = append(with, []apikey.Scope{s})
		}
		for i, scopes := range with {
			if len(scopes) == 0 {
				continue
			}
			a := newAPI(t)
			a.restrict(string(must.Get(json.Marshal(map[string]any{"scopes": scopes}))(t)))
			if got := a.send(r.Method, concrete(r.Path), ""); (got.status == 403) != (i == 0) {
				t.Errorf("%s %s with %v: %d %s", r.Method, r.Path, scopes, got.status, got.body)
			}
		}
	}
	if seen != apikey.Full().Scopes {
		t.Errorf("endpoints need %v", seen.List())
	}
}

// TestGrants: a key makes, rotates or revokes none with a scope it lacks, and makes or rotates none that ends later.
func TestGrants(t *testing.T) { answers(t, newAPI, "%s") }

func TestIssuedKeys(t *testing.T) { answers(t, newAPI, "POST /api-keys %s") }

// TestLimitsReachTheEngine: the limits of a key go with what it pays and approves, and count for its rotations.
func TestLimitsReachTheEngine(t *testing.T) {
	a := newAPI(t)
	first := a.key
	a.pay().want(t, 201)
	made := a.post("/api-keys", `{"daily_amount":100,"daily_count":5,"max_amount":60,"recipients":"book","repeat_guard_seconds":60}`)
	id := made.member(t, "id")
	rotated := a.post("/api-keys/"+id+"/rotate", "")
	for _, key := range []answered{made, rotated} {
		a.key = key.member(t, "api_key")
		a.pay().want(t, 201)
	}
	limits := payment.KeyLimits{Maximum: token.Units(60), Book: true, Guard: time.Minute,
		Daily: payment.DailyLimit{Key: id, Amount: token.Units(100), Count: 5}}
	var got []payment.KeyLimits
	for _, r := range a.payments.got {
		got = append(got, r.Key)
	}
	a.post("/proposals", words["proposed"], "Idempotency-Key: order-2041", "X-Api-Key: "+first).want(t, 201)
	a.post("/proposals/"+words["proposal"]+"/approve", "").want(t, 200)
	p := must.Get(a.payments.Proposal(t.Context(), proposal.Payment(words["proposal"])))(t)
	got = append(got, p.Approver.Limits)
	if want := []payment.KeyLimits{{}, limits, limits, limits}; !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestARevokedKeyMakesNoKey: nor does it see itself, also while API Gateway remembers that it was good.
func TestARevokedKeyMakesNoKey(t *testing.T) {
	a := newAPI(t)
	id := a.keyID()
	by := apikey.Key{MerchantID: a.merchant, Grant: apikey.Full()}
	k := must.Get(a.keys.Revoke(t.Context(), by, id))(t)
	remembered := apikey.Principal{MerchantID: a.merchant, KeyID: id, Mode: apikey.Test, Hash: k.Hash, Grant: k.Grant}
	for route, e := range map[string]httpapi.Endpoint{
		"POST /api-keys":                   httpapi.IssueAPIKey(a.keys, a.hooks, a.readAssets),
		"POST /api-keys/" + id + "/rotate": httpapi.RotateAPIKey(a.keys, a.hooks),
		"POST /api-keys/" + id + "/revoke": httpapi.RevokeAPIKey(a.keys),
		"GET /api-keys/self":               httpapi.ListAPIKeys(a.keys).With(httpapi.GetOwnAPIKey(a.keys, a.payments, nil)),
	} {
		method, path, _ := strings.Cut(route, " ")
		r := a.request(method, path, "{}")
		a.serve(e, r.WithContext(apikey.WithPrincipal(r.Context(), remembered))).want(t, 401)
	}
}

func TestRecipientEntries(t *testing.T) {
	begin := func(t *testing.T) *api {
		a := newAPI(t)
		must.OK(t, a.payments.Register(t.Context(), wallet.Registration{ID: wallet.ID{ChainID: 84532, Address: ownWallet},
			Token: closed.Contract, State: wallet.Retired, Key: wallet.InSecret}))
		return a
	}
	answers(t, begin, "POST /recipients %s")
}

// TestResembling: an entry that another address of the merchant may be mistaken for comes with a warning, and is
// stored. A key that may not read payments learns no address of them.
func TestResembling(t *testing.T) { answers(t, newAPI, "%s") }

func alike(n byte) string { return token.Address{0: 0xab, 1: 0xcd, 9: n, 18: 0x12, 19: 0x34}.String() }

// resembles returns a warning of an address, or of one that is not told.
func resembles(of string) string {
	return `"Resembles ` + of + `: the same first and last four digits. Compare all of them before you pay it."`
}

type unlisted struct{ store.Store }

func (unlisted) List(context.Context, store.Filter) ([]payment.Payment, store.Position, error) {
	return nil, store.Position{}, store.ErrUnreadable
}

// TestCreationsAreAnnounced: new keys and entries are announced in the form in which they are listed.
func TestCreationsAreAnnounced(t *testing.T) {
	a := newAPI(t)
	a.now = a.now.Add(time.Second)
	a.post("/api-keys", `{"label":"till 3"}`).want(t, 201)
	a.now = a.now.Add(time.Second)
	a.post("/api-keys/"+a.keyID()+"/rotate", ``).want(t, 201)
	a.post("/recipients", `{"address":"`+alice+`"}`).want(t, 201)
	a.post("/recipients", `{"address":"`+alice+`"}`).want(t, 200) // tells nothing new
	listed := a.get("/api-keys").body
	entries := a.get("/recipients").body
	for i, want := range []struct{ kind, list string }{{webhook.KeyCreated, listed}, {webhook.KeyCreated, listed},
		{webhook.RecipientCreated, entries}} {
		if i >= len(a.hooks.events) {
			t.Fatalf("%d events", len(a.hooks.events))
		}
		e := a.hooks.events[i]
		data := must.Get(json.Marshal(e.data))(t)
		if e.kind != want.kind || e.owner != (webhook.Owner{Merchant: a.merchant, Mode: "test"}) || !strings.Contains(want.list, string(data)) {
			t.Errorf("event %d: %s of %v: %s\nlisted is %s", i, e.kind, e.owner, data, want.list)
		}
	}
	if len(a.hooks.events) != 3 {
		t.Errorf("%d events", len(a.hooks.events))
	}
}

func (got answered) member(t *testing.T, name string) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatalf("%v in %s", err, got.body)
	}
	return fmt.Sprint(body[name])
}

// TestOverlaps: 0 to 604800 seconds, a day by default.
func TestOverlaps(t *testing.T) { answers(t, newAPI, "POST /api-keys/"+words["key"]+"/rotate %s") }

func TestMerchantNames(t *testing.T) { answers(t, newAPI, `POST /create-api-key {"merchant_name":%s}`) }

// TestEndedKeysStopAtOnce: the functions that pay do not trust an answer of the authorizer that was kept.
func TestEndedKeysStopAtOnce(t *testing.T) {
	a := newAPI(t)
	minted := a.otherMerchant()
	send := httpapi.SendPayment(a.payments, a.payments, a.readAssets).Current(a.keyStore, func() time.Time { return a.now })
	k := minted.Key
	kept := apikey.Principal{MerchantID: k.MerchantID, KeyID: k.ID, Mode: k.Mode, Hash: k.Hash, Grant: k.Grant}
	ask := func(want int) {
		t.Helper()
		q := httptest.NewRequest(http.MethodPost, "/send-payment", strings.NewReader(`{"to":"0x8ba1f109551bd432803012645ac136ddd64dba72","amount":1000000}`))
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		send.ServeHTTP(w, q.WithContext(apikey.WithPrincipal(t.Context(), kept)))
		if w.Code != want {
			t.Errorf("%d, want %d: %s", w.Code, want, w.Body)
		}
	}
	ask(http.StatusCreated)
	must.OK(t, a.keyStore.SetTerms(t.Context(), k.MerchantID, apikey.Terms{}, apikey.Terms{Suspended: "stolen"}))
	ask(http.StatusForbidden)
	must.OK(t, a.keyStore.SetTerms(t.Context(), k.MerchantID, apikey.Terms{Suspended: "stolen"}, apikey.Terms{}))
	ask(http.StatusCreated)
	must.Get(a.keyStore.Revoke(t.Context(), k.MerchantID, k.Hash, a.now))(t)
	ask(http.StatusUnauthorized)
}
