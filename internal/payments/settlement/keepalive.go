package settlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// resends bounds how many pending transactions one round sends again to one
// node, beside the time of a block: a node that leaves requests hanging holds up
// no other node's round for longer.
const resends = 64

// keepAlive keeps transactions that are not mined in the nodes' pools, and
// raises their fees when they have waited too long and the market has gone up.
func (p *pass) keepAlive(ctx context.Context) error {
	count := p.views.Leading().Mined
	waiting := p.waiting(count)
	if len(waiting) == 0 {
		return p.recover(ctx)
	}
	err := p.bump(ctx, waiting, count)
	return cmp.Or(p.resendAll(ctx, waiting), err)
}

// waiting returns the pending transactions from a nonce on that have bytes to send.
func (p *pass) waiting(from uint64) (waiting []wallet.PendingTx) {
	for _, s := range p.pendingTxs {
		if s.Nonce >= from && len(s.Raw) > 0 {
			waiting = append(waiting, s)
		}
	}
	return waiting
}

// resendAll gives every node the stored bytes that its pool does not count.
func (p *pass) resendAll(ctx context.Context, waiting []wallet.PendingTx) error {
	for _, view := range p.views {
		if err := p.resend(ctx, view, waiting); err != nil {
			return err
		}
	}
	return nil
}

