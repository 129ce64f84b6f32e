package payment

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Public is a payment as merchants see it, in answers and in events. Every
// field is always written, null where it has no value, in the order of the CSV's columns.
type Public struct {
	TxHash        chain.Hash        `json:"tx_hash"`
	Status        Status            `json:"status"`
	Amount        token.Amount      `json:"amount"`
	WalletAddress *token.Address    `json:"wallet_address"` // null in a batch
	To            *token.Address    `json:"to"`             // the same
	Token         string            `json:"token"`
	Decimals      int               `json:"decimals"`
	Network       string            `json:"network"`
	Reference     *string           `json:"reference"`
	Metadata      map[string]string `json:"metadata"`
	OnchainTxHash *chain.Hash       `json:"onchain_tx_hash"`
	BlockNumber   *uint64           `json:"block_number"`
	NetworkFee    *token.Amount     `json:"network_fee"`
	FeeUnit       string            `json:"network_fee_unit"`
	Progress      *Progress         `json:"progress"` // null once final
	Failure       *Failure          `json:"failure"`
	Payments      []PublicEntry     `json:"payments"` // of a batch
	Version       int64             `json:"version"`
	Mode          string            `json:"mode"`
	CreatedAt     Time              `json:"created_at"`
	UpdatedAt     Time              `json:"updated_at"`
	AmountText    string            `json:"amount_text"`
	Key           *string           `json:"idempotency_key"` // null until a recovered payment is asked for again
	FeeText       *string           `json:"network_fee_text"`
	Asset         string            `json:"asset"` // of the signed transaction, by its CAIP-19 name
}

// A PublicEntry is an entry of a batch as merchants see it.
type PublicEntry struct {
	WalletAddress token.Address `json:"wallet_address"`
	To            token.Address `json:"to"`
	Amount        token.Amount  `json:"amount"`
	AmountText    string        `json:"amount_text"`
	Reference     *string       `json:"reference"`
}

// Public returns p as merchants see it. wallet_address is the recipient's wallet, which the merchant named, not the
// paying wallet. It shows the progress that p itself has; wallet.Wallet.ProgressOf knows more.
func (p Payment) Public() Public {
	v := Public{
		TxHash: p.TxHash, Status: p.State.Status(), Amount: p.Amount, WalletAddress: &p.To, To: &p.To,
		Token: p.Token.Symbol, Decimals: p.Token.Decimals, Network: p.Network,
		Metadata: p.Metadata, NetworkFee: p.Fee, Failure: p.Failure, Version: p.Version, Mode: p.Mode,
		CreatedAt: Time(p.CreatedAt), UpdatedAt: Time(p.UpdatedAt), FeeUnit: p.feeUnit(),
		AmountText: p.Amount.String(), Key: OrNull(p.IdempotencyKey), FeeText: token.Text(p.Fee),
		Asset: p.Coin().String(),
	}
	if v.Metadata == nil {
		v.Metadata = map[string]string{}
	}
	if !p.State.Final() {
		v.Progress = new(ProgressCommitted)
	}
	v.Reference = OrNull(p.Reference)
	if p.Entries != nil {
		v.WalletAddress, v.To = nil, nil
	}
	for _, e := range p.Entries {
		v.Payments = append(v.Payments, PublicEntry{e.To, e.To, e.Amount, e.Amount.String(), OrNull(e.Reference)})
	}
	if !p.Onchain.IsZero() {
		v.OnchainTxHash, v.BlockNumber = &p.Onchain, &p.Block
	}
	return v
}

// feeUnit names the unit of Fee: the token where it pays gas, in 18 decimals.
func (p Payment) feeUnit() string {
	if p.Tx.GasUnit > 0 {
		return p.Token.Symbol
	}
	return "wei"
}

// OrNull returns nil, which is written as null, for a zero value.
func OrNull[V comparable](v V) *V {
	if v == *new(V) {
		return nil
	}
	return &v
}

// A Time is written as RFC 3339 in UTC, to the millisecond, ending in Z.
type Time time.Time

// MarshalText writes t.
func (t Time) MarshalText() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format("2006-01-02T15:04:05.000Z")), nil
}

// An Event announces that a payment ended, or was mined. The body of an end is serialised
// once, in the write that makes the payment final.
type Event struct {
	ID   string // "evt_…", the same however often it is announced
	Type string // "payment.confirmed", "payment.failed" or "payment.mined"
	Body []byte // JSON
}

func eventOf(p Payment, previous Status) (Event, error) {
	kind := "payment." + string(p.State.Status())
	return eventAs(EventID(p.ID, kind), kind, p.UpdatedAt, p.Public(), previous)
}

// Mined returns the event that a committed payment is mined. It depends on p alone, so that each call
// writes the same bytes.
func (p Payment) Mined() (Event, error) {
	const kind = "payment.mined"
	public := p.Public()
	public.Progress = new(ProgressMined)
	return eventAs(EventID(p.ID, kind), kind, p.MinedAt, public, StatusPending)
}

func eventAs(id, kind string, at time.Time, public Public, previous Status) (Event, error) {
	var body strings.Builder
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Timestamp Time   `json:"timestamp"`
		Data      any    `json:"data"`
	}{id, kind, Time(at), struct {
		Public
		Previous Status `json:"previous_status"`
	}{public, previous}})
	return Event{ID: id, Type: kind, Body: []byte(strings.TrimSuffix(body.String(), "\n"))}, err
}
