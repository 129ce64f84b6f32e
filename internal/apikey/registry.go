package apikey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// MaxOverlap is the longest an old key may go on working after its rotation.
const MaxOverlap = 7 * 24 * time.Hour

// ErrOverlap reports an overlap below zero or above MaxOverlap.
var ErrOverlap = errors.New("the old key may work for 0 to 604800 seconds more")

// A Registry hands out the keys of one stack and takes them back.
type Registry struct {
	store  Store
	mode   Mode
	now    func() time.Time
	random io.Reader
}

// NewRegistry returns a registry kept in store that mints keys of the given mode.
// random must be a cryptographic source, such as crypto/rand.Reader.
func NewRegistry(store Store, mode Mode, now func() time.Time, random io.Reader) *Registry {
	return &Registry{store, mode, now, random}
}

// Create makes a new merchant of that name and its first key. Every call makes
// another merchant, whatever the name. It returns an error of CheckName for a
// name that cannot be used. After any other error a merchant may exist whose
// key nobody has seen, which opens nothing to anybody.
func (r *Registry) Create(ctx context.Context, merchantName string) (Minted, error) {
	if err := CheckName(merchantName); err != nil {
		return Minted{}, err
	}
	id, err := draw(r.random, merchantLen)
	if err != nil {
		return Minted{}, fmt.Errorf("naming a merchant: %w", err)
	}
	m, err := r.mint("mer_"+id, merchantName)
	if err != nil {
		return Minted{}, err
	}
	if err := r.store.Create(ctx, m.Key); err != nil {
		return Minted{}, fmt.Errorf("storing %s: %w", m.Key.ID, err)
	}
	return m, nil
}

// List returns the merchant's keys, newest first, the revoked and expired ones
// among them.
func (r *Registry) List(ctx context.Context, merchantID string) ([]Key, error) {
	keys, err := r.store.List(ctx, merchantID)
	if err != nil {
		return nil, fmt.Errorf("listing the keys of %s: %w", merchantID, err)
	}
	return keys, nil
}

// Rotate gives the merchant a new key in place of the one named id, which goes
// on working for overlap (0: not at all), or as long as it would have worked
// anyway if that is shorter. The new key is valid even if the old one was not.
//
// It returns ErrOverlap, or ErrNotFound for a key that is not the merchant's.
// After any other error the rotation may have happened, but nobody has seen
// its key: rotating again is safe, and the only way to have one.
func (r *Registry) Rotate(ctx context.Context, merchantID, id string, overlap time.Duration) (Minted, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Minted{}, ErrOverlap
	}
	old, err := r.find(ctx, merchantID, id)
	if err != nil {
		return Minted{}, err
	}
	m, err := r.mint(merchantID, old.MerchantName)
	if err != nil {
		return Minted{}, err
	}
	if err := r.store.Replace(ctx, merchantID, old.Hash, m.Key.CreatedAt.Add(overlap), m.Key); err != nil {
		return Minted{}, fmt.Errorf("rotating %s: %w", id, err)
	}
	return m, nil
}

// Revoke ends the life of the key named id at once and returns it. A key that
// is revoked already stays as it is. It returns ErrNotFound for a key that is
// not the merchant's.
func (r *Registry) Revoke(ctx context.Context, merchantID, id string) (Key, error) {
	k, err := r.find(ctx, merchantID, id)
	if err != nil {
		return Key{}, err
	}
	k, err = r.store.Revoke(ctx, merchantID, k.Hash, r.instant())
	if err != nil {
		return Key{}, fmt.Errorf("revoking %s: %w", id, err)
	}
	return k, nil
}

func (r *Registry) find(ctx context.Context, merchantID, id string) (Key, error) {
	keys, err := r.List(ctx, merchantID)
	if err != nil {
		return Key{}, err
	}
	for _, k := range keys {
		if k.ID == id {
			return k, nil
		}
	}
	return Key{}, fmt.Errorf("looking for %q of %s: %w", id, merchantID, ErrNotFound)
}

func (r *Registry) mint(merchantID, merchantName string) (Minted, error) {
	s, err := Mint(r.random, r.mode)
	if err != nil {
		return Minted{}, err
	}
	return Minted{Secret: s, Key: Key{
		Hash: s.Hash(), ID: s.ID(), MerchantID: merchantID, MerchantName: merchantName,
		Mode: r.mode, Prefix: s.Prefix(), Last4: s.Last4(), CreatedAt: r.instant(),
	}}, nil
}

// instant is the present to the microsecond, which every store keeps exactly.
func (r *Registry) instant() time.Time { return r.now().UTC().Truncate(time.Microsecond) }
