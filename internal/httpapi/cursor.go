package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"remit/internal/payment"
	"remit/internal/store"
)

// errCursor reports text that is not a cursor we gave to this merchant.
var errCursor = errors.New("invalid cursor")

// cursorSum is how many bytes of a cursor are its checksum.
const cursorSum = 12

// A cursor is where the next page of a list begins, with the filters that the
// list was asked for. Merchants carry it as opaque text. It grants nothing:
// its checksum, over whose list it is as well, only makes sure that a mangled,
// invented or borrowed one is refused instead of giving another list.
type cursor struct {
	Status payment.Status `json:"s,omitempty"`
	After  time.Time      `json:"a,omitzero"`
	Before time.Time      `json:"b,omitzero"`
	Limit  int            `json:"n"`
	At     time.Time      `json:"t"`
	ID     payment.ID     `json:"i"`
}

// cursorAfter returns the cursor of what follows last in f's list.
func cursorAfter(f store.Filter, last payment.Payment) cursor {
	return cursor{f.Status, f.After, f.Before, f.Limit, last.CreatedAt.UTC(), last.ID}
}

// filter returns what c asks for of merchant's list.
func (c cursor) filter(merchant, mode string) store.Filter {
	return store.Filter{Merchant: merchant, Mode: mode, Status: c.Status, After: c.After, Before: c.Before,
		Limit: c.Limit, From: store.Position{CreatedAt: c.At, ID: c.ID}}
}

// encode writes c for the list of merchant in mode.
func (c cursor) encode(merchant, mode string) string {
	body, err := json.Marshal(c)
	if err != nil { // only for years beyond 9999, which no payment has
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(append(cursorCheck(body, merchant, mode), body...))
}

// parseCursor reads what encode wrote for the same merchant and mode, and
// nothing else.
func parseCursor(s, merchant, mode string) (cursor, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < cursorSum || base64.RawURLEncoding.EncodeToString(b) != s { // one spelling only
		return cursor{}, errCursor
	}
	sum, body := b[:cursorSum], b[cursorSum:]
	if subtle.ConstantTimeCompare(sum, cursorCheck(body, merchant, mode)) == 0 {
		return cursor{}, errCursor
	}
	var c cursor
	if err := json.Unmarshal(body, &c); err != nil || c.Limit < 1 || c.Limit > maxPage {
		return cursor{}, errCursor
	}
	return c, nil
}

func cursorCheck(body []byte, merchant, mode string) []byte {
	h := sha256.New()
	for _, part := range []string{"cursor 1", merchant, mode} {
		h.Write([]byte(part + "\x00"))
	}
	h.Write(body)
	return h.Sum(nil)[:cursorSum]
}
