package settlement

import (
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
	wallets, err := s.Store.Wallets(ctx, s.Coin())
	if err != nil {
		return report, fmt.Errorf("listing wallets: %w", err)
	}
	known, err := s.Store.Compared(ctx, s.Coin())
	if err != nil {
		return report, fmt.Errorf("reading what is known of the chain: %w", err)
	}
	heads := nodes.Heads(ctx, s.ConfirmationRule)
	if is, _ := s.judgeFinal(ctx, heads, &known, 0); is != kept {
		return report, nil
	}
	active := slices.DeleteFunc(wallets.Working(true), func(r wallet.Registration) bool {
		return r.State != wallet.Active && r.State != wallet.Assigned
	})
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

// refill requests an asset if enough nodes put the wallet's spendable amount below the low mark. It counts unknown
// tied-up amounts as zero: a late refill is better than a needless one. It skips a wallet that is paused for another
// reason than lack of gas, and one with more transactions on the chain than in the tables: somebody else may have its
// key. A merchant's own wallet gets gas, but no coins.
func (p *pass) refill(ctx context.Context) {
	able := p.wallet.Paused == "" || p.wallet.Paused == wallet.OutOfGas
	mined := p.Nodes.Mined(p.views)
	if !able || mined > p.wallet.NextNonce {
		return
	}
	held, _ := p.tied(ctx, mined)
	all := p.conclude(ctx, held)
	low := func(mark settings.Refill, ether bool, spendable func(conclusion) token.Amount) {
		var poor chain.Views
		for _, c := range all {
			if spendable(c).Less(mark.Low) {
				poor = append(poor, c.View)
			}
		}
		seen, ok := p.Nodes.Seen(poor)
		if !ok || mark.Amount.IsZero() {
			return
		}
		if err := p.Refiller.Refill(ctx, p.wallet.Address, ether, seen); err != nil {
			p.report.Unfilled++
			p.Log.WarnContext(ctx, "wallet not refilled", "wallet", p.wallet.Address, "ether", ether, "err", err)
		}
	}
	if p.wallet.Merchant == "" {
		low(p.Refills.Token, false, func(c conclusion) token.Amount { return c.coin })
	}
	if p.GasUnit == 0 {
		low(p.Refills.Ether, true, func(c conclusion) token.Amount { return c.gas })
	}
}

// refillsLeft returns how many refills of the scarcer asset the funding wallet can pay beside tied-up coin and gas.
func (p *pass) refillsLeft(coin, gas token.Amount) uint64 {
	has := p.Nodes.Account(p.views)
	refills := times(has.Balance.Sub(coin), p.Refills.Token.Amount)
	if p.GasUnit > 0 {
		return refills
	}
	return min(refills, times(has.Gas.Sub(gas), p.Refills.Ether.Amount))
}

const mostRefills = 100

func times(has, each token.Amount) (n uint64) {
	for n < mostRefills && !has.Less(each) {
		n, has = n+1, has.Sub(each)
	}
	return n
}
