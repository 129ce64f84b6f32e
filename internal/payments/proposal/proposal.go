// Package proposal holds the life of a proposal: a payment that waits under its merchant's Idempotency-Key for its
// time, for another key's approval, or for a cancel. Proposals are values: a move returns a changed copy, which means
// nothing until a store has taken it. The state of the key's payment decides every status, so that a proposal is never
// cancelled in one answer and paid in another. It knows no stores, nodes, HTTP or AWS.
package proposal

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// The bounds of a proposal.
const (
	MinLife     = time.Minute
	DefaultLife = 7 * 24 * time.Hour
	MaxLife     = 90 * 24 * time.Hour
	MaxAhead    = 90 * 24 * time.Hour // of NotBefore
	MaxOpen     = 1000                // of a merchant's that have not ended
)

var (
	// ErrOwn reports an approval by the key that proposed, or by one of its rotations.
	ErrOwn = errors.New("a key cannot approve its own proposal")
	// ErrEnded reports an approval after the end: nothing will be paid.
	ErrEnded = errors.New("the proposal has ended")
	// ErrReleased reports a cancel of a payment that holds a nonce, or is signed.
	ErrReleased = errors.New("the proposal's payment is being made")
	// ErrBeginning reports a change while a release may be reserving a nonce, or others change the proposal: repeat it.
	ErrBeginning = errors.New("the proposal's release is being begun")
)

// An Author is the key that proposed or approved, with its limits at that time. The zero Author is none.
type Author struct {
	Key    string            `json:"key"`  // "key_…"
	Root   string            `json:"root"` // the first key of its rotations: all of these are one key
	Limits payment.KeyLimits `json:"limits"`
}

// A Refusal is why a release was refused.
type Refusal struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Index   *int      `json:"index,omitempty"` // of the entry that it concerns
	At      time.Time `json:"at"`
}

// The events of a proposal.
const (
	Created     = "proposal.created"
	Approved    = "proposal.approved"
	WasCanceled = "proposal.cancelled"
	HasExpired  = "proposal.expired"
)

// A Proposal is a payment that waits. Stores keep it as JSON beside its payment.
type Proposal struct {
	Payment payment.Payment `json:"-"` // under the merchant's key; its State decides

	By            Author        `json:"by"`
	Approver      Author        `json:"approver,omitzero"`
	Required      bool          `json:"required,omitempty"` // it waits for an approval
	Asset         token.Coin    `json:"asset,omitzero"`     // of the request; zero: the stack's default
	DifferentFrom chain.Hash    `json:"different_from,omitzero"`
	NotBefore     time.Time     `json:"not_before,omitzero"` // zero: none was given
	Life          time.Duration `json:"life"`                // from the later of CreatedAt and NotBefore
	CreatedAt     time.Time     `json:"created_at"`
	ApprovedAt    time.Time     `json:"approved_at,omitzero"`
	UpdatedAt     time.Time     `json:"updated_at"`
	Version       int64         `json:"version"` // visible changes but the release
	Refusal       *Refusal      `json:"refusal,omitempty"`
	Tries         int           `json:"tries,omitempty"`  // refused since its approval
	Retry         time.Time     `json:"retry,omitzero"`   // nothing is tried earlier
	Event         string        `json:"event,omitempty"`  // of its changes, with spaces between, as long as they may be unpublished
	Closed        bool          `json:"closed,omitempty"` // it counts no more as open
	Writes        uint64        `json:"writes"`           // counts all stored changes
}

// ID returns the proposal's name, which follows from its payment's: "prp_" and 32 base32 characters.
func ID(of payment.ID) string { return "prp_" + strings.TrimPrefix(string(of), "pay_") }

// Payment returns the ID of the payment of a proposal's name, empty for a name of another form.
func Payment(id string) payment.ID {
	digits, ok := strings.CutPrefix(id, "prp_")
	if p := payment.ID("pay_" + digits); ok && p.Memo() != nil && payment.MemoID(p.Memo()) == p {
		return p
	}
	return ""
}

// New returns p, not yet stored, whose payment answers r on a chain. Its By, Required, NotBefore and Life are given.
func New(p Proposal, r payment.Request, coin token.Token, chainID uint64, network string, now time.Time) Proposal {
	p.Payment = payment.New(payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey), r, coin, network, now)
	p.Payment.State, p.Payment.Proposal, p.Payment.Guarded = payment.Proposed, true, false
	p.Payment.Tx.ChainID = chainID
	p.Asset, p.DifferentFrom, p.By.Limits = r.Asset, r.DifferentFrom, r.Key
	p.CreatedAt = p.Payment.CreatedAt
	return p.changed(Created, now)
}

func (p Proposal) changed(event string, now time.Time) Proposal {
	p.Version, p.UpdatedAt, p.Event = p.Version+1, now.UTC().Truncate(time.Millisecond), strings.TrimSpace(p.Event+" "+event)
	return p
}

