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
	"sync"
	"sync/atomic"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
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
	ErrNotInBook = errors.New("recipient is no active entry of the address book")
	// ErrTooMany reports that too many of the merchant's payments wait to be mined.
	// Safe to retry once some are.
	ErrTooMany = errors.New("too many payments of the merchant are pending")
	// ErrUnavailable reports that payments cannot be made now. Safe to retry.
	ErrUnavailable = errors.New("payment rail unavailable")
	// ErrRolledBack is the ErrUnavailable of wallets whose chain is behind their payments.
	ErrRolledBack = fmt.Errorf("%w: the chain is behind the payments that were made on it", ErrUnavailable)
)

var (
	// ErrKeyReused reports an Idempotency-Key that was used for another request.
	ErrKeyReused = errors.New("idempotency key was used for another request")
	// ErrInProgress reports a payment that was taken on and could not be
	// brought to its commit in this call. It will be made or it will not; asking
	// again with the same key tells.
	ErrInProgress = errors.New("payment is in progress")
	// ErrWaiting is the ErrInProgress of a payment that waits for what no code can help:
	// nodes, keys, settings, an operator, or another request.
	ErrWaiting = fmt.Errorf("%w: waiting", ErrInProgress)
	// ErrDuplicate is the ErrWaiting of a request that repeats one which may be alive,
	// and is making the payment.
	ErrDuplicate = fmt.Errorf("%w: another request may be making it", ErrWaiting)
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
	// duplicateWait is how long a request lets another one go on with their payment
	// before it looks at it again: most are committed by then.
	duplicateWait = 300 * time.Millisecond
)

// A Hinter starts a check-receipts run soon. A lost hint costs at most the
// minute until the next one.
type Hinter interface {
	Hint(ctx context.Context) error
}

// An AddressBook lists the recipients of keys that pay only its entries.
type AddressBook interface {
	// Active reports whether to is an entry of the merchant's address book whose hold is
	// over at now. It sees every entry and deletion that was answered before.
	Active(ctx context.Context, merchant, mode string, to token.Address, now time.Time) (bool, error)
}

// Parts are the ports of a Dispatcher.
type Parts struct {
	Store  Store
	Keys   wallet.Keys
	Book   AddressBook // asked only for keys that are limited to it
	Nodes  chain.Provider
	Hints  Hinter
	Log    *slog.Logger
	Now    func() time.Time
	Random io.Reader // for payment IDs
	// A random number below n, to choose wallets, and a recipient whom nobody knows. Safe for concurrent use.
	Draw  func(n int) int
	After func(d time.Duration) <-chan time.Time // fires d from now; nil: time.After
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
	worst    worstCase
	rules    settings.Cached[ruling]
	crowd    crowd
}

// New returns a dispatcher that has called none of its ports yet.
func New(config stack.Config, parts Parts) *Dispatcher {
	if parts.After == nil {
		parts.After = time.After
	}
	return &Dispatcher{Config: config, Parts: parts, pool: wallet.NewPool(parts.Draw)}
}

// A Result is a payment that is committed: its TxHash is durable.
type Result struct {
	Payment  payment.Payment
	Replayed bool // the payment was made by an earlier request
}

// Send makes the payment of r, at most once per (merchant, mode,
// key), and returns it once its signed bytes are stored. A repeated request is
// answered with the payment as it is now, or finishes the payment that an
// earlier one began. Errors are the refusals, ErrKeyReused, ErrInProgress, and
// errors of the store that left the outcome unknown before anything could move.
func (d *Dispatcher) Send(ctx context.Context, r payment.Request) (Result, error) {
	s, err := d.begin(ctx)
	refusal := cmp.Or(err, s.refused)
	if refusal == nil && s.RequireKey && r.IdempotencyKey == "" {
		return Result{}, ErrKeyMissing
	}
	id, err := payment.NewID(r.Merchant, r.Mode, r.IdempotencyKey, d.Random)
	switch {
	case err != nil:
		return Result{}, err
	case refusal != nil:
		return s.answerStored(ctx, id, r, refusal)
	}
	return s.send(ctx, id, r)
}

// A sending is a Dispatcher at work on one request, by the rules and with the nodes of that
// moment: without nodes it answers only from what is stored.
type sending struct {
	*Dispatcher
	Nodes chain.Nodes
	ruling
	refused error // there are no rules: nothing new begins, and only what holds a nonce goes on
	phases  *phases
}

