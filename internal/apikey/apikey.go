// Package apikey knows the keys merchants authenticate with: how one is minted
// and read, who it belongs to, and how it is rotated and revoked. It never
// stores, logs or prints a key; it keeps the SHA-256 of it, the part shown in
// lists, and nothing else. It knows neither HTTP nor any database.
package apikey

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Mode says which money a key moves.
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

// A Key is what is known of an API key once it has been handed out. The key
// itself is not part of it and cannot be computed from it.
type Key struct {
	Hash         Hash   // what it is stored under
	ID           string // "key_" and the 12 characters that stand in Prefix
	MerchantID   string // "mer_…"
	MerchantName string // as the merchant gave it
	Mode         Mode
	Prefix       string    // the key's characters through its id: "remit_test_0aB…"
	Last4        string    // the key's last four characters, which are checksum digits
	CreatedAt    time.Time // UTC
	ExpiresAt    time.Time // zero: never. The key is refused from this instant on
	RevokedAt    time.Time // zero: not revoked
	LastUsedAt   time.Time // zero: never used; at most a minute behind
}

// Valid reports whether the key may be used at now.
func (k Key) Valid(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// A Minted key is the one occasion on which Secret exists outside the
// merchant's own hands.
type Minted struct {
	Key    Key
	Secret Secret
}

// ErrInvalid reports a key that opens nothing: malformed, unknown, revoked,
// expired, or of the other mode. It never says which.
var ErrInvalid = errors.New("invalid API key")

// ErrNotFound reports a key id that does not exist or belongs to somebody else.
var ErrNotFound = errors.New("no such API key")

// ErrExists reports that another key is stored under the same hash.
var ErrExists = errors.New("API key exists")

// A Finder is what checking a presented key asks of the store.
type Finder interface {
	// Find returns the key stored under hash, ErrNotFound if there is none.
	// It sees every write that was answered before it was called: a key works
	// from the moment it is handed out. A Key it returns has all fields set.
	Find(ctx context.Context, hash Hash) (Key, error)

	// Touch sets LastUsedAt to at, unless it is later than since already. It
	// returns nil in both cases, and ErrNotFound (creating nothing) if there
	// is no such key. Of several callers with the same since at most one
	// writes.
	Touch(ctx context.Context, hash Hash, at, since time.Time) error
}

// A Store keeps keys for a Registry. Each of its writes is all or nothing, and may
// be answered with an error although it was applied.
type Store interface {
	// Create stores a new key. Creating the very same key again changes
	// nothing and returns nil; ErrExists says that its hash is another's.
	Create(ctx context.Context, k Key) error

	// List returns the merchant's keys, newest first and by descending id
	// among keys of the same instant; none is not an error. It may lag a
	// little behind writes (a moment, on DynamoDB).
	List(ctx context.Context, merchantID string) ([]Key, error)

	// Replace stores successor and lets the key under hash expire at at, in
	// one step, so that a crash leaves neither without the other. A key that
	// expires earlier already goes on to do so. ErrNotFound if the key is not
	// merchantID's, ErrExists if the successor's hash is taken; nothing is
	// changed then.
	Replace(ctx context.Context, merchantID string, hash Hash, at time.Time, successor Key) error

	// Revoke sets RevokedAt of the key under hash to at, unless it is set
	// already, and returns the key as it then is. ErrNotFound, with nothing
	// changed, if the key is not merchantID's.
	Revoke(ctx context.Context, merchantID string, hash Hash, at time.Time) (Key, error)
}
