package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// startupCheck passes once in a process's life, before its first reservation. It compares every wallet with the chain.
// It refuses all payments while the chain is ahead of any wallet: another program uses a key, or the tables were
// restored and a payment could be made again. The next call skips wallets that were compared. Two concurrent requests
// may both do it; neither waits for the other. A crash leaves no payment.
func (d sending) startupCheck(ctx context.Context) error {
	if d.checked.Load() {
		return nil
	}
	if err := cmp.Or(d.compareAll(ctx), d.othersCleared(ctx)); err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	d.checked.Store(true)
	return nil
}

// compareAll compares every wallet that has a record with the chain, even if the wallet is draining
// or its key is gone: its payment may be missing from the tables. It leaves out retired wallets,
// whose keys may be public. It skips the comparison if a check-receipts run has just made it. Then
// it opens the wallets that have no record. If no wallet has a record, the tables may have lost
// them all: it then opens all or none. After a crash in between, the next request compares again.
func (d sending) compareAll(ctx context.Context) error {
	var compared store.Comparison
	var mark sync.WaitGroup
	mark.Go(func() { compared, _ = d.Store.Compared(ctx, d.Coin()) }) // zero on error: compare all
	wallets, err := d.registry(ctx, justRead)
	mark.Wait()
	if err != nil {
		return err
	}
	known := wallets.Working(true)
	if age := d.Now().Sub(compared.At); age < -store.Skew || age >= store.ComparedFor {
		if err := abreast(known, func(r wallet.Registration) error { return d.compare(ctx, r) }); err != nil {
			return err
		}
	}
	if unopened := wallets.Working(false); len(unopened) > 0 {
		none := !slices.ContainsFunc(known, func(r wallet.Registration) bool { return r.State != wallet.Damaged })
		return d.open(ctx, unopened, none)
	}
	return nil
}

// abreast calls do for every wallet, some at once, so that a process with many wallets starts soon. It returns an error
// once all calls have ended.
func abreast(wallets wallet.Registry, do func(wallet.Registration) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for _, r := range wallets {
		group.Go(func() error { return do(r) })
	}
	return group.Wait()
}

// compare compares a wallet with the chain, once per process, and gives its record to the pool.
func (d sending) compare(ctx context.Context, r wallet.Registration) error {
	id := r.ID
	if _, done := d.compared.Load(id); done {
		return nil
	}
	w, err := d.record(ctx, r)
	if err != nil {
		return err
	}
	d.pool.Observe(w)
	views, err := d.Nodes.Latest(ctx, id.Address, d.Token.Contract)
	if err != nil {
		return err
	}
	if count, _ := d.Nodes.Ahead(ctx, d.Log, views, id.Address, w.NextNonce); count > 0 {
		fresh, err := d.record(ctx, r) // others may have reserved before the nodes answered
		if err != nil {
			return err
		}
		if count > fresh.NextNonce {
			return fmt.Errorf("%w: %d transactions of wallet %s are mined, next nonce is %d", wallet.ErrBehind, count, id.Address,
				fresh.NextNonce)
		}
	}
	d.compared.Store(id, nil)
	return nil
}

// record returns a wallet's record. A wallet whose registration is damaged may have none: then it has paid nothing.
func (d sending) record(ctx context.Context, r wallet.Registration) (wallet.Wallet, error) {
	w, err := d.Store.Wallet(ctx, r.ID)
	if r.State == wallet.Damaged && errors.Is(err, wallet.ErrUnknown) {
		return wallet.Wallet{ID: r.ID}, nil
	}
	return w, err
}

// open creates the records of new wallets. If one of them has paid before, it pauses them all: the
// tables may have lost its record and its payments. A wallet that cannot be opened, since another
// program uses its key or a node does not answer, does not stop the others: without a record it
// gives out no nonce, and it is in cooldown. With all, it is an error, and none is opened.
func (d sending) open(ctx context.Context, wallets wallet.Registry, all bool) error {
	suspicion, unknown := d.suspicion(ctx)
	var mu sync.Mutex
	opening := map[wallet.ID]wallet.Wallet{}
	err := abreast(wallets, d.orLeaveOut(ctx, func(r wallet.Registration) error {
		w, err := d.firstUse(ctx, r.ID)
		if err = cmp.Or(unknown, err); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		opening[r.ID] = w
		if w.Suspect() {
			suspicion, _ = w.Reasons()
			d.Log.ErrorContext(ctx, "wallets opened paused", "wallet", r.ID.Address, "reason", suspicion)
		}
		return nil
	}))
	if err != nil && all {
		return err
	}
	wallets = slices.DeleteFunc(slices.Clone(wallets), func(r wallet.Registration) bool { _, known := opening[r.ID]; return !known })
	_ = abreast(wallets, d.orLeaveOut(ctx, func(r wallet.Registration) error {
		w := opening[r.ID]
		w.Paused, w.Merchant = cmp.Or(w.Paused, suspicion), r.Merchant
		err := d.Store.Open(ctx, w, d.Token.Contract)
		if err == nil {
			d.pool.Observe(w)
		}
		return err
	}))
	return nil
}

