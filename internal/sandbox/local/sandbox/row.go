package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// A Step is a step that a payment has reached.
type Step int

// The steps of a payment, in their order.
const (
	Prepared Step = iota
	Committed
	Sent
	Mined
	Final
	Published
	Steps // how many there are
)

// A Row is a payment as the page shows it.
type Row struct {
	ID       payment.ID    `json:"id"`
	Key      string        `json:"key"`
	Asset    string        `json:"asset"` // "" while that is not known
	To       string        `json:"to"`
	Amount   string        `json:"amount"` // in the token's smallest unit
	Ours     bool          `json:"ours"`   // asked for by the page
	Asked    int           `json:"asked"`  // requests of the page for it
	Answers  int           `json:"answers"`
	Refusals int           `json:"refusals"` // requests that were answered 4xx
	Answer   string        `json:"answer"`   // the last answer to the page; "" while there is none
	Detail   string        `json:"detail"`   // of the last refusal
	Refused  bool          `json:"refused"`  // and not stored
	State    payment.State `json:"state"`
	Failure  string        `json:"failure"`
	Hash     string        `json:"hash"`
	Wallet   string        `json:"wallet"`
	Nonce    uint64        `json:"nonce"`
	Paid     int           `json:"paid"`  // Transfer logs with its id on the chain now
	Begun    int64         `json:"begun"` // when it was first asked for or seen, in milliseconds since 1970
	At       [Steps]int64  `json:"at"`    // when it reached each step; 0: not yet; -1: before the page was opened
}

// learn copies a stored payment, except its steps.
func (r *Row) learn(p payment.Payment) {
	r.ID, r.Key, r.To, r.Amount, r.Wallet, r.State = p.ID, p.IdempotencyKey, p.To.String(), p.Amount.String(), p.Wallet.String(), p.State
	r.Asset = token.Coin{ChainID: p.Tx.ChainID, Contract: p.Token.Contract}.String()
	if len(p.Entries) > 1 {
		r.To = fmt.Sprintf("%d recipients", len(p.Entries))
	}
	if p.State.Signed() {
		r.Hash, r.Nonce = p.TxHash.String(), p.Nonce
	}
	if p.Failure != nil {
		r.Failure = string(p.Failure.Code)
	}
}

// A Wallet is a wallet as the page shows it.
type Wallet struct {
	Address  token.Address `json:"address"`
	Tokens   string        `json:"tokens"` // in the smallest unit
	Wei      string        `json:"wei"`
	Next     uint64        `json:"next"`  // the nonce that the next reservation gets
	Mined    uint64        `json:"mined"` // the chain's count
	Reserved int           `json:"reserved"`
	Sent     int           `json:"sent"` // pending transactions
	Paused   string        `json:"paused"`
}

// A Line is one line of the log.
type Line struct {
	N    int    `json:"n"`
	At   int64  `json:"at"`
	Kind string `json:"kind"` // "ask", "step", "fault", "bad" or "end"
	Text string `json:"text"`
}

// A Timeline is everything that tables, nodes and the log of webhooks have of a payment.
type Timeline struct {
	Payment    Row              `json:"payment"`
	Entries    any              `json:"entries"` // of a batch, in the API's form; nil: one payment
	Attempts   []Attempt        `json:"attempts"`
	Receipts   []NodeView       `json:"receipts"`
	Deliveries []remit.Delivery `json:"deliveries"`
	Bytes      string           `json:"bytes"`    // signed; "" before and after they are stored
	Fee        string           `json:"fee"`      // wei; "" until it is known
	Progress   string           `json:"progress"` // in words; "" of a final payment
}

// An Attempt is one signed form of a payment's transaction.
type Attempt struct {
	Hash chain.Hash `json:"hash"`
	At   int64      `json:"at"`
	Cap  string     `json:"max_fee"` // wei per gas, as the tip
	Tip  string     `json:"tip"`
	Gas  uint64     `json:"gas"`
	Noop bool       `json:"noop"`
}

// A NodeView is one node's view of a payment.
type NodeView struct {
	Node  string   `json:"node"`
	Lines []string `json:"lines"`
}

// timeline returns the timeline of the payment with an id, a hash or an Idempotency-Key. It includes
// the error of a node; the page shows the text of its own.
func (s *Sandbox) timeline(ctx context.Context, find string) (Timeline, error) {
	row, err := s.find(find)
	if err != nil {
		return Timeline{}, err
	}
	t := Timeline{Payment: row, Attempts: []Attempt{}, Receipts: []NodeView{}, Deliveries: []remit.Delivery{}}
	p, err := s.Store.Payment(ctx, row.ID)
	if err != nil { // not stored yet, or discarded
		return t, nil
	}
	if p.Entries != nil {
		t.Entries = p.Public().Payments
	}
	if len(p.Attempts) == 0 {
		return t, nil
	}
	for _, a := range p.Attempts {
		t.Attempts = append(t.Attempts, Attempt{a.Hash, a.At.UnixMilli(), a.Fees.Cap.String(), a.Fees.Tip.String(),
			cmp.Or(a.Gas, p.Tx.Gas), a.Noop})
	}
	for _, r := range s.rails {
		for i, d := range r.doors {
			if r.ChainID == p.Tx.ChainID {
				t.Receipts = append(t.Receipts, receiptsOf(ctx, i, d.node, p.Hashes()))
			}
		}
	}
	if p.Fee != nil {
		t.Fee = p.Fee.String()
	}
	if p.Event != nil {
		n := 0
		for d, err := range s.api.ListDeliveries(ctx, s.hookID, url.Values{"limit": {"100"}}) {
			if n++; err != nil || n > 100 { // none of an API that gives no answer
				break
			}
			if d.EventID == p.Event.ID {
				t.Deliveries = append(t.Deliveries, d)
			}
		}
	}
	id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
	w, _ := s.Store.Wallet(ctx, id) // an unreadable wallet shows no progress
	if is := w.ProgressOf(p); is != nil {
		t.Progress = string(*is)
	}
	tx, err := s.Store.PendingTx(ctx, id, p.Nonce)
	if errors.Is(err, wallet.ErrUnknown) {
		return t, nil
	}
	if err == nil && tx.Payment == p.ID {
		t.Bytes = fmt.Sprintf("0x%x", tx.Raw)
	}
	return t, err
}

func (s *Sandbox) find(find string) (Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[cmp.Or(s.byHash[strings.ToLower(find)], payment.ID(find))]
	if i := slices.IndexFunc(s.order, func(r *Row) bool { return r.Key == find }); r == nil && i >= 0 {
		r = s.order[i]
	}
	if r == nil {
		return Row{}, errors.New("no payment has that id, hash or Idempotency-Key; copy one from the page")
	}
	return *r, nil
}

// receiptsOf asks a node, within two seconds, for the receipts of a payment.
func receiptsOf(ctx context.Context, i int, node chain.Node, hashes []chain.Hash) NodeView {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found, err := node.Receipts(ctx, hashes)
	lines := []string{}
	for _, r := range found {
		lines = append(lines, r.String())
		for _, l := range r.Logs {
			lines = append(lines, fmt.Sprintf("log of %s: topics %v, data %x", l.Contract, l.Topics, l.Data))
		}
	}
	if err != nil {
		lines = append(lines, "no answer: "+err.Error())
	}
	return NodeView{fmt.Sprintf("node %d, %s", i+1, node), lines}
}
