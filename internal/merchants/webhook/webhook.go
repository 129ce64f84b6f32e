// Package webhook notifies merchants of the ends of their payments: it keeps the endpoints they register, stores one
// delivery per event and endpoint, signs and posts it, and tries again on a schedule until the endpoint takes it.
//
// An event's body arrives here as bytes and leaves as the same bytes. The package knows neither payments nor AWS and
// serves no HTTP. Of an endpoint's answer it reads the status and Retry-After; the body is only shown in the log.
package webhook

import "errors"

// ErrNotFound reports an endpoint that does not exist, was deleted, or belongs to another merchant or mode.
var ErrNotFound = errors.New("no such webhook")

// ErrDeliveryNotFound reports a delivery that the endpoint does not have.
var ErrDeliveryNotFound = errors.New("no such delivery")

// ErrLimit reports that the merchant has as many endpoints as it may have.
var ErrLimit = errors.New("a merchant may have at most 10 webhooks")

// ErrDisabled reports a message to a disabled endpoint, which is not sent.
var ErrDisabled = errors.New("the webhook is disabled")

// ErrConflict reports that the item has changed since its writer read it. Nothing was written.
var ErrConflict = errors.New("changed since it was read")

// ErrJob reports a job whose text names no delivery, so that it cannot be done.
var ErrJob = errors.New("not a webhook job")

// A FieldError reports a value of a request that cannot be accepted.
type FieldError struct {
	Field  string // "event_types", "description", "status", "expires_in_seconds"
	Reason string // for the merchant
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// A URLError reports a URL that no event will be sent to.
type URLError struct {
	Reason string // for the merchant; does not repeat the URL
}

func (e *URLError) Error() string { return "url: " + e.Reason }
