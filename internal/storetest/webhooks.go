package storetest

import (
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"remit/internal/webhook"
)

// Webhooks checks that the store which open returns keeps the promises of
// webhook.Store. Every call of open may return the same store. Due may lag: the
// suite repeats it until its answer is right.
func Webhooks(t *testing.T, open func(t *testing.T) webhook.Store) {
	examine(t, []promise[hookCheck]{
		{"an endpoint is read as it was stored", endpointAsStored},
		{"an unknown endpoint is not found", endpointUnknown},
		{"adding the same endpoint again neither counts nor changes it", endpointTwice},
		{"of 20 endpoints added at once exactly 10 get in", endpointLimit},
		{"merchants and modes have their own endpoints and limits", endpointOwners},
		{"endpoints are listed newest first", endpointOrder},
		{"a field that was emptied is read back empty", endpointEmptied},
		{"a save of an older version changes nothing", endpointStale},
		{"of many racing saves one gets in", endpointRace},
		{"a deleted endpoint makes room and stays readable", endpointDeleted},
		{"a delivery is read as it was stored, to the byte", deliveryAsStored},
		{"a delivery is loaded with its endpoint as it is now", deliveryEndpoint},
		{"storing deliveries again leaves their records alone", deliveryTwice},
		{"storing deliveries again stores those that are missing", deliveryMissing},
		{"attempts are recorded in order", recordInOrder},
		{"an attempt that another one has overtaken is not recorded", recordConflict},
		{"of many racing records one gets in", recordRace},
		{"a record may be repeated", recordTwice},
		{"a success may follow the end of a delivery, nothing else may", recordAfterEnd},
		{"an unknown delivery cannot be recorded", recordUnknown},
		{"a log is listed newest first, between two times, without bodies", logListed},
		{"a log goes on over many pages", logPages},
		{"a parked delivery is due from its time on", dueFromItsTime},
		{"a delivery is due until it is unparked or recorded", dueUntil},
		{"unparking for another time changes nothing", unparkOther},
	}, func(c tester) hookCheck { return hookCheck{c, open(c.T)} })
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
		PreviousExpiresAt: at.Add(time.Hour), QuietSince: at.Add(-time.Hour), Exhausted: "evt_0",
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
	e, err := c.SaveEndpoint(c.Context(), e)
	c.ok("saving an endpoint", err)
	return e
}

// holds checks that e is the stored endpoint.
func (c hookCheck) holds(e webhook.Endpoint) {
	c.Helper()
	got, err := c.Endpoint(c.Context(), e.Owner, e.ID)
	c.ok("reading an endpoint", err)
	c.same("stored endpoint", e, got)
}

// lists checks that want are the endpoints of o. No endpoints are an empty
// slice, never nil.
func (c hookCheck) lists(o webhook.Owner, want ...webhook.Endpoint) {
	c.Helper()
	got, err := c.Endpoints(c.Context(), o)
	c.ok("listing endpoints", err)
	c.same("list of endpoints", append([]webhook.Endpoint{}, want...), got)
}

func (c hookCheck) secret() webhook.Secret {
	c.Helper()
	s, err := webhook.MintSecret(rand.Reader)
	c.ok("minting a secret", err)
	return s
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
	return webhook.Attempt{At: at, StatusCode: status, Duration: 1234 * time.Millisecond, Error: "the endpoint answered", Response: "nö\x00\n"}
}

// tried returns d after another failed attempt, due an hour later.
func tried(d webhook.Delivery, at time.Time, parked bool) webhook.Delivery {
	d.Attempts = append(d.Attempts[:len(d.Attempts):len(d.Attempts)], attemptAt(at, 500))
	d.NextAttemptAt, d.Parked = at.Add(time.Hour), parked
	return d
}

// ended returns d with the status and no next attempt.
func ended(d webhook.Delivery, s webhook.DeliveryStatus) webhook.Delivery {
	d.Status, d.NextAttemptAt, d.Parked = s, time.Time{}, false
	return d
}
