// Package keyring holds the private keys that pay, and signs with them. It is the only package that handles key
// material. Nothing that it prints or fails with contains any, and of all that it returns only Encode's secret does.
package keyring

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A redacted shows a constant when it, or the value that embeds it, is formatted by any verb, logged, or encoded as
// text or JSON. Encode is the way to store keys.
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
	// A function and not the key itself: a printer that meets a Key in an unexported field of another value calls no
	// method of Key, and printers that follow pointers (go-cmp, go-spew) find nothing to print behind a function.
	private func() *secp256k1.PrivateKey
}

// ParseKey reads 64 hex digits of either case, with or without "0x". Its errors quote none of them.
func ParseKey(s string) (Key, error) {
	digits := strings.TrimPrefix(s, "0x")
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != 32 {
		return Key{}, errors.New("invalid private key: want 0x and 64 hex digits")
	}
	return keyOf(b)
}

func keyOf(b []byte) (Key, error) {
	var scalar secp256k1.ModNScalar
	if overflows := scalar.SetByteSlice(b); overflows || scalar.IsZero() {
		return Key{}, errors.New("invalid private key: out of range")
	}
	private := secp256k1.NewPrivateKey(&scalar)
	return Key{
		address: addressOf(private.PubKey()),
		private: func() *secp256k1.PrivateKey { return private },
	}, nil
}

func addressOf(key *secp256k1.PublicKey) token.Address {
	point := key.SerializeUncompressed() // 4, x, y
	return token.Address(crypto.Keccak256(point[1:])[12:])
}

// Address returns the account that the key controls.
func (k Key) Address() token.Address { return k.address }

// Sign implements wallet.Signer: an EIP-1559 transaction of type 2 with no access list, signed by RFC 6979, so the
// same arguments give the same bytes on every machine. A zero chain id or key, a nonce beyond EIP-2681, a gas limit
// below chain.NoopGas and a tip above the cap are errors: no node would take them.
func (k Key) Sign(_ context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	if k.private == nil {
		return chain.Signed{}, errors.New("transaction cannot be signed: no key")
	}
	return sign(tx, nonce, func(digest []byte) ([]byte, error) { return ecdsa.SignCompact(k.private(), digest, false), nil })
}

// Ready implements wallet.Signer: a key in memory always is.
func (Key) Ready(context.Context) error { return nil }

// ErrSecret reports a wallet's secret that cannot be used. Errors that match it quote none of it.
var ErrSecret = errors.New("unusable wallet secret")

// Decode reads a wallet's secret:
//
//	{"private_key": "0x…"}
//
// Decode ignores members that it does not know, since a newer release may have
// written them. JSON of another form is ErrSecret.
func Decode(raw []byte) (Key, error) {
	var s struct {
		PrivateKey string `json:"private_key"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		// The cause is dropped: encoding/json quotes the bytes that it cannot read.
		return Key{}, fmt.Errorf(`%w: want {"private_key":"0x…"}`, ErrSecret)
	}
	key, err := ParseKey(s.PrivateKey)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSecret, err)
	}
	return key, err
}

// Encode returns the wallet's secret that Decode reads. The result is key material:
// it belongs in the secret store and nowhere else.
func Encode(key Key) []byte {
	return []byte(`{"private_key":"0x` + hex.EncodeToString(key.private().Serialize()) + `"}`)
}
