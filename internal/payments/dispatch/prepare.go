package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// prepare does everything that can fail before anything is stored: limits, repeat guard, fee quote, simulation, key,
// wallet. Its only effect is that guarded may discard similar payments.
func (d sending) prepare(ctx context.Context, id payment.ID, r payment.Request) (offer payment.Payment, g store.Guard, err error) {
	wallets, err := d.possible(ctx, r)
	if err != nil {
		return offer, g, err
	}
	for i, e := range r.Outputs() {
		if err := d.bounds(r, e.Amount); err != nil {
			return offer, g, &chain.EntryError{Index: i, Err: err}
		}
	}
	if r.Key.Book {
		if err := d.listed(ctx, r); err != nil {
			return offer, g, err
		}
	}
	if err := d.allowed(r.Outputs()...); err != nil {
		return offer, g, err
	}
	var newest payment.Payment
	if r.Key.Guard > 0 {
		if g, newest, err = d.guarded(ctx, id, r); err != nil {
			return offer, g, err
		}
	}
	now := d.Now()
	if newest.CreatedAt.After(now) { // clocks differ: a guard's newest payment has the latest time
		now = newest.CreatedAt
	}
	offer = payment.New(id, r, d.Token, d.Network, now)
	if len(r.Entries) > 1 {
		offer.BatchContract = d.BatchContract
	}
	if d.owner == "" && d.crowd.has(r.Merchant, d.Now()) {
		return offer, g, ErrTooMany
	}
	offer, err = d.assign(ctx, wallets, offer)
	return offer, g, err
}

// possible returns the rail's wallets. It returns ErrOwnWallet if a recipient is a wallet of any rail, even a retired
// one, whose key may be lost or public; and ErrNoBatches for a batch if the stack has no contract for them.
func (d sending) possible(ctx context.Context, r payment.Request) (wallet.Registry, error) {
	wallets, err := d.registry(ctx, d.registryAge())
	all := []wallet.Registry{wallets}
	others, failed := d.others(ctx)
	for _, o := range others { // each caches its registry
		registry, unread := o.registry(ctx, o.registryAge())
		all, failed = append(all, registry), cmp.Or(failed, unread)
	}
	if err = cmp.Or(err, failed); err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	for i, e := range r.Outputs() {
		for _, registry := range all {
			if _, own := registry.Find(e.To); own {
				return nil, &chain.EntryError{Index: i, Err: ErrOwnWallet}
			}
		}
	}
	if r.Entries != nil && d.BatchContract.IsZero() {
		return nil, ErrNoBatches
	}
	return wallets, nil
}

// bounds returns ErrAmountBelow or ErrAmountAbove unless r's payments may have the amount.
func (d sending) bounds(r payment.Request, amount token.Amount) error {
	maximum := cmp.Or(r.Key.MerchantMaximum, d.Maximum)
	switch {
	case amount.Less(d.Minimum):
		return ErrAmountBelow
	case !maximum.IsZero() && maximum.Less(amount), !r.Key.Maximum.IsZero() && r.Key.Maximum.Less(amount),
		len(r.Entries) > 1 && disburser.MaxAmount().Less(amount):
		return ErrAmountAbove
	}
	return nil
}

// needsApproval reports whether r's amount is above its key's ApproveAbove, or the rail's.
func (d sending) needsApproval(r payment.Request) bool {
	return slices.ContainsFunc([]token.Amount{r.Key.ApproveAbove, d.ApproveAbove}, func(most token.Amount) bool {
		return !most.IsZero() && most.Less(r.Amount)
	})
}

// bookReads is how many recipients of a batch are looked up in an address book at once.
const bookReads = 20

// listed returns ErrNotInBook unless every recipient of r is an active entry of its merchant's address book.
func (d sending) listed(ctx context.Context, r payment.Request) error {
	active := make([]bool, len(r.Outputs()))
	var asked errgroup.Group
	asked.SetLimit(bookReads)
	for i, e := range r.Outputs() {
		asked.Go(func() (err error) {
			active[i], err = d.Book.Active(ctx, r.Merchant, r.Mode, e.To, d.Now())
			return err
		})
	}
	if err := asked.Wait(); err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if i := slices.Index(active, false); i >= 0 {
		return &chain.EntryError{Index: i, Err: ErrNotInBook}
	}
	return nil
}

