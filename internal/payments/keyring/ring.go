package keyring

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Ring is the wallet.Keys of wallets of which each has its key in a secret or in a
// service that signs. Formatting or logging a Ring shows a constant.
type Ring struct {
	redacted
	open    func(token.Address) Read
	service func(wallet.Registration) *Remote // nil: there is none
	unpack  func()

	mu      sync.Mutex
	reads   map[token.Address]Read // of the wallets that have signed
	remotes map[wallet.KeyRef]*Remote
}

var _ wallet.Keys = (*Ring)(nil)

// A Read returns the key of one wallet, from many goroutines, so it should cache the
// key. It returns wallet.ErrNoKey if there is none.
type Read func(context.Context) (Key, error)

// New returns the keys that the Read of each address has. open is called once for an
// address, when it is to sign for the first time.
func New(open func(token.Address) Read) *Ring {
	// Key number 1 unpacks the curve's table of base points, on which the pure Go
	// curve spends some 5 ms at its first use.
	return &Ring{open: open, reads: map[token.Address]Read{}, remotes: map[wallet.KeyRef]*Remote{}, unpack: sync.OnceFunc(func() {
		go func() { _, _ = keyOf(append(make([]byte, 31), 1)) }()
	})}
}

// Signing adds a service that signs for the wallets whose keys are in no secret. It returns r.
func (r *Ring) Signing(now func() time.Time, digest func(ctx context.Context, key wallet.KeyRef, digest []byte) ([]byte, error)) *Ring {
	r.service = func(w wallet.Registration) *Remote {
		return NewRemote(w.Address, now, func(ctx context.Context, d []byte) ([]byte, error) { return digest(ctx, w.Key, d) })
	}
	return r
}

// Signer implements wallet.Keys. The first time, the curve unpacks its table
// meanwhile: a Read waits for the network. A key of another wallet is ErrSecret.
func (r *Ring) Signer(ctx context.Context, w wallet.Registration) (wallet.Signer, error) {
	r.unpack()
	r.mu.Lock()
	if w.Key != wallet.InSecret {
		defer r.mu.Unlock()
		if r.service == nil {
			return nil, fmt.Errorf("%w %s: no service signs here", wallet.ErrNoKey, w.Address)
		}
		if r.remotes[w.Key] == nil {
			r.remotes[w.Key] = r.service(w)
		}
		return r.remotes[w.Key], nil
	}
	read := r.reads[w.Address]
	if read == nil {
		read = r.open(w.Address)
		r.reads[w.Address] = read
	}
	r.mu.Unlock()
	key, err := read(ctx)
	if err == nil && key.Address() != w.Address {
		err = fmt.Errorf("%w: it holds the key of another wallet", ErrSecret)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of wallet %s: %w", w.Address, err)
	}
	return key, nil
}
