package settlement

import (
	"context"
	"errors"
	"slices"

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
		if err := p.recount(ctx, leading.Mined); err != nil {
			return err
		}
		p.refill(ctx, coin, gas)
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

// merchantsMost is how many merchants a wallet counts before those of which nothing is
// in flight are counted no longer: each makes the item of a wallet some 30 bytes longer.
const merchantsMost = 20

// recount takes from what the wallet counts for each merchant the nonces that are
// mined, once one merchant has half its share. The wallet was read before its pending
// transactions, so a nonce that it counts is mined unless it has a pending transaction
// or is reserved; of the reservations it is not known whose they are, so each counts for
// every merchant. Only runs recount, and of two that have read the same the second is
// refused: no nonce is taken off twice. A crash leaves counts that are too high, which
// refuses that merchant, until the next round.
func (p *pass) recount(ctx context.Context, mined uint64) error {
	flying, reserved := map[string]uint64{}, uint64(len(p.wallet.Reservations))
	for _, tx := range p.pendingTxs {
		if tx.Nonce >= mined {
			flying[tx.Merchant]++
		}
	}
	done, idle, due := map[string]uint64{}, []string{}, len(p.wallet.Taken) > merchantsMost
	for merchant, taken := range p.wallet.Taken {
		if left := min(taken, flying[merchant]+reserved); left < taken {
			done[merchant] = taken - left
		}
		if taken == 0 {
			idle = append(idle, merchant)
		}
		due = due || 2*taken >= p.Share
	}
	recounts, errs := p.wallet.Recounts, []error(nil)
	if due && len(done) > 0 {
		errs = append(errs, p.Store.Recount(ctx, p.wallet.ID, recounts, done, nil))
		recounts++
	}
	if len(p.wallet.Taken) > merchantsMost && len(idle) > 0 { // by itself: a new payment of one of them refuses it
		slices.Sort(idle)
		errs = append(errs, p.Store.Recount(ctx, p.wallet.ID, recounts, nil, idle))
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, store.ErrChanged) { // another run's: next round
			return err
		}
	}
	return nil
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
