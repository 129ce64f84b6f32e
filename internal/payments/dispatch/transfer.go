package dispatch

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Transfer is an operator's order to move coins out of a wallet, to any address, or to call a contract.
type Transfer struct {
	Key      string // not empty; coins move at most once under it
	Mode     string // "test" or "live"
	From, To token.Address
	Ether    bool         // of ether, in wei; else of the rail's token
	Amount   token.Amount // zero: everything spendable, less feeRoom; with Call nothing
	Call     []byte       // call data for the contract To, sent with the ether; nil: a transfer
	Why      string       // the payment's reference
	Daily    token.Amount // the day's limit (UTC) of all transfers of this asset with a Daily; zero: none
}

const (
	// feeRoom is how many times its highest fee a transfer of all ether, or of all of a token that pays gas, leaves
	// in the wallet: once for its own fee, once for a bump or a no-op at an earlier nonce.
	feeRoom = 2
	// abandoned is the age given to a transfer's reservation: no handler commits it, so
	// check-receipts need not wait for one.
	abandoned = time.Hour
)

// request returns t as a request of the merchant Operator. A transfer of everything gets its amount with its payment.
func (d *Dispatcher) request(t Transfer, coin token.Token) payment.Request {
	meaning := map[string]string{"from": t.From.String(), "asset": coin.Symbol}
	switch {
	case t.Call != nil:
		meaning[payment.CallKey] = hex.EncodeToString(t.Call)
	case t.Amount.IsZero():
		meaning["amount"] = "all"
	}
	r := payment.Request{
		Merchant: payment.Operator, Mode: t.Mode, IdempotencyKey: t.Key, To: t.To, Amount: t.Amount, Reference: t.Why, Metadata: meaning,
	}
	if d.Further {
		r.Asset = d.Coin()
	}
	return r
}

// nameOf names a coin of the rail. A further rail's coin has the rail in its name: two chains may share the wallet's
// account and a token's symbol.
func (d *Dispatcher) nameOf(coin token.Token) string {
	if d.Further {
		return d.Coin().String() + "/" + coin.Symbol
	}
	return coin.Symbol
}

// Offer returns the payment stored under t's Key, or the payment that Move would make now. It has no effect on money.
func (d *Dispatcher) Offer(ctx context.Context, t Transfer) (payment.Payment, error) {
	p, _, err := d.moving(ctx).offered(ctx, t)
	return p, err
}

// Move reserves a nonce for t, at most once per Key, and returns its payment. check-receipts then
// signs, commits and sends it, as after a handler's crash: Move needs no key. A payment that is
// still Prepared is under way; call Move again with the same Key. Errors are those of Send. A crash
// before the reservation leaves a payment for which no money moves.
func (d *Dispatcher) Move(ctx context.Context, t Transfer) (payment.Payment, error) {
	return d.moving(ctx).move(ctx, t)
}

// moving is begin, but keeps an error of the nodes in refused: a stored payment is answered without nodes.
func (d *Dispatcher) moving(ctx context.Context) sending {
	s, err := d.begin(ctx)
	s.refused = cmp.Or(err, s.refused)
	return s
}

// offered is Offer, and reports whether the payment is stored.
func (d sending) offered(ctx context.Context, t Transfer) (p payment.Payment, stored bool, err error) {
	coin := d.Token
	if t.Ether {
		coin = payment.Ether
	}
	r := d.request(t, coin)
	id := payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey)
	p, err = d.Store.Payment(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		p, err = d.offer(ctx, id, r, t, coin)
	case err != nil:
		err = errors.Join(ErrInProgress, err)
	default:
		stored = true
		p, err = d.same(ctx, p, r)
	}
	return p, stored, err
}

// same returns the stored payment p if it answers r, adopted if it was found on the chain.
func (d sending) same(ctx context.Context, p payment.Payment, r payment.Request) (payment.Payment, error) {
	if r.Amount.IsZero() {
		r.Amount = p.Amount
	}
	switch {
	case p.Merchant == "":
		result, err := d.adopt(ctx, p, r)
		return result.Payment, err
	case p.Fingerprint != r.Fingerprint():
		return payment.Payment{}, ErrKeyReused
	}
	return p, nil
}

// offer does everything that can fail before a transfer is stored.
func (d sending) offer(ctx context.Context, id payment.ID, r payment.Request, t Transfer, coin token.Token) (payment.Payment, error) {
	w, err := d.source(ctx, t)
	if err != nil {
		return payment.Payment{}, err
	}
	all, has, unit := t.Amount.IsZero() && t.Call == nil, w.Balance, "units"
	if t.Ether {
		has, unit = w.Gas, "wei"
	}
	switch {
	case all && has.IsZero():
		return payment.Payment{}, fmt.Errorf("%w: %s has nothing to spend", ErrInsufficient, t.From)
	case all && t.Ether:
		r.Amount = token.Units(1) // until the fee is known
	case all:
		r.Amount = has
	}
	p := payment.New(id, r, coin, d.Network, d.Now())
	tx, err := d.simulate(ctx, w.ID, p)
	if err != nil {
		return payment.Payment{}, err
	}
	if all {
		tx.Value = token.Amount{}
		fee, wei := tx.Takes(token.Amount{})
		if t.Ether {
			fee = wei
		}
		if r.Amount = has.Sub(fee.ScaleUp(feeRoom, 1)); r.Amount.IsZero() {
			return payment.Payment{}, fmt.Errorf("%w: %s has %s %s to spend, less than %d times the fee", ErrInsufficient, t.From, has, unit,
				feeRoom)
		}
		p = payment.New(id, r, coin, d.Network, d.Now())
		call := d.call(p, t.From)
		tx.Value, tx.Data = call.Value, call.Data
	}
	return p.AssignedTo(t.From, tx), nil
}

// source returns t's wallet, opened if it has never paid, or why t must not be made.
func (d sending) source(ctx context.Context, t Transfer) (wallet.Wallet, error) {
	if d.refused != nil {
		return wallet.Wallet{}, d.refused
	}
	wallets, err := d.registry(ctx, justRead)
	if err != nil {
		return wallet.Wallet{}, errors.Join(ErrUnavailable, err)
	}
	from, _ := wallets.Find(t.From)
	to, _ := wallets.Find(t.To)
	switch {
	case !slices.Contains([]wallet.State{wallet.Active, wallet.Assigned, wallet.Funding, wallet.Draining}, from.State):
		return wallet.Wallet{}, fmt.Errorf("%w: %w %s, or it is retired", ErrUnavailable, wallet.ErrNoKey, t.From)
	case t.Call != nil && !t.Ether:
		return wallet.Wallet{}, fmt.Errorf("%w: a call moves ether or nothing", ErrRecipient)
	case t.Ether && d.GasUnit > 0 && (t.Call == nil || !t.Amount.IsZero()):
		return wallet.Wallet{}, fmt.Errorf("%w: gas is paid in %s on this chain, and there is no ether: move %s",
			ErrUnavailable, d.Token.Symbol, d.Token.Symbol)
	case to.State == wallet.Retired, t.To == t.From, t.To == (token.Address{}), t.To == d.Token.Contract && t.Call == nil:
		return wallet.Wallet{}, fmt.Errorf("%w: %s can only lose what it is sent, or has it", ErrRecipient, t.To)
	}
	if err := d.allowed(payment.Entry{To: t.To}); err != nil {
		return wallet.Wallet{}, err
	}
	w, err := d.Store.Wallet(ctx, from.ID)
	var unopened error
	if errors.Is(err, wallet.ErrUnknown) {
		unopened = d.compareAll(ctx)
		w, err = d.Store.Wallet(ctx, from.ID)
	}
	if err != nil {
		return wallet.Wallet{}, errors.Join(ErrUnavailable, unopened, err)
	}
	return w, nil
}

func (d sending) move(ctx context.Context, t Transfer) (payment.Payment, error) {
	p, stored, err := d.offered(ctx, t)
	if err == nil && !stored {
		var created bool
		if p, created, err = d.Store.Create(ctx, p); err != nil {
			return payment.Payment{}, errors.Join(ErrInProgress, err)
		}
		stored = !created
		p, err = d.same(ctx, p, d.request(t, p.Token))
	}
	if err != nil || p.State != payment.Prepared {
		return p, err
	}
	if err := d.startupCheck(ctx); err != nil {
		return payment.Payment{}, errors.Join(ErrInProgress, err) // it may have been made before a restore
	}
	var taken store.Charge
	if stored {
		offer, refusal := d.screen(ctx, p)
		p, taken, _, err = d.takeUp(ctx, p, d.limitsOf(t, p.Token), offer, refusal)
	} else if taken, err = d.charge(ctx, p, d.limitsOf(t, p.Token)); err != nil {
		p, err = d.refuse(ctx, p, err)
	}
	if err != nil || p.State != payment.Prepared {
		return p, err
	}
	for round := 1; ; round++ {
		need := store.NeedOf(p, d.Now().Add(-abandoned))
		need.Owner = wallet.Anyone
		w, err := d.Store.Reserve(ctx, need)
		switch {
		case err == nil:
			return p, nil
		case !isRefusal(err):
			return payment.Payment{}, errors.Join(ErrInProgress, err)
		case errors.Is(err, wallet.ErrCeiling) && round < rounds && d.raise(ctx, w):
		default:
			refusal := fmt.Errorf("%w: %w: %s wants %s and %s wei of %s, which has %s and %s wei to spend %s",
				ErrUnavailable, err, p.ID, need.Amount, need.Gas, p.Wallet, w.Balance, w.Gas, w.Paused)
			d.refund(ctx, taken)
			return d.refuse(ctx, p, refusal)
		}
	}
}
