package settlement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// BumpAfter is how long an attempt waits before a round raises its fees.
const BumpAfter = 3 * time.Minute

// bumpAll raises the fees of transactions that have waited for BumpAfter, if the market asks more than they offer. It
// first sends the lowest one to every node again, and also bumps it if most refuse it. It stores each attempt before
// sending it, so that every mined attempt is known to be ours. After a crash in between, the next run sends it.
func (p *pass) bumpAll(ctx context.Context, waiting []wallet.PendingTx, count uint64) error {
	if waiting[0].Nonce != count || p.unusable != nil {
		return nil
	}
	var market chain.Market
	for i, s := range waiting {
		if p.age(s.At) < p.BumpAfter || p.short(ctx, 0) {
			continue
		}
		class, best := chain.Known, chain.Known
		if i == 0 {
			reply := p.rebroadcast(ctx, s)
			if class, best = reply.Class, reply.Class; reply.Most != chain.Wrong && unheld[reply.Most] {
				class = reply.Most // the best reply's node may forget the bytes, or be down
			}
			if class == chain.Known && !slices.ContainsFunc(p.views, func(v chain.View) bool { return v.Pending > s.Nonce }) {
				class = chain.Replacement // a node calls the bytes known, but no pool counts them
			}
		}
		var err error
		if market == (chain.Market{}) {
			if market, err = p.Nodes.Fees(ctx); err != nil {
				return err
			}
		}
		if !market.Asks(s.Fees) && !unheld[class] {
			continue
		}
		next := &bump{pass: p, tx: s, alone: i == 0 && p.noPaymentAfter(waiting), class: class, best: best, market: market}
		bumped, err := next.store(ctx)
		p.stale = p.stale || err != nil && !errors.Is(err, errSame)
		switch {
		case i > 0 || !errors.Is(err, errSame):
		case class == chain.Funds, market.Asks(s.Fees) && errors.Is(err, errPoor):
			p.setWaits(payment.WaitingForFunds)
		case market.Asks(s.Fees) && errors.Is(err, errDear):
			p.setWaits(payment.WaitingForFees)
		}
		switch {
		case errors.Is(err, store.ErrChanged), errors.Is(err, errSame):
			continue // another run bumped or settled it, or there is nothing else to try
		case err != nil:
			return fmt.Errorf("bumping nonce %d: %w", s.Nonce, err)
		}
		p.report.Bumps++
		p.bumps.gas, _ = p.bumps.gas.Add(bumped.Gas.Sub(s.Gas))
		waiting[i], p.pendingTxs[p.pending(s.Nonce)] = bumped, bumped // reconcile sums pendingTxs
		p.rebroadcast(ctx, bumped)
	}
	return nil
}

// unheld are the replies of a node that refuses the bytes but might take another attempt.
var unheld = map[chain.Class]bool{chain.Full: true, chain.Funds: true, chain.FeeTooLow: true, chain.Replacement: true,
	chain.GasTooLow: true, chain.Wrong: true}

// rebroadcast sends an attempt to every node, also to nodes whose pools hold the nonce, and returns the best reply.
func (p *pass) rebroadcast(ctx context.Context, s wallet.PendingTx) chain.Reply {
	reply := p.Nodes.Deliver(ctx, s.Raw, nil)
	p.Log.InfoContext(ctx, "stuck nonce sent", "wallet", s.Address, "payment", s.Payment, "nonce", s.Nonce,
		"tip", s.Fees.Tip, "cap", s.Fees.Cap, "class", reply.Class)
	return reply
}

// errSame reports that the next attempt would have no better chance than the last.
var errSame = errors.New("nothing better to send")

var (
	errDear = fmt.Errorf("%w: the fee limit is reached", errSame)
	errPoor = fmt.Errorf("%w: the wallet lacks gas", errSame)
)

// A bump makes the next attempt at a pending transaction's nonce.
type bump struct {
	*pass
	tx     wallet.PendingTx
	alone  bool        // tx has the lowest nonce, and only no-ops follow
	class  chain.Class // what enough nodes reply to the last attempt, or else the best reply
	best   chain.Class // the best reply
	market chain.Market
	coins  token.Amount // that the payment moves
	raised bool         // priced found better fees than the last attempt's
	same   error        // why priced found none
}

