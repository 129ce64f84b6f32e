package apikey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// MaxOverlap is the longest time for which a key works after its rotation.
const MaxOverlap = 7 * 24 * time.Hour

// A Registry creates, lists, rotates and revokes the keys of one stack.
type Registry struct {
	Store  Store
	Mode   Mode // of the keys that it mints
	Now    func() time.Time
	Random io.Reader // a cryptographic source, such as crypto/rand.Reader
}

// Create makes a merchant of that name and its first key; the zero KeyRequest asks for a key that may do everything.
// Two calls with one name make two merchants. It returns an error of CheckName for a name that a merchant may not have,
// KeyRequest.Check's or ErrNoScope. After any other error the merchant may be stored; its key was never handed out.
func (r *Registry) Create(ctx context.Context, merchantName string, request KeyRequest) (Minted, error) {
	if err := CheckName(merchantName); err != nil {
		return Minted{}, err
	}
	m := r.mint("mer_"+draw(r.Random, merchantLen), merchantName)
	if err := request.Restrict(Key{Grant: Full()}, &m.Key); err != nil {
		return Minted{}, err
	}
	if err := r.Store.Create(ctx, m.Key); err != nil {
		return Minted{}, fmt.Errorf("storing %s: %w", m.Key.ID, err)
	}
	return m, nil
}

// An Announce notifies the merchant of a key that is about to be stored. If it fails, the key is not stored.
type Announce func(ctx context.Context, k Key) error

// Asking returns the key that p was authenticated with, as it is now: API Gateway remembers a principal for a while,
// in which its key may have ended. It returns ErrInvalid for a key that has.
func (r *Registry) Asking(ctx context.Context, p Principal) (Key, error) {
	return asking(ctx, r.Store, p, r.instant())
}

func asking(ctx context.Context, keys Finder, p Principal, now time.Time) (Key, error) {
	k, err := keys.Find(ctx, p.Hash)
	if errors.Is(err, ErrNotFound) || err == nil && (k.MerchantID != p.MerchantID || !k.Valid(now)) {
		return Key{}, ErrInvalid
	}
	if err != nil {
		return Key{}, fmt.Errorf("looking up %s: %w", p.KeyID, err)
	}
	return k, nil
}

// Issue makes a further key of by's merchant, with no scope that by lacks and no later expiry. The merchant is
// notified first, so that no key works without its notice; after a crash, or when others take its place under MaxLive
// meanwhile, it may have been notified of a key that was never stored. The errors are KeyRequest.Check's, ErrNoScope,
// ErrNotPermitted and ErrLimit. After any other error the key may be stored; it was never handed out.
func (r *Registry) Issue(ctx context.Context, by Key, request KeyRequest, announce Announce) (Minted, error) {
	m := r.mint(by.MerchantID, by.MerchantName)
	if err := request.Restrict(by, &m.Key); err != nil {
		return Minted{}, err
	}
	keys, err := r.Store.List(ctx, by.MerchantID)
	if err != nil {
		return Minted{}, fmt.Errorf("listing the keys of %s: %w", by.MerchantID, err)
	}
	live := slices.DeleteFunc(keys, func(k Key) bool { return !k.Valid(m.Key.CreatedAt) })
	if len(live) >= MaxLive {
		return Minted{}, ErrLimit
	}
	if err := announce(ctx, m.Key); err != nil {
		return Minted{}, fmt.Errorf("announcing %s: %w", m.Key.ID, err)
	}
	if err := r.Store.Issue(ctx, m.Key, MaxLive); err != nil {
		return Minted{}, fmt.Errorf("storing %s: %w", m.Key.ID, err)
	}
	return m, nil
}

// Rotate gives by's merchant a new key in place of the key named id: it may do the same, and counts for the same
// daily limits. The old key works for overlap more (0: not at all; MaxOverlap at most), unless its own expiry or revocation ends it
// earlier. The new key is valid even if the old one was not. The merchant is notified first, as by Issue.
//
// It returns ErrNotFound for a key that is not the merchant's, or ErrNotPermitted for one with a scope
// that by lacks, or one other than by whose successor would expire later than by. After any other error the rotation
// may have been stored, but its new key was never handed out: the caller rotates again, which is safe.
func (r *Registry) Rotate(ctx context.Context, by Key, id string, overlap time.Duration, announce Announce) (Minted, error) {
	old, err := r.find(ctx, by, id)
	if err != nil {
		return Minted{}, err
	}
	if old.ID != by.ID && later(old.Term, by.ExpiresAt) {
		return Minted{}, fmt.Errorf("rotating %s: %w", id, ErrNotPermitted)
	}
	m := r.mint(by.MerchantID, old.MerchantName)
	m.Key.Label, m.Key.Grant, m.Key.ExpiresAt, m.Key.Term = old.Label, old.Grant, old.Term, old.Term
	m.Key.Root = cmp.Or(old.Root, old.ID)
	if err := announce(ctx, m.Key); err != nil {
		return Minted{}, fmt.Errorf("announcing %s: %w", m.Key.ID, err)
	}
	if err := r.Store.Replace(ctx, by.MerchantID, old.Hash, m.Key.CreatedAt.Add(overlap), m.Key); err != nil {
		return Minted{}, fmt.Errorf("rotating %s: %w", id, err)
	}
	return m, nil
}

// Revoke makes the key named id invalid at once and returns it. A revoked key stays as it is. It returns ErrNotFound
// for a key that is not of by's merchant, and ErrNotPermitted for one with a scope that by lacks.
func (r *Registry) Revoke(ctx context.Context, by Key, id string) (Key, error) {
	k, err := r.find(ctx, by, id)
	if err != nil {
		return Key{}, err
	}
	k, err = r.Store.Revoke(ctx, by.MerchantID, k.Hash, r.instant())
	if err != nil {
		return Key{}, fmt.Errorf("revoking %s: %w", id, err)
	}
	return k, nil
}

// find returns a key of by's merchant that has no scope that by lacks.
func (r *Registry) find(ctx context.Context, by Key, id string) (Key, error) {
	k, err := r.Store.Named(ctx, by.MerchantID, id)
	if err != nil {
		return Key{}, fmt.Errorf("looking for %q of %s: %w", id, by.MerchantID, err)
	}
	if k.Scopes&^by.Scopes != 0 {
		return Key{}, fmt.Errorf("acting on %s: %w", id, ErrNotPermitted)
	}
	return k, nil
}

func (r *Registry) mint(merchantID, merchantName string) Minted {
	s := Mint(r.Random, r.Mode)
	return Minted{Secret: s, Key: Key{
		Hash: s.Hash(), ID: s.ID(), MerchantID: merchantID, MerchantName: merchantName,
		Mode: r.Mode, Prefix: s.Prefix(), Last4: s.Last4(), CreatedAt: r.instant(),
	}}
}

// instant returns the present in UTC to the microsecond, which every store keeps exactly.
func (r *Registry) instant() time.Time { return r.Now().UTC().Truncate(time.Microsecond) }
