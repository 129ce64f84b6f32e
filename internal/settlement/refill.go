package settlement

import (
	"cmp"
	"context"
	"slices"

	"remit/internal/chain"
	"remit/internal/settings"
	"remit/internal/token"
	"remit/internal/wallet"
)

// refill has the funding wallet top the wallet up with each asset of which it may spend less
// than the stack's mark beside coin and gas, which are tied up. More than half of the
// configured nodes must have answered, and all of these find it low. A wallet that is
// paused gets nothing, since another may have its key, unless it lacks ether. A refill
// that is refused is asked for again by the next run.
func (p *pass) refill(ctx context.Context, coin, gas token.Amount) {
	if p.registered.State == wallet.Funding {
		p.report.Funding = append(p.report.Funding, p.refillsLeft(coin, gas))
	}
	able := p.wallet.Paused == "" || p.wallet.Paused == wallet.OutOfGas
	if p.unusable != nil || p.Refiller == nil || !p.fresh || p.registered.State != wallet.Active || !able || 2*len(p.views) <= len(p.Nodes) {
		return
	}
	seen := slices.MinFunc(p.views, func(a, b chain.View) int { return cmp.Compare(a.Number, b.Number) }).Number
	low := func(spendable func(chain.View) token.Amount, mark settings.Refill) bool {
		enough := func(v chain.View) bool { return !spendable(v).Less(mark.Low) }
		return !mark.Amount.IsZero() && !slices.ContainsFunc(p.views, enough)
	}
	if low(func(v chain.View) token.Amount { return v.Balance.Sub(coin) }, p.Refills.Token) {
		p.ask(ctx, false, seen)
	}
	if low(func(v chain.View) token.Amount { return v.Gas.Sub(gas) }, p.Refills.Ether) {
		p.ask(ctx, true, seen)
	}
}

func (p *pass) ask(ctx context.Context, ether bool, seen uint64) {
	if err := p.Refiller.Refill(ctx, p.wallet.Address, ether, seen); err != nil {
		p.report.Unfilled++
		p.Log.WarnContext(ctx, "wallet not refilled", "wallet", p.wallet.Address, "ether", ether, "err", err)
	}
}

// refillsLeft returns how many refills the funding wallet can pay of the asset of which it
// can pay fewer, beside coin and gas, which are tied up.
func (p *pass) refillsLeft(coin, gas token.Amount) uint64 {
	leading := p.views.Leading()
	return min(times(leading.Balance.Sub(coin), p.Refills.Token.Amount), times(leading.Gas.Sub(gas), p.Refills.Ether.Amount))
}

// mostRefills is the highest number of refills that a report tells of.
const mostRefills = 100

// times returns how often one amount can be taken from another, up to mostRefills.
func times(has, each token.Amount) (n uint64) {
	for n < mostRefills && !has.Less(each) {
		n, has = n+1, has.Sub(each)
	}
	return n
}
