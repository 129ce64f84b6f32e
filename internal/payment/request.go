package payment

import (
	"maps"
	"slices"

	"remit/internal/token"
)

// A Request is a merchant's request for a payment, already valid field by field.
type Request struct {
	Merchant       string
	Mode           string // "test" or "live"
	IdempotencyKey string // Idempotency-Key; empty when none was sent
	To             token.Address
	Amount         token.Amount
	Reference      string            // empty when absent
	Metadata       map[string]string // nil and empty mean the same
}

// Fingerprint identifies the meaning of the request: recipient, amount,
// reference and metadata, in any order of fields and spelling of numbers. Two
// requests under one key must have the same one.
func (r Request) Fingerprint() string {
	amount := r.Amount.Bytes32()
	parts := []string{"request", string(r.To[:]), string(amount[:]), r.Reference}
	for _, name := range slices.Sorted(maps.Keys(r.Metadata)) {
		parts = append(parts, name, r.Metadata[name])
	}
	return digest(parts...)
}
