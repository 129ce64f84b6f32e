package webhook

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of a merchant's requests.
const (
	DescriptionLimit = 500                // characters
	OverlapLimit     = 7 * 24 * time.Hour // the longest time for which a replaced secret signs
	DefaultOverlap   = 24 * time.Hour     // of RotateSecret, when the merchant names none
)

const saveTries = 8

// A Registry registers endpoints and changes them.
type Registry struct {
	Store  EndpointStore
	URLs   Checker // nil if none is registered or changed
	Now    func() time.Time
	Random io.Reader // of ids and secrets; it must be cryptographic
}

// A Registration describes a new endpoint, in its merchant's words.
type Registration struct {
	URL         string
	EventTypes  []string // empty means all
	Description string
}

// Register stores a new endpoint, enabled and with a new secret, and returns it. The error is ErrLimit, or wraps a
// *FieldError for each value that cannot be accepted. The description has at most DescriptionLimit characters.
func (r *Registry) Register(ctx context.Context, o Owner, in Registration) (Endpoint, error) {
	types, typesErr := checkTypes(in.EventTypes)
	if err := errors.Join(r.URLs.Check(ctx, in.URL), typesErr); err != nil {
		return Endpoint{}, err
	}
	now := instant(r.Now)
	e := Endpoint{
		Owner: o, ID: newID("we_", r.Random), URL: in.URL, EventTypes: types, Description: in.Description,
		Status: Enabled, Secret: MintSecret(r.Random), CreatedAt: now, EnabledAt: now, Version: 1,
	}
	if err := r.Store.AddEndpoint(ctx, e, EndpointLimit); err != nil {
		return Endpoint{}, fmt.Errorf("registering %s: %w", e.ID, err)
	}
	return e, nil
}

// A Change holds new values of an endpoint's fields; nil leaves a field alone.
type Change struct {
	URL         *string
	EventTypes  *[]string // empty means all
	Description *string
	Status      *Status // Enabled or Disabled
}

// Update changes an endpoint and returns it as it then is. Enabling it, or a new URL, forgets its failures. The error
// is ErrNotFound, or wraps a *FieldError for each value that cannot be accepted.
func (r *Registry) Update(ctx context.Context, o Owner, id string, c Change) (Endpoint, error) {
	var errs []error
	if c.EventTypes != nil {
		types, err := checkTypes(*c.EventTypes)
		c.EventTypes, errs = &types, append(errs, err)
	}
	if c.Status != nil && *c.Status != Enabled && *c.Status != Disabled {
		errs = append(errs, &FieldError{"status", `must be "enabled" or "disabled"`})
	}
	if c.URL != nil {
		errs = append(errs, r.URLs.Check(ctx, *c.URL))
	}
	if err := errors.Join(errs...); err != nil {
		return Endpoint{}, err
	}
	e, err := live(ctx, r.Store, o, id)
	if err != nil {
		return Endpoint{}, err
	}
	return r.save(ctx, e, func(e Endpoint) Endpoint { return c.apply(e, instant(r.Now)) })
}

func (c Change) apply(e Endpoint, now time.Time) Endpoint {
	fresh := false
	if c.URL != nil && *c.URL != e.URL {
		e.URL, fresh = *c.URL, true
	}
	if c.Status != nil && *c.Status != e.Status {
		e.Status, fresh = *c.Status, fresh || *c.Status == Enabled
	}
	if c.EventTypes != nil {
		e.EventTypes = *c.EventTypes
	}
	e.Description = *cmp.Or(c.Description, &e.Description)
	if fresh {
		e.QuietSince, e.Exhausted, e.EnabledAt, e.Slow, e.RetryAt = time.Time{}, "", now, 0, time.Time{}
	}
	return e
}

// Delete ends an endpoint: only its log stays readable. A second Delete is ErrNotFound.
func (r *Registry) Delete(ctx context.Context, o Owner, id string) error {
	e, err := live(ctx, r.Store, o, id)
	if err != nil {
		return err
	}
	_, err = r.save(ctx, e, func(e Endpoint) Endpoint {
		e.Status, e.DeletedAt = Deleted, instant(r.Now)
		return e
	})
	return err
}

// RotateSecret gives an endpoint a new secret and returns the endpoint. The old secret signs as well for the overlap,
// from 0 to OverlapLimit; a third one, of an earlier rotation, ends now. ErrNotFound if there is no such endpoint.
func (r *Registry) RotateSecret(ctx context.Context, o Owner, id string, overlap time.Duration) (Endpoint, error) {
	e, err := live(ctx, r.Store, o, id)
	if err != nil {
		return Endpoint{}, err
	}
	secret := MintSecret(r.Random)
	return r.save(ctx, e, func(e Endpoint) Endpoint {
		e.PreviousSecret, e.PreviousExpiresAt = Secret{}, time.Time{}
		if overlap > 0 {
			e.PreviousSecret, e.PreviousExpiresAt = e.Secret, instant(r.Now).Add(overlap)
		}
		e.Secret = secret
		return e
	})
}

// save stores change(e). If another writer has changed e meanwhile, it reads e again and applies the change to that.
func (r *Registry) save(ctx context.Context, e Endpoint, change func(Endpoint) Endpoint) (Endpoint, error) {
	for range saveTries {
		saved, err := r.Store.SaveEndpoint(ctx, change(e))
		if err == nil {
			return saved, nil
		}
		if !errors.Is(err, ErrConflict) {
			return Endpoint{}, fmt.Errorf("saving %s: %w", e.ID, err)
		}
		if e, err = live(ctx, r.Store, e.Owner, e.ID); err != nil {
			return Endpoint{}, err
		}
	}
	return Endpoint{}, fmt.Errorf("saving %s, %d times: %w", e.ID, saveTries, ErrConflict)
}

// live returns an endpoint that is not deleted, or ErrNotFound.
func live(ctx context.Context, store EndpointStore, o Owner, id string) (Endpoint, error) {
	e, err := known(ctx, store, o, id)
	if err == nil && e.Status == Deleted {
		return Endpoint{}, fmt.Errorf("reading a webhook: %w", ErrNotFound)
	}
	return e, err
}

// known returns an endpoint, deleted or not. Text that is no id is ErrNotFound without a read.
func known(ctx context.Context, store EndpointStore, o Owner, id string) (e Endpoint, err error) {
	err = ErrNotFound
	if endpointID.MatchString(id) {
		e, err = store.Endpoint(ctx, o, id)
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("reading a webhook: %w", err)
	}
	return e, nil
}

// endpointID and deliveryIDs are the forms of ids, as newID and deliveryID make them.
var (
	endpointID  = regexp.MustCompile("^we_[0-9a-f]{24}$")
	deliveryIDs = regexp.MustCompile("^dlv_[0-9a-f]{32}$")
)

func checkTypes(types []string) ([]string, error) {
	var kept []string
	for _, t := range types {
		if !slices.Contains(EventTypes(), t) {
			return nil, &FieldError{"event_types", "must be a list of " + strings.Join(EventTypes(), ", ")}
		}
		if !slices.Contains(kept, t) {
			kept = append(kept, t)
		}
	}
	return kept, nil
}

func newID(prefix string, random io.Reader) string {
	return prefix + hex.EncodeToString(drawn(random, 12))
}

// drawn returns n random bytes. It panics if random fails, which crypto/rand.Reader never does.
func drawn(random io.Reader, n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(random, b); err != nil {
		panic(fmt.Errorf("drawing random bytes: %w", err))
	}
	return b
}

// instant returns the present in UTC and whole milliseconds, as it is stored and shown.
func instant(now func() time.Time) time.Time { return now().UTC().Truncate(time.Millisecond) }