func (d sending) send(ctx context.Context, id payment.ID, r payment.Request) (Result, error) {
	offer, err := d.prepare(ctx, id, r)
	if err != nil {
		return d.answerStored(ctx, id, r, err)
	}
	d.phases.end(phaseSimulate)
	// Creating a payment moves no money, so Create runs beside the startup check. If a node leaves
	// the check unanswered here, begun repeats it.
	var begun sync.WaitGroup
	begun.Go(func() { _ = d.startupCheck(ctx) })
	p, created, err := d.Store.Create(ctx, offer)
	begun.Wait()
	if err != nil {
		return Result{}, unknown(r, err)
	}
	if !created {
		return d.resume(ctx, p, r, offer, nil)
	}
	p, err = d.begun(ctx, p, d.limits(r))
	return Result{Payment: p}, err
}

// begun makes a payment that this request has created.
func (d sending) begun(ctx context.Context, p payment.Payment, limits []payment.DailyLimit) (payment.Payment, error) {
	if err := d.startupCheck(ctx); err != nil {
		return d.refuse(ctx, p, err)
	}
	taken, err := d.charge(ctx, p, limits)
	if err != nil {
		return d.refuse(ctx, p, err)
	}
	if d.short(ctx) { // a reservation of an earlier request may arrive yet, and must find no payment
		d.refund(ctx, taken)
		return d.giveUp(ctx, p, []error{errShort})
	}
	d.phases.end(phaseStore)
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
	return d.resume(ctx, p, r, payment.Payment{}, refusal)
}

// unknown answers a request when the store gave no answer about its payment. No money
// moves for a payment without a reservation, but under a key it may have been made by
// an earlier request: then it would be wrong to answer that nothing was started.
func unknown(r payment.Request, cause error) error {
	if r.IdempotencyKey == "" {
		return errors.Join(ErrUnavailable, cause)
	}
	return cause
}

// resume answers from a payment that was stored by another request, and
// finishes it if that one did not. offer is the payment as it would be begun now, or refusal
// why it could not be.
func (d sending) resume(ctx context.Context, p payment.Payment, r payment.Request, offer payment.Payment, refusal error) (Result, error) {
	if p.Merchant == "" {
		return d.adopt(ctx, p, r)
	}
	if p.Fingerprint != r.Fingerprint() {
		return Result{}, ErrKeyReused
	}
	if p.State != payment.Prepared {
		return Result{Payment: p, Replayed: true}, nil
	}
	if err := d.startupCheck(ctx); err != nil {
		return Result{}, errors.Join(ErrWaiting, err) // restored tables do not show whether it was made
	}
	p, taken, err := d.takeUp(ctx, p, d.limits(r), offer, refusal)
	if err != nil || p.State != payment.Prepared {
		return Result{Payment: p, Replayed: err == nil}, err
	}
	if d.short(ctx) {
		d.refund(ctx, taken)
		return Result{}, ErrDuplicate // the request that began it may hold a reservation
	}
	p, err = d.submit(ctx, p, taken)
	return Result{Payment: p, Replayed: true}, err
}

// adopt answers from a payment that was found on the chain. Its ID shows that it is
// the merchant's, and made under this key; recipients and amounts are compared.
func (d sending) adopt(ctx context.Context, p payment.Payment, r payment.Request) (Result, error) {
	switch {
	case !p.Pays(r.Outputs()):
		return Result{}, ErrKeyReused
	case p.State == payment.Prepared:
		return Result{}, ErrWaiting // remit recover is about to commit it
	}
	p = p.Adopted(r)
	err := d.Store.Adopt(ctx, p)
	if errors.Is(err, store.ErrChanged) { // another request has
		if p, err = d.Store.Payment(ctx, p.ID); err == nil {
			return d.resume(ctx, p, r, p, nil)
		}
	}
	if err != nil {
		return Result{}, errors.Join(ErrInProgress, err)
	}
	return Result{Payment: p, Replayed: true}, nil
}

// refuse discards a payment that was stored and cannot be made, so that its
// key is not used up. If it is not certain that the payment is gone, it is in
// progress: another request may be carrying it on. A crash before leaves a payment
// without a reservation, which no money moves for; the next request under its key
// takes it up. Without an error, another process has made the payment.
func (d sending) refuse(ctx context.Context, p payment.Payment, refusal error) (payment.Payment, error) {
	err := d.Store.Discard(ctx, p)
	if err == nil {
		return payment.Payment{}, refusal
	}
	if !errors.Is(err, store.ErrChanged) {
		return payment.Payment{}, errors.Join(ErrInProgress, err)
	}
	stored, err := d.Store.Payment(ctx, p.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return payment.Payment{}, refusal
	case err != nil:
		return payment.Payment{}, errors.Join(ErrInProgress, err)
	case stored.State != payment.Prepared && stored.Fingerprint == p.Fingerprint:
		return stored, nil
	}
	return payment.Payment{}, ErrDuplicate // that has changed it meanwhile
}

// warn logs an error that the caller goes on without; nil is none.
func (p Parts) warn(ctx context.Context, err error, message string, args ...any) {
	if err != nil {
		p.Log.WarnContext(ctx, message, append(args, "err", err)...)
	}
}
