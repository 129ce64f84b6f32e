package dispatch

import (
	"cmp"
	"context"
	"errors"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// limits returns the daily limits of the merchant and of its key.
func (d sending) limits(r payment.Request) []payment.DailyLimit {
	var limits []payment.DailyLimit
	if r.Key.Daily != (payment.DailyLimit{}) {
		limits = append(limits, r.Key.Daily)
	}
	if daily := cmp.Or(r.Key.MerchantDaily, d.Daily); !daily.IsZero() {
		all := payment.DailyLimit{Amount: daily}
		if r.Asset != (token.Coin{}) {
			all.Key = r.Asset.String()
		}
		limits = append(limits, all)
	}
	return limits
}

func (d sending) limitsOf(t Transfer, coin token.Token) []payment.DailyLimit {
	if t.Daily.IsZero() {
		return nil
	}
	return []payment.DailyLimit{{Key: "refill/" + d.nameOf(coin), Amount: t.Daily}}
}

// charge counts p towards daily limits, in the UTC day of now, and returns the Charge for refund. The request that
// creates a payment charges it. A request that takes a payment up charges it only if no handler can still be making it
// and it holds no nonce. A crash in between may charge it twice, but never skips it.
func (d sending) charge(ctx context.Context, p payment.Payment, limits []payment.DailyLimit) (store.Charge, error) {
	if len(limits) == 0 {
		return store.Charge{}, nil
	}
	c := store.Charge{Merchant: p.Merchant, Mode: p.Mode, At: d.Now(), Amount: p.Amount, Count: uint64(len(p.Outputs())), Limits: limits}
	err := d.Store.Charge(ctx, c)
	if err != nil && !errors.Is(err, store.ErrDailyLimit) {
		err = errors.Join(ErrUnavailable, err)
	}
	return c, err
}

// refund returns a request's charge to its daily limits. Call it only if certainly no nonce is reserved: a reserved
// payment keeps its charge. A crash before it leaves the day charged with an unpaid amount.
func (d sending) refund(ctx context.Context, taken store.Charge) {
	if len(taken.Limits) == 0 {
		return
	}
	d.warn(ctx, d.Store.Refund(ctx, taken), "refund of daily limits unknown", "merchant", taken.Merchant, "at", taken.At, "amount",
		taken.Amount)
}
