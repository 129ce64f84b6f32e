// Package chain defines Remit's queries to an EVM chain and how it judges the answers: unsigned
// transactions and their fees, receipts and finality, the classes of replies to a broadcast, and
// the rules for nodes that disagree. It speaks no JSON-RPC and holds no key.
package chain

import (
	"encoding/hex"
	"errors"
	"strings"
)

// ErrHash reports text that is not a 32-byte hash.
var ErrHash = errors.New("invalid hash")

// A Hash is the Keccak-256 hash of a transaction or a block. The zero Hash means none.
type Hash [32]byte

// ParseHash reads 64 hex digits of either case after an optional "0x" or "0X".
func ParseHash(s string) (Hash, error) {
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		s = s[2:]
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 32 {
		return Hash{}, ErrHash
	}
	return Hash(b), nil
}

func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// IsZero reports whether h names no transaction and no block.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText writes the String form.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads a text like ParseHash.
func (h *Hash) UnmarshalText(b []byte) error {
	read, err := ParseHash(string(b))
	if err == nil {
		*h = read
	}
	return err
}
