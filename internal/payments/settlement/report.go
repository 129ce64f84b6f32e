package settlement

import (
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Report counts a run's work and describes its wallets.
type Report struct {
	Busy             bool // a wallet that does not rest has a reservation or a pending transaction
	Resting          int  // wallets whose transactions are mined, and wait for a final block that is far behind
	ClaimedElsewhere bool // another run claims a busy wallet
	Confirmed        int  // payments made final in this run
	Failed           int
	Reservations     int             // reservations finished for handlers that did not
	Noops            int             // no-ops stored
	Bumps            int             // fee bumps stored
	Resent           int             // stored bytes sent again
	Refused          int             // of Resent, refused by a node that holds other bytes or will never take these
	Unreadable       int             // stored items that do not decode, skipped
	Unruled          int             // 1 while there are no usable settings, and new payments are refused
	Suspect          int             // wallets that the chain is ahead of, and nonces that others' transactions used
	Undecided        int             // mined nonces on which the nodes differ, or without a receipt
	Paused           int             // paused wallets, plus 1 while nodes have lacked a final block for absentFor
	Unfilled         int             // refused refills
	Funding          []uint64        // how many refills each funding wallet can pay, up to a hundred
	Pending          int             // pending transactions not yet settled
	Oldest           time.Duration   // since the first attempt of the oldest pending transaction was signed
	ToFinal          []time.Duration // from creation to final, of each payment settled
	Spent            []Spent         // of each transaction settled
	Wallets          []Funds
}

// Spent is the cost of a mined transaction.
type Spent struct {
	Wallet token.Address
	Noop   bool         // it paid nobody
	Fee    token.Amount // wei
}

func (r *Report) spend(s wallet.PendingTx, fee *token.Amount) {
	if fee != nil {
		r.Spent = append(r.Spent, Spent{s.Address, s.Noop(), *fee})
	}
}

// Funds are a wallet's spendable amounts by enough nodes, or the last stored ones while tied-up amounts are uncertain.
type Funds struct {
	Address token.Address
	Balance token.Amount
	Gas     token.Amount // wei
	Gap     uint64       // nonces given out and not mined
	Own     bool         // the wallet is a merchant's, who provides its coins
}

func (r *Report) add(o Report) {
	r.Busy, r.ClaimedElsewhere = r.Busy || o.Busy, r.ClaimedElsewhere || o.ClaimedElsewhere
	r.Resting += o.Resting
	r.Confirmed += o.Confirmed
	r.Failed += o.Failed
	r.Reservations += o.Reservations
	r.Noops += o.Noops
	r.Bumps += o.Bumps
	r.Resent += o.Resent
	r.Refused += o.Refused
	r.Unreadable += o.Unreadable
	r.Unruled = max(r.Unruled, o.Unruled)
	r.Suspect += o.Suspect
	r.Undecided += o.Undecided
	r.Paused += o.Paused
	r.Unfilled += o.Unfilled
	r.Funding = append(r.Funding, o.Funding...)
	r.Pending += o.Pending
	r.Oldest = max(r.Oldest, o.Oldest)
	r.ToFinal = append(r.ToFinal, o.ToFinal...)
	r.Spent = append(r.Spent, o.Spent...)
	r.Wallets = append(r.Wallets, o.Wallets...)
}

// next adds a later round: it adds counters, appends Funding, and keeps skipped wallets' balances and the maximum of
// Oldest and Paused. It replaces the other gauges.
func (r *Report) next(round Report) {
	r.Busy, r.Resting, r.ClaimedElsewhere, r.Unreadable, r.Unruled, r.Undecided, r.Pending = false, 0, false, 0, 0, 0, 0
	r.Paused = max(r.Paused-round.Paused, 0) // later rounds skip a wallet that is paused and idle
	r.Wallets = slices.DeleteFunc(r.Wallets, func(old Funds) bool {
		return slices.ContainsFunc(round.Wallets, func(f Funds) bool { return f.Address == old.Address })
	})
	r.add(round)
}
