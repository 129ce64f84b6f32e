// Package dispatch takes a payment from request to broadcast: it reserves a
// nonce, commits the signed bytes, releases the reservation and broadcasts. It
// is the engine of send-payment. Every step that can be refused comes before
// the reservation; from the reservation on, package settlement finishes from
// the tables a payment whose handler crashed.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Refusals. Each means that nothing was started and no key was used up. One that
// concerns an entry of a batch is in a chain.EntryError.
var (
	ErrAmountBelow  = errors.New("amount is below the minimum")
	ErrAmountAbove  = errors.New("amount is above the maximum")
	ErrOwnWallet    = errors.New("recipient is a wallet of this service")
	ErrRecipient    = errors.New("the token, or a list of this service, refuses this recipient")
	ErrInsufficient = errors.New("insufficient funds")
	// ErrKeyMissing reports a request without the Idempotency-Key that the stack requires.
	ErrKeyMissing = errors.New("no idempotency key")
	// ErrNoBatches reports a stack without a contract that pays batches.
	ErrNoBatches = errors.New("batches are not enabled")
	// ErrNotInBook reports a recipient that the key may not pay (yet).
	ErrNotInBook = errors.New("recipient is no active entry of the book")
	// ErrTooMany reports that too many of the merchant's payments wait to be mined.
	// Safe to retry once some are.
	ErrTooMany = errors.New("too many payments of the merchant are pending")
	// ErrUnavailable reports that payments cannot be made now. Safe to retry.
	ErrUnavailable = errors.New("payment rail unavailable")
)

var (
	// ErrKeyReused reports an Idempotency-Key that was used for another request.
	ErrKeyReused = errors.New("idempotency key was used for another request")
	// ErrInProgress reports a payment that was taken on and could not be
	// brought to its commit in this call. It will be made or it will not; asking
	// again with the same key tells.
	ErrInProgress = errors.New("payment is in progress")
	// ErrCommit reports, with ErrInProgress, signed bytes that could not be stored: a
	// right is missing, or the table is away.
	ErrCommit = errors.New("commit failed")
)

const (
	// reserve is the least that must remain of a function's time before a
	// reservation is taken: three store writes and a broadcast, all slow.
	reserve = 6 * time.Second
	// budget is how long the work from the reservation to the answer may take, on a
	// context that the caller's deadline does not cancel.
	budget = 20 * time.Second
	// broadcastBudget is how long an answer waits for nodes: the bytes are
	// stored by then, and check-receipts sends them again.
	broadcastBudget = 4 * time.Second
	// handlerLife is longer than a handler lives: a payment as old as that is at
	// work in no other.
	handlerLife = 35 * time.Second
)

// A Hinter starts a check-receipts run soon. A lost hint costs at most the
// minute until the next one.
type Hinter interface {
	Hint(ctx context.Context) error
}

// A Book says whom keys that pay from a recipient book may pay.
type Book interface {
	// Active reports whether to is an entry of the merchant's book whose hold is
	// over at now. It sees every entry and deletion that was answered before.
	Active(ctx context.Context, merchant, mode string, to token.Address, now time.Time) (bool, error)
}

// Parts are the ports of a Dispatcher.
type Parts struct {
	Store  Store
	Keys   wallet.Keys
	Book   Book // asked for keys that pay from it only
	Nodes  chain.Provider
	Hints  Hinter
	Log    *slog.Logger
	Now    func() time.Time
	Random io.Reader       // for payment IDs
	Draw   func(n int) int // a random number below n, to choose wallets
}

// A Dispatcher sends payments.
type Dispatcher struct {
	stack.Config
	Parts
	pool *wallet.Pool

	mu       sync.Mutex // guards the fields up to read
	market   chain.Market
	quoted   time.Time
	wallets  wallet.Registry // as it was read last
	read     time.Time       // when that was; zero: never
	checked  atomic.Bool     // the startup check has passed
	compared sync.Map        // the wallet.IDs that it has compared so far
	denials  denyList
	crowd    crowd
}

// New returns a dispatcher that has called none of its ports yet.
func New(config stack.Config, parts Parts) *Dispatcher {
	return &Dispatcher{Config: config, Parts: parts, pool: wallet.NewPool(config.Window, parts.Draw)}
}

