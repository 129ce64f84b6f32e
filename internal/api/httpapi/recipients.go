package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// CreateRecipient serves POST /recipients. The contracts and wallets of all assets are refused.
func CreateRecipient(book *recipient.AddressBook, payments store.Store, events dispatch.Announcer, assets Assets,
	now func() time.Time) Endpoint {
	return submission("CreateRecipient", func(c *call, f *form) (answer, error) {
		all, err := assets.read(c.Context())
		if err != nil {
			return answer{}, err
		}
		to, ok := f.address("address", all)
		if !ok {
			f.missing("address")
		}
		e := recipient.Entry{Merchant: c.caller.MerchantID, Mode: string(c.caller.Mode), Address: to, Label: f.name("label")}
		for _, a := range all {
			wallets, err := payments.Wallets(c.Context(), a.Coin())
			if err != nil {
				return answer{}, errors.Join(dispatch.ErrUnavailable, err)
			}
			if _, own := wallets.Find(to); own {
				f.refuse("address", "recipient_refused", "Must not be a wallet of this service")
				break
			}
		}
		if err := f.err(); err != nil {
			return answer{}, err
		}
		e, added, err := book.Add(c.Context(), e, func(ctx context.Context, e recipient.Entry) error {
			return events.Announce(ctx, ownerOf(c.caller), webhook.RecipientCreated, e.CreatedAt, e.Public(e.CreatedAt))
		})
		if err != nil {
			return answer{}, err
		}
		a := answer{status: http.StatusOK, body: struct {
			recipient.Public
			Warnings []string `json:"warnings"`
		}{e.Public(now()), resembling(c, to, book, payments)}}
		if added {
			a.status = http.StatusCreated
		}
		return a, nil
	})
}

// comparedEntries is the number of newest entries of the merchant's address book to compare a
// new one with: one page of the index. The recipients of maxPage payments are compared too.
const comparedEntries = 1000

// resembling returns a warning for each known address that another may be mistaken for: attackers make such
// addresses, and have them appear beside a payment. A key that may not read payments gets no address that was paid.
func resembling(c *call, to token.Address, book *recipient.AddressBook, paid store.History) []string {
	merchant, mode := c.caller.MerchantID, string(c.caller.Mode)
	entries, _, bookErr := book.Entries(c.Context(), merchant, mode, recipient.Position{}, comparedEntries)
	payments, _, paidErr := paid.List(c.Context(), store.Filter{Merchant: merchant, Mode: mode, Limit: maxPage})
	warnings := []string{}
	warn := func(known token.Address, named, is string) {
		warning := fmt.Sprintf("Resembles %s: the same first and last four digits. Compare all of them before you pay it.", named+is)
		if to.Resembles(known) && !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
	}
	for _, e := range entries {
		warn(e.Address, e.Address.String(), ", an entry of your address book")
	}
	for _, p := range payments {
		for _, o := range p.Outputs() {
			if c.caller.Grant.May(apikey.PaymentsRead) {
				warn(o.To, o.To.String(), ", a recipient that you have paid")
			} else {
				warn(o.To, "", "a recipient that you have paid")
			}
		}
	}
	if bookErr != nil || paidErr != nil {
		warnings = append(warnings, "Not compared with every address that you know: the database gave no answer. Enter it again to compare.")
	}
	return warnings
}

// ListRecipients serves GET /recipients.
func ListRecipients(book *recipient.AddressBook, now func() time.Time) Endpoint {
	return endpoint("ListRecipients", func(c *call) (answer, error) {
		of := func(e recipient.Entry) position { return positionOf(e.CreatedAt, e.Address.String()) }
		return ok(paged(c, "recipients 1", filters{}, func(at cursor) (entries []recipient.Entry, next position, err error) {
			from := recipient.Position{CreatedAt: at.At}
			from.Address, _ = token.ParseAddress(at.ID) // zero for the first page
			entries, more, err := book.Entries(c.Context(), c.caller.MerchantID, string(c.caller.Mode), from, at.Limit)
			if more {
				next = of(entries[len(entries)-1])
			}
			return entries, next, err
		}, each(func(e recipient.Entry) recipient.Public { return e.Public(now()) }), of))
	})
}

// DeleteRecipient serves POST /recipients/{address}/delete.
func DeleteRecipient(book *recipient.AddressBook) Endpoint {
	return action("DeleteRecipient", func(c *call, _ *form) (answer, error) {
		address, err := token.ParseAddress(c.params["address"])
		if err != nil {
			return answer{}, recipient.ErrNotFound
		}
		return ok(struct {
			Address token.Address `json:"address"`
			Deleted bool          `json:"deleted"`
		}{address, true}, book.DeleteEntry(c.Context(), c.caller.MerchantID, string(c.caller.Mode), address))
	})
}
