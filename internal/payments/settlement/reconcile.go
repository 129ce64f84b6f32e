package settlement

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// reconcileTries bounds how often a round reads a wallet again that has reserved a nonce
// meanwhile. All but the first try take some milliseconds: of a wallet with 25 payments
// a second, fewer than one round in a hundred leaves it to the next.
const reconcileTries = 6

// reconcile sets the wallet's spendable amounts to its balances less the amounts that are tied up,
// counts each merchant's nonces, and moves its ceiling. Count and balances come from one block of
// one node, the node that leaves the least. The write holds only if no nonce was reserved or
// returned since the wallet was read, so every amount counts exactly once. A crash leaves, until
// the next round, less to spend than there is, counts that are too high, or the old ceiling. While
// the sum of tied-up amounts is uncertain, nothing is stored.
func (p *pass) reconcile(ctx context.Context) error {
	leading := p.views.Leading()
	ceilingErr := p.bound(ctx, leading.Mined)
	held, err := p.tied(ctx, leading.Mined)
	if err == nil && p.wallet.RolledBack() && p.owned(ctx) {
		ceilingErr = errors.Join(ceilingErr, p.repause(ctx, ""))
	}
	if p.registered.State == wallet.Funding {
		p.report.Funding = append(p.report.Funding, p.refillsLeft(held.coin, held.gas))
	}
	funds := Funds{Address: p.wallet.Address, Balance: p.wallet.Balance, Gas: p.wallet.Gas,
		Gap: p.wallet.NextNonce - min(leading.Mined, p.wallet.NextNonce)}
	if err == nil {
		funds.Balance, funds.Gas = p.spendable(ctx, held)
	}
	p.report.Wallets = append(p.report.Wallets, funds)
	for try := 0; err == nil && try < reconcileTries; try++ {
		coin, gas := p.spendable(ctx, held)
		if coin == p.wallet.Balance && gas == p.wallet.Gas && maps.Equal(held.perMerchant, p.wallet.PerMerchant) && p.wallet.Damaged == "" {
			break
		}
		if err = p.Store.Reconcile(ctx, p.wallet, coin, gas, held.perMerchant, p.seen); err == nil {
			break
		}
		if !errors.Is(err, store.ErrChanged) { // the counts must not keep the balances from the tables
			return errors.Join(ceilingErr, err, p.Store.Reconcile(ctx, p.wallet, coin, gas, nil, p.seen))
		}
		if _, err = p.read(ctx); err == nil {
			held, err = p.tied(ctx, leading.Mined)
		}
	}
	if errors.Is(err, errUncertain) { // next round
		err = nil
	}
	return errors.Join(ceilingErr, err)
}

// keepsUp is how many blocks a node may be behind for its balances to count.
const keepsUp = 16

// spendable returns the least that a node leaves of each balance beside what is tied up at
// its count: held, at the leading one. A transfer may have reverted on a branch that other
// nodes do not follow. A node that is further behind would hide top-ups.
func (p *pass) spendable(ctx context.Context, held load) (coin, gas token.Amount) {
	leading := p.views.Leading()
	newest := slices.MaxFunc(p.views, func(a, b chain.View) int { return cmp.Compare(a.Number, b.Number) }).Number
	coin, gas = p.beside(leading, held)
	first := true
	for _, v := range p.views {
		tied, err := held, error(nil)
		if v.Mined != leading.Mined {
			tied, err = p.tied(ctx, v.Mined)
		}
		if err != nil || v.Number+keepsUp < newest {
			continue
		}
		coins, wei := p.beside(v, tied)
		if first || coins.Less(coin) {
			coin = coins
		}
		if first || wei.Less(gas) {
			gas = wei
		}
		first = false
	}
	return coin, gas
}

// beside returns what a node's balances of the wallet leave beside what is tied up.
func (p *pass) beside(v chain.View, tied load) (coin, gas token.Amount) {
	coin, gas = p.GasUnit.Holds(v.Account)
	return coin.Sub(tied.coin), gas.Sub(tied.gas)
}

// owned reports whether every nonce that a re-organisation may give back has an owner: an
// old copy of a payment that was rolled back may be mined again, and nobody would send it.
func (p *pass) owned(ctx context.Context) bool {
	_, err := p.tied(ctx, p.Nodes.Used(ctx, p.views, p.wallet.Address, p.silent()))
	return err == nil
}

// bound moves the ceiling to the mined count plus the window, and not below next_nonce. A
// handler that obeys older settings may raise it once more: the next round lowers it.
func (p *pass) bound(ctx context.Context, mined uint64) error {
	switch ceiling := mined + p.Window; {
	case p.unusable != nil:
		return nil
	case ceiling > p.wallet.Ceiling:
		return p.Store.RaiseCeiling(ctx, p.wallet.ID, ceiling)
	case max(ceiling, p.wallet.NextNonce) < p.wallet.Ceiling:
		return p.Store.LowerCeiling(ctx, p.wallet.ID, ceiling)
	}
	return nil
}

// errUncertain reports that the tied-up amounts are not known now.
var errUncertain = errors.New("amounts tied up are uncertain")

// A load is what nonces that are not mined tie up: amounts of their wallet, and of what
// each merchant may have in flight.
type load struct {
	coin, gas   token.Amount
	perMerchant map[string]uint64
}

// tied sums the amounts that reservations and pending transactions at or above the mined count tie
// up. Every nonce between the count and next_nonce must belong to one of them; if one is missing,
// the node that gave the count lags behind the final payments. With an error comes the sum of the
// known amounts.
func (p *pass) tied(ctx context.Context, mined uint64) (sum load, err error) {
	type owner struct {
		coin, gas token.Amount
		merchant  string
	}
	owners := map[uint64]owner{}
	for _, s := range p.pendingTxs {
		coin, gas := p.GasUnit.Takes(s.Amount, s.Gas) // of a version that did not know the chain; else it takes no gas
		owners[s.Nonce] = owner{coin, gas, s.Merchant}
	}
	for _, id := range p.reserved() {
		reservation := p.wallet.Reservations[id]
		if _, ok := owners[reservation.Nonce]; ok || reservation.Nonce < mined {
			continue
		}
		stored, readErr := p.Store.Payment(ctx, id)
		if readErr == nil {
			need := store.NeedOf(stored, reservation.At)
			coin, gas := p.GasUnit.Takes(need.Amount, need.Gas)
			owners[reservation.Nonce] = owner{coin, gas, stored.Merchant}
		} else if !errors.Is(readErr, store.ErrNotFound) && !errors.Is(readErr, store.ErrUnreadable) {
			err = readErr
		}
	}
	if p.unusable == nil { // whether there is a cap is not known otherwise, and the counts stay
		sum.perMerchant = map[string]uint64{}
	}
	for nonce := mined; nonce < p.wallet.NextNonce; nonce++ {
		owner, ok := owners[nonce]
		if !ok {
			err = cmp.Or(err, errUncertain)
		}
		coin, overflow := sum.coin.Add(owner.coin)
		gas, overflows := sum.gas.Add(owner.gas)
		sum.coin, sum.gas, err = coin, gas, cmp.Or(err, overflow, overflows)
		capped := p.MerchantCap > 0 && owner.merchant != "" && owner.merchant != payment.Operator
		if capped && (sum.perMerchant[owner.merchant] > 0 || len(sum.perMerchant) < wallet.MaxInFlight) {
			sum.perMerchant[owner.merchant]++
		}
	}
	return sum, err
}
