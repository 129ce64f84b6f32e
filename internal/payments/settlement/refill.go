package settlement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Refill checks each wallet once, and has the Refiller top up the wallets that run low. It is the
// engine of refill-wallets. It writes nothing itself: after a crash the next Refill goes on with
// the Refiller's unfinished refills. The report counts refused refills, which the next Refill
// retries. While the chain may be behind the tables it refills nothing.
func (s *Settler) Refill(ctx context.Context) (report Report, err error) {
	nodes, err := s.Nodes.Nodes(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("finding nodes: %w", err)
	}
	rules, err := s.rules(ctx)
	if err != nil || rules.Refills == (settings.Refills{}) {
		return Report{}, err
	}
	wallets, err := s.Store.Wallets(ctx, s.ChainID)
	if err != nil {
		return report, fmt.Errorf("listing wallets: %w", err)
	}
	known, err := s.Store.Compared(ctx, s.ChainID)
	if err != nil {
		return report, fmt.Errorf("reading what is known of the chain: %w", err)
	}
	heads := nodes.Heads(ctx, s.ConfirmationRule)
	if is, _ := s.judgeFinal(ctx, heads, &known, 0); is != kept {
		return report, nil
	}
	active := slices.DeleteFunc(wallets.Working(true), func(r wallet.Registration) bool { return r.State != wallet.Active })
	var mu sync.Mutex
	err = abreast(active, func(registered wallet.Registration) error {
		p := &pass{round: &round{Settler: s, Nodes: nodes, Rules: rules}, registered: registered}
		_, err := p.read(ctx)
		if err == nil {
			p.views, err = heads.Views(ctx, registered.Address, s.Token.Contract)
		}
		if err != nil {
			return fmt.Errorf("reading wallet %s: %w", registered.Address, err)
		}
		p.refill(ctx)
		mu.Lock()
		defer mu.Unlock()
		report.add(p.report)
		return nil
	})
	return report, err
}

// refill requests each asset whose spendable amount is below the stack's mark. More than half of
// the configured nodes must have answered, and all of these find it low. A paused wallet gets
// nothing unless it is out of gas, since somebody else may have its key; nor does a wallet with
// more transactions on the chain than in the tables.
func (p *pass) refill(ctx context.Context) {
	able := p.wallet.Paused == "" || p.wallet.Paused == wallet.OutOfGas
	leading := p.views.Leading()
	if !able || leading.Mined > p.wallet.NextNonce || 2*len(p.views) <= len(p.Nodes) {
		return
	}
	held, _ := p.tied(ctx, leading.Mined) // ignores unknown amounts, so that the wallet seems low less often
	seen := slices.MinFunc(p.views, func(a, b chain.View) int { return cmp.Compare(a.Number, b.Number) }).Number
	low := func(spendable func(chain.View) token.Amount, mark settings.Refill) bool {
		enough := func(v chain.View) bool { return !spendable(v).Less(mark.Low) }
		return !mark.Amount.IsZero() && !slices.ContainsFunc(p.views, enough)
	}
	if low(func(v chain.View) token.Amount { return v.Balance.Sub(held.coin) }, p.Refills.Token) {
		p.ask(ctx, false, seen)
	}
	if p.GasUnit == 0 && low(func(v chain.View) token.Amount { return v.Gas.Sub(held.gas) }, p.Refills.Ether) {
		p.ask(ctx, true, seen)
	}
}

func (p *pass) ask(ctx context.Context, ether bool, seen uint64) {
	if err := p.Refiller.Refill(ctx, p.wallet.Address, ether, seen); err != nil {
		p.report.Unfilled++
		p.Log.WarnContext(ctx, "wallet not refilled", "wallet", p.wallet.Address, "ether", ether, "err", err)
	}
}

// refillsLeft returns how many refills of each asset the funding wallet can pay beside the tied-up
// coin and gas.
func (p *pass) refillsLeft(coin, gas token.Amount) uint64 {
	leading := p.views.Leading()
	refills := times(leading.Balance.Sub(coin), p.Refills.Token.Amount)
	if p.GasUnit > 0 {
		return refills
	}
	return min(refills, times(leading.Gas.Sub(gas), p.Refills.Ether.Amount))
}

// mostRefills is the highest number of refills in a report.
const mostRefills = 100

// times returns how often one amount can be taken from another, up to mostRefills.
func times(has, each token.Amount) (n uint64) {
	for n < mostRefills && !has.Less(each) {
		n, has = n+1, has.Sub(each)
	}
	return n
}
