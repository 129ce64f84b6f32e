package chaos

import (
	"crypto/sha256"
	"testing"
	"time"
)

func TestUnderWayIsWhatWasAskedAndNotAnsweredAtTheKill(t *testing.T) {
	b := &book{}
	kill := time.Unix(1000, 0)
	before, after := kill.Add(-time.Second), kill.Add(time.Second)
	for _, row := range []struct {
		name            string
		began, answered time.Time
		left, want      bool
	}{
		{"answered before", before, before, false, false},
		{"answered after", before, after, false, true},
		{"never answered, and still asked for", before, time.Time{}, false, true},
		{"never answered, and left by its client", before, time.Time{}, true, false},
		{"asked for after", after, after, false, false},
		{"not yet asked for", time.Time{}, time.Time{}, false, false},
	} {
		o := b.next()
		if !row.began.IsZero() {
			o.start(row.began)
		}
		if !row.answered.IsZero() {
			o.paid("0x1", row.answered)
		}
		if row.left {
			o.abandon()
		}
		found := false
		for _, w := range b.underWay(kill) {
			found = found || w == o
		}
		if found != row.want {
			t.Errorf("%s: under way %v; want %v", row.name, found, row.want)
		}
	}
}

func TestAnOrderRemembersItsFirstHashAndEveryOther(t *testing.T) {
	b := &book{}
	o, other := b.next(), b.next()
	if o.key() == other.key() || o.amount() == other.amount() {
		t.Error("two orders share a key or an amount")
	}
	at := time.Unix(1, 0)
	o.paid("0xa", at)
	o.paid("0xa", at.Add(time.Hour))
	o.paid("0xb", at)
	if o.answer() != "0xa" || !o.answered.Equal(at) || len(o.changed) != 1 || o.changed[0] != "0xb" {
		t.Errorf("%+v; want 0xa at first, and 0xb noted", o)
	}
}

func TestReceiverTellsAForgedEvent(t *testing.T) {
	one, two := sha256.Sum256([]byte("1")), sha256.Sum256([]byte("2"))
	r := &receiver{events: map[string]*received{}, byHash: map[string]string{}}
	r.take("evt_1", "evt_1", "payment.confirmed", "0xa", one)
	r.take("evt_1", "evt_1", "payment.confirmed", "0xa", one)
	if kind, times := r.eventOf("0xa"); kind != "payment.confirmed" || times != 2 || len(r.bad) != 0 {
		t.Errorf("%s %d times, bad %v; want the event twice and nothing bad", kind, times, r.bad)
	}
	r.take("evt_1", "evt_1", "payment.confirmed", "0xa", two) // another body
	r.take("evt_2", "evt_2", "payment.confirmed", "0xa", one) // another event of the same payment
	r.take("evt_3", "evt_4", "payment.confirmed", "0xb", one) // a header that lies
	if len(r.bad) != 3 {
		t.Errorf("%d of 3 forgeries were noticed: %v", len(r.bad), r.bad)
	}
}
