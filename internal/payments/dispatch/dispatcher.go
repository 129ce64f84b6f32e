// Package dispatch takes a payment from request to broadcast: it reserves a nonce, commits the signed bytes, releases
// the reservation and broadcasts. It is the engine of send-payment. Every step that can be refused comes before the
// reservation. If a handler crashes after it, package settlement finishes the payment from the tables.
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

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
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
	// ErrExpired reports a request whose NotAfter has passed.
	ErrExpired = errors.New("the request's time has passed")
	// ErrNotAfter reports a NotAfter that is malformed, or more than MaxNotAfter ahead.
	ErrNotAfter = errors.New("unusable time of a request")
	// ErrOtherAsset reports an asset that the key does not pay.
	ErrOtherAsset = errors.New("the API key pays another asset")
	// ErrAssetClosed reports an asset whose new payments the operator has stopped.
	ErrAssetClosed = errors.New("the asset is closed")
	// errRail reports a request that was given to the dispatcher of another rail.
	errRail = errors.New("a request for another rail")
	// ErrNoBatches reports a stack without a contract that pays batches.
	ErrNoBatches = errors.New("batches are not enabled")
	// ErrNotInBook reports a recipient that the key may not pay, or not yet.
	ErrNotInBook = errors.New("recipient is no active entry of the address book")
	// ErrTooMany reports that too many of the merchant's payments are not mined yet. Retry when some are.
	ErrTooMany = errors.New("too many payments of the merchant are pending")
	// ErrUnavailable reports that payments cannot be made now. It is safe to retry.
	ErrUnavailable = errors.New("payment rail unavailable")
	// ErrRolledBack is the ErrUnavailable of wallets whose chain is behind their payments.
	ErrRolledBack = fmt.Errorf("%w: the chain is behind the payments that were made on it", ErrUnavailable)
)

var (
	// ErrKeyReused reports an Idempotency-Key that was used for another request.
	ErrKeyReused = errors.New("idempotency key was used for another request")
	// ErrInProgress reports a stored payment that this call could not commit. It may yet be made:
	// repeat the request with the same key to find out.
	ErrInProgress = errors.New("payment is in progress")
	// ErrWaiting is the ErrInProgress of a payment that waits for nodes, keys, settings, an
	// operator, or another request.
	ErrWaiting = fmt.Errorf("%w: waiting", ErrInProgress)
	// ErrDuplicate is the ErrWaiting of a repeated request, while the first one may still be making the payment.
	ErrDuplicate = fmt.Errorf("%w: another request may be making it", ErrWaiting)
	// ErrCommit reports, with ErrInProgress, signed bytes that could not be stored: a permission is
	// missing, or the table is unreachable.
	ErrCommit = errors.New("commit failed")
)

// A Store is the part of store.Store that a Dispatcher uses, with its contract.
type Store interface {
	store.Nonces
	store.DailyLimits
	store.Proposals
	Rules(ctx context.Context) (store.Rules, error)

	Create(ctx context.Context, p payment.Payment) (stored payment.Payment, created bool, err error)
	CreateGuarded(ctx context.Context, p payment.Payment, g store.Guard) (stored payment.Payment, created bool, err error)
	Guard(ctx context.Context, id string) (store.Guard, error)
	Payment(ctx context.Context, id payment.ID) (payment.Payment, error)
	Reassign(ctx context.Context, p payment.Payment, old string) error
	Discard(ctx context.Context, p payment.Payment) error
	Adopt(ctx context.Context, p payment.Payment) error
	Commit(ctx context.Context, p payment.Payment) error
	PutNoop(ctx context.Context, tx wallet.PendingTx) error
	PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error)
	PendingTxs(ctx context.Context, id wallet.ID, from uint64) (txs []wallet.PendingTx, unreadable int, err error)

	Open(ctx context.Context, w wallet.Wallet, of token.Address) error
	Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error)
	Wallets(ctx context.Context, rail token.Coin) (wallet.Registry, error)
	Compared(ctx context.Context, rail token.Coin) (store.Comparison, error)
	Repause(ctx context.Context, id wallet.ID, from, to string) error
}

// A Hinter starts a check-receipts run soon. A lost hint costs at most the minute until the next one.
type Hinter interface {
	Hint(ctx context.Context) error
}

// An AddressBook lists the recipients of keys that pay only its entries.
type AddressBook interface {
	// Active reports whether to is an entry of the merchant's address book whose hold has ended at
	// now. It includes every entry and deletion that was answered before.
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
	// Draw returns a random number below n, to choose wallets, and an unknown recipient. It is safe
	// for concurrent use.
	Draw  func(n int) int
	After func(d time.Duration) <-chan time.Time // fires d from now; nil: time.After
	Turns Turnstile                              // of requests that may begin a payment
}

