package store

import (
	"context"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Commit signs the stored unsigned transaction of p at nonce and stores the bytes in to. If nothing was written, the
// payment is zero. Otherwise the error is the write's: ErrChanged and ErrNonceTaken mean that another process was
// faster. A crash before the write leaves the reservation as it was; a crash after it leaves a reservation with its
// pending transaction, which check-receipts releases.
func Commit(ctx context.Context, to interface {
	Commit(ctx context.Context, p payment.Payment) error
}, signer wallet.Signer, p payment.Payment, nonce uint64, now time.Time) (payment.Payment, error) {
	signed, err := signer.Sign(ctx, p.Tx, nonce)
	if err != nil {
		return payment.Payment{}, err
	}
	committed, err := p.Commit(signed, now)
	if err != nil {
		return payment.Payment{}, err
	}
	return committed, to.Commit(ctx, committed)
}

// UseUp signs a no-op at a nonce that no payment will use, at the market's price up to limit in wei per gas, and
// stores it in to. Two processes may sign different no-ops: only the stored one is ever sent. ErrNonceTaken means
// that another process was faster. A crash after the write leaves a pending transaction that check-receipts sends.
func UseUp(ctx context.Context, to interface {
	PutNoop(ctx context.Context, tx wallet.PendingTx) error
}, signer wallet.Signer, nodes chain.Nodes, id wallet.ID, nonce uint64, limit token.Amount, unit chain.GasUnit,
	now time.Time) (wallet.PendingTx, error) {
	market, err := nodes.Fees(ctx)
	if err != nil {
		return wallet.PendingTx{}, err
	}
	tx := nodes.Noop(ctx, id.ChainID, id.Address, chain.QuoteFees(market.BaseFee, market.Tip, limit))
	tx.L1Fee, tx.GasUnit = market.L1Reserve(tx), unit
	signed, err := signer.Sign(ctx, tx, nonce)
	if err != nil {
		return wallet.PendingTx{}, err
	}
	noop := wallet.PendingNoop(id, tx, signed, now)
	return noop, to.PutNoop(ctx, noop)
}

// NeedOf returns p's need of its wallet.
func NeedOf(p payment.Payment, at time.Time) wallet.Need {
	id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
	coin, gas := p.Tx.Takes(p.Coins())
	return wallet.Need{Wallet: id, Payment: p.ID, For: p.Revision, Amount: coin, Gas: gas, At: at}
}

// PendingTxOf returns the pending transaction of a committed payment.
func PendingTxOf(p payment.Payment) wallet.PendingTx {
	last := p.LastAttempt()
	tx := p.Tx
	tx.Fees, tx.Gas = last.Fees, p.Gas()
	coin, gas := tx.Takes(p.Coins())
	return wallet.PendingTx{
		ID: wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}, Nonce: p.Nonce, Payment: p.ID, Hashes: p.Hashes(),
		Raw: last.Raw, Fees: last.Fees, At: last.At, Since: p.Attempts[0].At, Amount: coin, Gas: gas,
		Merchant: p.Merchant, HasNoop: p.HasNoop(),
	}
}
