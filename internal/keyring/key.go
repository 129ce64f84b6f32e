// Package keyring holds the private keys that pay, and signs with them. It is
// the only package that handles key material. Nothing that it prints or fails
// with contains any, and of all that it returns only Encode's secret does.
package keyring

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/ethereum/go-ethereum/crypto"

	"remit/internal/chain"
	"remit/internal/token"
)

var (
	// ErrKey reports a string or number that is not the private key of an
	// account. Errors that match it never quote any of it.
	ErrKey = errors.New("invalid private key")
	// ErrUnsignable reports a transaction that no node would take.
	ErrUnsignable = errors.New("transaction cannot be signed")
)

// A redacted shows a constant when it, or the value that embeds it, is formatted
// by any verb, logged, or encoded as text or JSON. Encode is the way to store
// keys.
type redacted struct{}

const constant = "[redacted]"

func (redacted) String() string               { return constant }
func (redacted) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, constant) }
func (redacted) LogValue() slog.Value         { return slog.StringValue(constant) }
func (redacted) MarshalText() ([]byte, error) { return []byte(constant), nil }

// A Key is the private key of one wallet. Formatting, logging and encoding a Key
// show a constant. The zero Key signs nothing and controls no account.
type Key struct {
	redacted
	address token.Address
	// A function and not the key itself: a printer that meets a Key in an
	// unexported field of another value calls no method of Key, and printers that
	// follow pointers (go-cmp, go-spew) find nothing to print behind a function.
	private func() *secp256k1.PrivateKey
}

// ParseKey reads 64 hex digits of either case, with or without "0x". Anything
// else, and numbers that are no key of secp256k1, match ErrKey.
func ParseKey(s string) (Key, error) {
	digits := strings.TrimPrefix(s, "0x")
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != 32 {
		return Key{}, fmt.Errorf("%w: want 0x and 64 hex digits", ErrKey)
	}
	return keyOf(b)
}

// Generate makes a key from the next 32 bytes of random. Bytes that are no key of
// secp256k1 (about 1 in 2^128) are skipped. The same bytes make the same key, so
// random must be crypto/rand.Reader wherever money is involved.
func Generate(random io.Reader) (Key, error) {
	var b [32]byte
	for {
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return Key{}, fmt.Errorf("generating a key: %w", err)
		}
		if key, err := keyOf(b[:]); err == nil {
			return key, nil
		}
	}
}

func keyOf(b []byte) (Key, error) {
	var scalar secp256k1.ModNScalar
	if overflows := scalar.SetByteSlice(b); overflows || scalar.IsZero() {
		return Key{}, fmt.Errorf("%w: out of range", ErrKey)
	}
	private := secp256k1.NewPrivateKey(&scalar)
	point := private.PubKey().SerializeUncompressed() // 4, x, y
	return Key{
		address: token.Address(crypto.Keccak256(point[1:])[12:]),
		private: func() *secp256k1.PrivateKey { return private },
	}, nil
}

// Address returns the account that the key controls.
func (k Key) Address() token.Address { return k.address }

// Sign implements wallet.Signer: an EIP-1559 transaction of type 2 with no
// access list, signed by RFC 6979, so the same arguments give the
// same bytes on every machine. A zero chain id or key, a nonce beyond EIP-2681, a
// gas limit below chain.NoopGas and a tip above the cap are ErrUnsignable.
func (k Key) Sign(tx chain.Tx, nonce uint64) (chain.Signed, error) {
	switch {
	case k.private == nil:
		return chain.Signed{}, fmt.Errorf("%w: no key", ErrUnsignable)
	case tx.ChainID == 0:
		return chain.Signed{}, fmt.Errorf("%w: no chain id", ErrUnsignable)
	case nonce == 1<<64-1:
		return chain.Signed{}, fmt.Errorf("%w: nonce beyond 2^64-2", ErrUnsignable)
	case tx.Gas < chain.NoopGas:
		return chain.Signed{}, fmt.Errorf("%w: gas limit %d is below %d", ErrUnsignable, tx.Gas, chain.NoopGas)
	case tx.Fees.Cap.Less(tx.Fees.Tip):
		return chain.Signed{}, fmt.Errorf("%w: tip %v is above the cap %v", ErrUnsignable, tx.Fees.Tip, tx.Fees.Cap)
	}
	return sign(k.private(), tx, nonce)
}

// reveal returns the form that ParseKey reads. Only Encode may call it.
func (k Key) reveal() string { return "0x" + hex.EncodeToString(k.private().Serialize()) }