// A Result is a payment that is committed: its TxHash is durable.
type Result struct {
	Payment  payment.Payment
	Replayed bool // the payment was made by an earlier request
}

// Send makes the payment that r asks for, at most once per (merchant, mode,
// key), and returns it once its signed bytes are stored. A repeated request is
// answered with the payment as it is now, or finishes the payment that an
// earlier one began. Errors are the refusals, ErrKeyReused, ErrInProgress, and
// errors of the store that left the outcome unknown before anything could move.
func (d *Dispatcher) Send(ctx context.Context, r payment.Request) (Result, error) {
	if d.RequireKey && r.IdempotencyKey == "" {
		return Result{}, ErrKeyMissing
	}
	id, err := payment.NewID(r.Merchant, r.Mode, r.IdempotencyKey, d.Random)
	if err != nil {
		return Result{}, err
	}
	nodes, err := d.Nodes.Nodes(ctx)
	if err != nil {
		return sending{Dispatcher: d}.answerStored(ctx, id, r, errors.Join(ErrUnavailable, fmt.Errorf("finding nodes: %w", err)))
	}
	return sending{d, nodes}.send(ctx, id, r)
}

// A sending is a Dispatcher at work on one request, with the nodes of that
// moment: none if they are not known, when it answers only from what is stored.
type sending struct {
	*Dispatcher
	Nodes chain.Nodes
}

func (d sending) send(ctx context.Context, id payment.ID, r payment.Request) (Result, error) {
	offer, err := d.prepare(ctx, id, r)
	if err != nil {
		return d.answerStored(ctx, id, r, err)
	}
	// No money moves for a payment that is only created, so that this need not wait for
	// the startup check. What a node leaves unanswered then is asked for once more below.
	var begun sync.WaitGroup
	begun.Go(func() { _ = d.startupCheck(ctx) })
	p, created, err := d.Store.Create(ctx, offer)
	begun.Wait()
	if err != nil {
		return Result{}, unknown(r, err)
	}
	if !created {
		return d.resume(ctx, p, r, nil)
	}
	if err := d.startupCheck(ctx); err != nil {
		return d.refuse(ctx, p, err)
	}
	taken := d.chargeOf(p, r)
	if err := d.charge(ctx, taken); err != nil {
		return d.refuse(ctx, p, err)
	}
	if d.short(ctx) { // a reservation of an earlier request may arrive yet, and must find no payment
		return d.giveUp(ctx, p, taken, []error{errShort})
	}
	return d.submit(ctx, p, taken)
}

// answerStored answers a request that could not be prepared. If its payment is
// stored already, that is the answer, even while no new payment can be made.
func (d sending) answerStored(ctx context.Context, id payment.ID, r payment.Request, refusal error) (Result, error) {
	d.screened(ctx, r, refusal)
	if r.IdempotencyKey == "" {
		return Result{}, refusal
	}
	p, err := d.Store.Payment(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Result{}, refusal
	case err != nil:
		return Result{}, unknown(r, err)
	}
	return d.resume(ctx, p, r, refusal)
}

// unknown answers a request whose payment the store said nothing of. No money
// moves for a payment without a reservation, but under a key it may have been made by
// an earlier request: then it would be wrong to say that nothing was started.
func unknown(r payment.Request, cause error) error {
	if r.IdempotencyKey == "" {
		return errors.Join(ErrUnavailable, cause)
	}
	return cause
}

