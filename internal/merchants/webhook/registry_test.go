package webhook_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func TestWhatIsNotYoursIsNotFound(t *testing.T) {
	w, e := delivered(t)
	gone := w.register(mine, hook)
	must.OK(t, w.registry.Delete(t.Context(), mine, gone.ID))
	for why, r := range map[string]webhook.Ref{
		"another merchant's": {Owner: webhook.Owner{Merchant: "mer_2", Mode: "live"}, Endpoint: e.ID},
		"of the other mode":  {Owner: webhook.Owner{Merchant: "mer_1", Mode: "test"}, Endpoint: e.ID},
		"deleted":            {Owner: mine, Endpoint: gone.ID},
	} {
		o, id := r.Owner, r.Endpoint
		_, readErr := w.listed(o, id)
		if why == "deleted" { // its log stays readable
			must.OK(t, readErr)
			readErr = webhook.ErrNotFound
		}
		for name, err := range map[string]error{
			"Update":       must.Err(w.registry.Update(t.Context(), o, id, disable)),
			"Delete":       w.registry.Delete(t.Context(), o, id),
			"RotateSecret": must.Err(w.registry.RotateSecret(t.Context(), o, id, 0)),
			"Test":         must.Err(w.tester.Test(t.Context(), o, id)),
			"Resend":       must.Err(w.log.Resend(t.Context(), o, id, w.newest(e).Delivery)),
			"Deliveries":   readErr,

			"Resend, of no delivery's id": must.Err(w.log.Resend(t.Context(), o, id, "xyz")),
		} {
			if !errors.Is(err, webhook.ErrNotFound) {
				t.Errorf("%s, %s: %v", name, why, err)
			}
		}
	}
	for _, id := range []string{webhook.FirstID(noon), "xyz"} {
		if err := w.resend(e, webhook.Delivery{Ref: webhook.Ref{Delivery: id}}); !errors.Is(err, webhook.ErrDeliveryNotFound) {
			t.Errorf("an unknown delivery: %v", err)
		}
	}
}

func TestTestPostsOnce(t *testing.T) {
	w := newFixture(t)
	e := w.register(mine, hook, webhook.PaymentFailed) // tests need no subscription
	w.answers[hook] = []webhook.Answer{{StatusCode: 500, Body: []byte("oh no")}}
	w.took = 20 * time.Millisecond
	a, err := w.tester.Test(t.Context(), mine, e.ID)
	want := webhook.Attempt{At: noon, StatusCode: 500, Duration: w.took, Error: "the endpoint answered 500", Response: "oh no"}
	must.OK(t, err)
	if diff := cmp.Diff(want, a); diff != "" {
		t.Error(diff)
	}
	w.drain()
	w.has(1, 0)
	w.verified(w.posts[0], e.Secret)
	if body := regexp.MustCompile(`evt_[0-9a-f]{24}`).ReplaceAllString(w.posts[0].body, "evt_X"); body !=
		`{"id":"evt_X","type":"webhook.test","timestamp":"2026-01-02T12:00:00.000Z","data":{"webhook_id":"`+e.ID+`"}}` {
		t.Errorf("body %s", body)
	}
	if log, err := w.listed(mine, e.ID); err != nil || len(log) != 0 {
		t.Errorf("%d deliveries in the log, %v", len(log), err)
	}
	w.answers[hook] = statuses(0)
	if a, err := w.tester.Test(t.Context(), mine, e.ID); err != nil || a.StatusCode != 0 || a.Error != "no answer in time" {
		t.Errorf("no answer: %+v, %v", a, err)
	}
	w.change(e, disable)
	if _, err := w.tester.Test(t.Context(), mine, e.ID); !errors.Is(err, webhook.ErrDisabled) {
		t.Errorf("disabled: %v", err)
	}
}

func mint() webhook.Secret { return webhook.MintSecret(rand.Reader) }

func TestSecretShape(t *testing.T) {
	s := webhook.MintSecret(bytes.NewReader(make([]byte, 32)))
	if s.Reveal() != "whsec_"+strings.Repeat("A", 43)+"=" {
		t.Errorf("%q", s.Reveal())
	}
	func() {
		defer func() { _ = recover() }()
		webhook.MintSecret(bytes.NewReader(make([]byte, 31)))
		t.Error("31 random bytes are enough")
	}()
	for _, bad := range []string{"", "whsec_", "whsec_AAA", "AAAA", "whsec_AA A=", "WHSEC_AAAA", "whsec_AAAA\n"} {
		if _, err := webhook.ParseSecret(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) && bad != "whsec_" {
			t.Errorf("ParseSecret(%q): %v", bad, err)
		}
	}
}

// TestNothingPrintsASecret: neither a log line nor an endpoint encoded by mistake.
func TestNothingPrintsASecret(t *testing.T) {
	s := mint()
	e := webhook.Endpoint{ID: "we_1", Secret: s, PreviousSecret: s}
	encoded := must.Get(json.Marshal(e))(t)
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("endpoint", "e", e, "s", s)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("endpoint", "e", e, "s", s)
	for _, out := range []string{
		fmt.Sprint(s), fmt.Sprintf("%+v %#v %q %x", s, s, s, s), fmt.Sprintf("%+v %#v %v", e, e, &e), string(encoded), logged.String(),
	} {
		if strings.Contains(out, s.Reveal()[6:20]) || strings.Contains(out, fmt.Sprintf("%x", s.Reveal()[6:20])) {
			t.Errorf("it is in %s", out)
		}
	}
}

