package lab

import (
	"crypto/sha256"
	"testing"
)

func TestReceiverTellsAForgedEvent(t *testing.T) {
	r := NewReceiver(t, nil)
	event := func(id, hash, body string) Event {
		e := Event{ID: id, Type: "payment.confirmed", Times: 1, body: sha256.Sum256([]byte(body))}
		e.Data.Hash = hash
		return e
	}
	r.take("evt_1", event("evt_1", "0xa", "1"))
	r.take("evt_1", event("evt_1", "0xa", "1"))
	if e := r.Of("0xa"); e.Type != "payment.confirmed" || e.Times != 2 || len(r.bad) != 0 {
		t.Errorf("%+v, bad %v; want the event twice and nothing bad", e, r.bad)
	}
	r.take("evt_1", event("evt_1", "0xa", "2")) // another body
	r.take("evt_2", event("evt_2", "0xa", "1")) // another event of the same payment
	r.take("evt_3", event("evt_4", "0xb", "1")) // a header that lies
	if len(r.bad) != 3 {
		t.Errorf("%d of 3 forgeries were noticed: %v", len(r.bad), r.bad)
	}
}