// resume answers from a payment that was stored by another request, and
// finishes it if that one did not. refusal is why a new one would be refused, nil if it
// would not: a recipient that a list has by now is paid only if a nonce is reserved.
func (d sending) resume(ctx context.Context, p payment.Payment, r payment.Request, refusal error) (Result, error) {
	if p.Merchant == "" {
		return d.adopt(ctx, p, r)
	}
	if p.Fingerprint != r.Fingerprint() {
		return Result{}, ErrKeyReused
	}
	if p.State != payment.Prepared {
		return Result{Payment: p, Replayed: true}, nil
	}
	if len(d.Nodes) == 0 {
		return Result{}, fmt.Errorf("%w: %s", ErrInProgress, refusal.Error()) // nobody to finish it with
	}
	if err := d.startupCheck(ctx); err != nil {
		return Result{}, errors.Join(ErrInProgress, err) // restored tables do not tell whether it was made
	}
	var taken store.Charge
	if c := d.chargeOf(p, r); len(c.Limits) > 0 || errors.Is(refusal, errScreened) {
		switch held, unknown := d.reserved(ctx, p); {
		case unknown != nil: // whether another request has charged it is not known
			return Result{}, errors.Join(ErrInProgress, unknown)
		case held:
		case d.Now().Sub(p.CreatedAt) < handlerLife:
			return Result{}, ErrInProgress // the request that is making it charges it
		case errors.Is(refusal, errScreened):
			return d.refuse(ctx, p, refusal)
		default:
			if err := d.charge(ctx, c); err != nil {
				return d.refuse(ctx, p, err)
			}
			taken = c
		}
	}
	if d.short(ctx) {
		return Result{}, ErrInProgress // the request that began it may hold a reservation
	}
	result, err := d.submit(ctx, p, taken)
	result.Replayed = true
	return result, err
}

// adopt answers from a payment that was found on the chain. Its ID shows that it is
// the merchant's, and made under this key; recipients and amounts are compared.
func (d sending) adopt(ctx context.Context, p payment.Payment, r payment.Request) (Result, error) {
	switch {
	case !p.Pays(r.Outputs()):
		return Result{}, ErrKeyReused
	case p.State == payment.Prepared:
		return Result{}, ErrInProgress // remit recover is about to commit it
	}
	p = p.Adopted(r)
	err := d.Store.Adopt(ctx, p)
	if errors.Is(err, store.ErrChanged) { // another request has
		if p, err = d.Store.Payment(ctx, p.ID); err == nil {
			return d.resume(ctx, p, r, nil)
		}
	}
	if err != nil {
		return Result{}, errors.Join(ErrInProgress, err)
	}
	return Result{Payment: p, Replayed: true}, nil
}

// reserved reports whether the payment holds a nonce already. Then it is charged,
// and it is too late to refuse it.
func (d sending) reserved(ctx context.Context, p payment.Payment) (bool, error) {
	w, err := d.Store.Wallet(ctx, walletOf(p))
	if err != nil {
		return false, err
	}
	_, held := w.Reservations[p.ID]
	return held, nil
}

// charge takes c from its daily limits. The request that creates a payment charges it,
// and one that carries it on only once no handler can be making it and it holds no nonce:
// a crash in between counts it twice, never not at all.
func (d sending) charge(ctx context.Context, c store.Charge) error {
	if len(c.Limits) == 0 {
		return nil
	}
	err := d.Store.Charge(ctx, c)
	if err != nil && !errors.Is(err, store.ErrDailyLimit) {
		return errors.Join(ErrUnavailable, err)
	}
	return err
}

// chargeOf is what the payment that r asks for takes from the daily limits of its
// merchant and of the key that asks, for the day it was created on.
func (d sending) chargeOf(p payment.Payment, r payment.Request) store.Charge {
	limits := r.Key.Daily
	if daily := cmp.Or(r.Key.MerchantDaily, d.Daily); !daily.IsZero() {
		limits = append(slices.Clip(limits), payment.DailyLimit{Amount: daily})
	}
	return store.Charge{Merchant: p.Merchant, Mode: p.Mode, At: p.CreatedAt, Amount: p.Amount, Count: uint64(len(p.Outputs())), Limits: limits}
}

// refuse discards a payment that was stored and cannot be made, so that its
// key is not used up. If it is not certain that the payment is gone, it is in
// progress: another request may be carrying it on. A crash before leaves a payment
// without a reservation, which no money moves for; the next request under its key
// takes it up.
func (d sending) refuse(ctx context.Context, p payment.Payment, refusal error) (Result, error) {
	err := d.Store.Discard(ctx, p)
	if err == nil {
		return Result{}, refusal
	}
	if !errors.Is(err, store.ErrChanged) {
		d.Log.WarnContext(ctx, "discard unknown", "payment", p.ID, "err", err)
		return Result{}, errors.Join(ErrInProgress, err)
	}
	stored, err := d.Store.Payment(ctx, p.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Result{}, refusal
	case err == nil && stored.State != payment.Prepared && stored.Fingerprint == p.Fingerprint:
		return Result{Payment: stored, Replayed: true}, nil
	}
	return Result{}, ErrInProgress
}