// store signs and stores the next attempt. It estimates the gas limit again. If enough nodes call the limit too low, it
// raises the limit even if the fees are at FeeLimit.
//
// If every node refuses the bytes for good, or calls their gas too low while the simulated call reverts, the next
// attempt and all later ones are no-ops. Otherwise later nonces would wait for ever. Every node must refuse: one that
// gives another answer, or none, may hold the bytes.
func (b *bump) store(ctx context.Context) (wallet.PendingTx, error) {
	switch {
	case len(b.tx.Hashes) >= store.MaxAttempts:
		return wallet.PendingTx{}, errSame
	case b.tx.Noop():
		return b.storeNoop(ctx)
	}
	return b.storePayment(ctx)
}

func (b *bump) storeNoop(ctx context.Context) (wallet.PendingTx, error) {
	tx := b.priced(b.noop(ctx))
	if !b.better(tx) {
		return wallet.PendingTx{}, b.same
	}
	signed, err := b.sign(ctx, tx, b.tx.Nonce)
	if err != nil {
		return wallet.PendingTx{}, err
	}
	bumped := b.tx.Bumped(tx, signed, b.Now())
	if err := b.promise(ctx, bumped); err != nil {
		return wallet.PendingTx{}, err
	}
	return bumped, b.Store.BumpNoop(ctx, bumped)
}

func (b *bump) storePayment(ctx context.Context) (wallet.PendingTx, error) {
	stored, err := b.Store.Payment(ctx, b.tx.Payment)
	if err != nil {
		return wallet.PendingTx{}, err
	}
	if stored.State != payment.Committed || len(stored.Attempts) != len(b.tx.Hashes) {
		return wallet.PendingTx{}, store.ErrChanged
	}
	b.coins = stored.Coins()
	tx, again := stored.Tx, stored.Bump
	tx.Gas = stored.Gas()
	cancelled, hopeless := stored.LastAttempt().Noop, b.best == chain.Wrong
	if !cancelled {
		gas, err := b.Nodes.Estimate(ctx, chain.Call{From: b.tx.Address, To: tx.To, Value: tx.Value, Data: tx.Data})
		if err == nil {
			tx.Gas = max(tx.Gas, chain.GasLimit(gas))
		}
		hopeless = hopeless || b.best == chain.GasTooLow && errors.Is(err, chain.ErrReverted)
	}
	if hopeless || cancelled {
		b.Log.ErrorContext(ctx, "payment cancelled: no node takes its bytes", "wallet", b.tx.Address,
			"payment", b.tx.Payment, "nonce", b.tx.Nonce)
		tx, again = b.noop(ctx), stored.Cancel
	}
	tx = b.priced(tx)
	if !b.better(tx) && (cancelled || !hopeless) {
		return wallet.PendingTx{}, b.same
	}
	signed, err := b.sign(ctx, tx, b.tx.Nonce)
	if err != nil {
		return wallet.PendingTx{}, err
	}
	bumped, err := again(signed, tx, b.Now())
	if err == nil {
		err = b.promise(ctx, store.PendingTxOf(bumped))
	}
	if err != nil {
		return wallet.PendingTx{}, err
	}
	return store.PendingTxOf(bumped), b.Store.AddAttempt(ctx, bumped)
}

// Where the token pays gas, promise subtracts next's extra cost from the wallet's stored balance. It fails if a nonce
// was reserved since the pass read the wallet: that payment may need the coins, and would revert. A crash after it
// leaves the balance too low until the next round.
func (b *bump) promise(ctx context.Context, next wallet.PendingTx) error {
	extra := next.Amount.Sub(b.tx.Amount)
	if b.GasUnit == 0 || extra.IsZero() {
		return nil
	}
	left := b.wallet.Balance.Sub(extra)
	err := b.Store.Reconcile(ctx, b.wallet, left, b.wallet.Gas, nil, nil)
	if err == nil {
		b.wallet.Balance = left
	}
	return err
}

