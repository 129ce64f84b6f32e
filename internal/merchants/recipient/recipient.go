// Package recipient keeps the address book of a merchant: the addresses that its restricted keys may pay, each from
// the end of a hold on. It knows neither payments nor HTTP nor any database.
package recipient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// An Entry is an address in the address book of a merchant.
type Entry struct {
	Merchant  string // "mer_…"
	Mode      string // "test" or "live"
	Address   token.Address
	Label     string    // the merchant's words for it; empty: none
	CreatedAt time.Time // UTC
	ActiveAt  time.Time // from this instant on it may be paid
}

// Public is an entry as its merchant sees it, in answers and events. Each field is written, null without a value.
type Public struct {
	Address   token.Address `json:"address"` // with its EIP-55 checksum
	Label     *string       `json:"label"`
	Status    string        `json:"status"` // "pending" or "active"
	ActiveAt  string        `json:"active_at"`
	CreatedAt string        `json:"created_at"`
}

// Public returns e as its merchant sees it at now.
func (e Entry) Public(now time.Time) Public {
	p := Public{Address: e.Address, Status: "pending", ActiveAt: stamp(e.ActiveAt), CreatedAt: stamp(e.CreatedAt)}
	if e.activeAt(now) {
		p.Status = "active"
	}
	if e.Label != "" {
		p.Label = &e.Label
	}
	return p
}

func (e Entry) activeAt(now time.Time) bool { return !now.Before(e.ActiveAt) }

// stamp writes a time as RFC 3339 in UTC to the millisecond.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ErrNotFound reports an address that is not in the merchant's address book.
var ErrNotFound = errors.New("no such recipient")

// A Store keeps entries. Each write is all or nothing, and may be answered with an error although it was applied.
type Store interface {
	// AddEntry stores e, unless its merchant has an entry of that address and mode already. It
	// returns the entry that is then stored, and whether that entry is e.
	AddEntry(ctx context.Context, e Entry) (stored Entry, added bool, err error)

	// Entry returns an entry, or ErrNotFound. It sees every write that was answered before.
	Entry(ctx context.Context, merchant, mode string, a token.Address) (Entry, error)

	// Entries returns entries, newest first, behind from, at most limit, and whether more follow. Entries of one
	// instant have an order of the store's own. It may lag a little behind writes.
	Entries(ctx context.Context, merchant, mode string, from Position, limit int) (page []Entry, more bool, err error)

	// DeleteEntry removes an entry; ErrNotFound if there is none.
	DeleteEntry(ctx context.Context, merchant, mode string, a token.Address) error
}

// A Position is an entry's place in a list. The zero Position is before the first.
type Position struct {
	CreatedAt time.Time
	Address   token.Address
}

// An AddressBook keeps the address books of all merchants of a stack.
type AddressBook struct {
	Store
	Hold time.Duration // until a new entry is active
	Now  func() time.Time
}

// Add enters an address and returns its entry, or the existing one. announce notifies the merchant of a new entry
// before it is stored, so none is paid without notice. An error of announce stores nothing, and a crash in between
// leaves a notice of an entry that does not exist. After any other error the entry may be stored; adding it again
// repeats the notice.
func (b *AddressBook) Add(ctx context.Context, e Entry, announce func(context.Context, Entry) error) (Entry, bool, error) {
	there, err := b.Entry(ctx, e.Merchant, e.Mode, e.Address)
	if !errors.Is(err, ErrNotFound) {
		return there, false, wrap(err, "looking for", e.Address)
	}
	e.CreatedAt = b.Now().UTC().Truncate(time.Millisecond)
	e.ActiveAt = e.CreatedAt.Add(b.Hold)
	if err := announce(ctx, e); err != nil {
		return Entry{}, false, wrap(err, "announcing", e.Address)
	}
	stored, added, err := b.AddEntry(ctx, e)
	return stored, added, wrap(err, "adding", e.Address)
}

// Active reports whether an address is an entry whose hold is over at now.
func (b *AddressBook) Active(ctx context.Context, merchant, mode string, a token.Address, now time.Time) (bool, error) {
	e, err := b.Entry(ctx, merchant, mode, a)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && e.activeAt(now), wrap(err, "looking for", a)
}

func wrap(err error, doing string, a token.Address) error {
	if err != nil {
		return fmt.Errorf("%s recipient %s: %w", doing, a, err)
	}
	return nil
}
