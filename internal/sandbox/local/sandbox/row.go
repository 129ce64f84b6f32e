package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
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
	ID      payment.ID    `json:"id"`
	N       int64         `json:"n"` // rises with the age of the stack: the newest payment has the highest
	Key     string        `json:"key"`
	To      string        `json:"to"`
	Amount  string        `json:"amount"` // in the token's smallest unit
	Ours    bool          `json:"ours"`   // asked for by the page
	Asked   int           `json:"asked"`  // requests of the page for it
	Answers int           `json:"answers"`
	Answer  string        `json:"answer"` // the last answer to the page; "" while there is none
	Refused bool          `json:"refused"`
	State   payment.State `json:"state"`
	Failure string        `json:"failure"`
	Hash    string        `json:"hash"`
	Wallet  string        `json:"wallet"`
	Nonce   uint64        `json:"nonce"`
	Paid    int           `json:"paid"`  // Transfer logs with its id on the chain now
	Begun   int64         `json:"begun"` // when it was first asked for or seen, in milliseconds since 1970
	At      [Steps]int64  `json:"at"`    // when it reached each step; 0: not yet
}

// Learn copies a stored payment, except its steps.
func (r *Row) Learn(p payment.Payment) {
	r.ID, r.Key, r.To, r.Amount, r.Wallet, r.State = p.ID, p.IdempotencyKey, p.To.String(), p.Amount.String(), p.Wallet.String(), p.State
	if len(p.Entries) > 1 {
		r.To = fmt.Sprintf("%d recipients", len(p.Entries))
	}
	if p.State != payment.Prepared {
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

// gasSymbol returns the gas currency's symbol. If the token pays gas, a wallet's wei are its tokens once more.
func gasSymbol(unit chain.GasUnit, coin token.Token) string {
	if unit > 0 {
		return coin.Symbol
	}
	return "ETH"
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
	Payment    Row        `json:"payment"`
	Entries    any        `json:"entries"` // of a batch, in the API's form; nil: one payment
	Attempts   []Attempt  `json:"attempts"`
	Receipts   []NodeView `json:"receipts"`
	Deliveries any        `json:"deliveries"` // a list, in the API's form
	Bytes      string     `json:"bytes"`      // signed; "" before and after they are stored
	Fee        string     `json:"fee"`        // wei; "" until it is known
	Progress   string     `json:"progress"`   // in words; "" of a final payment
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

// A pendingTxs is the part of the store that a timeline reads.
type pendingTxs interface {
	Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error)
	PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error)
}

// timelineOf returns the timeline of a payment, from the pending transactions and from every
// node. It includes the error of a node.
func timelineOf(ctx context.Context, row Row, p payment.Payment, tables pendingTxs, nodes chain.Nodes) (Timeline, error) {
	s := Timeline{Payment: row, Attempts: []Attempt{}, Receipts: []NodeView{}, Deliveries: []any{}}
	if p.Entries != nil {
		s.Entries = p.Public().Payments
	}
	if len(p.Attempts) == 0 {
		return s, nil
	}
	for _, a := range p.Attempts {
		s.Attempts = append(s.Attempts, Attempt{a.Hash, a.At.UnixMilli(), a.Fees.Cap.String(), a.Fees.Tip.String(), cmp.Or(a.Gas, p.Tx.Gas),
			a.Noop})
	}
	for i, node := range nodes {
		s.Receipts = append(s.Receipts, receiptsOf(ctx, i, node, p.Hashes()))
	}
	if p.Fee != nil {
		s.Fee = p.Fee.String()
	}
	id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
	w, _ := tables.Wallet(ctx, id) // an unreadable wallet shows no progress
	if is := w.ProgressOf(p); is != nil {
		s.Progress = string(*is)
	}
	tx, err := tables.PendingTx(ctx, id, p.Nonce)
	if errors.Is(err, wallet.ErrUnknown) {
		return s, nil
	}
	if err == nil && tx.Payment == p.ID {
		s.Bytes = fmt.Sprintf("0x%x", tx.Raw)
	}
	return s, err
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
	return NodeView{"node " + strconv.Itoa(i+1) + ", " + node.String(), lines}
}
