package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// Webhooks checks that the store which open returns keeps the promises of webhook.Store. Every call of open may return
// the same store. Due may lag: the suite repeats it until its answer is right.
func Webhooks(t *testing.T, open func(t *testing.T) webhook.Store) {
	promises := slices.Concat(endpointPromises, sealedPromises, deliveryPromises, duePromises, hookBoundPromises)
	examine(t, promises, func(c tester) hookCheck { return hookCheck{c, open(c.T)} })
}

// A hookCheck examines one promise of webhook.Store.
type hookCheck struct {
	tester
	webhook.Store
}

// owner returns a new merchant's test mode.
func owner() webhook.Owner { return webhook.Owner{Merchant: "mer_" + rand.Text(), Mode: "test"} }

// endpoint returns a new endpoint with every field set. It is not stored.
func (c hookCheck) endpoint(o webhook.Owner, at time.Time) webhook.Endpoint {
	c.Helper()
	return webhook.Endpoint{
		Owner: o, ID: "we_" + rand.Text(), URL: "https://example.com/hook?a=%20b", EventTypes: []string{webhook.PaymentFailed},
		Description: "Crème & Søn 🧁", Status: webhook.Enabled, Secret: c.secret(), PreviousSecret: c.secret(),
		PreviousExpiresAt: at.Add(time.Hour), QuietSince: at.Add(-time.Hour), Exhausted: "evt_0", Slow: 4, RetryAt: at.Add(time.Minute),
		CreatedAt: at, EnabledAt: at.Add(time.Second), Version: 1,
	}
}

// added returns a new endpoint of o that is stored, of at most limit.
func (c hookCheck) added(o webhook.Owner, limit int) webhook.Endpoint {
	c.Helper()
	e := c.endpoint(o, noon)
	c.ok("adding an endpoint", c.AddEndpoint(c.Context(), e, limit))
	return e
}

// saved saves e and returns the stored endpoint.
func (c hookCheck) saved(e webhook.Endpoint) webhook.Endpoint {
	c.Helper()
	return must.Get(c.SaveEndpoint(c.Context(), e))(c)
}

// holds checks that e is the stored endpoint.
func (c hookCheck) holds(e webhook.Endpoint) {
	c.Helper()
	got := must.Get(c.Endpoint(c.Context(), e.Owner, e.ID))(c)
	c.same("stored endpoint", e, got)
}

// lists checks that want are the endpoints of o. No endpoints are an empty slice, never nil.
func (c hookCheck) lists(o webhook.Owner, want ...webhook.Endpoint) {
	c.Helper()
	got := must.Get(c.Endpoints(c.Context(), o))(c)
	c.same("list of endpoints", append([]webhook.Endpoint{}, want...), got)
}

func (c hookCheck) secret() webhook.Secret {
	c.Helper()
	return must.Get(webhook.MintSecret(rand.Reader))(c)
}

// deliveryOf returns a new pending delivery that is created at at.
func deliveryOf(o webhook.Owner, endpoint string, at time.Time) webhook.Delivery {
	salt := make([]byte, 10)
	_, _ = rand.Read(salt) // never fails
	id := webhook.FirstID(at)
	id = id[:len(id)-2*len(salt)] + hex.EncodeToString(salt)
	return webhook.Delivery{
		Ref: webhook.Ref{Owner: o, Endpoint: endpoint, Delivery: id},
		Event: webhook.Event{
			Merchant: o.Merchant, Mode: o.Mode, ID: "evt_" + rand.Text(), Type: webhook.PaymentConfirmed, At: at,
			Body: []byte("{\"id\":\"evt_1\" , \"data\":\"Söđ 🧁 \\u0000\u2028\"}"),
		},
		Status: webhook.Pending, NextAttemptAt: at, CreatedAt: at,
	}
}

func attemptAt(at time.Time, status int) webhook.Attempt {
	at = at.Add(123456789) // to the nanosecond
	return webhook.Attempt{At: at, StatusCode: status, Duration: 1234 * time.Millisecond,
		Error: "the endpoint answered", Response: "nö\x00\n"}
}

// tried returns d after another failed attempt, due an hour later.
func tried(d webhook.Delivery, at time.Time, parked bool) webhook.Delivery {
	d.Attempts = append(d.Attempts[:len(d.Attempts):len(d.Attempts)], attemptAt(at, 500))
	d.NextAttemptAt, d.Parked = at.Add(time.Hour), parked
	return d
}

// ended returns d with the status and no next attempt.
func ended(d webhook.Delivery, s webhook.DeliveryStatus) webhook.Delivery {
	d.Status, d.NextAttemptAt, d.Parked, d.EndedAt = s, time.Time{}, false, noon.Add(time.Hour)
	return d
}

// saveRefused checks that saving e is refused.
func (c hookCheck) saveRefused(e webhook.Endpoint, want error) {
	c.Helper()
	c.refused("saving an endpoint as "+string(e.Status), must.Err(c.SaveEndpoint(c.Context(), e)), want)
}

// full checks that o cannot add an endpoint to limit others.
func (c hookCheck) full(o webhook.Owner, limit int) {
	c.Helper()
	c.refused("adding one endpoint too many", c.AddEndpoint(c.Context(), c.endpoint(o, noon), limit), webhook.ErrLimit)
}

