package apikey

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// ErrKeysScope reports limits of a key with the scope Keys.
var ErrKeysScope = errors.New("a key with the scope keys has no limits; remove the scope or the limits")

// ErrNoScope reports a key that could do nothing.
var ErrNoScope = errors.New("the key would have no scope; name one")

// A KeyRequest describes a key to make. The zero one asks for the asking key's scopes and expiry, without limits.
type KeyRequest struct {
	Label   string        // empty: none
	Scopes  []Scope       // nil: the asking key's, without Keys if the new key has a limit
	Maximum token.Amount  // of one payment; zero: any
	Amount  token.Amount  // in a UTC day; zero: any
	Count   uint64        // of payments in a UTC day; zero: any
	Book    bool          // it pays active entries of the merchant's address book only
	Guard   uint64        // Grant.Guard
	Asset   token.Coin    // the only one that it pays; zero: any. A key with amounts names one: see HasAmounts
	Above   token.Amount  // Grant.ApproveAbove
	Life    time.Duration // zero: as long as the asking key's
}

// HasAmounts reports whether r limits amounts, which are of one asset.
func (r KeyRequest) HasAmounts() bool { return cmp.Or(r.Maximum, r.Amount, r.Above) != token.Amount{} }

// Check returns ErrKeysScope if r names the scope Keys beside a limit.
func (r KeyRequest) Check() error {
	if slices.Contains(r.Scopes, Keys) && r.grant("").limited() {
		return ErrKeysScope
	}
	return nil
}

// grant returns the grant that r asks for, of the key named id.
func (r KeyRequest) grant(id string) Grant {
	g := Grant{Scopes: ScopesOf(r.Scopes...), Maximum: r.Maximum, Book: r.Book, Guard: r.Guard,
		ApproveAbove: r.Above, Asset: r.Asset}
	if !r.Amount.IsZero() || r.Count > 0 {
		g.Daily = Limit{id, r.Amount, r.Count}
	}
	return g
}

// of returns the record of k, a fresh key that by makes. The errors are ErrKeysScope,
// ErrNoScope, and ErrNotPermitted for a scope that by lacks or a later expiry.
func (r KeyRequest) of(by, k Key) (Key, error) {
	k.Label, k.Grant, k.ExpiresAt = r.Label, r.grant(k.ID), by.ExpiresAt
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
	switch err := r.Check(); {
	case err != nil:
		return Key{}, err
	case k.Scopes == 0:
		return Key{}, ErrNoScope
	case k.Scopes&^by.Scopes != 0 || later(k.ExpiresAt, by.ExpiresAt):
		return Key{}, ErrNotPermitted
	}
	return k, nil
}

// later reports whether the expiry a is later than b; zero is never.
func later(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }
