package apikey

import (
	"errors"
	"slices"
	"time"
)

// ErrNoScope reports a key that could do nothing.
var ErrNoScope = errors.New("the key would have no scope; name one")

// A KeyRequest describes a key to make. The zero one asks for the asking key's scopes and expiry, without limits.
type KeyRequest struct {
	Label  string        // empty: none
	Scopes []Scope       // nil: the asking key's, without Keys if the new key has a limit
	Limits Grant         // without Scopes, Root and Daily.Key. One with amounts names an asset: see HasAmounts
	Life   time.Duration // zero: as long as the asking key's
}

// Check returns an error if r names the scope Keys beside a limit.
func (r KeyRequest) Check() error {
	if slices.Contains(r.Scopes, Keys) && r.Limits.limited() {
		return errors.New("a key with the scope keys has no limits; remove the scope or the limits")
	}
	return nil
}

// Restrict gives k, a fresh key that by makes, its rights. The errors are Check's,
// ErrNoScope, and ErrNotPermitted for a scope that by lacks or a later expiry.
func (r KeyRequest) Restrict(by Key, k *Key) error {
	if err := r.Check(); err != nil {
		return err
	}
	k.Label, k.Grant, k.ExpiresAt = r.Label, r.Limits, by.ExpiresAt
	if k.Scopes, k.Root = ScopesOf(r.Scopes...), ""; k.Daily != (Limit{}) {
		k.Daily.Key = k.ID
	}
	if r.Scopes == nil {
		k.Scopes = by.Scopes
		if k.limited() {
			k.Scopes &^= ScopesOf(Keys)
		}
	}
	if r.Life > 0 {
		k.ExpiresAt = k.CreatedAt.Add(r.Life)
	}
	k.Term = k.ExpiresAt
	switch {
	case k.Scopes == 0:
		return ErrNoScope
	case k.Scopes&^by.Scopes != 0 || later(k.ExpiresAt, by.ExpiresAt):
		return ErrNotPermitted
	}
	return nil
}

// later reports whether the expiry a is later than b; zero is never.
func later(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }
