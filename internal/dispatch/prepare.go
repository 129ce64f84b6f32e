package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// prepare does everything that can fail before anything is stored: limits, fee
// quote, simulation, key, wallet. Nothing it does has an effect.
func (d sending) prepare(ctx context.Context, id payment.ID, r payment.Request) (payment.Payment, error) {
	wallets, err := d.registry(ctx, d.registryAge())
	if err != nil {
		return payment.Payment{}, errors.Join(ErrUnavailable, err)
	}
	_, own := wallets.Find(r.To)
	maximum := cmp.Or(r.Key.MerchantMaximum, d.Maximum)
	switch {
	case own, !r.To.IsZero() && r.To == d.TreasuryAllowance: // a retired one too: its key may be gone, or in other hands
		return payment.Payment{}, ErrOwnWallet
	case r.Amount.Less(d.Minimum):
		return payment.Payment{}, ErrAmountBelow
	case !maximum.IsZero() && maximum.Less(r.Amount), !r.Key.Maximum.IsZero() && r.Key.Maximum.Less(r.Amount):
		return payment.Payment{}, ErrAmountAbove
	}
	if d.crowd.has(r.Merchant, d.Now()) {
		return payment.Payment{}, ErrTooMany
	}
	if r.Key.Book {
		active, err := d.Book.Active(ctx, r.Merchant, r.Mode, r.To, d.Now())
		if err != nil {
			return payment.Payment{}, errors.Join(ErrUnavailable, err)
		}
		if !active {
			return payment.Payment{}, ErrNotInBook
		}
	}
	var asked errgroup.Group // beside the nodes, so that it takes no time of its own
	asked.Go(func() error { return d.allowed(ctx, r.To) })
	offer := payment.New(id, r, d.Token, d.Network, d.Now())
	offer.Source = d.TreasuryAllowance
	p, err := d.assign(ctx, wallets, offer)
	if denied := asked.Wait(); denied != nil && !errors.Is(err, errScreened) {
		return payment.Payment{}, denied
	}
	return p, err
}

// assign returns offer with the wallet that is to pay it and its transaction there.
func (d sending) assign(ctx context.Context, wallets wallet.Registry, offer payment.Payment) (payment.Payment, error) {
	refusal := ErrUnavailable
	var blocked []wallet.ID
	for _, w := range d.pool.Choose(d.ChainID, wallets.Active(), offer.Amount, d.Now()) {
		var held errgroup.Group // a key that is not in memory is read, or tried, meanwhile
		held.Go(func() error {
			_, err := d.ready(ctx, w.Address)
			return err
		})
		tx, err := d.simulate(ctx, w, offer)
		keyErr := held.Wait()
		switch {
		case errors.Is(err, ErrInsufficient):
			if len(blocked) == 0 {
				refusal = err // this wallet's: another may have more
			}
			continue
		case errors.Is(err, errBlocked):
			refusal = err
			if blocked = append(blocked, w); len(blocked) == blockedMost {
				return payment.Payment{}, d.refusedMemo(ctx, blocked[0], offer, refusal)
			}
			continue
		case err != nil:
			return payment.Payment{}, err
		case keyErr != nil: // of another wallet the key may be at hand
			refusal = errors.Join(ErrUnavailable, keyErr)
			d.pool.Rest(w, d.Now())
			d.Log.WarnContext(ctx, "wallet rests: its key is out of reach", "wallet", w.Address, "err", keyErr)
			continue
		}
		d.pool.Wake(w)
		d.rest(ctx, blocked)
		return offer.AssignedTo(w.Address, tx), nil
	}
	if len(blocked) > 0 {
		refusal = d.refusedMemo(ctx, blocked[0], offer, refusal)
	}
	return payment.Payment{}, refusal
}

// errMemo reports a token that makes a transfer only if nothing follows its
// arguments.
var errMemo = fmt.Errorf("%w: the token refuses a payment's id after the arguments of a transfer: set the parameter Memo to off (docs/deploy.md)", ErrUnavailable)

// refusedMemo returns errMemo if the token would make p without the memo from a
// wallet from which it pays nobody with it, and refusal otherwise.
func (d sending) refusedMemo(ctx context.Context, w wallet.ID, p payment.Payment, refusal error) error {
	if d.MemoOff {
		return refusal
	}
	if _, err := d.Nodes.Estimate(ctx, p.Call(w.Address, false)); err != nil {
		return refusal
	}
	return errMemo
}

