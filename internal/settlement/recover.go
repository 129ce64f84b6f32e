package settlement

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/settings"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

const (
	// held begins the reason for which Hold pauses a wallet.
	held = wallet.Suspicion + ": remit recover is at work"
	// earlier begins the reason of a pause that Hold replaced.
	earlier = "; paused before: "
)

// A Recovery puts the payments that the tables have lost back from the chain. First
// it uses up every nonce that may have been signed and that the tables know nothing
// of. Then all lost transactions are mined or can never be, and the wallets' transfers
// say which payments were made. It may be killed at any line and run again.
type Recovery struct {
	*Settler
	Tables  Tables
	Keyed   []token.Address // the wallets that have a key in the secret store, retired ones among them
	Wallets []token.Address // that have paid and are neither in the tables nor among Keyed
	Window  uint64          // how many nonces from a wallet's count on may have been signed
	Since   uint64          // the block from which on payments may be lost
	DryRun  bool            // only counts what there is to do
	Say     func(format string, args ...any)

	known chain.Block // final when Run began, or before
}

// Tables are the parts of store.Store that a Recovery uses beside a Settler's.
type Tables interface {
	Register(ctx context.Context, r wallet.Registration) error
	Create(ctx context.Context, p payment.Payment) (stored payment.Payment, created bool, err error)
	Reassign(ctx context.Context, p payment.Payment, old string) error
	Discard(ctx context.Context, p payment.Payment) error
	Entries(ctx context.Context) iter.Seq2[store.Entry, error]
}

// A Recovered is the account of a Recovery.
type Recovered struct {
	Noops   int          // nonces used up
	Known   int          // transfers of payments that the tables have
	Stored  int          // payments put back
	Sum     token.Amount // of those, in the token's smallest unit
	Foreign []chain.Hash // transfers without the id of a payment
	Differ  []payment.ID // payments that the tables know otherwise than the chain
}

// Hold pauses every wallet that is not retired, and opens those of which the tables
// have no record, paused. A wallet that has a key and is not registered is registered
// as active, also if it was retired: the tables have lost that. It reads no node. From then on no payment that the tables
// show as prepared is committed, until Resume. Run it before any process uses the
// restored tables.
func (r *Recovery) Hold(ctx context.Context) ([]wallet.ID, error) {
	if _, err := r.rules(ctx); err != nil && !settings.Unusable(err) { // tables of another coin
		return nil, err
	}
	wallets, err := r.Store.Wallets(ctx, r.ChainID)
	if err != nil {
		return nil, fmt.Errorf("listing wallets: %w", err)
	}
	var ids []wallet.ID
	for _, r := range slices.Concat(wallets.Working(true), wallets.Working(false)) {
		ids = append(ids, r.ID)
	}
	for i, a := range slices.Concat(r.Keyed, r.Wallets) {
		if _, registered := wallets.Find(a); registered {
			continue
		}
		id := wallet.ID{ChainID: r.ChainID, Address: a}
		if i < len(r.Keyed) && !r.DryRun {
			if err := r.Tables.Register(ctx, wallet.Registration{ID: id, State: wallet.Active, Key: wallet.InSecret, Since: r.Now()}); err != nil {
				return nil, fmt.Errorf("registering %s: %w", a, err)
			}
		}
		ids = append(ids, id)
	}
	if r.DryRun {
		return ids, nil
	}
	var paused []wallet.ID
	for _, id := range ids {
		retired, err := r.hold(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("pausing %s: %w", id.Address, err)
		}
		if !retired {
			paused = append(paused, id)
		}
	}
	return paused, nil
}

// hold pauses a wallet. It reports true for one that an operator has retired meanwhile,
// and that no round would settle: that one stays as it is.
func (r *Recovery) hold(ctx context.Context, id wallet.ID) (retired bool, err error) {
	for {
		w, err := r.Store.Wallet(ctx, id)
		switch {
		case errors.Is(err, wallet.ErrUnknown):
			err = r.Store.Open(ctx, wallet.Wallet{ID: id, Reservations: map[payment.ID]wallet.Reservation{}, Paused: held})
		case err == nil && (w.Suspect() || w.Paused == wallet.RetiredReason):
			return !w.Suspect(), nil
		case err == nil:
			reason := held
			if w.Paused != "" {
				reason += earlier + w.Paused
			}
			err = r.Store.Repause(ctx, id, w.Paused, reason)
		}
		if err != nil && !errors.Is(err, store.ErrChanged) {
			return false, err
		}
	}
}

