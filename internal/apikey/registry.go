package apikey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// MaxOverlap is the longest time for which a key works after its rotation.
const MaxOverlap = 7 * 24 * time.Hour

// ErrOverlap reports an overlap below zero or above MaxOverlap.
var ErrOverlap = errors.New("the old key may work for 0 to 604800 seconds more")

// A Registry creates, lists, rotates and revokes the keys of one stack.
type Registry struct {
	store  Store
	mode   Mode
	now    func() time.Time
	random io.Reader
}

// NewRegistry returns a registry of the keys in store that mints keys of the
// given mode. random must be a cryptographic source, such as crypto/rand.Reader.
func NewRegistry(store Store, mode Mode, now func() time.Time, random io.Reader) *Registry {
	return &Registry{store, mode, now, random}
}

// Create makes a merchant of that name and its first key. Two calls with one
// name make two merchants. It returns an error of CheckName for a name that a
// merchant may not have. After any other error the merchant may be stored; its
// key was never handed out, so no request can use it.
func (r *Registry) Create(ctx context.Context, merchantName string) (Minted, error) {
	if err := CheckName(merchantName); err != nil {
		return Minted{}, err
	}
	id, err := draw(r.random, merchantLen)
	if err != nil {
		return Minted{}, fmt.Errorf("naming a merchant: %w", err)
	}
	return r.Issue(ctx, "mer_"+id, merchantName)
}

// ErrMerchant reports an id that no merchant can have.
var ErrMerchant = errors.New("a merchant's id is mer_ and 16 letters or digits")

// Issue makes one more key of a merchant whose keys are lost. Whoever holds it is
// that merchant, so it must be given to no one else. It returns ErrMerchant for an
// id that is none, and otherwise the errors of Create.
func (r *Registry) Issue(ctx context.Context, merchantID, merchantName string) (Minted, error) {
	if err := CheckName(merchantName); err != nil {
		return Minted{}, err
	}
	if id, ok := strings.CutPrefix(merchantID, "mer_"); !ok || len(id) != merchantLen || strings.Trim(id, alphabet) != "" {
		return Minted{}, fmt.Errorf("%q: %w", merchantID, ErrMerchant)
	}
	m, err := r.mint(merchantID, merchantName)
	if err != nil {
		return Minted{}, err
	}
	if err := r.store.Create(ctx, m.Key); err != nil {
		return Minted{}, fmt.Errorf("storing %s: %w", m.Key.ID, err)
	}
	return m, nil
}

// List returns the merchant's keys, revoked and expired ones too, newest first.
func (r *Registry) List(ctx context.Context, merchantID string) ([]Key, error) {
	keys, err := r.store.List(ctx, merchantID)
	if err != nil {
		return nil, fmt.Errorf("listing the keys of %s: %w", merchantID, err)
	}
	return keys, nil
}

// Rotate gives the merchant a new key in place of the key named id. The old key
// works for overlap more (0: not at all), unless its own expiry or revocation
// ends it earlier. The new key is valid even if the old one was not.
//
// It returns ErrOverlap, or ErrNotFound for a key that is not the merchant's.
// After any other error the rotation may have been stored, but its new key was
// never handed out: the caller rotates again, which is safe.
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

// Revoke makes the key named id invalid at once and returns it. A revoked key
// stays as it is. It returns ErrNotFound for a key that is not the merchant's.
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

// instant returns the present in UTC to the microsecond, which every store
// keeps exactly.
func (r *Registry) instant() time.Time { return r.now().UTC().Truncate(time.Microsecond) }
