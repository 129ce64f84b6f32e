package payment

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Request is a merchant's request for a payment, already valid field by field.
type Request struct {
	Merchant       string
	Mode           string            // "test" or "live"
	IdempotencyKey string            // Idempotency-Key; empty when none was sent
	To             token.Address     // zero in a batch of several entries
	Amount         token.Amount      // of all entries together
	Entries        []Entry           // of a batch; nil: one payment
	Asset          token.Coin        // zero: the stack's default
	Reference      string            // empty when absent
	Metadata       map[string]string // nil and empty mean the same
	Key            KeyLimits         // of the requesting API key; not in the Fingerprint
	NotAfter       time.Time         // in whole seconds; nothing begins later; zero: any time; not in the Fingerprint
	DifferentFrom  chain.Hash        // of a similar payment that this one is not; zero: none; not in the Fingerprint
}

// KeyLimits are the limits that an API key and its merchant set to the payments that it asks for. The zero KeyLimits
// sets none. Proposals store those of their keys: a field never changes its meaning.
type KeyLimits struct {
	Maximum token.Amount `json:"max_amount,omitzero"` // of one payment; zero: none
	Daily   DailyLimit   `json:"daily,omitzero"`      // of the key; zero: none
	// The key does not pay the request's asset.
	OtherAsset bool `json:"-"`
	Book       bool `json:"book,omitzero"` // only active entries of the merchant's address book are paid
	// So long after a similar payment (GuardID) of a key with a Guard it makes none, and no batches ever; zero: none.
	Guard time.Duration `json:"guard,omitzero"`
	// Above it a payment (a batch: its total) is made from an approved proposal only; zero: none.
	ApproveAbove token.Amount `json:"approve_above,omitzero"`

	// The asset is paid from the merchant's own wallets, never from the common ones; without it, the reverse.
	OwnWallets bool `json:"-"`

	MerchantMaximum token.Amount `json:"-"` // of one payment, in place of the stack's; zero: the stack's
	MerchantDaily   token.Amount `json:"-"` // of the merchant in a UTC day, in place of the stack's; zero: the stack's
}

// Owner returns the merchant of the wallets that may pay r, empty for the common ones.
func (r Request) Owner() string {
	if r.Key.OwnWallets {
		return r.Merchant
	}
	return ""
}

// A DailyLimit is the most that is paid in a UTC day on the account of one key, or of a whole merchant.
type DailyLimit struct {
	// "key_…"; empty: the merchant; an asset's name: the merchant in an asset that is not the default
	Key    string       `json:"key,omitzero"`
	Amount token.Amount `json:"amount,omitzero"` // in all; zero: any
	Count  uint64       `json:"count,omitzero"`  // of payments; zero: any
}

// OfKey reports whether l is the limit of a key.
func (l DailyLimit) OfKey() bool { return strings.HasPrefix(l.Key, "key_") }

// Outputs returns the entries of a batch, or the one payment as the only one.
func (r Request) Outputs() []Entry { return outputs(r.Entries, r.To, r.Amount) }

// Batch returns r as the request of a batch of entries. It reports false if their sum is more than 2^256-1.
func (r Request) Batch(entries []Entry) (Request, bool) {
	r.Entries, r.To, r.Amount = entries, token.Address{}, token.Amount{}
	for _, e := range entries {
		var err error
		if r.Amount, err = r.Amount.Add(e.Amount); err != nil {
			return r, false
		}
	}
	if len(entries) == 1 {
		r.To = entries[0].To
	}
	return r, true
}

// GuardID names the guard of similar payments: the merchant's of one amount of an asset to one recipient.
func (r Request) GuardID(chainID uint64, asset token.Address) string {
	amount := r.Amount.Bytes32()
	return digest("guard", r.Merchant, r.Mode, strconv.FormatUint(chainID, 10), string(asset[:]), string(r.To[:]), string(amount[:]))
}

// Fingerprint identifies the meaning of the request: recipient, amount, reference and metadata, or entries in their
// order, in any order of fields and spelling of numbers, and an asset that is not the default. Two requests under one
// key must have the same one. A batch of one is another request than one payment.
func (r Request) Fingerprint() string {
	amount := r.Amount.Bytes32()
	parts := []string{"request", string(r.To[:]), string(amount[:]), r.Reference}
	if r.Entries != nil {
		parts = []string{"batch", strconv.Itoa(len(r.Entries)), r.Reference}
		for _, e := range r.Entries {
			amount := e.Amount.Bytes32()
			parts = append(parts, string(e.To[:]), string(amount[:]), e.Reference)
		}
	}
	if r.Asset != (token.Coin{}) {
		parts = append([]string{"asset", r.Asset.String()}, parts...)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metadata)) {
		parts = append(parts, name, r.Metadata[name])
	}
	return digest(parts...)
}
