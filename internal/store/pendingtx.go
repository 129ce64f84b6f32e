package store

import (
	"remit/internal/payment"
	"remit/internal/wallet"
)

// PendingTxOf returns the pending transaction of a committed payment.
func PendingTxOf(p payment.Payment) wallet.PendingTx {
	last := p.LastAttempt()
	tx := p.Tx
	tx.Fees = last.Fees
	return wallet.PendingTx{
		ID: wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}, Nonce: p.Nonce, Payment: p.ID, Hashes: p.Hashes(),
		Raw: last.Raw, Fees: last.Fees, At: last.At, Since: p.Attempts[0].At, Amount: p.Amount, Gas: tx.Cost(),
	}
}