// orLeaveOut returns do, and starts a wallet's cooldown if it fails.
func (d sending) orLeaveOut(ctx context.Context, do func(wallet.Registration) error) func(wallet.Registration) error {
	return func(r wallet.Registration) error {
		err := do(r)
		if err != nil {
			d.pool.CoolDown(r.ID, "not opened", d.Now())
			d.Log.ErrorContext(ctx, "wallet left out", "wallet", r.ID.Address, "err", err)
		}
		return err
	}
}

// suspicion returns the reason to pause new wallets: another wallet's chain is ahead of the tables,
// or behind. Empty if none is.
func (d sending) suspicion(ctx context.Context) (reason string, err error) {
	wallets, err := d.Store.Wallets(ctx, d.Coin())
	if err != nil {
		return "", err
	}
	var mu sync.Mutex
	err = abreast(wallets.Working(true), func(r wallet.Registration) error {
		w, err := d.record(ctx, r)
		mu.Lock()
		defer mu.Unlock()
		if w.Suspect() || w.RolledBack() && reason == "" {
			suspicion, other := w.Reasons()
			reason = cmp.Or(suspicion, other)
		}
		return err
	})
	return reason, err
}

// firstUse returns a new wallet's record. It is under suspicion if the wallet has paid before:
// another program did, or the tables have lost the payments.
func (d sending) firstUse(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	views, err := d.Nodes.Latest(ctx, id.Address, d.Token.Contract)
	if err == nil && d.Nodes.Alone(len(views)) {
		err = fmt.Errorf("%w: one node of three alone does not tell what a new wallet has; add or replace nodes", chain.ErrUnavailable)
	}
	if err != nil {
		return wallet.Wallet{}, err
	}
	settled := uint64(0)
	count, _ := d.Nodes.Ahead(ctx, d.Log, views, id.Address, 0)
	if count > 0 {
		if views, settled, err = d.settled(ctx, id); err != nil {
			return wallet.Wallet{}, err
		}
	}
	account := d.Nodes.Account(views)
	account.Mined = max(account.Mined, count)
	w, err := wallet.FirstUse(id, account, settled, d.Window, d.GasUnit)
	if err == nil && (settled == 0 || d.Ephemeral) {
		return w, nil
	}
	stored, unread := d.Store.Wallet(ctx, id)
	if unread == nil { // another process has opened it and made the transactions
		return stored, nil
	}
	if err == nil && errors.Is(unread, wallet.ErrUnknown) {
		w.Paused = fmt.Sprintf("%s: %d transactions of %s are mined, and the tables have no record of it", wallet.Suspicion, w.NextNonce,
			id.Address)
		return w, nil
	}
	return wallet.Wallet{}, cmp.Or(err, unread)
}

// settled returns the nodes' views of a wallet, and how many of its transactions are final. Most nodes must give a
// view, and must have the newest known final block before and after: a node on another chain would miss transactions.
func (d sending) settled(ctx context.Context, id wallet.ID) (views chain.Views, settled uint64, err error) {
	known, err := d.Store.Compared(ctx, d.Coin())
	if err != nil {
		return nil, 0, err
	}
	heads := d.Nodes.Heads(ctx, d.ConfirmationRule)
	have := func() int {
		if known.Final.Hash.IsZero() {
			return len(d.Nodes)
		}
		return heads.Standing(ctx, known.Final).Have
	}
	before := have()
	if views, err = heads.Views(ctx, id.Address, d.Token.Contract); err == nil {
		settled, err = views.FinalCount(ctx, id.Address)
	}
	if most := min(before, len(views), have()); err == nil && !heads.Most(most) {
		err = fmt.Errorf("only %d of %d nodes answer and have block %d with hash %s, which was final: wait for the others, or replace them",
			most, len(d.Nodes), known.Final.Number, known.Final.Hash)
	}
	return views, settled, err
}
