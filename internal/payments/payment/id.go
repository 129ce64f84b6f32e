package payment

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"io"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// An ID names a payment: "pay_" and 32 base32 characters.
type ID string

// NewID returns the ID of the one payment that a merchant can make in a mode under an Idempotency-Key. The payment
// item found under it is the idempotency record. Without a key the ID is drawn from random, which must not fail.
func NewID(merchant, mode, key string, random io.Reader) (ID, error) {
	if key == "" {
		var b [memoSize]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", err
		}
		return ID("pay_" + encode(b[:])), nil
	}
	return KeyID(merchant, mode, key), nil
}

// KeyID returns the ID of a payment made under a non-empty key.
func KeyID(merchant, mode, key string) ID {
	return ID("pay_" + digest("payment", merchant, mode, key))
}

// Memo returns the 160 bits of the ID, which follow the transfer in a payment's call
// data. It is nil for an ID of another form than NewID's.
func (id ID) Memo() []byte {
	digits, ok := strings.CutPrefix(string(id), "pay_")
	memo, err := base32.StdEncoding.DecodeString(strings.ToUpper(digits))
	if !ok || err != nil || len(memo) != memoSize {
		return nil
	}
	return memo
}

// MemoID returns the ID whose Memo is the 20 bytes of memo.
func MemoID(memo []byte) ID { return ID("pay_" + encode(memo)) }

// memoSize is how many bytes of an ID follow a transfer.
const memoSize = 20

// EventID returns the stable ID of the event that announces a payment's end: "evt_" and 32 base32 characters.
func EventID(id ID, eventType string) string {
	return "evt_" + digest("event", string(id), eventType)
}

// digest returns 160 bits of SHA-256 over length-prefixed parts, so that no two lists of parts run together.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		_, _ = io.WriteString(h, part) // a hash never errs
	}
	return encode(h.Sum(nil)[:memoSize])
}

func encode(b []byte) string { return strings.ToLower(base32.StdEncoding.EncodeToString(b)) }

// revisionOf identifies everything a signature of p depends on but the nonce, and the request it answers. A commit
// holds only for the revision it was signed for, so a handler that slept while the payment was reassigned, or
// discarded and made again, cannot commit a payment that is no longer asked for. The revision before is part of it: a
// payment that was moved to another wallet and back may have had its nonce there used up by a no-op meanwhile.
func revisionOf(p Payment) string {
	tip, limit, gas, value := p.Tx.Fees.Tip.Bytes32(), p.Tx.Fees.Cap.Bytes32(), token.Units(p.Tx.Gas).Bytes32(), p.Tx.Value.Bytes32()
	return digest("revision", p.Fingerprint, string(p.Wallet[:]), string(p.Tx.To[:]), string(p.Tx.Data),
		string(value[:]), string(gas[:]), string(tip[:]), string(limit[:]), p.CreatedAt.String(), p.Revision)
}
