// Package apikey has the API keys of merchants: how a key is minted, parsed, rotated and revoked, and whose it is. It
// never stores, logs or prints a key, but its SHA-256 and the parts that lists show. It knows neither HTTP nor a database.
package apikey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// A Mode is the kind of money that a key moves.
type Mode string

// The two modes. A stack runs in exactly one of them.
const (
	Test Mode = "test" // testnet funds
	Live Mode = "live" // real funds
)

// ParseMode returns the mode named s, which must be "test" or "live".
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Test, Live:
		return m, nil
	}
	return "", fmt.Errorf("mode %q is neither %q nor %q", s, Test, Live)
}

// A Key is the record of an API key that was handed out. The key's text cannot be computed from it.
type Key struct {
	Hash         Hash   // the store finds the record by it
	ID           string // "key_" and the 12 characters that stand in Prefix
	MerchantID   string // "mer_…"
	MerchantName string // as the merchant gave it
	Mode         Mode
	Prefix       string    // the key's characters through its id: "remit_test_0aB…"
	Last4        string    // the key's last four characters, which are checksum digits
	CreatedAt    time.Time // UTC
	ExpiresAt    time.Time // zero: never. The key is refused from this instant on
	Term         time.Time // the expiry that the key was made with, which rotation keeps; zero: none
	RevokedAt    time.Time // zero: not revoked
	LastUsedAt   time.Time // zero: never used; at most a minute behind
	Label        string    // the merchant's words for it; empty: none
	Grant
}

// Valid reports whether the key may be used at now.
func (k Key) Valid(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// A Minted key holds its text as well as its record. Use it only for the answer that gives the key to its merchant.
type Minted struct {
	Key    Key
	Secret Secret
}

// ErrInvalid reports a key that is malformed, unknown, revoked, expired, or of the other mode, never which.
var ErrInvalid = errors.New("invalid API key")

// ErrNotFound reports a key id that does not exist or belongs to another merchant.
var ErrNotFound = errors.New("no such API key")

// ErrNotPermitted reports a request beyond the rights of its key.
var ErrNotPermitted = errors.New("the API key does not permit that")

// ErrLimit reports a merchant that has MaxLive keys.
var ErrLimit = errors.New("too many live API keys")

// MaxLive is the most keys of a merchant that are neither revoked nor expired.
const MaxLive = 25

// ErrExists reports that another key is stored under the same hash.
var ErrExists = errors.New("API key exists")

// A Finder finds the record of a presented key.
type Finder interface {
	// Find returns the key stored under hash, ErrNotFound if there is none. It sees every write that was answered
	// before the call, so that a key works as soon as its merchant has it. Every field of the Key is filled.
	Find(ctx context.Context, hash Hash) (Key, error)

	// Terms returns a merchant's terms, zero if none are stored. It sees every write that was answered before.
	Terms(ctx context.Context, merchantID string) (Terms, error)

	// Touch sets LastUsedAt to at, unless LastUsedAt is later than since already. It returns nil in both cases, and
	// ErrNotFound (creating nothing) if there is no such key. Of several callers with the same since at most one
	// writes.
	Touch(ctx context.Context, hash Hash, at, since time.Time) error
}

// NewestFirst orders a list of keys.
func NewestFirst(a, b Key) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// A Store keeps a Registry's keys. Each write is all or nothing, and may be answered with an error although applied.
type Store interface {
	Finder

	// SetTerms replaces a merchant's terms. ErrTerms if the stored ones are neither from nor to,
	// ErrAssetTerms if to has too many assets; then nothing is changed.
	SetTerms(ctx context.Context, merchantID string, from, to Terms) error

	// All returns every key of every merchant, unordered, from the whole table. No function has that right.
	All(ctx context.Context) ([]Key, error)

	// Create stores a new key. Repeating it changes nothing and returns nil; ErrExists: another key has its hash.
	Create(ctx context.Context, k Key) error

	// Issue is Create for a further key of k.MerchantID. It returns ErrLimit, storing nothing, if most of its keys or
	// more are valid at k.CreatedAt, however many callers issue keys at the same time.
	Issue(ctx context.Context, k Key, most int) error

	// Named returns the merchant's key of that ID, ErrNotFound if it has none. It may lag behind writes as List does.
	Named(ctx context.Context, merchantID, id string) (Key, error)

	// List returns the merchant's keys, newest first and by descending id among keys of the same instant; none is not
	// an error. It may lag a little behind writes (a moment, on DynamoDB).
	List(ctx context.Context, merchantID string) ([]Key, error)

	// Replace stores successor and lets the key under hash expire at at, in one step, so that a crash leaves neither
	// without the other. An earlier expiry stays. A successor that is stored already, as by a call whose answer was
	// lost, changes nothing. With ErrNotFound (the key is not merchantID's) and ErrExists (the successor's hash is
	// taken by another) nothing has changed.
	Replace(ctx context.Context, merchantID string, hash Hash, at time.Time, successor Key) error

	// Revoke sets RevokedAt of the key under hash to at, unless it is set already, and returns the key as it then is.
	// ErrNotFound, with nothing changed, if the key is not merchantID's.
	Revoke(ctx context.Context, merchantID string, hash Hash, at time.Time) (Key, error)
}
