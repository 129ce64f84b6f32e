package apikey

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"remit/internal/token"
)

// A Scope names a part of the API.
type Scope string

// The scopes.
const (
	PaymentsWrite Scope = "payments:write"
	PaymentsRead  Scope = "payments:read"
	Webhooks      Scope = "webhooks"
	Keys          Scope = "keys"
	Recipients    Scope = "recipients"
)

// AllScopes returns every scope, in the order in which keys show them.
func AllScopes() []Scope { return []Scope{PaymentsWrite, PaymentsRead, Webhooks, Keys, Recipients} }

// Scopes is a set of scopes: bit i stands for the i-th of AllScopes. The zero
// Scopes is empty.
type Scopes uint8

// ScopesOf returns the set of the given scopes. Words that are no scope are left
// out: a key that a later version made may do less here, never more.
func ScopesOf(scopes ...Scope) (set Scopes) {
	for i, s := range AllScopes() {
		if slices.Contains(scopes, s) {
			set |= 1 << i
		}
	}
	return set
}

// List returns the scopes of the set.
func (s Scopes) List() []Scope {
	list := []Scope{}
	for i, scope := range AllScopes() {
		if s&(1<<i) != 0 {
			list = append(list, scope)
		}
	}
	return list
}

// maxDepth is how many creations may lie between a merchant's first key and any
// other. A payment is charged to a key of each step in one write.
const maxDepth = 3

// MaxCount is the largest daily count.
const MaxCount = 1_000_000_000

// A Limit is the most that a key, and all keys that descend from it, pay in a UTC
// day. The zero Limit is none.
type Limit struct {
	Key    string       `json:"key"`    // id of the key that the limit was made with; a rotated key keeps it
	Amount token.Amount `json:"amount"` // in the token's smallest unit; zero: any
	Count  uint64       `json:"count"`  // of payments; zero: any
}

// Limits are those that a key's payments count for: its own behind those of the
// keys that it descends from. Unused places are zero.
type Limits [maxDepth + 1]Limit

// List returns the limits, the key's own last.
func (l Limits) List() []Limit {
	return slices.DeleteFunc(slices.Clone(l[:]), func(l Limit) bool { return l == Limit{} })
}

// own returns the limit of the key itself. It is never wider than the others.
func (l Limits) own() Limit {
	if list := l.List(); len(list) > 0 {
		return list[len(list)-1]
	}
	return Limit{}
}

// A Grant is what a key may do. The zero Grant allows nothing.
type Grant struct {
	Scopes  Scopes
	Maximum token.Amount // of one payment, in the token's smallest unit; zero: any
	Limits  Limits
	Book    bool // it pays active entries of the merchant's recipient book only
	Depth   int  // creations between the merchant's first key and this one
}

// Full is the grant of a merchant's first key: everything.
func Full() Grant { return Grant{Scopes: ScopesOf(AllScopes()...)} }

// Restricted reports whether g allows less than everything.
func (g Grant) Restricted() bool { g.Depth = 0; return g != Full() }

// May reports whether g has a scope.
func (g Grant) May(s Scope) bool { return g.Scopes&ScopesOf(s) != 0 }

// covers reports whether a key with the grant o can do nothing that one with g
// cannot do.
func (g Grant) covers(o Grant) bool {
	mine, others := g.Limits.own(), o.Limits.own()
	return o.Scopes&^g.Scopes == 0 && within(o.Maximum, g.Maximum) && within(others.Amount, mine.Amount) &&
		within(token.Units(others.Count), token.Units(mine.Count)) && (o.Book || !g.Book)
}

// within reports whether the limit a is no wider than b; zero is no limit.
func within(a, b token.Amount) bool { return b.IsZero() || !a.IsZero() && !b.Less(a) }

// chargesAllOf reports whether payments of a key with the limits l count for each
// of o.
func (l Limits) chargesAllOf(o Limits) bool {
	return !slices.ContainsFunc(o.List(), func(limit Limit) bool { return !slices.Contains(l[:], limit) })
}

// grantText is the stored form of a Grant. Fields may be added, none changes its
// meaning.
type grantText struct {
	Scopes  []Scope      `json:"scopes"`
	Maximum token.Amount `json:"max_amount,omitzero"`
	Limits  []Limit      `json:"limits,omitempty"`
	Book    bool         `json:"book,omitempty"`
	Depth   int          `json:"depth,omitempty"`
}