// errBlocked reports a wallet from which the token pays nobody.
var errBlocked = fmt.Errorf("%w: the token pays nobody from it", ErrUnavailable)

const (
	// blockedMost is how many wallets a request finds blocked before it takes
	// the token itself to be stopped: each costs three requests to a node.
	blockedMost = 4
	// blockedFor is how long a wallet is blocked before it is paused: longer
	// than an issuer's short stop of the token takes to reach every node.
	blockedFor = 5 * time.Minute
	// blockedReason is why it is paused.
	blockedReason = "blocked: the token pays nobody from it"
)

// rest lets wallets rest that are blocked while the token pays from another: an
// issuer can freeze an account (EIP-20 tokens such as USDC and USDT do). One that
// has been blocked for long is paused, so that an operator hears of it. A
// pause for another reason stays.
func (d sending) rest(ctx context.Context, blocked []wallet.ID) {
	for _, id := range blocked {
		since := d.pool.Rest(id, d.Now())
		d.Log.WarnContext(ctx, "wallet rests: the token pays nobody from it", "wallet", id.Address, "since", since)
		if d.Now().Sub(since) < blockedFor {
			continue
		}
		if err := d.Store.Repause(ctx, id, "", blockedReason); err != nil && !errors.Is(err, store.ErrChanged) {
			d.Log.WarnContext(ctx, "pause unknown", "wallet", id.Address, "err", err)
		}
	}
}

// simulate returns the unsigned transaction by which w would make p, if the
// token lets it.
func (d sending) simulate(ctx context.Context, w wallet.ID, p payment.Payment) (chain.Tx, error) {
	call := p.Call(w.Address, !d.MemoOff)
	screened := call
	if !d.Sanctions.IsZero() {
		screened.Screening = chain.Screening{List: d.Sanctions, Recipient: p.To}
	}
	market, gas, err := d.quote(ctx, screened)
	switch {
	case errors.Is(err, chain.ErrListed):
		return chain.Tx{}, fmt.Errorf("%w: %w", errScreened, err)
	case errors.Is(err, chain.ErrReverted) && p.Ether():
		return chain.Tx{}, ErrRecipient
	case errors.Is(err, chain.ErrReverted):
		return chain.Tx{}, d.diagnose(ctx, call, p)
	case err != nil:
		return chain.Tx{}, errors.Join(ErrUnavailable, err)
	}
	return chain.Tx{
		ChainID: w.ChainID, To: call.To, Value: call.Value, Data: call.Data, Gas: chain.GasLimit(gas),
		Fees: chain.QuoteFees(market.BaseFee, market.Tip, d.FeeLimit), L1Fee: market.L1Reserve(),
	}, nil
}

// quote estimates the call, and asks for fees beside it when the last quote is
// older than a block: one round trip.
func (d sending) quote(ctx context.Context, call chain.Call) (chain.Market, uint64, error) {
	d.mu.Lock()
	market, fresh := d.market, !d.quoted.IsZero() && d.Now().Sub(d.quoted) < d.BlockTime
	d.mu.Unlock()
	if fresh {
		gas, err := d.Nodes.Estimate(ctx, call)
		return market, gas, err
	}
	var asked errgroup.Group
	asked.Go(func() (err error) {
		market, err = d.Nodes.Fees(ctx)
		return err
	})
	gas, err := d.Nodes.Estimate(ctx, call)
	if err := cmp.Or(err, asked.Wait()); err != nil {
		return chain.Market{}, 0, err
	}
	d.mu.Lock()
	d.market, d.quoted = market, d.Now()
	d.mu.Unlock()
	return market, gas, nil
}

// diagnose says why the token reverted the call, a transfer of p: the wallet has
// too little, the token pays nobody from it, or it refuses this recipient.
func (d sending) diagnose(ctx context.Context, call chain.Call, p payment.Payment) error {
	views, err := d.Nodes.Latest(ctx, call.From, d.Token.Contract)
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if views.Leading().Balance.Less(p.Amount) {
		return ErrInsufficient
	}
	p.To = call.From
	call.Data = p.CallData(!d.MemoOff)
	if _, err := d.Nodes.Estimate(ctx, call); err != nil {
		return fmt.Errorf("%w: %s: %w", errBlocked, call.From, err)
	}
	return ErrRecipient
}

func walletOf(p payment.Payment) wallet.ID {
	return wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
}