// Resume ends the pauses of Hold and those by which a run stopped every wallet. A
// wallet that was paused for another reason before Hold is paused for that again.
func (r *Recovery) Resume(ctx context.Context, ids []wallet.ID) error {
	for _, id := range ids {
		w, err := r.Store.Wallet(ctx, id)
		if err == nil && w.Suspect() {
			_, before, _ := strings.Cut(w.Paused, earlier)
			err = r.Store.Repause(ctx, id, w.Paused, before)
		}
		if err != nil {
			return fmt.Errorf("resuming %s: %w", id.Address, err)
		}
	}
	return nil
}

// Run recovers the payments of the wallets that Hold returned, which stay paused. An
// error leaves the tables as safe as they were; the next Run goes on. Each uses up
// Window nonces of every wallet from its count on.
func (r *Recovery) Run(ctx context.Context, ids []wallet.ID) (done Recovered, err error) {
	nodes, err := r.Nodes.Nodes(ctx)
	if err != nil {
		return done, fmt.Errorf("finding nodes: %w", err)
	}
	if err := r.know(ctx, nodes); err != nil {
		return done, err
	}
	var wallets []token.Address
	below := make([]uint64, len(ids)) // of each wallet
	for i, id := range ids {
		noops := 0
		if below[i], noops, err = r.fill(ctx, nodes, id); err != nil {
			return done, fmt.Errorf("using up the nonces of %s: %w", id.Address, err)
		}
		wallets, done.Noops = append(wallets, id.Address), done.Noops+noops
		r.Say("%s: %d no-ops for the nonces below %d", id.Address, noops, below[i])
	}
	sources, err := r.sources(ctx)
	if err != nil {
		return done, err
	}
	last, err := r.await(ctx, nodes, ids, below)
	if r.DryRun {
		last, err = nodes.FinalOnAll(ctx, r.ConfirmationRule)
	}
	if err != nil {
		return done, err
	}
	r.Say("reading the transfers of blocks %d to %d", r.Since, last)
	moved, err := nodes.Transfers(ctx, r.Token.Contract, slices.Concat(wallets, sources), min(r.Since, last), last)
	if err != nil {
		return done, err
	}
	var hashes []chain.Hash
	for _, t := range moved {
		hashes = append(hashes, t.Tx) // the logs of one transaction follow each other
	}
	for some := range slices.Chunk(slices.Compact(hashes), 100) {
		txs, err := nodes.Transactions(ctx, some)
		if err == nil && len(txs) != len(some) {
			err = fmt.Errorf("the nodes have %d of %d transactions of which they have logs", len(txs), len(some))
		}
		if err != nil {
			return done, err
		}
		for _, tx := range txs {
			if !slices.Contains(wallets, tx.From) {
				if len(sources) == 0 { // its owner moves its coins too
					done.Foreign = append(done.Foreign, tx.Hash)
				}
				continue
			}
			if err := r.keep(ctx, tx, &done); err != nil {
				return done, fmt.Errorf("putting back the payment of %s: %w", tx.Hash, err)
			}
		}
		r.Say("%d payments known, %d put back, %d transfers without a payment's id", done.Known, done.Stored, len(done.Foreign))
	}
	if err := r.still(ctx, nodes); err != nil { // or the transfers are of another chain
		return done, err
	}
	_, err = r.await(ctx, nodes, ids, below)
	return done, err
}

// sources returns the accounts whose coins stored payments took by an allowance. One that
// only lost payments name is not found.
func (r *Recovery) sources(ctx context.Context) (all []token.Address, err error) {
	for entry, err := range r.Tables.Entries(ctx) {
		if err != nil && !errors.Is(err, store.ErrUnreadable) { // others name the source of one that cannot be read
			return nil, fmt.Errorf("reading the payments: %w", err)
		}
		if source := entry.Payment.Source; !source.IsZero() && !slices.Contains(all, source) {
			all = append(all, source)
		}
	}
	return all, nil
}

// know finds the newest final block that the tables know. Where they know none, it stores the
// one that most nodes call final, for rounds too.
func (r *Recovery) know(ctx context.Context, nodes chain.Nodes) error {
	known, err := r.Store.Compared(ctx, r.ChainID)
	if err == nil && known.Final.Hash.IsZero() {
		known.Final = nodes.Heads(ctx, r.ConfirmationRule).Standing(ctx, chain.Block{}).Newest
		if known.Seen = r.Now(); !r.DryRun {
			err = r.Store.SetCompared(ctx, r.ChainID, known)
		}
	}
	if err != nil {
		return fmt.Errorf("noting the newest final block: %w", err)
	}
	r.known = known.Final
	return r.still(ctx, nodes)
}

