package wallet

import (
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// A Progress is what a round of check-receipts has seen of a wallet's transactions. It serves
// answers to merchants: no decision about money reads it. The zero Progress is that of a wallet
// of which nothing is known.
type Progress struct {
	Mined Mined  // what every node that answered had in its blocks
	Sent  uint64 // a node has a transaction at each nonce below it
	Head  uint64 // the newest block that every node that answered had
	// How many blocks must follow one that counts; nil: the confirmation rule is no number.
	Depth *uint64
	Waits payment.Stage // why the lowest nonce is not mined: WaitingForFees, WaitingForFunds, or empty
}

// MaxBlocks is how many Runs a Mined has: 15 minutes of Ethereum, where each block has a
// transaction of the wallet. What is mined beyond them counts as sent until the first ones are
// final. So many take 300 bytes of the wallet's item.
const MaxBlocks = 96

// A Mined has the blocks of consecutive nonces, lowest first.
type Mined struct {
	First uint64 // the lowest nonce; 0 in an empty Mined
	Runs  []Run
	Hash  [8]byte // the first bytes of the hash of the last block, which fixes those before it
}

// A Run is the number of consecutive nonces that one block has.
type Run struct{ Block, Count uint64 }

// Next returns the nonce behind the last one.
func (m Mined) Next() uint64 {
	next := m.First
	for _, r := range m.Runs {
		next += r.Count
	}
	return next
}

// Of returns the block that has a nonce, and whether m has it.
func (m Mined) Of(nonce uint64) (block uint64, ok bool) {
	from := m.First
	for _, r := range m.Runs {
		if nonce >= from && nonce-from < r.Count {
			return r.Block, true
		}
		from += r.Count
	}
	return 0, false
}

// From returns m without the nonces below one.
func (m Mined) From(nonce uint64) Mined {
	m.Runs = slices.Clone(m.Runs)
	for len(m.Runs) > 0 && m.First < nonce {
		gone := min(nonce-m.First, m.Runs[0].Count)
		m.First += gone
		if m.Runs[0].Count -= gone; m.Runs[0].Count == 0 {
			m.Runs = m.Runs[1:]
		}
	}
	if len(m.Runs) == 0 {
		return Mined{}
	}
	return m
}

// Add returns m with the block of its next nonce, or of any if m is empty. It returns m and false
// for another nonce, for a block before the last one, and beyond MaxBlocks.
func (m Mined) Add(nonce uint64, in chain.Block) (Mined, bool) {
	n := len(m.Runs)
	switch {
	case n == 0:
		m = Mined{First: nonce}
	case nonce != m.Next() || in.Number < m.Runs[n-1].Block || in.Number == m.Runs[n-1].Block && !m.EndsIn(in):
		return m, false
	case in.Number == m.Runs[n-1].Block:
		m.Runs = slices.Clone(m.Runs)
		m.Runs[n-1].Count++
		return m, true
	case n >= MaxBlocks:
		return m, false
	}
	m.Runs, m.Hash = append(slices.Clip(m.Runs), Run{in.Number, 1}), [8]byte(in.Hash[:])
	return m, true
}

// EndsIn reports whether a block is the last one of m.
func (m Mined) EndsIn(b chain.Block) bool {
	n := len(m.Runs)
	return n > 0 && m.Runs[n-1].Block == b.Number && m.Hash == [8]byte(b.Hash[:])
}

// ProgressOf returns how far a payment has come that w pays, nil once it is final. Of a w that is
// not known, which is zero, no more is known than that it is committed.
func (w Wallet) ProgressOf(p payment.Payment) *payment.Progress {
	if p.State.Final() {
		return nil
	}
	is := payment.Progress{Stage: payment.StageCommitted}
	if p.State != payment.Committed || w.Address != p.Wallet {
		return &is
	}
	block, mined := w.Progress.Mined.Of(p.Nonce)
	switch {
	case mined:
		is.Stage, is.Block = payment.StageMined, &block
		if depth := w.Progress.Depth; depth != nil {
			is.Left = new(block + *depth - min(w.Progress.Head, block+*depth))
		}
	case w.Paused == OutOfGas:
		is.Stage = payment.WaitingForFunds
	case w.Progress.Waits != "":
		is.Stage = w.Progress.Waits
	case p.Nonce < w.Progress.Sent:
		is.Stage = payment.StageSent
	}
	return &is
}