// A Dispatcher sends payments.
type Dispatcher struct {
	stack.Config
	Parts
	pool *wallet.Pool

	mu       sync.Mutex // guards the fields up to read
	market   chain.Market
	quoted   time.Time
	surveyed time.Time       // when all records were read last
	wallets  wallet.Registry // as it was read last
	read     time.Time       // when that was; zero: never
	checked  atomic.Bool     // the startup check has passed
	compared sync.Map        // the wallet.IDs that it has compared so far
	worst    worstCase
	rules    *settings.Cached[store.Rules]
	rails    *Rails // nil: there is one rail
	crowd    crowd
}

// New returns a dispatcher without calling any port.
func New(config stack.Config, parts Parts) *Dispatcher {
	if parts.After == nil {
		parts.After = time.After
	}
	return &Dispatcher{Config: config, Parts: parts, pool: wallet.NewPool(parts.Draw), rules: new(settings.Cached[store.Rules])}
}

// A Result is a payment that is committed: its TxHash is durable.
type Result struct {
	Payment  payment.Payment
	Replayed bool // the payment was made by an earlier request
}

// Send makes the payment of r, at most once per (merchant, mode, key), and returns it once its signed bytes are
// stored. A repeated request returns the payment as it is now, or finishes the one that an earlier request began.
// Errors are the refusals, ErrKeyReused, ErrInProgress, and errors of the store from before anything could move.
func (d *Dispatcher) Send(ctx context.Context, r payment.Request) (Result, error) {
	s, err := d.begin(ctx)
	s.notAfter, s.owner = r.NotAfter, r.Owner()
	_, impossible := s.possible(ctx, r) // prepare finds the same wallets without a read
	own := errors.Is(impossible, ErrOwnWallet)
	switch {
	case own:
	case r.NotAfter.Unix()-d.Now().Unix() > int64(MaxNotAfter/time.Second):
		return Result{}, ErrNotAfter
	case s.RequireKey && r.IdempotencyKey == "":
		return Result{}, ErrKeyMissing
	}
	refusal := s.barred(r, false, cmp.Or(err, s.refused, impossible))
	if own {
		refusal = impossible
	}
	id, err := payment.NewID(r.Merchant, r.Mode, r.IdempotencyKey, d.Random)
	switch {
	case err != nil:
		return Result{}, err
	case r.Asset == (token.Coin{}) && d.Further, r.Asset != (token.Coin{}) && r.Asset != d.Coin():
		return s.answerStored(ctx, id, r, errors.Join(ErrUnavailable, errRail))
	case refusal != nil:
		return s.answerStored(ctx, id, r, refusal)
	}
	leave, err := d.Turns.enter(ctx, r.Merchant)
	if err != nil {
		return s.answerStored(ctx, id, r, err)
	}
	defer leave()
	return s.send(ctx, id, r)
}

// A sending is a Dispatcher at work on one request, with that moment's rules and nodes. Without
// nodes it answers only from the tables.
type sending struct {
	*Dispatcher
	Nodes chain.Nodes
	ruling
	refused error // there are no rules: only payments that hold a nonce go on
	phases  *phases

	notAfter time.Time // of the request
	created  bool      // the request has created its payment
	owner    string    // of the wallets that may pay: the merchant, if it has its own
	release            // zero: not the release of a proposal
}

// barred returns why r may begin no payment: its time, its key or the settings, else unready, the nodes' error.
func (d sending) barred(r payment.Request, approved bool, unready error) error {
	switch {
	case d.expired():
		return ErrExpired
	case r.Key.OtherAsset:
		return ErrOtherAsset
	case !approved && d.needsApproval(r):
		return ErrApprovalRequired
	case r.Key.Guard > 0 && r.Entries != nil:
		return ErrGuardedBatch
	case d.refused == nil && d.Closed:
		return ErrAssetClosed
	}
	return cmp.Or(unready, d.refused)
}