// TestRotation: both secrets sign until the old one's time is over, then one.
func TestRotation(t *testing.T) {
	w, old := registered(t)
	fresh := must.Get(w.registry.RotateSecret(t.Context(), mine, old.ID, time.Hour))(t)
	signed := func(n int, secrets ...webhook.Secret) {
		t.Helper()
		w.mustPublish(w.numbered(n))
		w.drain()
		last := w.posts[len(w.posts)-1]
		for _, s := range secrets {
			w.verified(last, s)
		}
		if entries := strings.Fields(last.header.Get(webhook.HeaderSignature)); len(entries) != len(secrets) {
			t.Errorf("signatures %v, want %d", entries, len(secrets))
		}
	}
	signed(1, old.Secret, fresh.Secret)
	w.clock = w.now().Add(time.Hour)
	signed(2, fresh.Secret)
	at := must.Get(w.registry.RotateSecret(t.Context(), mine, old.ID, 0))(t)
	signed(3, at.Secret)
	if !at.PreviousSecret.IsZero() {
		t.Error("rotating at once keeps the old secret")
	}
}

// TestSealed: sealed secrets that cannot be opened sign nothing.
func TestSealed(t *testing.T) {
	w, e := published(t)
	as := func(text string, err error) func(context.Context, string, []byte) ([]byte, error) {
		return func(context.Context, string, []byte) ([]byte, error) { return []byte(text), err }
	}
	must.Get(webhook.Sealed{Store: w.store, Seal: as("x", nil)}.SaveEndpoint(t.Context(), e))(t)
	for _, test := range []struct {
		open func(context.Context, string, []byte) ([]byte, error)
		want string // in the error
	}{{nil, "is sealed: give"}, {as("nonsense", nil), "opening the secret of " + e.ID}} {
		err := w.delivererOf(webhook.Sealed{Store: w.store, Open: test.open}, w).Deliver(t.Context(), w.made[0])
		if err == nil || !strings.Contains(err.Error(), test.want) || len(w.posts) > 0 {
			t.Errorf("%v, want %q; %d posts", err, test.want, len(w.posts))
		}
	}
	for text, ok := range map[string]bool{
		mint().Reveal(): true, "nonsense": false, "sealed_eA==": true, "sealed_": false, "sealed_!": false,
	} {
		if s, err := webhook.ParseStored(text); (err == nil) != ok || ok && s.Stored() != text {
			t.Errorf("ParseStored(%q) = %q, %v", text, s.Stored(), err)
		}
	}
}

// TestSealedSecretsStaySealed: the store never has a sealed secret in clear, and a delivery is signed with it, though
// processes with the key and without it write the endpoint.
func TestSealedSecretsStaySealed(t *testing.T) {
	w, e := published(t)
	sealing := webhook.Sealed{Store: w.store, Seal: func(_ context.Context, id string, b []byte) ([]byte, error) {
		return append([]byte(id), b...), nil
	}}
	opening := webhook.Sealed{Store: w.store, Open: func(_ context.Context, id string, b []byte) ([]byte, error) {
		return bytes.TrimPrefix(b, []byte(id)), nil
	}}
	old, secret, fresh := mint(), mint(), mint()
	e.PreviousSecret, e.Secret = old, secret
	signs := func(by webhook.Store, want, before webhook.Secret) (shown webhook.Endpoint) {
		t.Helper()
		shown = must.Get(by.SaveEndpoint(t.Context(), e))(t)
		e = must.Get(w.store.Endpoint(t.Context(), e.Owner, e.ID))(t)
		got, _, _ := opening.Load(t.Context(), webhook.Ref{Owner: e.Owner, Endpoint: e.ID})
		if got.Secret.Reveal() != want.Reveal() || got.PreviousSecret.Reveal() != before.Reveal() ||
			e.Secret.Reveal()+e.PreviousSecret.Reveal() != "" {
			t.Errorf("the store has %q", e.Secret.Stored())
		}
		return shown
	}
	signs(sealing, secret, old)
	signs(w.store, secret, old)
	e, _, _ = opening.Load(t.Context(), webhook.Ref{Owner: e.Owner, Endpoint: e.ID})
	signs(opening, secret, old)
	e.PreviousSecret, e.Secret = e.Secret, fresh
	if shown := signs(sealing, fresh, secret).Secret.Reveal(); shown != fresh.Reveal() {
		t.Errorf("the merchant is shown %q", shown)
	}
}

// TestATestWaitsFiveSeconds: a merchant's endpoint that never answers holds a function for so long.
func TestATestWaitsFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := registered(t)
		began := time.Now()
		silence := sending(func(ctx context.Context, _ string, _ http.Header, _ []byte) (webhook.Answer, error) {
			<-ctx.Done()
			return webhook.Answer{}, ctx.Err()
		})
		tester := &webhook.Tester{Store: webhook.Sealed{Store: w.store}, Sender: silence, Now: time.Now, Random: rand.Reader}
		a, err := tester.Test(t.Context(), mine, e.ID)
		if took := time.Since(began); err != nil || took != 5*time.Second || a.Duration != took ||
			a.Error != "the endpoint did not answer within 5 seconds" {
			t.Errorf("after %v: %+v, %v", took, a, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tester.Test(ctx, mine, e.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a function whose time is over: %v", err)
		}
	})
}
