package simulation

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"remit/internal/chain"
	"remit/internal/token"
	"remit/internal/wallet"
)

// ErrSecret is what Keys fail with while the secret store is down.
var ErrSecret = errors.New("secret store is down")

// An envelope is a signed transaction of the fake chain. Like a real one it has
// exactly one form for a wallet, a transaction and a nonce.
type envelope struct {
	chain.Tx
	From  token.Address
	Nonce uint64
}

// sign returns the bytes of e and their hash.
func (e envelope) sign() chain.Signed {
	raw := make([]byte, 0, 128+len(e.Data))
	raw = append(raw, e.From[:]...)
	raw = append(raw, e.To[:]...)
	for _, n := range []uint64{e.ChainID, e.Nonce, e.Gas} {
		raw = binary.BigEndian.AppendUint64(raw, n)
	}
	for _, fee := range []token.Amount{e.Fees.Tip, e.Fees.Cap} {
		word := fee.Bytes32()
		raw = append(raw, word[:]...)
	}
	raw = append(raw, e.Data...)
	return chain.Signed{Nonce: e.Nonce, Hash: sha256.Sum256(raw), Raw: raw}
}

// decode reads what sign wrote.
func decode(raw []byte) (e envelope, ok bool) {
	const head = 2*20 + 3*8 + 2*32
	if len(raw) < head {
		return e, false
	}
	copy(e.From[:], raw)
	copy(e.To[:], raw[20:])
	e.ChainID = binary.BigEndian.Uint64(raw[40:])
	e.Nonce = binary.BigEndian.Uint64(raw[48:])
	e.Gas = binary.BigEndian.Uint64(raw[56:])
	e.Fees.Tip, _ = token.AmountFromBytes(raw[64:96])
	e.Fees.Cap, _ = token.AmountFromBytes(raw[96:128])
	e.Data = raw[head:]
	return e, true
}

// Keys are the fake wallets. Tests may drain them, or take the store of the
// secret away, at any time.
type Keys struct {
	mu       sync.Mutex
	all      []token.Address
	draining []token.Address
	down     bool
}

var _ wallet.Keys = (*Keys)(nil)

// Add puts a wallet into the secret.
func (k *Keys) Add(a token.Address) { k.change(func() { k.all = append(k.all, a) }) }

// Drain keeps new payments off a wallet.
func (k *Keys) Drain(a token.Address) { k.change(func() { k.draining = append(k.draining, a) }) }

// Remove takes a wallet out of the secret.
func (k *Keys) Remove(a token.Address) {
	k.change(func() { k.all = slices.DeleteFunc(k.all, func(b token.Address) bool { return a == b }) })
}

// Down makes every call fail until it is called with false.
func (k *Keys) Down(down bool) { k.change(func() { k.down = down }) }

func (k *Keys) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Active implements wallet.Keys.
func (k *Keys) Active(context.Context) ([]token.Address, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down {
		return nil, ErrSecret
	}
	return slices.DeleteFunc(slices.Clone(k.all), func(a token.Address) bool { return slices.Contains(k.draining, a) }), nil
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
func (k *Keys) Signer(_ context.Context, a token.Address) (wallet.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.down:
		return nil, ErrSecret
	case !slices.Contains(k.all, a):
		return nil, wallet.ErrNoKey
	}
	return signer(a), nil
}

type signer token.Address

// Sign implements wallet.Signer.
func (s signer) Sign(tx chain.Tx, nonce uint64) (chain.Signed, error) {
	return envelope{Tx: tx, From: token.Address(s), Nonce: nonce}.sign(), nil
}
