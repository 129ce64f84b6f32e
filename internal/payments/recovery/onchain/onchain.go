// Package onchain reads payments from the chain: the call data of a mined transaction has a payment's ID.
package onchain

import (
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// Payment returns the payment that a mined transaction makes by its call data, unsigned, not yet stored, and assigned
// to its sender. The chain does not record the merchant, which stays empty until Adopted. It returns false if tx does
// not transfer coin, or has no payment's ID after its arguments.
func Payment(tx chain.MinedTx, chainID uint64, coin token.Token, network string) (payment.Payment, bool) {
	at := tx.At.UTC().Truncate(time.Millisecond)
	p := payment.Payment{Token: coin, Network: network, State: payment.Prepared, CreatedAt: at, UpdatedAt: at}
	t, memo, ok := chain.ParseTransfer([]byte(tx.Data))
	if ok && tx.To == coin.Contract {
		p.To, p.Amount = t.To, t.Amount
	} else {
		contract, outputs, rest, batch := disburser.Parse([]byte(tx.Data))
		p.BatchContract, memo, ok = tx.To, rest, batch && contract == coin.Contract && len(outputs) > 1
		for _, o := range outputs {
			p.Entries = append(p.Entries, payment.Entry{To: o.To, Amount: o.Amount})
			p.Amount, _ = p.Amount.Add(o.Amount) // at most 2^96-1 each
		}
	}
	p.ID = payment.MemoID(memo)
	return p.AssignedTo(tx.From, chain.Tx{ChainID: chainID, To: tx.To, Data: []byte(tx.Data)}), ok && p.ID.Memo() != nil
}