// assign returns offer with a wallet that can pay it, and its transaction there.
func (d sending) assign(ctx context.Context, wallets wallet.Registry, offer payment.Payment) (payment.Payment, error) {
	var blocked []wallet.ID
	var tried []token.Address
	need := wallet.Need{Amount: offer.Amount, Owner: d.owner}
	ids, refusals := d.candidates(ctx, wallets, need, nil)
	for len(ids) > 0 {
		if len(tried) == tries {
			refusals = append(refusals, errMore)
			break
		}
		w := ids[0]
		ids, tried = ids[1:], append(tried, w.Address)
		var held errgroup.Group // reads or tries the key, unless it is in memory
		held.Go(func() error {
			_, err := d.ready(ctx, w.Address)
			return err
		})
		tx, err := d.simulate(ctx, w, offer)
		keyErr := held.Wait()
		switch {
		case errors.Is(err, errBlocked):
			blocked = append(blocked, w)
		case errors.Is(err, errUnapproved):
			d.Log.WarnContext(ctx, "wallet pays no batches", "wallet", w.Address, "err", err)
		case errors.Is(err, ErrInsufficient): // another may have more
		case err != nil:
			return payment.Payment{}, err
		case keyErr != nil: // another wallet's key may be in reach
			err = d.keyless(ctx, w, keyErr)
		default:
			d.pool.EndCooldown(w)
			d.coolDown(ctx, blocked)
			return offer.AssignedTo(w.Address, tx), nil
		}
		if len(tried) == 1 { // the records of the others may be unread, or old
			ids, refusals = d.candidates(ctx, wallets, need, tried)
		}
		refusals = append(refusals, err)
	}
	if len(blocked) > 0 {
		return payment.Payment{}, d.refusedMemo(ctx, blocked[0], offer, unable(refusals))
	}
	return payment.Payment{}, unable(refusals)
}

// errMemo reports a token that refuses transfers with bytes after their arguments.
var errMemo = fmt.Errorf("%w: the token refuses a payment's id after the arguments of a transfer: remit settings set Memo=off "+
	"(docs/parameters.md)", ErrUnavailable)

// refusedMemo returns errMemo if a blocked wallet could pay p without the memo, and refusal otherwise.
func (d sending) refusedMemo(ctx context.Context, w wallet.ID, p payment.Payment, refusal error) error {
	if _, err := d.Nodes.Estimate(ctx, p.Call(w.Address, false)); err != nil {
		return refusal
	}
	return errMemo
}

var errBlocked = fmt.Errorf("%w: the token pays nobody from it", ErrUnavailable)

// errUnapproved reports a wallet whose single transfers pass, but not the batch contract's.
var errUnapproved = fmt.Errorf("%w: the batch contract may not spend so much of the wallet's coins: remit batch approve", ErrUnavailable)

const (
	// blockedFor is how long a wallet is blocked before it is paused: longer than an issuer's short
	// stop of the token needs to reach every node.
	blockedFor    = 5 * time.Minute
	blockedReason = "blocked: the token pays nobody from it"
)

// coolDown starts the cooldown of wallets from which the token pays nobody, while it pays from
// another wallet: an issuer can freeze an account (EIP-20 tokens such as USDC and USDT do). It
// pauses a wallet that stays blocked, to alert an operator, unless another reason has paused it.
func (d sending) coolDown(ctx context.Context, blocked []wallet.ID) {
	for _, id := range blocked {
		since := d.pool.CoolDown(id, blockedReason, d.Now())
		d.Log.WarnContext(ctx, "wallet in cooldown: the token pays nobody from it", "wallet", id.Address, "since", since)
		if d.Now().Sub(since) >= blockedFor {
			d.warn(ctx, d.Store.Repause(ctx, id, "", blockedReason), "blocked wallet not paused", "wallet", id.Address)
		}
	}
}

// simulate returns the unsigned transaction with which w would make p, if the token allows it.
func (d sending) simulate(ctx context.Context, w wallet.ID, p payment.Payment) (chain.Tx, error) {
	call := d.call(p, w.Address)
	screened := call
	if !d.Sanctions.IsZero() {
		screened.List = d.Sanctions
		for _, e := range p.Outputs() {
			screened.Recipients = append(screened.Recipients, e.To)
		}
	}
	market, gas, err := d.quote(ctx, screened)
	switch {
	case errors.Is(err, chain.ErrListed):
		return chain.Tx{}, &chain.EntryError{Index: place(err), Err: fmt.Errorf("%w: %w", errScreened, err)}
	case errors.Is(err, chain.ErrReverted) && p.Ether():
		return chain.Tx{}, fmt.Errorf("%w: %w", ErrRecipient, err)
	case errors.Is(err, chain.ErrReverted):
		return chain.Tx{}, d.diagnose(ctx, p, w.Address, err)
	case errors.Is(err, chain.ErrTooLarge):
		return chain.Tx{}, d.fewer(ctx, p, w.Address)
	case err != nil:
		return chain.Tx{}, errors.Join(ErrUnavailable, err)
	}
	tx := chain.Tx{
		ChainID: w.ChainID, To: call.To, Value: call.Value, Data: call.Data, Gas: chain.GasLimit(gas),
		Fees: chain.QuoteFees(market.BaseFee, market.Tip, d.FeeLimit),
	}
	tx.L1Fee, tx.GasUnit = market.L1Reserve(tx), d.GasUnit
	return tx, nil
}