// still returns an error unless every node has the known block, if there is one: on another chain, nonces that
// are used up may be free on this one.
func (r *Recovery) still(ctx context.Context, nodes chain.Nodes) error {
	have := nodes.Heads(ctx, r.ConfirmationRule).Standing(ctx, r.known).Have
	if !r.known.Hash.IsZero() && have < len(nodes) {
		return fmt.Errorf("%w: %d of %d nodes have block %d with hash %s, which was final, and all must (docs/alarms/WalletPausedAlarm.md)",
			chain.ErrUnavailable, have, len(nodes), r.known.Number, r.known.Hash)
	}
	return nil
}

// look returns every node's view of a wallet, and how many of its transactions are
// final on all of them. All must answer.
func (s *Settler) look(ctx context.Context, nodes chain.Nodes, address token.Address) (chain.Views, uint64, error) {
	views, err := nodes.Views(ctx, address, s.Token.Contract, s.ConfirmationRule)
	if err == nil && len(views) < len(nodes) {
		err = fmt.Errorf("%w: %d of %d nodes answer, and all must", chain.ErrUnavailable, len(views), len(nodes))
	}
	if err != nil {
		return nil, 0, err
	}
	settled, err := views.FinalCount(ctx, address)
	return views, settled, err
}

// fill stores a no-op at every nonce of a wallet that may have been signed and has no
// pending transaction, raises next_nonce over them, and returns it with the number of
// no-ops. A nonce that a payment holds gets one too: its payment may have been made
// otherwise since. A crash leaves no-ops that the next run sends.
func (r *Recovery) fill(ctx context.Context, nodes chain.Nodes, id wallet.ID) (below uint64, noops int, err error) {
	views, settled, err := r.look(ctx, nodes, id.Address)
	if err != nil {
		return 0, 0, err
	}
	count := views.Leading().Mined
	for _, view := range views {
		if count-view.Mined > r.Window {
			return 0, 0, fmt.Errorf("%s has %d of its transactions and %s %d: they must agree", view.Node, view.Mined, views.Leading().Node, count)
		}
	}
	w, err := r.Store.Wallet(ctx, id)
	if err != nil && (!r.DryRun || !errors.Is(err, wallet.ErrUnknown)) {
		return 0, 0, err
	}
	wallets, err := r.Store.Wallets(ctx, r.ChainID)
	if err != nil {
		return 0, 0, err
	}
	registered, found := wallets.Find(id.Address)
	if !found { // of a dry run: it would be registered so
		registered = wallet.Registration{ID: id, Key: wallet.InSecret}
	}
	signer, err := r.Keys.Signer(ctx, registered)
	if errors.Is(err, wallet.ErrNoKey) && w.NextNonce <= settled && len(w.Reservations) == 0 {
		return settled, 0, r.advance(ctx, id, settled) // its key went when all had ended
	}
	if err != nil {
		return 0, 0, fmt.Errorf("a nonce of it may be under way (put its key back: remit wallet import): %w", err)
	}
	txs, _, err := r.Store.PendingTxs(ctx, id, 0)
	if err != nil {
		return 0, 0, err
	}
	rules, err := r.rules(ctx)
	if err != nil {
		return 0, 0, err
	}
	market, err := nodes.Fees(ctx)
	if err != nil {
		return 0, 0, err
	}
	noop := nodes.Noop(ctx, r.ChainID, id.Address, chain.QuoteFees(market.BaseFee, market.Tip, rules.FeeLimit))
	below = max(count+r.Window, w.NextNonce)
	var nonces []uint64
	for _, reservation := range w.Reservations {
		nonces = append(nonces, reservation.Nonce)
	}
	for nonce := settled; nonce < below; nonce++ {
		nonces = append(nonces, nonce)
	}
	slices.Sort(nonces)
	for _, nonce := range slices.Compact(nonces) {
		if slices.ContainsFunc(txs, func(tx wallet.PendingTx) bool { return tx.Nonce == nonce }) {
			continue
		}
		signed, err := signer.Sign(ctx, noop, nonce)
		if err == nil && !r.DryRun {
			err = r.Store.PutNoop(ctx, wallet.PendingNoop(id, noop, signed, r.Now()))
		}
		switch {
		case err == nil:
			noops++
		case !errors.Is(err, store.ErrNonceTaken):
			return 0, 0, err
		}
	}
	return below, noops, r.advance(ctx, id, below)
}

// advance raises next_nonce. An earlier recovery, lost with the tables, may have begun
// at a count that a re-organisation has taken back: its no-ops reach further.
func (r *Recovery) advance(ctx context.Context, id wallet.ID, below uint64) error {
	if r.DryRun {
		return nil
	}
	return r.Store.Advance(ctx, id, below, below+r.Window)
}

