package walletkey

import (
	"bytes"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/ethereum/go-ethereum/crypto/keccak"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// spki precedes the point x, y in the SubjectPublicKeyInfo of a key of the curve secp256k1, in DER (RFC 5480, SEC 2).
const spki = "\x30\x56\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x0a\x03\x42\x00"

// AddressOf returns the account of a secp256k1 key, a SubjectPublicKeyInfo in DER (RFC 5280). Anything else is ErrKey.
func AddressOf(der []byte) (token.Address, error) {
	point, _ := bytes.CutPrefix(der, []byte(spki)) // without it, the whole is no point
	key, err := secp256k1.ParsePubKey(point)
	if err != nil {
		return token.Address{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	h := keccak.NewLegacyKeccak256()
	h.Write(key.SerializeUncompressed()[1:]) // x, y
	return token.Address(h.Sum(nil)[12:]), nil
}
