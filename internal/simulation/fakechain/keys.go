package fakechain

import (
	"context"
	"errors"
	"slices"
	"sync"

	"remit/internal/chain"
	"remit/internal/token"
	"remit/internal/wallet"
)

// ErrSecret is the error of every call of Keys while the secret store is down.
var ErrSecret = errors.New("secret store is down")

// Wallet is the address of the n-th wallet that pays.
func Wallet(n int) token.Address { return token.Address{0: 0xaa, 19: byte(n)} }

// Payee is the address of the n-th payee. Each payment of a test has a payee of
// its own, so the chain alone tells which payments were made.
func Payee(n int) token.Address { return token.Address{0: 0xee, 18: byte(n >> 8), 19: byte(n)} }

// Keys are the keys of wallets, as the secret store holds them. A test may add
// or drain wallets and take the secret store down at any time. The zero
// Keys hold none. Keys are safe for concurrent use.
type Keys struct {
	mu       sync.Mutex
	all      []token.Address
	draining []token.Address
	down     bool
}

var _ wallet.Keys = (*Keys)(nil)

// Add puts a wallet into the secret.
func (k *Keys) Add(a token.Address) { k.change(func() { k.all = append(k.all, a) }) }

// Drain keeps new payments off a wallet, whose key is being retired.
func (k *Keys) Drain(a token.Address) { k.change(func() { k.draining = append(k.draining, a) }) }

// Down takes the secret store down, so that every call fails with ErrSecret, or
// brings it back.
func (k *Keys) Down(down bool) { k.change(func() { k.down = down }) }

func (k *Keys) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Active implements wallet.Keys.
func (k *Keys) Active(ctx context.Context) ([]token.Address, error) {
	active, err := k.All(ctx)
	k.change(func() {
		active = slices.DeleteFunc(active, func(a token.Address) bool { return slices.Contains(k.draining, a) })
	})
	return active, err
}

// All implements wallet.Keys.
func (k *Keys) All(context.Context) ([]token.Address, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down {
		return nil, ErrSecret
	}
	return slices.Clone(k.all), nil
}

// Signer implements wallet.Keys.
func (k *Keys) Signer(ctx context.Context, a token.Address) (wallet.Signer, error) {
	all, err := k.All(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(all, a) {
		return nil, wallet.ErrNoKey
	}
	return signer(a), nil
}

type signer token.Address

// Sign implements wallet.Signer.
func (s signer) Sign(tx chain.Tx, nonce uint64) (chain.Signed, error) {
	return Tx{Tx: tx, From: token.Address(s), Nonce: nonce}.Sign(), nil
}
