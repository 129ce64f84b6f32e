package keyring

import (
	"context"
	"fmt"
	"sync"

	"remit/internal/token"
	"remit/internal/wallet"
)

// A Ring is the wallet.Keys of the wallet secret. Formatting or logging a Ring
// shows a constant.
type Ring struct {
	redacted
	entries func(context.Context) ([]Entry, error)
	unpack  func()
}

var _ wallet.Keys = (*Ring)(nil)

// New returns the keys of entries, in that order. Every method calls entries, from
// many goroutines, so entries should cache what it decodes.
func New(entries func(context.Context) ([]Entry, error)) *Ring {
	// Key number 1 unpacks the curve's table of base points, on which the pure Go
	// curve spends some 5 ms at its first use.
	return &Ring{entries: entries, unpack: sync.OnceFunc(func() {
		go func() { _, _ = keyOf(append(make([]byte, 31), 1)) }()
	})}
}

// Active implements wallet.Keys. It is empty when all wallets are draining.
func (r *Ring) Active(ctx context.Context) ([]token.Address, error) {
	return r.addresses(ctx, false)
}

// All implements wallet.Keys.
func (r *Ring) All(ctx context.Context) ([]token.Address, error) { return r.addresses(ctx, true) }

func (r *Ring) addresses(ctx context.Context, draining bool) ([]token.Address, error) {
	entries, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	var addresses []token.Address
	for _, e := range entries {
		if draining || !e.Draining {
			addresses = append(addresses, e.Key.Address())
		}
	}
	return addresses, nil
}

// Signer implements wallet.Keys.
func (r *Ring) Signer(ctx context.Context, address token.Address) (wallet.Signer, error) {
	entries, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Key.Address() == address {
			return e.Key, nil
		}
	}
	return nil, fmt.Errorf("%w %v", wallet.ErrNoKey, address)
}

// load reads the entries. The first time, the curve unpacks its table meanwhile:
// entries waits for the network.
func (r *Ring) load(ctx context.Context) ([]Entry, error) {
	r.unpack()
	entries, err := r.entries(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the wallet keys: %w", err)
	}
	return entries, nil
}