// Same reports whether a proposal has the same content, times and approval included.
func (p Proposal) Same(as Proposal) bool {
	return p.Payment.Fingerprint == as.Payment.Fingerprint && p.NotBefore.Equal(as.NotBefore) && p.Life == as.Life &&
		p.Required == as.Required
}

// ExpiresAt returns when the proposal expires: nothing is begun at or after it.
func (p Proposal) ExpiresAt() time.Time { return later(p.CreatedAt, p.NotBefore).Add(p.Life) }

// DueAt returns when the proposal is due first; without a required approval, when it would be.
func (p Proposal) DueAt() time.Time { return later(later(p.CreatedAt, p.NotBefore), p.ApprovedAt) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Waits reports whether the proposal lacks an approval.
func (p Proposal) Waits() bool { return p.Required && p.Approver.Key == "" }

// Next returns when something is to be done about the proposal: an event is to be published, a release tried or
// looked after, or its expiry stored. Zero: nothing any more.
func (p Proposal) Next() time.Time {
	next, ends := p.DueAt(), p.ExpiresAt()
	switch {
	case p.Closed:
		return time.Time{}
	case p.Event != "" || p.Payment.State.Signed() || p.Payment.State.UsedUp():
		return p.UpdatedAt
	case p.Waits() || next.After(ends):
		next = ends
	}
	return later(next, p.Retry)
}

// Request returns the request of the release. The approver's limits hold, or without one the proposer's; both keys'
// address books, and the longer repeat guard.
func (p Proposal) Request() payment.Request {
	of, limits := p.Payment, p.By.Limits
	if own := limits; p.Approver.Key != "" {
		limits = p.Approver.Limits
		limits.Book, limits.Guard = own.Book || limits.Book, max(own.Guard, limits.Guard)
	}
	return payment.Request{
		Merchant: of.Merchant, Mode: of.Mode, IdempotencyKey: of.IdempotencyKey, Asset: p.Asset, To: of.To,
		Amount: of.Amount, Entries: of.Entries, Reference: of.Reference, Metadata: of.Metadata, Key: limits,
		DifferentFrom: p.DifferentFrom,
	}
}

// Approve returns p as approved: the release intervals begin anew.
func (p Proposal) Approve(by Author, now time.Time) Proposal {
	p = p.changed(Approved, now)
	p.Approver, p.ApprovedAt, p.Tries, p.Retry = by, p.UpdatedAt, 0, time.Time{}
	return p
}

// End returns p with its key used up, as to says: payment.Cancelled or payment.Expired.
func (p Proposal) End(to payment.State, now time.Time) Proposal {
	p.Payment.State = to
	if to == payment.Expired {
		return p.changed(HasExpired, now)
	}
	return p.changed(WasCanceled, now)
}

// Begin returns p with its release begun: offer is its payment, prepared. Its revision follows from the one before, so
// that nothing that was signed or reserved for an earlier release holds for this one.
func (p Proposal) Begin(offer payment.Payment) Proposal {
	offer.Revision, offer.Proposal = p.Payment.Revision, true
	p.Payment = offer.AssignedTo(offer.Wallet, offer.Tx)
	return p
}

// maxInterval is the longest time between two tries; nextRun is less than a minute, so that the next run is a try.
const maxInterval, nextRun = 15 * time.Minute, 45 * time.Second

// Later returns p, that could not be released or ended now, so that nothing is tried for as long as it has been due
// already, within limits, nor before a refusal's time: others are due before it. Merchants do not see it.
func (p Proposal) Later(now time.Time) Proposal {
	p.Retry = later(p.Retry, now.Add(min(max(now.Sub(p.DueAt()), nextRun), maxInterval)))
	return p
}

// Refused returns p after a release that was refused: its payment waits again. A refusal without a code is one for now,
// which merchants do not see, and is tried again by the next run.
func (p Proposal) Refused(why Refusal, now time.Time) Proposal {
	p.Payment.State = payment.Proposed
	if why.Code == "" {
		return p
	}
	p = p.changed("", now)
	if why.At = p.UpdatedAt; p.Payment.Entries == nil {
		why.Index = nil
	}
	p.Refusal, p.Retry = &why, now.Add(min(time.Minute<<min(p.Tries, 4), maxInterval))
	if ends := p.ExpiresAt(); p.Retry.After(ends) {
		p.Retry = ends
	}
	p.Tries++
	return p
}

// Status returns the public word for p.
func (p Proposal) Status() string {
	switch s := p.Payment.State; {
	case s.Signed():
		return StatusReleased
	case s.UsedUp():
		return strings.ToLower(string(s))
	case p.Waits():
		return StatusAwaiting
	}
	return StatusScheduled
}

// String names p for logs.
func (p Proposal) String() string {
	return ID(p.Payment.ID) + " version " + strconv.FormatInt(p.Version, 10)
}
