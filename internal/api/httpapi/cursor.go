package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

const cursorSum = 12

// Filters has the filters of every list. A zero field filters nothing.
type filters struct {
	Status    string     `json:"s,omitempty"`
	Reference string     `json:"r,omitempty"`
	Asset     token.Coin `json:"c,omitzero"`
	After     time.Time  `json:"a,omitzero"`
	Before    time.Time  `json:"b,omitzero"`
	By        string     `json:"k,omitempty"` // the key that proposed
	Key       string     `json:"-"`           // Idempotency-Key; its list has one page
}

func (f filters) differ(o filters) bool {
	return f.Status != "" && f.Status != o.Status || f.Reference != "" && f.Reference != o.Reference || f.By != "" && f.By != o.By ||
		f.Asset != (token.Coin{}) && f.Asset != o.Asset || f.Key != o.Key ||
		!f.After.IsZero() && !f.After.Equal(o.After) || !f.Before.IsZero() && !f.Before.Equal(o.Before)
}

// A position is a place in a list. The zero one is before the first.
type position struct {
	At time.Time `json:"t,omitzero"`
	ID string    `json:"i"`
}

func positionOf[ID ~string](at time.Time, id ID) position { return position{at.UTC(), string(id)} }

// A cursor is the position at which the next page of a list begins, with the filters of the list. Merchants pass it
// back as opaque text. It grants no rights: its checksum, which covers the kind of list, the merchant and the mode too,
// only makes sure that a mangled, invented or borrowed cursor is refused instead of giving another list.
type cursor struct {
	filters
	Limit int `json:"n"`
	position
}

// page reads the parameters cursor and limit of a list. A cursor carries the filters of its list; a request that names
// others beside it is refused.
func (c *call) page(kind string, sent filters) (cursor, error) {
	q, at := c.query, cursor{filters: sent, Limit: defaultPage}
	if text, ok := q.given("cursor"); ok {
		at = cursor{}
		switch valid := parseCursor(text.Text, kind, c.caller, &at); {
		case !valid || at.Limit < 1 || at.Limit > maxPage:
			q.refuse("cursor", "cursor_invalid", "Must be a next_cursor of this list, unchanged")
		case sent.differ(at.filters):
			q.refuse("cursor", "cursor_mismatch", "Belongs to a list with other filters; send it alone")
		}
	}
	at.Limit = q.pageLimit(at.Limit)
	return at, q.err()
}

type listPage[V any] struct {
	Data       []V     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

// paged returns the page of a kind of list that a request asks for: as many views of the items as fit into an answer.
// read returns the items at a cursor and the position after them, zero at the list's end; of returns an item's.
func paged[T, V any](c *call, kind string, sent filters, read func(cursor) ([]T, position, error), show func([]T) []V,
	of func(T) position) (list listPage[V], err error) {
	at, err := c.page(kind, sent)
	if err != nil {
		return list, err
	}
	items, next, err := read(at)
	if err != nil {
		return list, err
	}
	views := show(items)
	if n := fitting(views); n < len(views) {
		views, next = views[:n], of(items[n-1])
	}
	list = listPage[V]{Data: views, HasMore: next != position{}}
	if list.HasMore {
		at.position = next
		list.NextCursor = new(encodeCursor(kind, c.caller, at))
	}
	return list, nil
}

func encodeCursor(kind string, p apikey.Principal, c cursor) string {
	body, err := json.Marshal(c)
	if err != nil { // only for years beyond 9999, which nothing listed has
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(append(cursorCheck(body, kind, p), body...))
}

// parseCursor reads into c a cursor that was encoded for this kind, merchant and mode, and reports whether s is one.
func parseCursor(s, kind string, p apikey.Principal, c *cursor) bool {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < cursorSum || base64.RawURLEncoding.EncodeToString(b) != s { // one spelling only
		return false
	}
	sum, body := b[:cursorSum], b[cursorSum:]
	return subtle.ConstantTimeCompare(sum, cursorCheck(body, kind, p)) == 1 && json.Unmarshal(body, c) == nil
}

func cursorCheck(body []byte, kind string, p apikey.Principal) []byte {
	h := sha256.New()
	for _, part := range []string{kind, p.MerchantID, string(p.Mode)} {
		h.Write([]byte(part + "\x00"))
	}
	h.Write(body)
	return h.Sum(nil)[:cursorSum]
}
