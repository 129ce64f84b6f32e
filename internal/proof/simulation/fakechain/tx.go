package fakechain

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Tx is a signed transaction of the fake chain. A key in memory gives a content and a nonce one signed form; the
// signatures of others have a Salt, which is never the same.
type Tx struct {
	chain.Tx
	From  token.Address
	Nonce uint64
	Salt  uint64
}

// A head is all that a signed transaction has before its call data.
type head struct {
	From, To            token.Address
	ChainID, Nonce, Gas uint64
	Salt                uint64
	Value, Tip, Cap     [32]byte
}

// Sign returns the bytes of tx and their hash.
func (tx Tx) Sign() chain.Signed {
	h := head{tx.From, tx.To, tx.ChainID, tx.Nonce, tx.Gas, tx.Salt, tx.Value.Bytes32(), tx.Fees.Tip.Bytes32(), tx.Fees.Cap.Bytes32()}
	raw, _ := binary.Append(nil, binary.BigEndian, h) // its fields have fixed sizes
	raw = append(raw, tx.Data...)
	return chain.Signed{Nonce: tx.Nonce, Hash: sha256.Sum256(raw), Raw: raw}
}

// Decode reads the bytes that Sign writes. It reports false for bytes that are too short.
func Decode(raw []byte) (tx Tx, ok bool) {
	var h head
	n, err := binary.Decode(raw, binary.BigEndian, &h)
	if err != nil {
		return tx, false
	}
	tx = Tx{From: h.From, Nonce: h.Nonce, Salt: h.Salt, Tx: chain.Tx{ChainID: h.ChainID, To: h.To, Gas: h.Gas, Data: raw[n:]}}
	tx.Value, _ = token.AmountFromBytes(h.Value[:])
	tx.Fees.Tip, _ = token.AmountFromBytes(h.Tip[:])
	tx.Fees.Cap, _ = token.AmountFromBytes(h.Cap[:])
	return tx, true
}

// Outputs returns the payments of a call of the token or of Batcher.
func Outputs(tx chain.Tx) []disburser.Entry {
	if tx.To == Batcher {
		_, entries, _, _ := disburser.Parse(tx.Data)
		return entries
	}
	t, _, _ := chain.ParseTransfer(tx.Data)
	return []disburser.Entry{{To: t.To, Amount: t.Amount}}
}

// ErrSecret is the error of every call of Keys while the secret store is down.
var ErrSecret = errors.New("secret store is down")

// Wallet is the address of the n-th wallet that pays.
func Wallet(n int) token.Address { return token.Address{0: 0xaa, 19: byte(n)} }

// Payee is the address of the n-th payee. Each payment of a test has a payee of
// its own, so the chain alone shows which payments were made.
func Payee(n int) token.Address {
	return token.Address{0: 0xee, 17: byte(n >> 16), 18: byte(n >> 8), 19: byte(n)}
}

// Keys are the keys of wallets, as the secret store holds them. A test may add keys and take the secret store down at
// any time. The zero Keys hold none. Keys are safe for concurrent use.
type Keys struct {
	mu   sync.Mutex
	all  []token.Address
	down bool
}

var _ wallet.Keys = (*Keys)(nil)

// Add stores the key of a wallet.
func (k *Keys) Add(a token.Address) { k.change(func() { k.all = append(k.all, a) }) }

// All returns the wallets that have a key, also while the secret store is down.
func (k *Keys) All() (all []token.Address) {
	k.change(func() { all = slices.Clone(k.all) })
	return all
}

// Down takes the secret store down, so that every call fails with ErrSecret, or brings it back.
func (k *Keys) Down(down bool) { k.change(func() { k.down = down }) }

func (k *Keys) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Signer implements wallet.Keys.
func (k *Keys) Signer(_ context.Context, r wallet.Registration) (wallet.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.down:
		return nil, ErrSecret
	case !slices.Contains(k.all, r.Address):
		return nil, wallet.ErrNoKey
	}
	return signer(r.Address), nil
}

type signer token.Address

func (signer) Ready(context.Context) error { return nil }

func (s signer) Sign(_ context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	return Tx{Tx: tx, From: token.Address(s), Nonce: nonce}.Sign(), nil
}
