package storetest

import (
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/webhook"
)

// Suite checks that the stores open returns keep the promises of webhook.Store.
// Every call of open may return the same store. Due may lag: the suite asks it
// until it has caught up.
func Webhooks(t *testing.T, open func(t *testing.T) webhook.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, webhook.Store)
	}{
		{"an endpoint is read as it was stored", endpointAsStored},
		{"an unknown endpoint is not found", endpointUnknown},
		{"adding the same endpoint again neither counts nor changes it", endpointTwice},
		{"of 20 endpoints added at once exactly 10 get in", endpointLimit},
		{"merchants and modes have their own endpoints and limits", endpointOwners},
		{"endpoints are listed newest first", endpointOrder},
		{"what was emptied is read back empty", endpointEmptied},
		{"a save of an older version changes nothing", endpointStale},
		{"of many racing saves one gets in", endpointRace},
		{"a deleted endpoint makes room and stays readable", endpointDeleted},
		{"a delivery is read as it was stored, to the byte", deliveryAsStored},
		{"a delivery is loaded with its endpoint as it is now", deliveryEndpoint},
		{"storing deliveries again leaves alone what became of them", deliveryTwice},
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
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// owner returns somebody new.
func owner() webhook.Owner { return webhook.Owner{Merchant: "mer_" + rand.Text(), Mode: "test"} }

// endpointOf returns a new endpoint with every field set.
func endpointOf(t *testing.T, o webhook.Owner, at time.Time) webhook.Endpoint {
	t.Helper()
	return webhook.Endpoint{
		Owner: o, ID: "we_" + rand.Text(), URL: "https://example.com/hook?a=%20b", EventTypes: []string{webhook.PaymentFailed},
		Description: "Crème & Søn 🧁", Status: webhook.Enabled, Secret: secret(t), PreviousSecret: secret(t),
		PreviousExpiresAt: at.Add(time.Hour), QuietSince: at.Add(-time.Hour), Exhausted: "evt_0",
		CreatedAt: at, EnabledAt: at.Add(time.Second), Version: 1,
	}
}

func secret(t *testing.T) webhook.Secret {
	t.Helper()
	s, err := webhook.MintSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
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
			ID: "evt_" + rand.Text(), Type: webhook.PaymentConfirmed, At: at,
			Body: []byte("{\"id\":\"evt_1\" , \"data\":\"Söđ 🧁 \\u0000\u2028\"}"),
		},
		Status: webhook.Pending, NextAttemptAt: at, CreatedAt: at,
	}
}

func attemptAt(at time.Time, status int) webhook.Attempt {
	at = at.Add(123456789) // to the nanosecond
	return webhook.Attempt{At: at, StatusCode: status, Duration: 1234 * time.Millisecond, Error: "the endpoint answered", Response: "nö\x00\n"}
}

// tried returns d after another failed attempt, due again in a while.
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

var opaque = cmp.Comparer(func(a, b webhook.Secret) bool { return a == b })

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, opaque); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
