package webhook

import (
	"slices"
	"time"
)

// EndpointLimit is how many endpoints a merchant may have per mode; deleted
// ones do not count.
const EndpointLimit = 10

// The types of event.
const (
	PaymentConfirmed = "payment.confirmed"
	PaymentFailed    = "payment.failed"
	TestType         = "webhook.test" // sent by Tester only, whatever an endpoint subscribed to
)

// EventTypes returns every type an endpoint may subscribe to.
func EventTypes() []string { return []string{PaymentConfirmed, PaymentFailed, TestType} }

// A Status says whether an endpoint is sent anything.
type Status string

// The statuses of an endpoint.
const (
	Enabled  Status = "enabled"
	Disabled Status = "disabled" // by the merchant, by a 410, or after too many failures
	Deleted  Status = "deleted"  // for ever; only its log remains
)

// An Owner is whose an endpoint is. Endpoints of one mode know nothing of the
// other's.
type Owner struct {
	Merchant string // "mer_…"
	Mode     string // "test" or "live"
}

// An Endpoint is a URL that a merchant wants to be told at.
type Endpoint struct {
	Owner
	ID          string // "we_…"
	URL         string
	EventTypes  []string // what it is told; empty means everything
	Description string
	Status      Status

	Secret            Secret    // signs every message
	PreviousSecret    Secret    // signs as well until PreviousExpiresAt; empty when there is none
	PreviousExpiresAt time.Time // zero when there is no previous secret

	// QuietSince is zero while the endpoint answers. From its first failure
	// on it is the time of its last success before, or EnabledAt when it had
	// none since then.
	QuietSince time.Time
	// Exhausted is the id of the last event whose attempts were used up since
	// the endpoint's last success, empty if there is none.
	Exhausted string

	CreatedAt time.Time // UTC
	EnabledAt time.Time // of its registration, last enabling or last change of URL
	Version   int64     // rises by one per write; stores compare it
}

// Subscribed reports whether events of the given type are for e.
func (e Endpoint) Subscribed(eventType string) bool {
	return len(e.EventTypes) == 0 || slices.Contains(e.EventTypes, eventType)
}

// Secrets returns what a message signed at now is signed with: the current
// secret first and, while a rotation is under way, the previous one.
func (e Endpoint) Secrets(now time.Time) []Secret {
	secrets := []Secret{e.Secret}
	if !e.PreviousSecret.IsZero() && now.Before(e.PreviousExpiresAt) {
		secrets = append(secrets, e.PreviousSecret)
	}
	return secrets
}