var endpointPromises = []promise[hookCheck]{
	{"an endpoint is read as it was stored", func(c hookCheck) {
		full := c.endpoint(owner(), noon)
		bare := webhook.Endpoint{
			Owner: full.Owner, ID: full.ID + "b", URL: full.URL, Status: webhook.Disabled, Secret: c.secret(),
			CreatedAt: noon, EnabledAt: noon, Version: 1,
		}
		for _, e := range []webhook.Endpoint{full, bare} {
			c.ok("adding an endpoint", c.AddEndpoint(c.Context(), e, 10))
			c.holds(e)
		}
	}},
	{"of 20 endpoints added at once exactly 10 get in", func(c hookCheck) {
		o := owner()
		added := c.wins(20, webhook.ErrLimit, func(ctx context.Context, _ int) error {
			return c.AddEndpoint(ctx, c.endpoint(o, noon), 10)
		})
		list := must.Get(c.Endpoints(c.Context(), o))(c)
		if len(added) != 10 || len(list) != 10 {
			c.Errorf("%d added, %d listed; want 10 each", len(added), len(list))
		}
	}},
	{"merchants and modes have their own endpoints and limits", func(c hookCheck) {
		mine := c.added(owner(), 1)
		for _, o := range []webhook.Owner{owner(), {Merchant: mine.Merchant, Mode: "live"}} {
			c.refused("another owner's", must.Err(c.Endpoint(c.Context(), o, mine.ID)), webhook.ErrNotFound)
			c.lists(o, c.added(o, 1))
		}
	}},
	{"endpoints are listed newest first", func(c hookCheck) {
		o := owner()
		var want []webhook.Endpoint
		for _, minute := range []int{3, 1, 2, 1} {
			e := c.endpoint(o, noon.Add(time.Duration(minute)*time.Minute))
			c.ok("adding an endpoint", c.AddEndpoint(c.Context(), e, 10))
			want = append(want, e)
		}
		slices.SortFunc(want, webhook.NewestFirst)
		c.lists(o, want...)
	}},
	{"of many racing saves one gets in", func(c hookCheck) {
		e := c.added(owner(), 10)
		c.winner(10, webhook.ErrConflict, func(ctx context.Context, i int) error {
			mine := e
			mine.QuietSince = noon.Add(time.Duration(i) * time.Minute)
			return must.Err(c.SaveEndpoint(ctx, mine))
		})
	}},
	{"a deleted endpoint makes room and stays readable", func(c hookCheck) {
		gone := c.added(owner(), 1)
		gone.Status, gone.DeletedAt = webhook.Deleted, noon
		gone = c.saved(gone)
		c.holds(gone)
		c.lists(gone.Owner)
		for _, status := range []webhook.Status{webhook.Enabled, webhook.Deleted} {
			again := gone
			again.Status = status
			c.saveRefused(again, webhook.ErrNotFound)
		}
		c.added(gone.Owner, 1)
		c.full(gone.Owner, 1)
	}},
}

// named seals a secret by putting the endpoint's id in front; a store writes base64 of it.
func named(_ context.Context, endpoint string, b []byte) ([]byte, error) {
	return append([]byte(endpoint), b...), nil
}

// unnamed reverses named.
func unnamed(_ context.Context, endpoint string, b []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(b, []byte(endpoint))
	if !ok {
		return nil, errors.New("another endpoint's")
	}
	return rest, nil
}

// sealedPromises are of a store behind webhook.Sealed: it never has a secret in clear that
// was sealed, and keeps the text as it is.
var sealedPromises = []promise[hookCheck]{
	{"a sealed secret is never stored in clear, and opens when a delivery is loaded", func(c hookCheck) {
		sealing, opening := webhook.Sealed{Store: c.Store, Seal: named}, webhook.Sealed{Store: c.Store, Open: unnamed}
		e := c.endpoint(owner(), noon)
		c.ok("adding", sealing.AddEndpoint(c.Context(), e, 1))
		d := deliveryOf(e.Owner, e.ID, noon)
		c.add(d)
		hidden := must.Get(c.Endpoint(c.Context(), e.Owner, e.ID))(c)
		if hidden.Secret.Reveal() != "" || hidden.PreviousSecret.Reveal() != "" || hidden.Secret.IsZero() {
			c.Errorf("the store has the secrets %q and %q", hidden.Secret.Stored(), hidden.PreviousSecret.Stored())
		}
		signs := func(want ...webhook.Secret) {
			c.Helper()
			got, _, err := opening.Load(c.Context(), d.Ref)
			c.ok("loading", err)
			if got.Secret.Reveal() != want[0].Reveal() || got.PreviousSecret.Reveal() != want[1].Reveal() {
				c.Errorf("loaded were other secrets than were added")
			}
			hidden = got
		}
		signs(e.Secret, e.PreviousSecret)

		// A process that opens, and one without the key, write the sealed text as it was.
		before := hidden.Secret.Stored()
		hidden = must.Get(opening.SaveEndpoint(c.Context(), hidden))(c)
		hidden = must.Get(c.Endpoint(c.Context(), e.Owner, e.ID))(c)
		hidden.Description = "changed"
		hidden = c.saved(hidden)
		if hidden.Secret.Stored() != before || hidden.Secret.Reveal() != "" {
			c.Errorf("%q became %q", before, hidden.Secret.Stored())
		}

		// A rotation returns the new secret once; the old one stays sealed beside it.
		fresh := c.secret()
		hidden.PreviousSecret, hidden.Secret = hidden.Secret, fresh
		rotated := must.Get(sealing.SaveEndpoint(c.Context(), hidden))(c)
		if rotated.Secret.Reveal() != fresh.Reveal() {
			c.Errorf("the merchant is shown %q", rotated.Secret.Reveal())
		}
		signs(fresh, e.Secret)
	}},
}
