package webhook

import (
	"slices"
	"time"
)

// EndpointLimit is how many endpoints a merchant may have per mode; deleted ones do not count.
const EndpointLimit = 10

// The types of event.
const (
	PaymentConfirmed = "payment.confirmed"
	PaymentFailed    = "payment.failed"
	PaymentMined     = "payment.mined" // to endpoints that name it; a payment has one
	TestType         = "webhook.test"  // sent by Tester only, to endpoints of any subscription

	RecipientCreated = "recipient.created" // an address was entered into the merchant's address book
	KeyCreated       = "api_key.created"   // a key was made, or rotated
)

// EventTypes returns every type an endpoint may subscribe to.
func EventTypes() []string {
	return []string{PaymentConfirmed, PaymentFailed, PaymentMined, TestType, RecipientCreated, KeyCreated,
		"proposal.created", "proposal.approved", "proposal.cancelled", "proposal.expired"} // of package proposal
}

// A Status is whether an endpoint gets events.
type Status string

// The statuses of an endpoint.
const (
	Enabled  Status = "enabled"
	Disabled Status = "disabled" // by the merchant, by a 410, or after too many failures
	Deleted  Status = "deleted"  // for ever; only its log remains
)

// An Owner is the merchant and mode that an endpoint belongs to. Events and endpoints of the two modes never mix.
type Owner struct {
	Merchant string // "mer_…"
	Mode     string // "test" or "live"
}

// An Endpoint is a URL to which a merchant wants events to be posted.
type Endpoint struct {
	Owner
	ID          string // "we_…"
	URL         string
	EventTypes  []string // it subscribed to; empty means all but PaymentMined
	Description string
	Status      Status

	Secret            Secret    // signs every message
	PreviousSecret    Secret    // signs as well until PreviousExpiresAt; empty when there is none
	PreviousExpiresAt time.Time // zero when there is no previous secret

	// QuietSince is zero while attempts succeed. From the first failure on it is the time of the last success since
	// EnabledAt, or EnabledAt if there was none.
	QuietSince time.Time
	// Exhausted is the id of the newest event whose attempts were used up since the last success, empty for none.
	Exhausted string

	// Slow counts attempts in a row that took slowAfter or longer, and from slowLimit on, where the endpoint is parked,
	// probes. A parked endpoint may be probed from RetryAt on; zero while it is not parked.
	Slow    int
	RetryAt time.Time

	CreatedAt time.Time // UTC
	EnabledAt time.Time // of its registration, last enabling or last change of URL
	DeletedAt time.Time // zero unless Deleted
	Version   int64     // rises by one per write; stores compare it
}

// Subscribed reports whether events of the given type are for e.
func (e Endpoint) Subscribed(eventType string) bool {
	return len(e.EventTypes) == 0 && eventType != PaymentMined || slices.Contains(e.EventTypes, eventType)
}

// Secrets returns the secrets that sign at now: the current one and, while a rotation is under way, the previous one.
func (e Endpoint) Secrets(now time.Time) []Secret {
	secrets := []Secret{e.Secret}
	if !e.PreviousSecret.IsZero() && now.Before(e.PreviousExpiresAt) {
		secrets = append(secrets, e.PreviousSecret)
	}
	return secrets
}
