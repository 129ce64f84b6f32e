package wallet

import (
	"slices"

	"github.com/remit-payouts/remit/internal/payments/payment"
)

// A Progress is the state of a wallet's transactions in a round of check-receipts. Only answers to
// merchants rely on it. The zero Progress means that nothing is known.
type Progress struct {
	Mined uint64 // number of nonces that count as mined (chain.Nodes.Counted); a re-organisation lowers it
	// At most MaxInFlight nonces below Mined where a paying attempt is mined, of payments with a no-op too.
	Paid  []uint64
	Sent  uint64           // a node has a transaction at each nonce below it
	Waits payment.Progress // why the lowest nonce is not mined: WaitingForFees, WaitingForFunds, or empty
}

// IsMined reports whether a payment at a nonce counts as mined. hasNoop: it has a no-op among its attempts.
func (p Progress) IsMined(nonce uint64, hasNoop bool) bool {
	return nonce < p.Mined && (!hasNoop || slices.Contains(p.Paid, nonce))
}

// ProgressOf returns a payment's progress, nil once it is final. For the zero w it returns ProgressCommitted.
func (w Wallet) ProgressOf(p payment.Payment) *payment.Progress {
	if p.State.Final() {
		return nil
	}
	is := payment.ProgressCommitted
	if p.State != payment.Committed || w.Address != p.Wallet {
		return &is
	}
	switch {
	case w.Progress.IsMined(p.Nonce, p.HasNoop()):
		is = payment.ProgressMined
	case w.Paused == OutOfGas:
		is = payment.WaitingForFunds
	case w.Progress.Waits != "":
		is = w.Progress.Waits
	case p.Nonce < w.Progress.Sent:
		is = payment.ProgressSent
	}
	return &is
}