func (d sending) send(ctx context.Context, id payment.ID, r payment.Request) (Result, error) {
	offer, guard, err := d.prepare(ctx, id, r)
	if err != nil {
		return d.answerStored(ctx, id, r, err)
	}
	d.phases.end(phaseSimulate)
	// Creating a payment moves no money, so Create runs beside the startup check. If a node leaves
	// the check unanswered here, begun repeats it.
	var begun sync.WaitGroup
	begun.Go(func() { _ = d.startupCheck(ctx) })
	create := d.Store.Create
	if offer.Guarded {
		create = func(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
			return d.Store.CreateGuarded(ctx, p, guard)
		}
	}
	p, created, err := create(ctx, offer)
	begun.Wait()
	switch {
	case errors.Is(err, store.ErrChanged): // another request has created a similar payment meanwhile
		return Result{}, ErrSimilarPending
	case err != nil:
		return Result{}, unknown(r, err)
	case !created && offer.Guarded && !p.Guarded:
		return d.resume(ctx, p, r, offer, errUnguarded)
	case !created:
		return d.resume(ctx, p, r, offer, nil)
	}
	d.created = true
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
	if d.short(ctx) { // an earlier request's reservation may still arrive, and must find no payment
		d.refund(ctx, taken)
		return d.giveUp(ctx, p, []error{errShort})
	}
	d.phases.end(phaseStore)
	return d.submit(ctx, p, taken, false)
}

// answerStored answers a request that cannot begin a payment: with the stored payment if there is one, else with
// refusal.
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

// unknown answers a request when the store gave no answer about its payment. An earlier request may
// have made a payment under the same key, so the answer must not be that nothing was started.
func unknown(r payment.Request, cause error) error {
	if r.IdempotencyKey == "" {
		return errors.Join(ErrUnavailable, cause)
	}
	return cause
}

// resume answers from a payment that another request stored, and finishes it if that request did
// not. offer is the payment as it would be begun now; refusal is why it could not be.
func (d sending) resume(ctx context.Context, p payment.Payment, r payment.Request, offer payment.Payment, refusal error) (Result, error) {
	if p.Merchant == "" {
		return d.adopt(ctx, p, r)
	}
	switch held := p.Proposal && !p.State.Signed(); {
	case p.State.UsedUp(), p.Fingerprint != r.Fingerprint():
		return Result{}, ErrKeyReused
	case p.State == payment.Proposed:
		return Result{}, &OpenError{p.ID}
	case held && d.ends.IsZero(): // only its release continues it
		return Result{}, ErrDuplicate
	case p.State != payment.Prepared:
		return Result{Payment: p, Replayed: true}, nil
	}
	if err := d.startupCheck(ctx); err != nil {
		return Result{}, errors.Join(ErrWaiting, err) // it may have been made before the tables were restored
	}
	p, taken, held, err := d.takeUp(ctx, p, d.limits(r), offer, refusal)
	if err != nil || p.State != payment.Prepared {
		return Result{Payment: p, Replayed: err == nil}, err
	}
	if d.short(ctx) {
		d.refund(ctx, taken)
		return Result{}, ErrDuplicate // the request that began it may hold a reservation
	}
	p, err = d.submit(ctx, p, taken, held)
	return Result{Payment: p, Replayed: true}, err
}

// adopt answers from a payment that was found on the chain. Its ID proves its merchant and key;
// asset, recipients and amounts are compared.
func (d sending) adopt(ctx context.Context, p payment.Payment, r payment.Request) (Result, error) {
	switch {
	case !p.Pays(r.Outputs()), p.Tx.ChainID != d.ChainID, p.Token.Contract != d.Token.Contract:
		return Result{}, ErrKeyReused
	case p.State == payment.Prepared:
		return Result{}, ErrWaiting // remit recover is about to commit it
	}
	p = p.Adopted(r)
	err := d.Store.Adopt(ctx, p)
	if errors.Is(err, store.ErrChanged) { // another request was faster
		if p, err = d.Store.Payment(ctx, p.ID); err == nil {
			return d.resume(ctx, p, r, p, nil)
		}
	}
	if err != nil {
		return Result{}, errors.Join(ErrInProgress, err)
	}
	return Result{Payment: p, Replayed: true}, nil
}

// refuse discards a stored payment that cannot be made, so that its key is not used up; a proposal's payment waits
// again. If the outcome is unknown, it returns ErrInProgress: another request may be making the payment. A crash before
// the discard leaves a payment without a reservation, which the next request under its key takes up. Without an error,
// another process has made the returned payment.
func (d sending) refuse(ctx context.Context, p payment.Payment, refusal error) (payment.Payment, error) {
	discard := d.Store.Discard
	if p.Proposal {
		discard = func(ctx context.Context, p payment.Payment) error { return d.withdraw(ctx, p, refusal) }
	}
	err := discard(ctx, p)
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
	case stored.State.Signed() && stored.Fingerprint == p.Fingerprint:
		return stored, nil
	}
	return payment.Payment{}, ErrDuplicate // another request has changed it
}

// warn logs an error that does not stop the caller, unless it is nil.
func (p Parts) warn(ctx context.Context, err error, message string, args ...any) {
	if err != nil {
		p.Log.WarnContext(ctx, message, append(args, "err", err)...)
	}
}
