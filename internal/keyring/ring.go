package keyring

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"remit/internal/token"
	"remit/internal/wallet"
)

// A Ring is the wallet.Keys read from the wallet secret. Formatting or logging a
// Ring shows a constant.
type Ring struct {
	secret func(context.Context) ([]byte, error)
	stale  func(error)

	mu   sync.Mutex
	sum  [sha256.Size]byte // of the secret last decoded, good or bad
	err  error             // why that secret was refused; nil when it is in use
	held *keys             // the last good ones; nil before the first
	told bool              // whether stale was called since the last success
}

// keys is one good secret.
type keys struct {
	active, all []token.Address // in the secret's order
	signers     map[token.Address]Key
}

var _ wallet.Keys = (*Ring)(nil)

// New returns the keys in the wallet secret. Every method calls secret, from many
// goroutines, so secret should cache; the Ring decodes each distinct content once.
//
// After a first success, a secret that cannot be read or decoded does not stop the
// Ring: it keeps the last good keys and calls stale, if not nil, with the reason,
// once until the next success. Before the first success every method returns the
// error.
func New(secret func(context.Context) ([]byte, error), stale func(error)) *Ring {
	if stale == nil {
		stale = func(error) {}
	}
	return &Ring{secret: secret, stale: stale}
}

// Active implements wallet.Keys, in the secret's order. It is empty when all
// wallets are draining.
func (r *Ring) Active(ctx context.Context) ([]token.Address, error) {
	held, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	return append([]token.Address(nil), held.active...), nil
}

// All implements wallet.Keys, in the secret's order.
func (r *Ring) All(ctx context.Context) ([]token.Address, error) {
	held, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	return append([]token.Address(nil), held.all...), nil
}

// Signer implements wallet.Keys.
func (r *Ring) Signer(ctx context.Context, address token.Address) (wallet.Signer, error) {
	held, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	key, ok := held.signers[address]
	if !ok {
		return nil, fmt.Errorf("%w %v", wallet.ErrNoKey, address)
	}
	return key, nil
}

func (r *Ring) load(ctx context.Context) (*keys, error) {
	raw, err := r.fetch(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = r.use(raw)
	}
	if err == nil {
		r.told = false
		return r.held, nil
	}
	err = fmt.Errorf("reading the wallet keys: %w", err)
	if r.held == nil {
		return nil, err
	}
	if !r.told {
		r.told = true
		r.stale(err)
	}
	return r.held, nil
}

// fetch reads the secret. The first time, fetch unpacks the curve's table of base
// points while it waits for the network: the pure Go curve spends some 5 ms on
// that at its first use.
func (r *Ring) fetch(ctx context.Context) ([]byte, error) {
	r.mu.Lock()
	cold := r.held == nil
	r.mu.Unlock()
	if !cold {
		return r.secret(ctx)
	}
	var unpacking sync.WaitGroup
	unpacking.Go(func() { _, _ = keyOf(append(make([]byte, 31), 1)) })
	defer unpacking.Wait()
	return r.secret(ctx)
}

// use decodes raw and puts its keys to use, unless raw is the secret last decoded.
func (r *Ring) use(raw []byte) error {
	sum := sha256.Sum256(raw)
	if sum == r.sum {
		return r.err
	}
	entries, err := Decode(raw)
	r.sum, r.err = sum, err
	if err == nil {
		r.held = keysOf(entries)
	}
	return err
}

func keysOf(entries []Entry) *keys {
	held := &keys{signers: make(map[token.Address]Key, len(entries))}
	for _, e := range entries {
		address := e.Key.Address()
		held.signers[address] = e.Key
		held.all = append(held.all, address)
		if !e.Draining {
			held.active = append(held.active, address)
		}
	}
	return held
}

// String returns a constant.
func (*Ring) String() string { return redacted }

// GoString returns a constant.
func (*Ring) GoString() string { return redacted }

// Format writes a constant for every verb.
func (*Ring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns a constant.
func (*Ring) LogValue() slog.Value { return slog.StringValue(redacted) }