// MarshalText writes g as one line of JSON, for stores and for the authorizer's
// context.
func (g Grant) MarshalText() ([]byte, error) {
	return json.Marshal(grantText{g.Scopes.List(), g.Maximum, g.Limits.List(), g.Book, g.Depth})
}

// errGrant reports a grant with more limits than a key can have.
var errGrant = errors.New("more limits than a key can have")

// UnmarshalText reads what MarshalText wrote. Empty text is Full: keys that were
// made before there were grants may do everything.
func (g *Grant) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*g = Full()
		return nil
	}
	var t grantText
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*g = Grant{Scopes: ScopesOf(t.Scopes...), Maximum: t.Maximum, Book: t.Book, Depth: t.Depth}
	if copy(g.Limits[:], t.Limits) < len(t.Limits) {
		return errGrant
	}
	return nil
}

// A Wish is what a caller asks a further key to be. Nil fields are as the asking
// key has them.
type Wish struct {
	Label   *string
	Scopes  []Scope       // nil: the asking key's
	Maximum *token.Amount // zero: none
	Amount  *token.Amount // in a UTC day; zero: none
	Count   *uint64       // of payments in a UTC day; zero: none
	Book    *bool
	Life    time.Duration // zero: as long as the asking key's
}

// of returns the record that k, a fresh key, has when by makes it as wished. It
// returns ErrNotPermitted if that would be wider than by or live longer.
func (w Wish) of(by, k Key) (Key, error) {
	k.Label, k.Grant, k.ExpiresAt = valueOr(w.Label, by.Label), by.Grant, by.ExpiresAt
	if k.Depth++; k.Depth > maxDepth {
		return Key{}, ErrNotPermitted
	}
	if w.Scopes != nil {
		k.Scopes = ScopesOf(w.Scopes...)
	}
	k.Maximum, k.Book = valueOr(w.Maximum, k.Maximum), valueOr(w.Book, k.Book)
	own := by.Limits.own()
	if limit := (Limit{own.Key, valueOr(w.Amount, own.Amount), valueOr(w.Count, own.Count)}); limit != own {
		limit.Key = k.ID
		k.Limits[len(k.Limits.List())] = limit
	}
	if w.Life > 0 {
		k.ExpiresAt = k.CreatedAt.Add(w.Life)
	}
	later := !by.ExpiresAt.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(by.ExpiresAt))
	if later || !by.covers(k.Grant) {
		return Key{}, ErrNotPermitted
	}
	k.Term = k.ExpiresAt
	return k, nil
}

func valueOr[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// A Public is a key as its merchant sees it, in answers and in events. Every field
// is always written, null where there is nothing to say.
type Public struct {
	ID         string  `json:"id"`
	Prefix     string  `json:"prefix"`
	Last4      string  `json:"last4"`
	CreatedAt  *string `json:"created_at"`
	LastUsedAt *string `json:"last_used_at"`
	ExpiresAt  *string `json:"expires_at"`
	RevokedAt  *string `json:"revoked_at"`
	Permissions
}

// Permissions are what a key may do, as its merchant sees it.
type Permissions struct {
	Label       *string       `json:"label"`
	Scopes      []Scope       `json:"scopes"`
	MaxAmount   *token.Amount `json:"max_amount"`
	DailyAmount *token.Amount `json:"daily_amount"`
	DailyCount  *uint64       `json:"daily_count"`
	Recipients  string        `json:"recipients"` // "any" or "book"
}

// Public returns k as its merchant sees it.
func (k Key) Public() Public {
	own, recipients := k.Limits.own(), "any"
	if k.Book {
		recipients = "book"
	}
	return Public{
		k.ID, k.Prefix, k.Last4, stamp(k.CreatedAt), stamp(k.LastUsedAt), stamp(k.ExpiresAt), stamp(k.RevokedAt),
		Permissions{unlessZero(k.Label), k.Scopes.List(), unlessZero(k.Maximum), unlessZero(own.Amount), unlessZero(own.Count), recipients},
	}
}

func unlessZero[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// stamp writes a time as RFC 3339 in UTC to the millisecond; nil is the zero time.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}
