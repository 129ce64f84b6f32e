package walletkey

import (
	"cmp"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/ethereum/go-ethereum/crypto/keccak"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// AddressOf returns the account of a secp256k1 key, a SubjectPublicKeyInfo in DER (RFC 5280). Anything else is ErrKey.
func AddressOf(der []byte) (token.Address, error) {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	rest, err := asn1.Unmarshal(der, &info)
	if err != nil || len(rest) > 0 {
		return token.Address{}, fmt.Errorf("%w: no public key: %w", ErrKey, cmp.Or(err, errors.New("more follows it")))
	}
	var curve asn1.ObjectIdentifier // SEC 2: secp256k1 is 1.3.132.0.10
	if _, err := asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &curve); err != nil ||
		!curve.Equal(asn1.ObjectIdentifier{1, 3, 132, 0, 10}) {
		return token.Address{}, fmt.Errorf("%w: a key of another curve than secp256k1", ErrKey)
	}
	key, err := secp256k1.ParsePubKey(info.Key.RightAlign())
	if err != nil {
		return token.Address{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	h := keccak.NewLegacyKeccak256()
	h.Write(key.SerializeUncompressed()[1:]) // x, y
	return token.Address(h.Sum(nil)[12:]), nil
}
