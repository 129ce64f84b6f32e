package oracle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

// The bounds of a Goal.
const (
	// Of a request, once its process has compared every wallet: sixteen at a time may wait for the liar, which alone
	// counts more transactions, to show one (chain.Nodes.Ahead). A compared wallet is remembered.
	answerTime = 20 * time.Second
	dearest    = 2 // times the price of gas that honest nodes quote

	// Of a refusal: requests to each node, writes, and reads beside one of each wallet. It writes nothing before it
	// stores the payment.
	refusalRequests, refusalWrites, refusalReads = 8, 11, 16
	// Of an accepted payment: requests to each node, and writes.
	paymentRequests, paymentWrites = 8, 8
)

// A Goal is the service that merchants may expect while one of three nodes answers anything. Zero expects nothing.
type Goal struct {
	Unharmed bool          // Sure orders are accepted, accepted orders are confirmed at a fair price, and no wallet is paused
	Within   time.Duration // from the creation of an order's payment to its confirmation
	Metered  bool          // answers' times, requests, reads and writes have bounds
}

// reads are the operations of the tables that change nothing.
var reads = strings.Fields("Rules Payment PaymentByHash PendingTxs PendingTx Wallet Wallets Compared")

// ofWallets are the writes of a round that belong to no payment, without claims.
var ofWallets = strings.Fields("RaiseCeiling LowerCeiling Reconcile Advance Pause Repause SetCompared")

// A spending counts the calls of an actor since it began, or since its last round.
type spending struct {
	requests                 map[string]int // by node, without Send
	reads, writes, ofWallets int
	early                    int             // writes before the payment was stored
	stored                   bool            // the payment
	busy                     map[string]bool // wallets that a round claimed, or whose amounts it stored
}

// Called notes a call of an actor: a request to a node, or an operation of the tables.
func (o *Oracle) Called(actor, node, op, args string) {
	if o.Goal == (Goal{}) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.spendings[actor]
	if s == nil {
		s = &spending{requests: map[string]int{}, busy: map[string]bool{}}
		o.spendings[actor] = s
	}
	switch {
	case op == "Send":
	case node != "":
		s.requests[node]++
	case slices.Contains(reads, op):
		s.reads++
	default:
		s.writes++
		if slices.Contains(ofWallets, op) {
			s.ofWallets++
		}
		if s.stored = s.stored || op == "Create"; !s.stored {
			s.early++
		}
		if op == "Claim" || op == "Reconcile" || op == "RaiseCeiling" || op == "LowerCeiling" {
			s.busy[strings.FieldsFunc(args, func(r rune) bool { return r == ' ' || r == '#' })[0]] = true
		}
	}
}

func most(counts map[string]int) (n int) {
	for _, count := range counts {
		n = max(n, count)
	}
	return n
}

// spent returns the calls of an actor, and begins to count anew.
func (o *Oracle) spent(actor string) spending {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.spendings[actor]
	delete(o.spendings, actor)
	if s == nil {
		return spending{}
	}
	return *s
}

// Served checks an actor's answer against the Goal.
func (o *Oracle) Served(actor string, a Answer, took time.Duration) {
	if o.Goal.Unharmed && a.Order.Sure && a.Err != nil {
		o.Violate(Unharmed, "%s was refused: %v", a.Order.Key, a.Err)
	}
	if took > answerTime && o.Goal.Metered {
		o.Violate(Unharmed, "%s was answered after %s", a.Order.Key, took)
	}
	s := o.spent(actor)
	if !o.Goal.Metered {
		return
	}
	requests, writes := paymentRequests, paymentWrites
	if a.Err != nil {
		requests, writes = refusalRequests, refusalWrites
		if !s.stored && s.early > 0 && !errors.Is(a.Err, dispatch.ErrInProgress) {
			o.Violate(Frugal, "%s was refused after %d writes, and is not stored", a.Order.Key, s.early)
		}
	}
	if n := most(s.requests); n > requests || s.writes > writes || s.reads > refusalReads+len(o.Chain.Funded()) {
		o.Violate(Frugal, "%s took %d requests to a node, %d writes and %d reads: %v", a.Order.Key, n, s.writes, s.reads, a.Err)
	}
}

// Rounded checks a round of an actor that has just ended.
func (o *Oracle) Rounded(actor string) {
	s, wallets := o.spent(actor), len(o.Chain.Funded())
	busy := len(s.busy)
	if !o.Goal.Metered {
		return
	}
	if s.ofWallets > 3*busy+2 { // a handler may come in between the amounts of a wallet and their write
		o.Violate(Frugal, "a round wrote %d times beside the claims on %d busy wallets", s.ofWallets, busy)
	}
	// A wallet's account; and of a node that counts too many transactions its head, the nonce and the transaction.
	if n := most(s.requests); n > 4+4*wallets+6*busy {
		o.Violate(Frugal, "a round asked a node %d times, with %d busy wallets of %d", n, busy, wallets)
	}
	if others := s.writes - s.ofWallets; s.reads > 4+3*wallets+4*busy+2*others {
		o.Violate(Frugal, "a round read %d times, with %d busy wallets of %d and %d writes", s.reads, busy, wallets, s.writes)
	}
}

// checkPauses reports the first wallet that is paused, once.
func (o *Oracle) checkPauses() {
	for _, id := range o.wallets() {
		if w, err := o.Store.Wallet(context.Background(), id); err == nil && w.Paused != "" && !o.harmed {
			o.harmed = true
			o.Violate(Unharmed, "wallet %s is paused: %s", short(id.Address), w.Paused)
		}
	}
}

// checkPrice checks the price of gas that a transaction pays as a block takes it.
func (o *Oracle) checkPrice(tx fakechain.Tx) {
	fair, _ := o.Chain.BaseFee.Add(fakechain.Tip)
	if price := o.Chain.Price(tx); fair.ScaleUp(dearest, 1).Less(price) {
		o.Violate(Unharmed, "nonce %d of %s pays %s for gas that costs %s", tx.Nonce, short(tx.From), price, fair)
	}
}

// Ended checks every accepted order. Call it once the last of them had the time to end.
func (o *Oracle) Ended() {
	for _, order := range o.Orders() {
		p, err := o.Store.Payment(context.Background(), order.ID())
		took := p.UpdatedAt.Sub(p.CreatedAt)
		if err != nil || p.State == payment.Prepared {
			continue
		}
		if p.State != payment.Confirmed || took > o.Goal.Within {
			o.Violate(Unharmed, "%s is %s after %s", order.Key, p.State, took)
		}
	}
}
