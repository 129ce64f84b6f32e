package apikey

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// touchEvery is how far LastUsedAt may lag, so that a busy key costs one write
// a minute; touchBudget is how long a request waits for that write at most.
const (
	touchEvery  = time.Minute
	touchBudget = 500 * time.Millisecond
)

// An Authenticator tells whose a presented key is.
type Authenticator struct {
	keys Finder
	mode Mode
}

// NewAuthenticator returns an authenticator for a stack of the given mode;
// keys of the other mode are refused without a read.
func NewAuthenticator(keys Finder, mode Mode) *Authenticator {
	return &Authenticator{keys, mode}
}

// Authenticate returns whom the presented key belongs to at now. It returns
// ErrInvalid for a key that opens nothing; any other error says that the
// store could not be asked, and nothing about the key.
//
// It records the use of the key, at most once a minute. That record is for
// people to look at: losing it is logged and fails nothing.
func (a *Authenticator) Authenticate(ctx context.Context, presented string, now time.Time) (Principal, error) {
	s, err := Parse(presented)
	if err != nil {
		return Principal{}, err
	}
	if s.Mode() != a.mode {
		return Principal{}, ErrInvalid
	}
	k, err := a.keys.Find(ctx, s.Hash())
	if errors.Is(err, ErrNotFound) {
		return Principal{}, ErrInvalid
	}
	if err != nil {
		return Principal{}, fmt.Errorf("looking up %s: %w", s.ID(), err)
	}
	if k.Mode != a.mode || !k.Valid(now) {
		return Principal{}, ErrInvalid
	}
	a.touch(ctx, k, now)
	return Principal{MerchantID: k.MerchantID, KeyID: k.ID, Mode: k.Mode}, nil
}

func (a *Authenticator) touch(ctx context.Context, k Key, now time.Time) {
	since := now.Add(-touchEvery)
	if k.LastUsedAt.After(since) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, touchBudget)
	defer cancel()
	if err := a.keys.Touch(ctx, k.Hash, now, since); err != nil {
		slog.WarnContext(ctx, "recording the use of a key", "key_id", k.ID, "err", err)
	}
}
