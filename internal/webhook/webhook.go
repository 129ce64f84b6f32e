// Package webhook tells merchants what became of their payments: it keeps the
// endpoints they register, stores one delivery per event and endpoint, signs
// and posts it, and tries again on a schedule until the endpoint takes it.
//
// An event's body arrives here as bytes and leaves as the same bytes. The
// package knows neither payments nor AWS, serves no HTTP, and reads nothing of
// what an endpoint answers but its status and Retry-After.
package webhook

import "errors"

// ErrNotFound reports an endpoint that does not exist, was deleted, or belongs
// to another merchant or mode.
var ErrNotFound = errors.New("no such webhook")

// ErrDeliveryNotFound reports a delivery that the endpoint does not have.
var ErrDeliveryNotFound = errors.New("no such delivery")

// ErrLimit reports that the merchant has as many endpoints as it may have.
var ErrLimit = errors.New("a merchant may have at most 10 webhooks")

// ErrDisabled reports that a disabled endpoint was to be sent something.
var ErrDisabled = errors.New("the webhook is disabled")

// ErrConflict reports that what a write was based on has changed since it was
// read. Nothing was written.
var ErrConflict = errors.New("changed since it was read")

// ErrTooMany reports a search of an endpoint's log that would not see all of it.
var ErrTooMany = errors.New("100,000 deliveries or more: begin later")

// ErrJob reports a job whose text names no delivery. It will never be done.
var ErrJob = errors.New("not a webhook job")

// A FieldError reports a value of a request that cannot be accepted.
type FieldError struct {
	Field  string // "event_types", "description", "status", "expires_in_seconds"
	Reason string // for the merchant
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// A URLError reports a URL that nothing will be sent to.
type URLError struct {
	Reason string // for the merchant; does not repeat the URL
}

func (e *URLError) Error() string { return "url: " + e.Reason }
