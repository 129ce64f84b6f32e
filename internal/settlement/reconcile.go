package settlement

import (
	"context"
	"errors"

	"remit/internal/store"
	"remit/internal/token"
)

// reconcile sets the wallet's spendable amounts to its balances less the amounts
// that are tied up, and lifts its ceiling by the mined count. Count and balances
// are of one block of one node, and the write holds only if no nonce was
// reserved or returned since the wallet was read, so no amount is counted twice or
// not at all. A crash leaves less to spend than there is, or the old ceiling, until the
// next round.
func (p *pass) reconcile(ctx context.Context) error {
	leading := p.views.Leading()
	if ceiling := leading.Mined + p.Window; ceiling > p.wallet.Ceiling {
		if err := p.Store.RaiseCeiling(ctx, p.wallet.ID, ceiling); err != nil {
			return err
		}
	}
	coin, gas, err := p.tied(ctx, leading.Mined)
	switch {
	case errors.Is(err, errUncertain):
		coin, gas = p.wallet.Balance, p.wallet.Gas
	case err != nil:
		return err
	default:
		coin, gas = leading.Balance.Sub(coin), leading.Gas.Sub(gas)
	}
	p.report.Wallets = append(p.report.Wallets, Funds{
		Address: p.wallet.Address, Balance: coin, Gas: gas, Gap: p.wallet.NextNonce - min(leading.Mined, p.wallet.NextNonce),
	})
	if coin == p.wallet.Balance && gas == p.wallet.Gas {
		return nil
	}
	err = p.Store.Reconcile(ctx, p.wallet, coin, gas)
	if errors.Is(err, store.ErrChanged) {
		return nil // a nonce was reserved or returned in between: next round
	}
	return err
}

// errUncertain reports that the amounts tied up cannot be told now.
var errUncertain = errors.New("amounts tied up are uncertain")

// tied sums the amounts that reservations and pending transactions at or above
// the mined count tie up. Every nonce between the count and next_nonce must be
// one of them; where one is missing, the node that gave the count lags behind
// the payments that are final.
func (p *pass) tied(ctx context.Context, mined uint64) (coin, gas token.Amount, err error) {
	owners := map[uint64][2]token.Amount{}
	for _, s := range p.pendingTxs {
		owners[s.Nonce] = [2]token.Amount{s.Amount, s.Gas}
	}
	for _, id := range p.reserved() {
		reservation := p.wallet.Reservations[id]
		if _, ok := owners[reservation.Nonce]; ok || reservation.Nonce < mined {
			continue
		}
		stored, err := p.Store.Payment(ctx, id)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnreadable) {
			return coin, gas, errUncertain
		}
		if err != nil {
			return coin, gas, err
		}
		owners[reservation.Nonce] = [2]token.Amount{stored.Coins(), stored.Tx.Cost()}
	}
	for nonce := mined; nonce < p.wallet.NextNonce; nonce++ {
		owner, ok := owners[nonce]
		if !ok {
			return coin, gas, errUncertain
		}
		if coin, err = coin.Add(owner[0]); err != nil {
			return coin, gas, err
		}
		if gas, err = gas.Add(owner[1]); err != nil {
			return coin, gas, err
		}
	}
	return coin, gas, nil
}
