package apikey

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// touchEvery is how far LastUsedAt may lag, so that a busy key costs one write
// a minute; touchBudget is the longest that a request waits for that write.
const (
	touchEvery  = time.Minute
	touchBudget = 500 * time.Millisecond
)

// An Authenticator finds the merchant that a presented key belongs to.
type Authenticator struct {
	Keys Finder
	Mode Mode // the stack's; keys of the other mode are refused without a read
}

// Authenticate returns the principal of a key that is valid at now, and ErrInvalid for every other key. Any other
// error is the store's, and leaves open whether the key is valid.
//
// It also records the use of the key, at most once a minute. Only the list of
// keys shows that record, so a failure to write it is logged and no error.
func (a *Authenticator) Authenticate(ctx context.Context, presented string, now time.Time) (Principal, error) {
	s, err := Parse(presented)
	if err != nil {
		return Principal{}, err
	}
	if s.Mode() != a.Mode {
		return Principal{}, ErrInvalid
	}
	k, err := a.Keys.Find(ctx, s.Hash())
	if errors.Is(err, ErrNotFound) {
		return Principal{}, ErrInvalid
	}
	if err != nil {
		return Principal{}, fmt.Errorf("looking up %s: %w", s.ID(), err)
	}
	if k.Mode != a.Mode || !k.Valid(now) {
		return Principal{}, ErrInvalid
	}
	var touched sync.WaitGroup
	touched.Go(func() { a.touch(ctx, k, now) })
	terms, err := a.Keys.Terms(ctx, k.MerchantID)
	touched.Wait()
	if err != nil {
		return Principal{}, fmt.Errorf("looking up the terms of %s: %w", k.MerchantID, err)
	}
	return Principal{MerchantID: k.MerchantID, KeyID: k.ID, Mode: k.Mode, Hash: k.Hash, Grant: k.Grant, Terms: terms}, nil
}

// Current returns p with its grant and terms as they are stored at now, and ErrInvalid if its key has ended: the
// authorizer's answer, which p is of, may be minutes old. Any other error is the store's.
func Current(ctx context.Context, keys Finder, p Principal, now time.Time) (Principal, error) {
	var k Key
	var terms Terms
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) { k, err = asking(ctx, keys, p, now); return err })
	reads.Go(func() (err error) { terms, err = keys.Terms(ctx, p.MerchantID); return err })
	if err := reads.Wait(); err != nil {
		return Principal{}, fmt.Errorf("reading %s again: %w", p.KeyID, err)
	}
	p.Grant, p.Terms = k.Grant, terms
	return p, nil
}

func (a *Authenticator) touch(ctx context.Context, k Key, now time.Time) {
	since := now.Add(-touchEvery)
	if k.LastUsedAt.After(since) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, touchBudget)
	defer cancel()
	if err := a.Keys.Touch(ctx, k.Hash, now, since); err != nil {
		slog.WarnContext(ctx, "recording the use of a key", "key_id", k.ID, "err", err)
	}
}
