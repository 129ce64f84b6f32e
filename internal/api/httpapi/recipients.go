package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// CreateRecipient serves POST /recipients. asset is the token that is paid; its
// contract is refused as a recipient.
func CreateRecipient(book *recipient.Book, events Announcer, asset token.Token, now func() time.Time) Endpoint {
	return submission("CreateRecipient", func(c *call, f *form) (answer, error) {
		to, ok := f.address("address", asset)
		if !ok {
			f.missing("address")
		}
		e := recipient.Entry{Merchant: c.caller.MerchantID, Mode: string(c.caller.Mode), Address: to, Label: f.label()}
		if err := f.err(); err != nil {
			return answer{}, err
		}
		e, added, err := book.Add(c.Context(), e, func(ctx context.Context, e recipient.Entry) error {
			return events.Announce(ctx, ownerOf(c.caller), webhook.RecipientCreated, e.CreatedAt, e.Public(e.CreatedAt))
		})
		if err != nil {
			return answer{}, err
		}
		a := answer{status: http.StatusOK, body: e.Public(now())}
		if added {
			a.status = http.StatusCreated
		}
		return a, nil
	})
}

// recipientList is the body of GET /recipients.
type recipientList struct {
	Data       []recipient.Public `json:"data"`
	HasMore    bool               `json:"has_more"`
	NextCursor *string            `json:"next_cursor"`
}

// ListRecipients serves GET /recipients.
func ListRecipients(book *recipient.Book, now func() time.Time) Endpoint {
	return endpoint("ListRecipients", func(c *call) (answer, error) {
		q, merchant, mode := parseQuery(c.URL.RawQuery), c.caller.MerchantID, string(c.caller.Mode)
		limit := q.integer("limit", 1, maxPage, 0)
		at := recipientCursor{Limit: defaultPage}
		if sent, ok := q.given("cursor"); ok {
			if err := parseCursor(sent, recipientCursors, merchant, mode, &at); err != nil || at.Limit < 1 || at.Limit > maxPage {
				q.refuse("cursor", "cursor_invalid", "Must be a next_cursor of this list, unchanged")
			}
		}
		if err := q.err(); err != nil {
			return answer{}, err
		}
		if limit > 0 {
			at.Limit = limit
		}
		page, more, err := book.Entries(c.Context(), merchant, mode, recipient.Position{CreatedAt: at.At, Address: at.Address}, at.Limit)
		if err != nil {
			return answer{}, err
		}
		list := recipientList{Data: []recipient.Public{}, HasMore: more}
		for _, e := range page {
			list.Data = append(list.Data, e.Public(now()))
			at.At, at.Address = e.CreatedAt, e.Address
		}
		if more {
			list.NextCursor = new(encodeCursor(recipientCursors, merchant, mode, at))
		}
		return answer{status: http.StatusOK, body: list}, nil
	})
}

// A recipientCursor is the position at which the next page of a recipient book
// begins. recipientCursors names its kind in checksums.
type recipientCursor struct {
	Limit   int           `json:"n"`
	At      time.Time     `json:"t"`
	Address token.Address `json:"a"`
}

const recipientCursors = "recipients 1"

// DeleteRecipient serves POST /recipients/{address}/delete.
func DeleteRecipient(book *recipient.Book) Endpoint {
	return action("DeleteRecipient", func(c *call, _ *form) (answer, error) {
		address, err := token.ParseAddress(c.params["address"])
		if err != nil {
			return answer{}, recipient.ErrNotFound
		}
		if err := book.DeleteEntry(c.Context(), c.caller.MerchantID, string(c.caller.Mode), address); err != nil {
			return answer{}, err
		}
		return answer{status: http.StatusOK, body: struct {
			Address token.Address `json:"address"`
			Deleted bool          `json:"deleted"`
		}{address, true}}, nil
	})
}