// resend gives a node the stored bytes that its pool does not count, in nonce
// order. A handler that has just committed is sending its own.
func (p *pass) resend(ctx context.Context, view chain.View, waiting []wallet.PendingTx) error {
	sent, begin := 0, p.Now()
	for _, s := range waiting {
		pooled := s.Nonce < view.Pending && len(s.Hashes) == 1 // perhaps with an older attempt, if there are more
		if pooled || p.age(s.At) < p.BlockTime {
			continue
		}
		if sent++; sent > resends || p.age(begin) > p.BlockTime || p.short(ctx, 0) {
			return nil
		}
		p.report.Resent++
		reply := p.Nodes.Send(ctx, view.Node, s.Raw)
		switch reply.Class {
		case chain.Funds:
			p.Log.ErrorContext(ctx, "wallet is out of gas funds", "wallet", s.Address, "reply", reply.Detail)
			p.waits(payment.WaitingForFunds)
			if p.wallet.Paused != "" {
				return nil
			}
			return p.repause(ctx, wallet.OutOfGas)
		case chain.Wrong, chain.Replacement:
			p.report.Refused++
			p.Log.ErrorContext(ctx, "broadcast refused", "wallet", s.Address, "payment", s.Payment, "nonce", s.Nonce, "class", reply.Class,
				"reply", reply.Detail)
		case chain.Accepted, chain.Known:
			if err := p.recover(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// recover ends a pause for lack of gas funds once a node takes our bytes again
// or nothing is waiting any more.
func (p *pass) recover(ctx context.Context) error {
	if p.wallet.Paused != wallet.OutOfGas {
		return nil
	}
	return p.repause(ctx, "")
}

// repause pauses the wallet, or ends its pause, unless an operator or another run
// has paused or resumed it since it was read: that stands.
func (p *pass) repause(ctx context.Context, reason string) error {
	err := p.Store.Repause(ctx, p.wallet.ID, p.wallet.Paused, reason)
	if errors.Is(err, store.ErrChanged) {
		return nil
	}
	if err == nil {
		p.wallet.Paused = reason
	}
	return err
}

// bump stores attempts with higher fees, and sends them, for the nonces that have
// waited long enough and for which the market asks more than their attempts offer
// by now: all of them, since a block can take no more than are dear enough. The
// lowest is sent to every node first, and gets an attempt as well when no node
// holds it. An attempt is stored before it is sent: whichever is mined is then
// known to be ours. A crash after the write leaves an attempt that the next run
// sends.
func (p *pass) bump(ctx context.Context, waiting []wallet.PendingTx, count uint64) error {
	if waiting[0].Nonce != count || p.unusable != nil {
		return nil
	}
	var market chain.Market
	for i, s := range waiting {
		if p.age(s.At) < p.BumpAfter || p.short(ctx, 0) {
			continue
		}
		class := chain.Known
		if i == 0 {
			class = p.rebroadcast(ctx, s).Class
		}
		if market == (chain.Market{}) {
			var err error
			if market, err = p.Nodes.Fees(ctx); err != nil {
				return err
			}
		}
		if !market.Asks(s.Fees) && !unheld[class] {
			continue
		}
		bumped, err := p.store(ctx, s, class, market)
		switch {
		case i > 0 || !errors.Is(err, errSame):
		case class == chain.Funds, market.Asks(s.Fees) && errors.Is(err, errPoor):
			p.waits(payment.WaitingForFunds)
		case market.Asks(s.Fees) && errors.Is(err, errDear):
			p.waits(payment.WaitingForFees)
		}
		switch {
		case errors.Is(err, store.ErrChanged), errors.Is(err, errSame):
			continue // another run bumped or settled it, or there is nothing else to try
		case err != nil:
			return fmt.Errorf("bumping nonce %d: %w", s.Nonce, err)
		}
		p.report.Bumps++
		p.bumps.coin, _ = p.bumps.coin.Add(bumped.Amount.Sub(s.Amount)) // of what the record calls spendable
		p.bumps.gas, _ = p.bumps.gas.Add(bumped.Gas.Sub(s.Gas))
		waiting[i] = bumped
		p.pendingTxs[slices.IndexFunc(p.pendingTxs, func(tx wallet.PendingTx) bool { return tx.Nonce == s.Nonce })] = bumped // for reconcile
		p.rebroadcast(ctx, bumped)
	}
	return nil
}

// unheld are the best replies of nodes of which none holds the bytes, and which
// another attempt may change.
var unheld = map[chain.Class]bool{chain.Full: true, chain.Funds: true, chain.FeeTooLow: true, chain.Replacement: true,
	chain.GasTooLow: true, chain.Wrong: true}

// rebroadcast sends an attempt to every node, also to those whose pools hold the
// nonce already. It returns the best reply.
func (p *pass) rebroadcast(ctx context.Context, s wallet.PendingTx) chain.Reply {
	reply := p.Nodes.Deliver(ctx, s.Raw, nil)
	p.Log.InfoContext(ctx, "stuck nonce sent", "wallet", s.Address, "payment", s.Payment, "nonce", s.Nonce, "tip", s.Fees.Tip, "cap",
		s.Fees.Cap, "class", reply.Class)
	return reply
}

// errSame reports that the next attempt would have no better chance than the last:
// the same bytes, again and again.
var errSame = errors.New("nothing better to send")

// The reasons of an errSame: the stack may pay no more, or the wallet has no more.
var (
	errDear = fmt.Errorf("%w: the fee limit is reached", errSame)
	errPoor = fmt.Errorf("%w: the wallet lacks gas", errSame)
)

// store signs and stores the next attempt at a pending transaction's nonce. class
// is the nodes' best reply to the last one. The gas limit is estimated again, and a
// limit that all nodes call too low is raised even where the fees are at theirs.
//
// If every node says that it will never take the bytes, or wants more gas for a
// transfer that the token refuses by now, nothing helps: the next attempt pays
// nothing, so that the nonces behind it get on, and is followed by none that pays.
// One node that says anything else, or nothing, may have the bytes yet.
func (p *pass) store(ctx context.Context, s wallet.PendingTx, class chain.Class, market chain.Market) (wallet.PendingTx, error) {
	if len(s.Hashes) >= store.MaxAttempts {
		return wallet.PendingTx{}, errSame
	}
	var raised bool
	same := errDear
	quote := chain.QuoteFees(market.BaseFee, market.Tip, p.FeeLimit)
	var coins token.Amount // that the payment moves
	raise := func(tx chain.Tx) chain.Tx {
		limit := p.limit(s, coins, tx)
		if p.FeeLimit.IsZero() || limit.Less(p.FeeLimit) {
			same = errPoor
		}
		tx.Fees, raised = s.Fees.Bump(quote, limit)
		if !raised && class == chain.Replacement {
			tx.Fees, raised = s.Fees.Outbid(limit)
		}
		if class == chain.Funds { // cheaper, if it was signed at a price that the market asks no longer, or with gas that it does not need
			tx.Fees = quote
			coin, gas := tx.Takes(coins)
			raised = !limit.Less(quote.Cap) && (gas.Less(s.Gas) || coin.Less(s.Amount))
		}
		return tx
	}
	better := func(tx chain.Tx) bool {
		coin, gas := tx.Takes(coins)
		dearer := s.Gas.Less(gas) || s.Amount.Less(coin)
		return raised || class == chain.GasTooLow && dearer && !p.wallet.Gas.Sub(p.bumps.gas).Less(gas.Sub(s.Gas)) &&
			!p.wallet.Balance.Sub(p.bumps.coin).Less(coin.Sub(s.Amount))
	}
	noop := func() chain.Tx {
		tx := p.Nodes.Noop(ctx, p.ChainID, s.Address, s.Fees)
		tx.L1Fee, tx.GasUnit = market.L1Reserve(tx), p.GasUnit
		return tx
	}
	if s.Noop() {
		tx := raise(noop())
		if !better(tx) {
			return wallet.PendingTx{}, same
		}
		signed, err := p.sign(ctx, tx, s.Nonce)
		if err != nil {
			return wallet.PendingTx{}, err
		}
		bumped := s.Bumped(tx, signed, p.Now())
		return bumped, p.Store.BumpNoop(ctx, bumped)
	}
	stored, err := p.Store.Payment(ctx, s.Payment)
	if err != nil {
		return wallet.PendingTx{}, err
	}
	if stored.State != payment.Committed || len(stored.Attempts) != len(s.Hashes) {
		return wallet.PendingTx{}, store.ErrChanged
	}
	coins = stored.Coins()
	stored.Tx.GasUnit = p.GasUnit // a version that did not know the chain stored none
	tx, again := stored.Tx, stored.Bump
	tx.Gas = stored.Gas()
	cancelled, hopeless := stored.LastAttempt().Noop, class == chain.Wrong
	if !cancelled {
		gas, err := p.Nodes.Estimate(ctx, chain.Call{From: s.Address, To: tx.To, Value: tx.Value, Data: tx.Data})
		if err == nil {
			tx.Gas = max(tx.Gas, chain.GasLimit(gas))
		}
		hopeless = hopeless || class == chain.GasTooLow && errors.Is(err, chain.ErrReverted)
	}
	if hopeless || cancelled {
		p.Log.ErrorContext(ctx, "payment cancelled: no node takes its bytes", "wallet", s.Address, "payment", s.Payment, "nonce", s.Nonce)
		tx, again = noop(), stored.Cancel
	}
	tx = raise(tx)
	if !better(tx) && (cancelled || !hopeless) {
		return wallet.PendingTx{}, same
	}
	signed, err := p.sign(ctx, tx, s.Nonce)
	if err != nil {
		return wallet.PendingTx{}, err
	}
	bumped, err := again(signed, tx, p.Now())
	if err != nil {
		return wallet.PendingTx{}, err
	}
	return store.PendingTxOf(bumped), p.Store.AddAttempt(ctx, bumped)
}

// limit returns the highest fee cap of tx as the next attempt at a pending
// transaction's nonce, which moves coins of the token: FeeLimit, or less where the wallet cannot pay for
// more beside all that is reserved and pending.
func (p *pass) limit(s wallet.PendingTx, coins token.Amount, tx chain.Tx) token.Amount {
	coin, overflow := p.wallet.Balance.Sub(p.bumps.coin).Add(s.Amount)
	gas, err := p.wallet.Gas.Sub(p.bumps.gas).Add(s.Gas)
	gas = p.GasUnit.Pays(coin.Sub(coins), gas)
	coin, ether := p.GasUnit.Holds(p.views.Leading().Account)
	// The record may not know yet what other attempts of this run cost.
	if has := p.GasUnit.Pays(coin.Sub(coins), ether); err != nil || overflow != nil || has.Less(gas) {
		gas = has
	}
	affordable := gas.Sub(tx.L1Fee).Sub(tx.Value).Over(tx.Gas)
	switch {
	case affordable.IsZero():
		return token.Units(1) // zero would be no limit
	case p.FeeLimit.IsZero() || affordable.Less(p.FeeLimit):
		return affordable
	default:
		return p.FeeLimit
	}
}

func (p *pass) sign(ctx context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	signer, err := p.Keys.Signer(ctx, p.registered)
	if err != nil {
		return chain.Signed{}, err
	}
	return signer.Sign(ctx, tx, nonce)
}
