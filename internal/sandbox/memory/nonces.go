package memory

import (
	"cmp"
	"context"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

func (s *Payments) Reserve(ctx context.Context, n wallet.Need) (w wallet.Wallet, err error) {
	err = s.change(ctx, n.Wallet, func(p *purse) error {
		_, held := p.w.Holds(n.Payment, n.For)
		refusal := p.w.Refusal(n)
		if !held && refusal == nil {
			p.w.Reservations[n.Payment] = wallet.Reservation{Nonce: p.w.NextNonce, At: n.At.UTC(), For: n.For}
			p.w.NextNonce++
			if n.MerchantCap > 0 {
				p.w.PerMerchant[n.Merchant]++
			}
			p.w.Balance, p.w.Gas = p.w.Balance.Sub(n.Amount), p.w.Gas.Sub(n.Gas)
		}
		w = p.read()
		if held {
			return nil
		}
		return refusal
	})
	return w, err
}

func (s *Payments) Return(ctx context.Context, n wallet.Need, nonce uint64) error {
	return s.change(ctx, n.Wallet, func(p *purse) error {
		held, ok := p.w.Reservations[n.Payment]
		balance, overflow := p.w.Balance.Add(n.Amount)
		gas, overflows := p.w.Gas.Add(n.Gas)
		if !ok || held.Nonce != nonce || !held.At.Equal(n.At) || p.w.NextNonce != nonce+1 || p.w.Paused != "" {
			return store.ErrChanged
		}
		if err := cmp.Or(overflow, overflows); err != nil {
			return err
		}
		delete(p.w.Reservations, n.Payment)
		p.w.NextNonce, p.w.Returned = nonce, p.w.Returned+1
		if n.MerchantCap > 0 {
			p.w.PerMerchant[n.Merchant] -= min(1, p.w.PerMerchant[n.Merchant])
		}
		p.w.Balance, p.w.Gas = wallet.Spendable(balance), wallet.Spendable(gas)
		return nil
	})
}

func (s *Payments) Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error {
	return s.change(ctx, id, func(p *purse) error {
		held, ok := p.w.Reservations[holder]
		if !ok || held.Nonce != nonce {
			return store.ErrChanged
		}
		held.At = time.Time{}
		p.w.Reservations[holder] = held
		return nil
	})
}

func (s *Payments) Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error {
	return s.locked(ctx, func() error {
		if p := s.wallets[tx.ID]; p != nil {
			if reservation, held := p.w.Reservations[id]; held && reservation.Nonce == tx.Nonce {
				delete(p.w.Reservations, id)
			}
		}
		return nil
	})
}

func (s *Payments) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	return s.change(ctx, id, func(p *purse) error {
		p.w.Ceiling = max(p.w.Ceiling, ceiling)
		return nil
	})
}

func (s *Payments) LowerCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	return s.change(ctx, id, func(p *purse) error {
		p.w.Ceiling = min(p.w.Ceiling, max(ceiling, p.w.NextNonce))
		return nil
	})
}
