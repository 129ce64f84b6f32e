package keyring

import (
	"context"
	"fmt"
	"sync"

	"remit/internal/token"
	"remit/internal/wallet"
)

// A Ring is the wallet.Keys of wallets that each have a secret. Formatting or logging
// a Ring shows a constant.
type Ring struct {
	redacted
	open   func(token.Address) Read
	unpack func()

	mu    sync.Mutex
	reads map[token.Address]Read // of the wallets that have signed
}

var _ wallet.Keys = (*Ring)(nil)

// A Read returns the key of one wallet, from many goroutines, so it should cache what
// it reads. It returns wallet.ErrNoKey if there is none.
type Read func(context.Context) (Key, error)

// New returns the keys that the Read of each address has. open is called once for an
// address, when it is to sign for the first time.
func New(open func(token.Address) Read) *Ring {
	// Key number 1 unpacks the curve's table of base points, on which the pure Go
	// curve spends some 5 ms at its first use.
	return &Ring{open: open, reads: map[token.Address]Read{}, unpack: sync.OnceFunc(func() {
		go func() { _, _ = keyOf(append(make([]byte, 31), 1)) }()
	})}
}

// Signer implements wallet.Keys. The first time, the curve unpacks its table
// meanwhile: a Read waits for the network. A key of another wallet is ErrSecret.
func (r *Ring) Signer(ctx context.Context, w wallet.Registration) (wallet.Signer, error) {
	r.unpack()
	r.mu.Lock()
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
