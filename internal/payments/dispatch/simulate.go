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
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

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
		return chain.Tx{}, &chain.EntryError{Index: place(err), Err: fmt.Errorf("%w: %w", ErrDenied, err)}
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
