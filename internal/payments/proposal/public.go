package proposal

import (
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// The statuses that merchants see.
const (
	StatusAwaiting  = "awaiting_approval"
	StatusScheduled = "scheduled"
	StatusReleased  = "released"
	StatusCancelled = "cancelled"
	StatusExpired   = "expired"
)

// Statuses returns every status.
func Statuses() []string {
	return []string{StatusAwaiting, StatusScheduled, StatusReleased, StatusCancelled, StatusExpired}
}

// A Public is a proposal as merchants see it, in answers and events.
type Public struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"`
	Request    PublicRequest   `json:"request"`
	Key        string          `json:"idempotency_key"`
	CreatedBy  string          `json:"created_by"`
	ApprovedBy *string         `json:"approved_by"`
	NotBefore  *payment.Time   `json:"not_before"`
	ExpiresAt  payment.Time    `json:"expires_at"`
	Refusal    *PublicRefusal  `json:"last_refusal"`
	Payment    *payment.Public `json:"payment"` // once it is signed
	Version    int64           `json:"version"`
	CreatedAt  payment.Time    `json:"created_at"`
	UpdatedAt  payment.Time    `json:"updated_at"`
}

// A PublicRequest is the request as it was read.
type PublicRequest struct {
	Amount        token.Amount      `json:"amount"`
	WalletAddress *token.Address    `json:"wallet_address"` // null in a batch
	To            *token.Address    `json:"to"`             // the same
	Reference     *string           `json:"reference"`
	Metadata      map[string]string `json:"metadata"`
	Payments      []PublicEntry     `json:"payments"` // of a batch
	Asset         string            `json:"asset"`
}

// A PublicEntry is an entry of a batch.
type PublicEntry struct {
	WalletAddress token.Address `json:"wallet_address"`
	To            token.Address `json:"to"`
	Amount        token.Amount  `json:"amount"`
	Reference     *string       `json:"reference"`
}

// A PublicRefusal is the last refusal.
type PublicRefusal struct {
	Code    string       `json:"code"`
	Message string       `json:"message"`
	Index   *int         `json:"index,omitempty"`
	At      payment.Time `json:"at"`
}

// Public returns p as merchants see it. A release counts as a change, at the time at which its payment was signed.
func (p Proposal) Public() Public {
	of := p.Payment.Public()
	v := Public{
		ID: ID(p.Payment.ID), Status: p.Status(), Key: p.Payment.IdempotencyKey, CreatedBy: p.By.Key,
		Request:   PublicRequest{of.Amount, of.WalletAddress, of.To, of.Reference, of.Metadata, nil, of.Asset},
		ExpiresAt: payment.Time(p.ExpiresAt()), Version: p.Version,
		CreatedAt: payment.Time(p.CreatedAt), UpdatedAt: payment.Time(p.UpdatedAt),
		ApprovedBy: payment.OrNull(p.Approver.Key), NotBefore: payment.OrNull(payment.Time(p.NotBefore)),
	}
	for _, e := range of.Payments {
		v.Request.Payments = append(v.Request.Payments, PublicEntry{e.WalletAddress, e.To, e.Amount, e.Reference})
	}
	if r := p.Refusal; r != nil {
		v.Refusal = &PublicRefusal{r.Code, r.Message, r.Index, payment.Time(r.At)}
	}
	if p.Payment.State.Signed() {
		v.Payment, v.Version = &of, p.Version+1
		if at := p.Payment.Attempts[0].At; at.After(p.UpdatedAt) {
			v.UpdatedAt = payment.Time(at)
		}
	}
	return v
}