// place returns the index of the entry that caused err, or -1.
func place(err error) int {
	if entry, ok := errors.AsType[*chain.EntryError](err); ok {
		return entry.Index
	}
	return -1
}

// trial returns a function that reports whether w could make a payment. It sets unknown if no node answers.
func (d sending) trial(ctx context.Context, w token.Address, unknown *error) func(payment.Payment) bool {
	return func(p payment.Payment) bool {
		_, err := d.Nodes.Estimate(ctx, d.call(p, w))
		if err != nil && !errors.Is(err, chain.ErrReverted) && !errors.Is(err, chain.ErrTooLarge) {
			*unknown = errors.Join(ErrUnavailable, err)
		}
		return err == nil
	}
}

// A TooManyError reports a batch with more entries than fit into a transaction. Nothing was started.
type TooManyError struct{ Fit int }

func (e *TooManyError) Error() string { return fmt.Sprintf("at most %d entries fit", e.Fit) }

// fewer returns how many entries of p fit into a transaction of w.
func (d sending) fewer(ctx context.Context, p payment.Payment, w token.Address) error {
	var unknown error
	passes := d.trial(ctx, w, &unknown)
	fit := sort.Search(len(p.Entries)-1, func(n int) bool {
		some := p
		some.Entries = p.Entries[:n+1]
		return !passes(some)
	})
	return cmp.Or(unknown, error(&TooManyError{max(fit, 1)})) // one entry alone is a transfer
}

func (d sending) call(p payment.Payment, w token.Address) chain.Call {
	call := p.Call(w, !d.MemoOff)
	call.ByCall = d.ByCall && call.To == p.Token.Contract
	return call
}

// quote executes the call within the worst case, or estimates it. In the same round trip it queries
// fees if the last quote is older than a block, and the worst case if that is old.
func (d sending) quote(ctx context.Context, call chain.Call) (chain.Market, uint64, error) {
	d.mu.Lock()
	market, fresh := d.market, !d.quoted.IsZero() && d.Now().Sub(d.quoted) < d.BlockTime
	d.mu.Unlock()
	var asked errgroup.Group
	if !fresh {
		asked.Go(func() (err error) {
			market, err = d.Nodes.Fees(ctx)
			return err
		})
	}
	if call.ByCall {
		var due bool
		if call.Within, due = d.worst.take(d.Now()); due {
			asked.Go(func() error {
				d.learn(ctx, call)
				return nil
			})
		}
	}
	gas, err := d.Nodes.Estimate(ctx, call)
	feesErr := asked.Wait()
	if feesErr == nil && !fresh {
		d.mu.Lock()
		d.market, d.quoted = market, d.Now()
		d.mu.Unlock()
	}
	return market, gas, cmp.Or(err, feesErr)
}

// diagnose finds why p reverted from w: the wallet has too little, the token pays nobody from it,
// the batch contract may not spend its coins, or the token refuses a recipient.
func (d sending) diagnose(ctx context.Context, p payment.Payment, w token.Address, reverted error) error {
	views, err := d.Nodes.Latest(ctx, w, d.Token.Contract)
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if d.Nodes.Account(views).Balance.Less(p.Amount) {
		return ErrInsufficient
	}
	var unknown error // a missing answer proves nothing about the token
	passes := d.trial(ctx, w, &unknown)
	toItself := p
	toItself.To, toItself.Entries = w, slices.Clone(p.Entries)
	for i := range toItself.Entries {
		toItself.Entries[i].To = w
	}
	plain := toItself
	plain.Entries, plain.BatchContract = nil, token.Address{}
	refusal := errBlocked
	switch {
	case passes(toItself):
		i := place(reverted)
		if i < 0 || i >= len(p.Entries) { // the node does not give the contract's reason
			i = sort.Search(len(p.Entries)-1, func(n int) bool {
				some := toItself
				some.Entries = slices.Concat(p.Entries[:n+1], toItself.Entries[n+1:])
				return !passes(some)
			})
		}
		return cmp.Or(unknown, error(&chain.EntryError{Index: i, Err: ErrRecipient}))
	case !p.BatchContract.IsZero() && passes(plain):
		refusal = errUnapproved
	}
	return cmp.Or(unknown, fmt.Errorf("%w: %s: %w", refusal, w, reverted))
}

func walletOf(p payment.Payment) wallet.ID {
	return wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
}
