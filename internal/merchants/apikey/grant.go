package apikey

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
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

	PaymentsPropose Scope = "payments:propose"
	PaymentsApprove Scope = "payments:approve"
)

// AllScopes returns every scope, in the order in which keys show them.
func AllScopes() []Scope {
	return []Scope{PaymentsWrite, PaymentsRead, Webhooks, Keys, Recipients, PaymentsPropose, PaymentsApprove}
}

// Scopes is a set of scopes: bit i stands for the i-th of AllScopes. The zero Scopes is empty.
type Scopes uint8

// ScopesOf returns the set of scopes. It skips unknown words: a key of a later version may do less here, never more.
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

// The bounds of the seconds of a repeat guard, and of a daily count.
const (
	MinGuard = 60
	MaxGuard = 604_800
	MaxCount = 1_000_000_000
)

// A Limit is the most that a key pays in a UTC day. The zero Limit is none.
type Limit struct {
	Key    string       `json:"key"`    // the id that the limit was made with; rotation keeps it, and the day's use
	Amount token.Amount `json:"amount"` // in the token's smallest unit; zero: any
	Count  uint64       `json:"count"`  // of payments; zero: any
}

// A Grant is the rights of a key. The zero Grant allows nothing. A key with the scope
// Keys has no limits, so that no key makes another to exceed its own.
type Grant struct {
	Scopes  Scopes
	Maximum token.Amount // of one payment, in the token's smallest unit; zero: any
	Daily   Limit
	Book    bool       // it pays active entries of the merchant's address book only
	Asset   token.Coin // it pays no other; zero: it pays any, or if amounts are limited the default
	Guard   uint64     // seconds after a payment in which it pays the same amount to its recipient no more; zero: none
	// Above it the key pays from an approved proposal only; zero: no such amount.
	ApproveAbove token.Amount
	// Root is the id of the first key of the rotations that led to this one; empty: the key itself. They are one key:
	// none approves another's proposals.
	Root string
}

// Full is the grant of a merchant's first key: everything.
func Full() Grant { return Grant{Scopes: ScopesOf(AllScopes()...)} }

// May reports whether g has a scope.
func (g Grant) May(s Scope) bool { return g.MayAny(ScopesOf(s)) }

// MayAny reports whether g has one of several scopes.
func (g Grant) MayAny(s Scopes) bool { return g.Scopes&s != 0 }

func (g Grant) limited() bool {
	return !g.Maximum.IsZero() || g.Daily != (Limit{}) || g.Book || g.Guard > 0 || g.Asset != (token.Coin{}) ||
		!g.ApproveAbove.IsZero()
}

// HasAmounts reports whether g limits amounts, which are of one asset.
func (g Grant) HasAmounts() bool {
	return cmp.Or(g.Maximum, g.Daily.Amount, g.ApproveAbove) != token.Amount{}
}

// Pays reports whether a key with g pays an asset of a stack with that default.
func (g Grant) Pays(asset, standard token.Coin) bool {
	only := g.Asset
	if only == (token.Coin{}) && g.HasAmounts() {
		only = standard
	}
	return only == (token.Coin{}) || only == asset
}

// grantText is the stored form of a Grant. Fields may be added, none changes its meaning.
type grantText struct {
	Scopes  []Scope      `json:"scopes"`
	Maximum token.Amount `json:"max_amount,omitzero"`
	Limits  []Limit      `json:"limits,omitempty"` // at most one
	Book    bool         `json:"book,omitempty"`
	Guard   uint64       `json:"repeat_guard_seconds,omitempty"`
	Asset   string       `json:"asset,omitempty"`
	Above   token.Amount `json:"approve_above,omitzero"`
	Root    string       `json:"root,omitempty"`
}

// MarshalText writes g as one line of JSON, for stores and for the authorizer's context.
func (g Grant) MarshalText() ([]byte, error) {
	t := grantText{Scopes: g.Scopes.List(), Maximum: g.Maximum, Book: g.Book, Guard: g.Guard, Above: g.ApproveAbove, Root: g.Root}
	if g.Asset != (token.Coin{}) {
		t.Asset = g.Asset.String()
	}
	if g.Daily != (Limit{}) {
		t.Limits = []Limit{g.Daily}
	}
	return json.Marshal(t)
}

// errGrant reports limits that this code would not enforce.
var errGrant = errors.New("several daily limits, an unreadable asset, or limits beside the scope keys")

// UnmarshalText reads what MarshalText wrote.
func (g *Grant) UnmarshalText(b []byte) error {
	var t grantText
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*g = Grant{Scopes: ScopesOf(t.Scopes...), Maximum: t.Maximum, Book: t.Book, Guard: t.Guard,
		ApproveAbove: t.Above, Root: t.Root}
	if len(t.Limits) == 1 {
		g.Daily = t.Limits[0]
	}
	asset, ok := token.ParseCoin(t.Asset)
	if ok {
		g.Asset = asset
	}
	if len(t.Limits) > 1 || g.May(Keys) && g.limited() || !ok && t.Asset != "" {
		return errGrant
	}
	return nil
}

// A Public is a key as its merchant sees it, in answers and events. Every field is written, null where it has no value.
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

// Permissions are a key's rights, as its merchant sees them.
type Permissions struct {
	Label       *string       `json:"label"`
	Scopes      []Scope       `json:"scopes"`
	MaxAmount   *token.Amount `json:"max_amount"`
	DailyAmount *token.Amount `json:"daily_amount"`
	DailyCount  *uint64       `json:"daily_count"`
	Recipients  string        `json:"recipients"` // "any" or "book"
	Guard       *uint64       `json:"repeat_guard_seconds"`
	Asset       *string       `json:"asset"`
	Above       *token.Amount `json:"approve_above"`

	MaxAmountText   *string `json:"max_amount_text"`
	DailyAmountText *string `json:"daily_amount_text"`
	AboveText       *string `json:"approve_above_text"`
}

// Public returns k as its merchant sees it.
func (k Key) Public() Public {
	recipients := "any"
	if k.Book {
		recipients = "book"
	}
	most, daily, above := unlessZero(k.Maximum), unlessZero(k.Daily.Amount), unlessZero(k.ApproveAbove)
	var asset *string
	if k.Asset != (token.Coin{}) {
		asset = new(k.Asset.String())
	}
	return Public{
		k.ID, k.Prefix, k.Last4, stamp(k.CreatedAt), stamp(k.LastUsedAt), stamp(k.ExpiresAt), stamp(k.RevokedAt),
		Permissions{unlessZero(k.Label), k.Scopes.List(), most, daily, unlessZero(k.Daily.Count), recipients,
			unlessZero(k.Guard), asset, above, token.Text(most), token.Text(daily), token.Text(above)},
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
