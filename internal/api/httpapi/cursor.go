package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

var errCursor = errors.New("invalid cursor")

const cursorSum = 12

// A cursor is the position at which the next page of a list begins, with the filters of the list. Merchants pass it
// back as opaque text. It grants no rights: its checksum, which covers the merchant and mode too, only makes sure
// that a mangled, invented or borrowed cursor is refused instead of giving another list.
type cursor struct {
	Status    payment.Status `json:"s,omitempty"`
	Reference string         `json:"r,omitempty"`
	Asset     token.Coin     `json:"c,omitzero"`
	After     time.Time      `json:"a,omitzero"`
	Before    time.Time      `json:"b,omitzero"`
	Limit     int            `json:"n"`
	At        time.Time      `json:"t"`
	ID        payment.ID     `json:"i"`
}

func cursorAt(f store.Filter, p store.Position) cursor {
	return cursor{f.Status, f.Reference, f.Asset, f.After, f.Before, f.Limit, p.CreatedAt.UTC(), p.ID}
}

// filter returns the filter by which merchant's list continues at c.
func (c cursor) filter(merchant, mode string) store.Filter {
	return store.Filter{Merchant: merchant, Mode: mode, Status: c.Status, Reference: c.Reference, Asset: c.Asset, After: c.After,
		Before: c.Before, Limit: c.Limit, From: store.Position{CreatedAt: c.At, ID: c.ID}}
}

// paymentCursors names the kind of a cursor in its checksum.
const paymentCursors = "cursor 1"

func encodeCursor(kind, merchant, mode string, c any) string {
	body, err := json.Marshal(c)
	if err != nil { // only for years beyond 9999, which nothing listed has
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(append(cursorCheck(body, kind, merchant, mode), body...))
}

// parseCursor reads into c a cursor that was encoded for this kind, merchant and mode. Any other text is errCursor.
func parseCursor(s, kind, merchant, mode string, c any) error {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < cursorSum || base64.RawURLEncoding.EncodeToString(b) != s { // one spelling only
		return errCursor
	}
	sum, body := b[:cursorSum], b[cursorSum:]
	if subtle.ConstantTimeCompare(sum, cursorCheck(body, kind, merchant, mode)) == 0 || json.Unmarshal(body, c) != nil {
		return errCursor
	}
	return nil
}

func cursorCheck(body []byte, kind, merchant, mode string) []byte {
	h := sha256.New()
	for _, part := range []string{kind, merchant, mode} {
		h.Write([]byte(part + "\x00"))
	}
	h.Write(body)
	return h.Sum(nil)[:cursorSum]
}