// await settles until every nonce below those of the wallets is final on every node,
// and no reservation or pending transaction is left. It returns the last block in
// which one of the nonces can be. While a node does not answer, it waits.
func (r *Recovery) await(ctx context.Context, nodes chain.Nodes, ids []wallet.ID, below []uint64) (last uint64, err error) {
	for !r.DryRun {
		left, at, err := r.left(ctx, nodes, ids, below)
		last = max(last, at)
		if _, settleErr := r.Round(ctx, "recover", true); err == nil {
			err = settleErr // the round after the last one has set the balances
		}
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			r.Say("waiting: %v", err)
		case left == 0:
			return last, nil
		default:
			r.Say("%d nonces and pending transactions to go", left)
		}
		r.Wait(ctx, r.BlockTime)
	}
	return 0, nil
}

// left counts the nonces that are not final yet, and the reservations and pending
// transactions that are left. at is the last block that every node calls final.
func (r *Recovery) left(ctx context.Context, nodes chain.Nodes, ids []wallet.ID, below []uint64) (left, at uint64, err error) {
	if err := r.still(ctx, nodes); err != nil {
		return 0, 0, err
	}
	for i, id := range ids {
		views, settled, err := r.look(ctx, nodes, id.Address)
		if err != nil {
			return 0, 0, err
		}
		final := views[0].Final
		for _, view := range views {
			final = min(final, view.Final)
		}
		at = max(at, final)
		w, err := r.Store.Wallet(ctx, id)
		if err != nil {
			return 0, 0, err
		}
		txs, unreadable, err := r.Store.PendingTxs(ctx, id, 0)
		if err != nil {
			return 0, 0, err
		}
		left += below[i] - min(below[i], settled) + uint64(len(w.Reservations)+len(txs)+unreadable)
		r.fund(id.Address, views.Leading(), txs)
	}
	return left, at, nil
}

// fund says what to send to a wallet that cannot pay for its next transaction: enough
// for all that are stored, at their highest fees.
func (r *Recovery) fund(address token.Address, leading chain.View, txs []wallet.PendingTx) {
	var next, all token.Amount
	for _, tx := range txs {
		if tx.Nonce < leading.Mined {
			continue
		}
		if tx.Nonce == leading.Mined {
			next = tx.Gas
		}
		all, _ = all.Add(tx.Gas) // of 2^64 transactions that no chain could pay, less
	}
	if leading.Gas.Less(next) {
		r.Say("waiting for ether: send %s ether to %s, which has too little for the transactions that use up its nonces; what they "+
			"leave stays there", all.Sub(leading.Gas).Tokens(18), address)
	}
}

// keep stores the payment of a transfer, if the tables do not have it, as committed by
// that transaction; then it settles as any other. A crash leaves a payment that is
// prepared, which no wallet pays while all are paused.
func (r *Recovery) keep(ctx context.Context, tx chain.MinedTx, done *Recovered) error {
	found, ok := payment.Recovered(tx, r.ChainID, r.Token, r.Network)
	if !ok {
		done.Foreign = append(done.Foreign, tx.Hash)
		return nil
	}
	if r.DryRun {
		stored, err := r.Store.Payment(ctx, found.ID)
		if errors.Is(err, store.ErrNotFound) || err == nil && stored.State == payment.Prepared {
			done.Stored++
			done.Sum, err = done.Sum.Add(found.Amount)
			return err
		}
		done.Known++
		return err
	}
	stored, _, err := r.Tables.Create(ctx, found)
	if err == nil && stored.State == payment.Prepared &&
		(!stored.Pays(found.Outputs()) || stored.BatchContract != found.BatchContract || stored.Source != found.Source) {
		// It was discarded since, and its key used for another request, or the stack pays with another contract or its own coins.
		if err = r.Tables.Discard(ctx, stored); err == nil {
			stored, _, err = r.Tables.Create(ctx, found)
		}
	}
	if err != nil {
		return err
	}
	if stored.State != payment.Prepared {
		if slices.Contains(stored.Hashes(), tx.Hash) && (stored.Onchain.IsZero() || stored.Onchain == tx.Hash) {
			done.Known++
		} else {
			done.Differ = append(done.Differ, found.ID)
		}
		return nil
	}
	if stored.Wallet != tx.From || !stored.Memo() {
		moved := stored.AssignedTo(tx.From, found.Tx)
		if err := r.Tables.Reassign(ctx, moved, stored.Revision); err != nil {
			return err
		}
		stored = moved
	}
	committed, err := stored.Commit(chain.Signed{Nonce: tx.Nonce, Hash: tx.Hash, Raw: []byte{}}, r.Now())
	if err == nil {
		err = r.Store.Commit(ctx, committed)
	}
	if err == nil {
		done.Stored++
		done.Sum, err = done.Sum.Add(found.Amount)
	}
	return err
}
