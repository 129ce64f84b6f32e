package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Ref names a delivery, its endpoint and their owner: a store loads both in one read. Its text is a job's body.
type Ref struct {
	Owner
	Endpoint string // "we_…"
	Delivery string // "dlv_…"
}

func (r Ref) String() string {
	return r.Mode + "/" + r.Merchant + "/" + r.Endpoint + "/" + r.Delivery
}

// ParseJob returns a job's delivery: whole if it is the first attempt's, else only its Ref. Any other text is ErrJob.
func ParseJob(job string) (d Delivery, whole bool, err error) {
	parts := strings.Split(job, "/")
	if len(parts) != 4 && len(parts) != 8 {
		return Delivery{}, false, fmt.Errorf("%w: %d parts", ErrJob, len(parts))
	}
	for _, p := range parts[:4] {
		if p == "" {
			return Delivery{}, false, fmt.Errorf("%w: an empty part", ErrJob)
		}
	}
	ref := Ref{Owner{Merchant: parts[1], Mode: parts[0]}, parts[2], parts[3]}
	if len(parts) == 4 {
		return Delivery{Ref: ref}, false, nil
	}
	ms, timeErr := strconv.ParseInt(parts[6], 10, 64)
	body, err := base64.RawURLEncoding.DecodeString(parts[7])
	if err = errors.Join(timeErr, err); err != nil {
		return Delivery{}, false, fmt.Errorf("%w: %w", ErrJob, err)
	}
	return newDelivery(ref, Event{ref.Merchant, ref.Mode, parts[4], parts[5], time.UnixMilli(ms).UTC(), body}), true, nil
}

// job returns the first attempt's job, which carries the event. It has no character that SQS would replace.
func (d Delivery) job() string {
	return fmt.Sprintf("%s/%s/%s/%d/%s", d.Ref, d.Event.ID, d.Event.Type, d.Event.At.UnixMilli(),
		base64.RawURLEncoding.EncodeToString(d.Event.Body))
}

// An Event is a fact for a merchant. Its body is posted byte for byte as it is here.
type Event struct {
	Merchant string    // "mer_…"
	Mode     string    // "test" or "live"
	ID       string    // "evt_…"; receivers recognize duplicates by it
	Type     string    // one of EventTypes
	At       time.Time // when it happened, which is in the body too
	Body     []byte    // JSON
}

// KeptFor is how long a store keeps deliveries after they were created, and endpoints after they were deleted.
const KeptFor = 90 * 24 * time.Hour

// A DeliveryStatus shows whether a delivery still waits for an attempt, and how it ended if not.
type DeliveryStatus string

// The statuses of a delivery. All but Pending are final.
const (
	Pending   DeliveryStatus = "pending"
	Delivered DeliveryStatus = "delivered" // an attempt was answered with 2xx
	Exhausted DeliveryStatus = "exhausted" // the last attempt failed
	Cancelled DeliveryStatus = "cancelled" // its endpoint was disabled or deleted first
)

// A Delivery is one event on its way to one endpoint, with its attempts. The event's merchant and mode are Ref's.
type Delivery struct {
	Ref
	Event         Event
	Status        DeliveryStatus
	Attempts      []Attempt // oldest first
	NextAttemptAt time.Time // zero unless Pending
	// Parked reports that the next attempt has no job yet: PushDue makes it from the due index.
	Parked    bool
	CreatedAt time.Time // of the event for a first delivery, of the request for a resend
	EndedAt   time.Time // zero while Pending
}

// An Attempt is one post of a delivery and its result.
type Attempt struct {
	At         time.Time     // when it began
	StatusCode int           // of the answer; 0 when there was none
	Duration   time.Duration // until the answer or the failure
	Error      string        // why it failed, for the merchant; empty after 2xx
	Response   string        // the first 1,024 bytes of the answer as UTF-8 text
}

// Succeeded reports whether the endpoint took the message.
func (a Attempt) Succeeded() bool { return a.StatusCode/100 == 2 }

// LastAttempt returns the newest attempt; ok is false when there is none.
func (d Delivery) LastAttempt() (a Attempt, ok bool) {
	if len(d.Attempts) == 0 {
		return Attempt{}, false
	}
	return d.Attempts[len(d.Attempts)-1], true
}

// with returns d with one more attempt; d keeps its own list.
func (d Delivery) with(a Attempt) Delivery {
	d.Attempts = append(slices.Clip(d.Attempts), a)
	return d
}

func (d Delivery) ended(s DeliveryStatus, at time.Time) Delivery {
	d.Status, d.NextAttemptAt, d.Parked, d.EndedAt = s, time.Time{}, false, at
	return d
}

func (d Delivery) due(now time.Time, wait time.Duration) Delivery {
	d.NextAttemptAt, d.Parked = now.Add(wait).Truncate(time.Millisecond), wait > QueueLimit
	return d
}

// firstDelivery returns the delivery that publishing ev makes for e, the same each time.
func firstDelivery(e Endpoint, ev Event) Delivery {
	sum := sha256.Sum256([]byte("delivery\x00" + ev.ID + "\x00" + e.ID))
	return newDelivery(Ref{Owner: e.Owner, Endpoint: e.ID, Delivery: deliveryID(ev.At, sum[:])}, ev)
}

func newDelivery(r Ref, ev Event) Delivery {
	return Delivery{Ref: r, Event: ev, Status: Pending, NextAttemptAt: ev.At, CreatedAt: ev.At}
}

const idBytes = 10 // of salt, by which deliveries of one millisecond differ

// deliveryID begins with the time in milliseconds, so that an endpoint's log is in order without an index.
func deliveryID(at time.Time, salt []byte) string {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(at.UnixMilli(), 0)))
	return deliveryPrefix + hex.EncodeToString(ms[2:]) + hex.EncodeToString(salt[:idBytes])
}

const deliveryPrefix = "dlv_"

// FirstID returns the smallest id a delivery created at or after t can have.
func FirstID(t time.Time) string { return deliveryID(t, make([]byte, idBytes)) }
