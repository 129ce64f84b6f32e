package settlement

import (
	"cmp"
	"context"
	"slices"

	"remit/internal/chain"
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
	enough := func(v chain.View) bool { return !v.Balance.Sub(coin).Less(p.Refills.Token.Low) }
	if !p.Refills.Token.Amount.IsZero() && !slices.ContainsFunc(p.views, enough) {
		p.ask(ctx, false, seen)
	}
	enough = func(v chain.View) bool { return !v.Gas.Sub(gas).Less(p.Refills.Ether.Low) }
	if !p.Refills.Ether.Amount.IsZero() && !slices.ContainsFunc(p.views, enough) {
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
	leading, left := p.views.Leading(), ^uint64(0)
	for _, asset := range []struct{ has, each token.Amount }{
		{leading.Balance.Sub(coin), p.Refills.Token.Amount}, {leading.Gas.Sub(gas), p.Refills.Ether.Amount},
	} {
		for n := uint64(0); !asset.each.IsZero() && n < left && n <= mostRefills; n++ {
			if asset.has.Less(asset.each) {
				left = n
			}
			asset.has = asset.has.Sub(asset.each)
		}
	}
	return min(left, mostRefills)
}

// mostRefills is the highest number of refills that a report tells of.
const mostRefills = 100
