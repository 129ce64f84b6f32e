// Package webhook notifies merchants of the ends of their payments: it keeps the endpoints they register, stores one
// delivery per event and endpoint, signs and posts it, and tries again on a schedule until the endpoint takes it.
//
// An event's body arrives here as bytes and leaves as the same bytes. The package knows neither payments nor AWS and
// serves no HTTP. Of an endpoint's answer it reads the status and Retry-After; the body is only shown in the log.
package webhook

import "errors"

// Errors of this package.
var (
	ErrNotFound         = errors.New("no such webhook") // never made, deleted, or of another merchant or mode
	ErrDeliveryNotFound = errors.New("no such delivery")
	ErrLimit            = errors.New("a merchant may have at most 10 webhooks")
	ErrDisabled         = errors.New("the webhook is disabled")   // nothing was sent
	ErrConflict         = errors.New("changed since it was read") // nothing was written
	ErrJob              = errors.New("not a webhook job")
)

// A FieldError reports a value of a request that cannot be accepted.
type FieldError struct {
	Field  string // "url", "event_types", "status"
	Reason string // for the merchant; does not repeat a URL
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }
