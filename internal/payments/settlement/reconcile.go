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

// reconcileTries is how often a round tries to reconcile a wallet while handlers reserve its nonces. Each further try
// takes milliseconds: at 25 payments a second, less than one round in a hundred uses up all tries.
const reconcileTries = 6

// reconcile stores the wallet's spendable amounts (balances less tied-up amounts), each merchant's count of unmined
// nonces and the progress, and moves the ceiling. The write succeeds only if no nonce was reserved or returned since
// the wallet was read, so that every amount counts once. A crash leaves spendable amounts that are too low, counts that
// are too high, or the old ceiling, until the next round. While the sum of tied-up amounts is uncertain, it stores no
// amounts, counts or progress.
func (p *pass) reconcile(ctx context.Context) error {
	mined := p.Nodes.Mined(p.views)
	ceilingErr := p.moveCeiling(ctx, mined)
	var err error
	if p.stale {
		_, err = p.read(ctx)
	}
	held, uncertain := p.tied(ctx, mined)
	err = cmp.Or(err, uncertain)
	if err == nil && p.wallet.RolledBack() && p.allOwned(ctx) {
		ceilingErr = errors.Join(ceilingErr, p.repause(ctx, ""))
	}
	if p.registered.State == wallet.Funding {
		p.report.Funding = append(p.report.Funding, p.refillsLeft(held.coin, held.gas))
	}
	funds := Funds{Address: p.wallet.Address, Balance: p.wallet.Balance, Gas: p.wallet.Gas,
		Gap: p.wallet.NextNonce - min(mined, p.wallet.NextNonce), Own: p.wallet.Merchant != ""}
	if err == nil {
		funds.Balance, funds.Gas = p.spendable(ctx, held)
	}
	p.report.Wallets = append(p.report.Wallets, funds)
	for try := 0; err == nil && try < reconcileTries; try++ {
		coin, gas := p.spendable(ctx, held)
		same := coin == p.wallet.Balance && gas == p.wallet.Gas && p.wallet.Damaged == ""
		if same && maps.Equal(held.perMerchant, p.wallet.PerMerchant) {
			break
		}
		if err = p.Store.Reconcile(ctx, p.wallet, coin, gas, held.perMerchant, p.seen); err == nil {
			break
		}
		if !errors.Is(err, store.ErrChanged) { // the counts may be the cause: store the balances alone
			return errors.Join(ceilingErr, err, p.Store.Reconcile(ctx, p.wallet, coin, gas, nil, p.seen))
		}
		if _, err = p.read(ctx); err == nil {
			held, err = p.tied(ctx, mined)
		}
	}
	if errors.Is(err, errUncertain) { // next round
		err = nil
	}
	return errors.Join(ceilingErr, err)
}

// A conclusion has one node's view of the wallet's spendable amounts: its balances less the amounts tied up, both at
// one block. Nodes may differ, since a transfer may have reverted on one node's branch only.
type conclusion struct {
	chain.View
	coin, gas token.Amount
	err       error // some tied-up amounts are not known
}

// conclude returns each node's conclusion. held is the load of the nonces from Nodes.Mined up.
func (p *pass) conclude(ctx context.Context, held load) []conclusion {
	mined, all := p.Nodes.Mined(p.views), make([]conclusion, len(p.views))
	for i, v := range p.views {
		tied, err := held, error(nil)
		if v.Mined != mined {
			tied, err = p.tied(ctx, v.Mined)
		}
		coin, gas := p.GasUnit.Holds(v.Account)
		all[i] = conclusion{v, coin.Sub(tied.coin), gas.Sub(tied.gas), err}
	}
	return all
}

// spendable returns the amounts that enough nodes allow. Nodes that lag, and conclusions with an error, do not count.
// If none is left, the stored amounts stay. Of three or more nodes, a lone answer can only lower them.
func (p *pass) spendable(ctx context.Context, held load) (coin, gas token.Amount) {
	unsure := func(c conclusion) bool { return c.err != nil || p.Nodes.Lags(c.View, p.views) }
	sure := slices.DeleteFunc(p.conclude(ctx, held), unsure)
	if len(sure) == 0 {
		return p.wallet.Balance, p.wallet.Gas
	}
	if p.Nodes.Alone(len(sure)) {
		sure = append(sure, conclusion{View: sure[0].View, coin: p.wallet.Balance, gas: p.wallet.Gas})
	}
	coin = chain.AtLeast(p.Nodes, sure, func(c conclusion) token.Amount { return c.coin })
	gas = chain.AtLeast(p.Nodes, sure, func(c conclusion) token.Amount { return c.gas })
	for _, c := range sure {
		if c.coin.ScaleUp(2, 1).Less(coin) || c.gas.ScaleUp(2, 1).Less(gas) {
			c.Doubt(ctx, p.Log, "less than half of the balance", "wallet", p.wallet.Address, "count", c.Mined,
				"balance", c.Balance, "gas", c.Gas)
		}
	}
	return coin, gas
}

// allOwned reports whether every nonce that a reorg may free has an owner.
func (p *pass) allOwned(ctx context.Context) bool {
	used, _ := p.Nodes.Used(ctx, p.views, p.wallet.Address, p.final().silent)
	_, err := p.tied(ctx, used)
	return err == nil && p.steady(ctx)
}

// moveCeiling moves the ceiling to the mined count plus the window, but not below next_nonce. A handler with older
// settings may raise it again; the next round lowers it.
func (p *pass) moveCeiling(ctx context.Context, mined uint64) error {
	switch ceiling := mined + p.Window; {
	case p.unusable != nil:
		return nil
	case ceiling > p.wallet.Ceiling && !p.Nodes.Alone(len(p.views)):
		return p.Store.RaiseCeiling(ctx, p.wallet.ID, ceiling)
	case max(ceiling, p.wallet.NextNonce) < p.wallet.Ceiling:
		return p.Store.LowerCeiling(ctx, p.wallet.ID, ceiling)
	}
	return nil
}

// errUncertain reports that a nonce has no known owner, so that the tied-up amounts are not known.
var errUncertain = errors.New("amounts tied up are uncertain")

// A load is the amounts that unmined nonces tie up.
type load struct {
	coin, gas   token.Amount
	perMerchant map[string]uint64 // how many of the nonces each merchant has
}

// tied sums the amounts tied up by reservations and pending transactions at or above the mined count. Every nonce from
// the count to next_nonce must belong to one of them. If one does not, the count may be too old, and the nonce's
// payment may have ended since: tied then returns the known sum with an error.
func (p *pass) tied(ctx context.Context, mined uint64) (sum load, err error) {
	type owner struct {
		coin, gas token.Amount
		merchant  string
	}
	owners := map[uint64]owner{}
	for _, s := range p.pendingTxs {
		owners[s.Nonce] = owner{s.Amount, s.Gas, s.Merchant}
	}
	for _, id := range p.reserved() {
		reservation := p.wallet.Reservations[id]
		if _, ok := owners[reservation.Nonce]; ok || reservation.Nonce < mined {
			continue
		}
		stored, readErr := p.Store.Payment(ctx, id)
		if readErr == nil {
			need := store.NeedOf(stored, reservation.At)
			owners[reservation.Nonce] = owner{need.Amount, need.Gas, stored.Merchant}
		} else if !errors.Is(readErr, store.ErrNotFound) && !errors.Is(readErr, store.ErrUnreadable) {
			err = readErr
		}
	}
	if p.unusable == nil { // otherwise the cap is not known, and the stored counts stay
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