func (b *bump) noop(ctx context.Context) chain.Tx {
	tx := b.Nodes.Noop(ctx, b.ChainID, b.tx.Address, b.tx.Fees)
	tx.L1Fee, tx.GasUnit = b.market.L1Reserve(tx), b.GasUnit
	return tx
}

func (b *bump) priced(tx chain.Tx) chain.Tx {
	b.same = errDear
	limit := b.limit(b.tx, b.coins, tx, b.alone)
	if b.FeeLimit.IsZero() || limit.Less(b.FeeLimit) {
		b.same = errPoor
	}
	quote := chain.QuoteFees(b.market.BaseFee, b.market.Tip, b.FeeLimit)
	tx.Fees, b.raised = b.tx.Fees.Bump(quote, limit)
	if !b.raised && b.class == chain.Replacement {
		tx.Fees, b.raised = b.tx.Fees.Outbid(limit)
	}
	if b.class == chain.Funds { // an attempt at the market's price, if it ties up less than the last one
		tx.Fees = quote
		coin, gas := tx.Takes(b.coins)
		b.raised = !limit.Less(quote.Cap) && (gas.Less(b.tx.Gas) || coin.Less(b.tx.Amount))
	}
	return tx
}

func (b *bump) better(tx chain.Tx) bool {
	coin, gas := tx.Takes(b.coins)
	dearer := b.tx.Gas.Less(gas) || b.tx.Amount.Less(coin)
	affordable := !b.wallet.Gas.Sub(b.bumps.gas).Less(gas.Sub(b.tx.Gas)) &&
		!b.wallet.Balance.Less(coin.Sub(b.tx.Amount)) ||
		b.alone && !b.limit(b.tx, b.coins, tx, true).Less(tx.Fees.Cap)
	return b.raised || b.class == chain.GasTooLow && dearer && affordable
}

// limit returns the highest fee cap for tx, the next attempt at s, whose payment moves coins. It is FeeLimit, or less
// if the wallet cannot pay that beside everything reserved and pending. alone means that only no-ops follow: tx may
// then spend what they tie up, since none of them can be mined first.
func (p *pass) limit(s wallet.PendingTx, coins token.Amount, tx chain.Tx, alone bool) token.Amount {
	coin, overflow := p.wallet.Balance.Add(s.Amount)
	gas, err := p.wallet.Gas.Sub(p.bumps.gas).Add(s.Gas)
	views := p.views
	if alone { // only the chain's balances count, on nodes that have mined every lower nonce
		coin, gas = token.MaxAmount(), token.MaxAmount()
		views = slices.DeleteFunc(slices.Clone(views), func(v chain.View) bool { return v.Mined < s.Nonce })
	}
	gas = p.GasUnit.Pays(coin.Sub(coins), gas)
	coin, ether := p.GasUnit.Holds(p.Nodes.Account(views))
	// The record may lack the cost of earlier bumps: never spend more than the chain shows.
	if has := p.GasUnit.Pays(coin.Sub(coins), ether); err != nil || overflow != nil || has.Less(gas) {
		gas = has
	}
	affordable := gas.Sub(tx.L1Fee).Sub(tx.Value).Over(tx.Gas)
	switch {
	case affordable.IsZero():
		return token.Units(1) // zero would mean no limit
	case p.FeeLimit.IsZero() || affordable.Less(p.FeeLimit):
		return affordable
	}
	return p.FeeLimit
}

// noPaymentAfter reports whether only no-ops follow the lowest nonce: no later one is reserved, and none pays.
func (p *pass) noPaymentAfter(waiting []wallet.PendingTx) bool {
	return waiting[0].Nonce+uint64(len(waiting)) == p.wallet.NextNonce &&
		!slices.ContainsFunc(waiting[1:], func(s wallet.PendingTx) bool { return !s.Noop() })
}

func (p *pass) sign(ctx context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	signer, err := p.Keys.Signer(ctx, p.registered)
	if err != nil {
		return chain.Signed{}, err
	}
	return signer.Sign(ctx, tx, nonce)
}
