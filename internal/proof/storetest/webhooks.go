package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// Webhooks checks that the store which open returns keeps those promises of webhook.Store that no run of Alike reaches.
// Every call of open may return the same store. Due may lag: the suite repeats it until its answer is right.
func Webhooks(t *testing.T, open func(t *testing.T) webhook.Store) {
	examine(t, hookPromises, func(c tester) hookCheck { return hookCheck{c, open(c.T)} })
}

// A hookCheck examines one promise of webhook.Store.
type hookCheck struct {
	tester
	webhook.Store
}

// owner returns a new merchant's test mode.
func owner() webhook.Owner { return webhook.Owner{Merchant: "mer_" + rand.Text(), Mode: "test"} }

// endpoint returns a new endpoint. It is not stored.
func (c hookCheck) endpoint(o webhook.Owner) webhook.Endpoint {
	secret := must.Get(webhook.MintSecret(rand.Reader))(c)
	return webhook.Endpoint{Owner: o, ID: "we_" + rand.Text(), URL: "https://example.com/hook", Status: webhook.Enabled,
		Secret: secret, CreatedAt: noon, EnabledAt: noon, Version: 1}
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

var hookPromises = []promise[hookCheck]{
	{"of many racing writes as many get in as would one after the other", func(c hookCheck) {
		e, d := c.endpoint(owner()), deliveryOf(owner(), "we_1", noon)
		c.ok("adding an endpoint and a delivery", errors.Join(c.AddEndpoint(c.Context(), e, 1), c.AddDelivery(c.Context(), d)))
		many := owner()
		for _, race := range []struct {
			what    string
			n, wins int
			refusal error
			write   func(ctx context.Context, i int) error
		}{
			{"new endpoints", 20, 10, webhook.ErrLimit, func(ctx context.Context, _ int) error {
				return c.AddEndpoint(ctx, c.endpoint(many), 10)
			}},
			{"saves", 10, 1, webhook.ErrConflict, func(ctx context.Context, i int) error {
				mine := e
				mine.QuietSince = noon.Add(time.Duration(i) * time.Minute)
				return must.Err(c.SaveEndpoint(ctx, mine))
			}},
			{"records", 10, 1, webhook.ErrConflict, func(ctx context.Context, i int) error {
				return must.Err(c.Record(ctx, tried(d, noon.Add(time.Duration(i)*time.Second), i%2 == 0), 0))
			}},
		} {
			if won := c.wins(race.n, race.refusal, race.write); len(won) != race.wins {
				c.Errorf("%d of %d racing %s got in, want %d", len(won), race.n, race.what, race.wins)
			}
		}
	}},
	{"deliveries at all of their bounds are stored, and take no more of anything", func(c hookCheck) {
		o := owner()
		ds := make([]webhook.Delivery, webhook.EndpointLimit)
		for i := range ds {
			ds[i] = deliveryOf(o, fmt.Sprint("we_", i), noon)
			ds[i].Event.Body = make([]byte, webhook.MaxBody)
			_, _ = rand.Read(ds[i].Event.Body) // never fails; no store makes it shorter
			c.ok("adding a delivery", c.AddDelivery(c.Context(), ds[i]))
		}
		d := ds[0]
		for i := range webhook.MaxAttempts {
			d = tried(d, noon, false)
			d.Attempts[i].Error, d.Attempts[i].Response = strings.Repeat("e", 2048), strings.Repeat("\uFFFD", webhook.ResponseLimit)
			c.same("the answer to a record", d, must.Get(c.Record(c.Context(), d, i))(c))
		}
		c.refused("an attempt more", must.Err(c.Record(c.Context(), tried(d, noon, false), webhook.MaxAttempts)), webhook.ErrTooLarge)
		_, got, err := c.Load(c.Context(), d.Ref)
		c.ok("loading it", err)
		c.same("the delivery", d, got)
	}},
	{"of more than may be returned, those are due that wait longest and shortest", func(c hookCheck) {
		long := noon.AddDate(-20, 0, 0) // before any other promise's
		var want []webhook.Due
		for minute := range 9 {
			d := tried(deliveryOf(owner(), "we_1", long), long.Add(time.Duration(minute)*time.Minute), true)
			d.Delivery = d.Delivery[:len(d.Delivery)-1] + "0" // a store may spread them by the ends of their ids
			c.ok("adding a delivery", c.AddDelivery(c.Context(), d))
			if minute < 2 || minute > 7 {
				want = append(want, webhook.Due{Ref: d.Ref, At: d.NextAttemptAt})
			}
		}
		for most, want := range map[int][]webhook.Due{0: {}, 1: want[:1], 3: want} {
			c.eventually(fmt.Sprint("due deliveries, at most ", most), func() string {
				few := must.Get(c.Due(c.Context(), long.AddDate(1, 0, 0), most))(c)
				return cmp.Diff(want, few, cmpopts.EquateEmpty())
			})
		}
	}},
}
