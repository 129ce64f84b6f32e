package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/model"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// accepted is the invariant of the acceptor: each write is a step of the protocol's model.
const accepted oracle.Invariant = "I13 a run of the model"

// An outcome is the outcome of an effect as its actor knows it.
type outcome string

const (
	done    outcome = "done"
	notDone outcome = "not done"
	unknown outcome = "done, unknown to its actor"
)

// An effectDone is one write, or one request to a node, as a value.
type effectDone struct {
	actor   string
	payment payment.ID
	step    model.Step
	outcome outcome
}

func (e effectDone) String() string {
	return fmt.Sprintf("%s: %s of %s: %s", e.actor, e.step, cmp.Or(e.payment, "no payment"), e.outcome)
}

// A spot is a nonce of a wallet.
type spot struct {
	id    wallet.ID
	nonce uint64
}

// A knower is an actor that was told something about a nonce, for a revision of a payment or for none.
type knower struct {
	actor, revision string
	spot
}

// A resumed wallet is no longer under suspicion. A no-op's write from before that may still be frozen.
type resumed struct {
	below  uint64 // its nonces
	losses int    // of tables, before it was resumed
	at     time.Time
}

// A signature is an attempt that the tables have ever had.
type signature struct {
	hash    chain.Hash
	bytes   model.Bytes
	payment payment.Payment // at that time
}

// An acceptor stands between the interposed calls of engines and the tables, where each call arrives when it is
// applied. It takes the same step in the model, from the tables as they are, and compares. The first step that the
// model does not allow violates an invariant.
type acceptor struct {
	store.Store
	cluster   *Cluster
	effect    *scheduler.Effect // that is being performed
	past      []effectDone
	revisions map[string]uint16
	wallets   map[wallet.ID]uint8
	signed    map[spot][]signature
	told      map[knower]bool // of a nonce that a payment holds
	orphaned  map[knower]bool
	resumed   map[wallet.ID]resumed
	events    map[string]payment.ID
	published map[payment.ID]bool
	active    map[string]bool // the answer of the merchant's terms, by actor
	refused   bool

	tearing bool             // it keeps torn copies
	sides   int              // so far
	torn    *memory.Payments // the last one since the tables were last lost
}

func newAcceptor(c *Cluster) *acceptor {
	return &acceptor{Store: c.Store, cluster: c, revisions: map[string]uint16{}, wallets: map[wallet.ID]uint8{},
		signed: map[spot][]signature{}, told: map[knower]bool{}, orphaned: map[knower]bool{},
		resumed: map[wallet.ID]resumed{}, events: map[string]payment.ID{}, published: map[payment.ID]bool{}, active: map[string]bool{}}
}

// number returns the number of a key, from 1, and gives it the next one if it has none.
func number[K comparable, N uint8 | uint16](numbers map[K]N, key K) N {
	if numbers[key] == 0 {
		numbers[key] = N(len(numbers) + 1)
	}
	return numbers[key]
}

// A view is the part of the tables, and of the past, that a step concerns.
type view struct {
	payment model.Payment
	wallet  model.Wallet
	held    model.Reservation
	stored  model.Bytes
}

// look reads a view. It reports false if an item cannot be read.
func (a *acceptor) look(id payment.ID, at spot) (v view, ok bool) {
	ctx := context.Background()
	p, err := a.Store.Payment(ctx, id)
	w, unread := a.Store.Wallet(ctx, at.id)
	tx, missing := a.Store.PendingTx(ctx, at.id, at.nonce)
	for _, err := range []error{err, unread, missing} {
		if errors.Is(err, store.ErrUnreadable) {
			return v, false
		}
	}
	if err == nil {
		v.payment = model.Payment{State: 1 + uint16(slices.Index([]payment.State{payment.Prepared, payment.Committed,
			payment.Confirmed, payment.Failed}, p.State)), Nonce: uint16(p.Nonce), Rev: number(a.revisions, p.Revision),
			Wallet:    number(a.wallets, wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}),
			Published: a.published[id] || p.State.Final() && (p.Merchant == "" || p.Merchant == payment.Operator)}
	}
	v.wallet = model.Wallet{Next: uint16(w.NextNonce), Paused: w.Paused != "", Suspect: w.Suspect()}
	if r, held := w.Reservations[id]; held && id != "" {
		v.held = model.Reservation{Nonce: uint16(r.Nonce), For: number(a.revisions, r.For), Orphan: r.At.IsZero()}
	}
	for _, s := range a.signed[at] {
		if missing == nil && slices.Contains(tx.Hashes, s.hash) {
			v.stored |= s.bytes
		}
	}
	return v, true
}

// onChain returns the chain's side of a nonce, and what an actor knows of it. Bytes of a payment that moved nothing, or
// another amount, count as foreign, unless any will do.
func (a *acceptor) onChain(actor string, at spot, any bool) (n model.Nonce) {
	c := a.cluster.at(at.id.ChainID).Chain
	n.Final = at.nonce < c.Account(at.id.Address, a.cluster.Depth).Nonce
	before := a.resumed[at.id]
	n.Orphaned = a.orphaned[knower{actor, "", at}] || n.Final && at.nonce < before.below &&
		before.losses == a.cluster.losses && !a.effect.Asked.After(before.at)
	if at.nonce < c.Account(at.id.Address, 0).Nonce {
		n.Mined = model.Foreign
	}
	for _, s := range a.signed[at] {
		n.Out |= s.bytes
		if r, mined := c.Receipt(s.hash); mined && (any || s.bytes == model.Noop || s.payment.Judge(r) == chain.Transferred) {
			n.Mined = s.bytes
		}
	}
	return n
}

// take applies a write and takes its step. exact reports that the write is refused for the model's reasons only.
func (a *acceptor) take(ctx context.Context, op model.Op, id payment.ID, at spot, revision string, bytes model.Bytes,
	exact bool, write func() error) error {
	before, readable := a.look(id, at)
	actor := scheduler.ActorOf(ctx)
	nonce, told := a.onChain(actor, at, op == model.PutBack), a.told[knower{actor, revision, at}]
	err := write()
	after, still := a.look(id, at)
	step := model.Step{Op: op, Wallet: number(a.wallets, at.id), Nonce: uint16(at.nonce), Rev: number(a.revisions, revision), Bytes: bytes}
	place := model.Place{Payment: &before.payment, Wallet: &before.wallet, Held: &before.held,
		Holder: &model.Reservation{}, Stored: &before.stored, Nonce: &nonce, Told: &told}
	if op == model.Reserve {
		place.Unsure = a.unsure(at.id)
	}
	if op == model.PutBack || op == model.Resume {
		a.survey(&place, at.id)
	}
	e := effectDone{actor, id, step, done}
	switch {
	case err != nil:
		e.outcome = notDone
	case a.effect.Lost:
		e.outcome = unknown
	}
	a.past = append(a.past, e)
	if !readable || !still {
		return err
	}
	switch refused := (model.World{}).Do(place, step); {
	case err == nil && refused != model.None:
		a.refuse(e, "%s", refused)
	case err == nil && nonce.Clash() && a.cluster.losses == 0:
		a.refuse(e, "it gives the nonce a second owner")
	case err == nil && !a.same(before, after, bytes):
		a.refuse(e, "the tables have %+v, the model has %+v", after, before)
	case err != nil && exact && refused == model.None && !errors.Is(err, store.ErrTooLarge):
		a.refuse(e, "the model allows it, the tables refuse it: %v", err)
	}
	return err
}

// same compares the tables with the model after a step. Bytes that were just stored are not known by their hash yet.
func (a *acceptor) same(want, got view, bytes model.Bytes) bool {
	got.stored |= bytes & want.stored
	want.payment.Published = got.payment.Published
	return want == got || got.payment.State == model.Absent && want.payment.State == model.Absent
}

// refuse reports the first step that the model does not allow, with those before it at its nonce or of its payment.
func (a *acceptor) refuse(e effectDone, why string, args ...any) {
	if a.refused {
		return
	}
	a.refused = true
	lines := []string{fmt.Sprintf("step %d is not allowed: %s: %s", len(a.past), e, fmt.Sprintf(why, args...))}
	for i, before := range slices.Backward(a.past[:len(a.past)-1]) {
		if len(lines) < 12 && (before.payment == e.payment || before.step.Wallet == e.step.Wallet && before.step.Nonce == e.step.Nonce) {
			lines = append(lines, fmt.Sprintf("after step %d: %s", i+1, before))
		}
	}
	a.cluster.oracle.Violate(accepted, "%s", strings.Join(lines, "\n\t\t"))
}

// flying reports whether a transaction that was ever stored is not final, and so many blocks deeper.
func (a *acceptor) flying(deeper uint64) bool {
	for at := range a.signed {
		if at.nonce >= a.cluster.at(at.id.ChainID).Chain.Account(at.id.Address, a.cluster.Depth+deeper).Nonce {
			return true
		}
	}
	return false
}

// survey sets the facts of a recovery about a wallet.
func (a *acceptor) survey(p *model.Place, of wallet.ID) {
	c := a.cluster
	on := c.at(of.ChainID)
	registry, _ := c.Store.Wallets(context.Background(), on.Coin())
	for _, r := range registry.Working(true) {
		w, err := c.Store.Wallet(context.Background(), r.ID)
		p.Behind = p.Behind || err == nil && (on.Chain.Account(r.Address, c.Depth).Nonce < w.NextNonce || len(w.Reservations) > 0)
	}
	w, _ := c.Store.Wallet(context.Background(), of)
	for at := range a.signed {
		n := a.onChain("", at, false)
		if at.id != of || !n.Final && c.beyond(on) {
			continue
		}
		p.Signed = p.Signed || at.nonce >= w.NextNonce && !n.Final && n.Out&model.Pays != 0
		p.Lost = p.Lost || a.lost(at, n)
	}
}

// lost reports whether a nonce has a payment that the tables do not have there.
func (a *acceptor) lost(at spot, n model.Nonce) bool {
	return slices.ContainsFunc(a.signed[at], func(s signature) bool {
		stored, _ := a.Store.Payment(context.Background(), s.payment.ID)
		return s.bytes&n.Mined&model.Pays != 0 && !s.payment.Ether() &&
			(len(stored.Attempts) == 0 || stored.Nonce != at.nonce || stored.Wallet != at.id.Address)
	})
}

// unsure reports whether the tables lack a final payment of another rail: nobody can have found that abreast.
func (a *acceptor) unsure(of wallet.ID) bool {
	c := a.cluster
	if len(c.rails) == 1 || c.losses == 0 || c.accepted || slices.ContainsFunc(c.rails, c.beyond) {
		return false
	}
	for at := range a.signed {
		if n := a.onChain("", at, false); at.id.ChainID != of.ChainID && n.Final && a.lost(at, n) {
			return true
		}
	}
	return false
}

// sign notes an attempt that the tables now have.
func (a *acceptor) sign(err error, at spot, bytes model.Bytes, hash chain.Hash, p payment.Payment) error {
	if err == nil && !slices.ContainsFunc(a.signed[at], func(s signature) bool { return s.hash == hash }) {
		a.signed[at] = append(a.signed[at], signature{hash, bytes, p})
	}
	return err
}

func spotOf(p payment.Payment) spot {
	return spot{wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}, p.Nonce}
}

func (a *acceptor) Create(ctx context.Context, p payment.Payment) (stored payment.Payment, created bool, err error) {
	there := errors.New("there is one")
	held, _ := a.Store.Payment(ctx, p.ID) // zero: none
	if err := a.take(ctx, model.Create, p.ID, spotOf(p), p.Revision, 0, !held.Proposal, func() error {
		stored, created, err = a.Store.Create(ctx, p)
		if err == nil && !created {
			return there
		}
		return err
	}); !errors.Is(err, there) {
		return stored, created, err
	}
	return stored, created, nil
}

func (a *acceptor) Reassign(ctx context.Context, p payment.Payment, old string) error {
	return a.take(ctx, model.Reassign, p.ID, spotOf(p), p.Revision, 0, false, func() error { return a.Store.Reassign(ctx, p, old) })
}

func (a *acceptor) Discard(ctx context.Context, p payment.Payment) error {
	held, _ := a.Store.Payment(ctx, p.ID)
	err := a.take(ctx, model.Discard, p.ID, spotOf(p), p.Revision, 0, !held.Proposal, func() error { return a.Store.Discard(ctx, p) })
	if err == nil && held.Proposal {
		a.cluster.oracle.Violate(oracle.ProposalsHold, "%s frees the key of %s", scheduler.ActorOf(ctx), p.ID)
	}
	return err
}

func (a *acceptor) Propose(ctx context.Context, p proposal.Proposal) (created bool, err error) {
	if created, err = a.Store.Propose(ctx, p); created {
		a.cluster.oracle.Proposed(p.Payment.ID)
	}
	return created, err
}

// Amend takes the step of a release that begins, or is taken back. To the model a proposal that waits or has ended is no payment.
func (a *acceptor) Amend(ctx context.Context, from, to proposal.Proposal, g store.Guard) error {
	op, p, was, is, actor := model.Create, to.Payment, from.Payment.State, to.Payment.State, scheduler.ActorOf(ctx)
	apply := func() error { return a.Store.Amend(ctx, from, to, g) }
	begins := was == payment.Proposed && is == payment.Prepared
	switch {
	case begins:
	case was == payment.Prepared && is == payment.Prepared && from.Payment.Revision != p.Revision:
		op = model.Reassign
	case was == payment.Prepared && is != payment.Prepared:
		op, p = model.Discard, from.Payment
	default:
		if was.UsedUp() && is != was {
			a.cluster.oracle.Violate(oracle.ProposalsHold, "%s has ended as %s, and becomes %s", p.ID, was, is)
		}
		return apply()
	}
	err := a.take(ctx, op, p.ID, spotOf(p), p.Revision, 0, false, apply)
	if err == nil && begins && !strings.HasPrefix(actor, "recover") {
		a.cluster.oracle.Begun(from, a.active[actor])
	}
	for k := range a.told {
		if err == nil && is.UsedUp() && k.actor == actor && k.revision == p.Revision {
			a.cluster.oracle.Violate(oracle.ProposalsHold, "%s ended %s, and was told of its nonce", actor, p.ID)
		}
	}
	return err
}

func (a *acceptor) Reserve(ctx context.Context, n wallet.Need) (w wallet.Wallet, err error) {
	err = a.take(ctx, model.Reserve, n.Payment, spot{id: n.Wallet}, n.For, 0, false, func() error {
		w, err = a.Store.Reserve(ctx, n)
		return err
	})
	if err == nil {
		a.tell(ctx, w)
	}
	return w, err
}

func (a *acceptor) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	w, err := a.Store.Wallet(ctx, id)
	if err == nil {
		a.tell(ctx, w)
	}
	return w, err
}

// tell notes that an actor was told a wallet's reservations, unless the answer is lost.
func (a *acceptor) tell(ctx context.Context, w wallet.Wallet) {
	if a.effect.Lost || w.Suspect() || a.unsure(w.ID) {
		return
	}
	for _, r := range w.Reservations {
		a.told[knower{scheduler.ActorOf(ctx), r.For, spot{w.ID, r.Nonce}}] = true
	}
}

func (a *acceptor) Commit(ctx context.Context, p payment.Payment) error {
	op, bytes := model.Commit, model.First
	if strings.HasPrefix(scheduler.ActorOf(ctx), "recover") && len(p.LastAttempt().Raw) == 0 {
		op = model.PutBack
		_ = a.sign(nil, spotOf(p), model.Later, p.TxHash, p) // if it was lost as a bump
	}
	err := a.take(ctx, op, p.ID, spotOf(p), p.Revision, bytes, op == model.Commit, func() error {
		return a.tear(ctx, p, a.Store.Commit)
	})
	if err == nil {
		a.cluster.oracle.Committed(p)
	}
	return a.sign(err, spotOf(p), bytes, p.TxHash, p)
}

// tear applies a write of a payment and its pending transaction. In seeds that lose their tables it keeps a copy that has
// one side alone, in turn: the changes of a transaction reach backups one by one.
func (a *acceptor) tear(ctx context.Context, p payment.Payment, write func(context.Context, payment.Payment) error) error {
	if !a.tearing {
		return write(ctx, p)
	}
	tx, copied := store.PendingTxOf(p), a.cluster.Store.Image()
	old, missing := a.Store.PendingTx(ctx, tx.ID, tx.Nonce)
	err := write(ctx, p)
	if a.sides++; a.sides%2 == 0 {
		if missing != nil {
			_ = copied.PutNoop(ctx, tx) // in memory, as all of these
		} else {
			_ = copied.BumpNoop(ctx, tx)
		}
	} else {
		copied = a.cluster.Store.Image()
		if _ = copied.DeletePendingTx(ctx, tx.ID, tx.Nonce); missing == nil {
			_ = copied.PutNoop(ctx, old)
		}
	}
	if err == nil {
		a.torn = copied
	}
	return err
}

func (a *acceptor) Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error {
	at := spot{id, nonce}
	err := a.take(ctx, model.Orphan, holder, at, "", 0, false, func() error { return a.Store.Orphan(ctx, id, holder, nonce) })
	if err == nil && !a.effect.Lost {
		a.orphaned[knower{scheduler.ActorOf(ctx), "", at}] = true
	}
	return err
}

func (a *acceptor) PutNoop(ctx context.Context, tx wallet.PendingTx) error {
	at, bytes, known := spot{tx.ID, tx.Nonce}, model.Bytes(0), false
	for _, s := range a.signed[at] {
		if known = known || s.hash == tx.Hash(); slices.Contains(tx.Hashes, s.hash) {
			bytes |= s.bytes
		}
	}
	if !known {
		bytes |= model.Noop
	}
	err := a.take(ctx, model.PutNoop, tx.Payment, at, "", bytes, false, func() error { return a.Store.PutNoop(ctx, tx) })
	return a.sign(err, at, model.Noop, tx.Hash(), payment.Payment{})
}

func (a *acceptor) BumpNoop(ctx context.Context, tx wallet.PendingTx) error {
	return a.sign(a.Store.BumpNoop(ctx, tx), spot{tx.ID, tx.Nonce}, model.Noop, tx.Hash(), payment.Payment{})
}

func (a *acceptor) Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error {
	w, err := a.Store.Wallet(ctx, tx.ID)
	_, gone := a.Store.PendingTx(ctx, tx.ID, tx.Nonce) // dropped by a recovery, if a torn copy has it alone
	dropped := gone != nil && w.Suspect() && a.cluster.at(tx.ChainID).oracle.Torn
	if r, held := w.Reservations[id]; err != nil || !held || r.Nonce != tx.Nonce || dropped {
		return a.Store.Release(ctx, id, tx)
	}
	return a.take(ctx, model.Release, id, spot{tx.ID, tx.Nonce}, "", 0, false, func() error { return a.Store.Release(ctx, id, tx) })
}

func (a *acceptor) Return(ctx context.Context, n wallet.Need, nonce uint64) error {
	return a.take(ctx, model.Return, n.Payment, spot{n.Wallet, nonce}, n.For, 0, false, func() error { return a.Store.Return(ctx, n, nonce) })
}

func (a *acceptor) AddAttempt(ctx context.Context, p payment.Payment) error {
	op, bytes := model.Bump, model.Later
	if p.LastAttempt().Noop {
		op, bytes = model.Cancel, model.Noop
	}
	err := a.take(ctx, op, p.ID, spotOf(p), p.Revision, bytes, false, func() error { return a.tear(ctx, p, a.Store.AddAttempt) })
	return a.sign(err, spotOf(p), bytes, p.LastAttempt().Hash, p)
}

func (a *acceptor) Finish(ctx context.Context, p payment.Payment) error {
	op := model.Confirm
	if p.State == payment.Failed {
		op = model.Fail
	}
	write := func() error { return a.Store.Finish(ctx, p) }
	var err error
	if a.cluster.at(p.Tx.ChainID).oracle.Gone(p) { // judged before an operator accepted another chain
		err = write()
	} else {
		err = a.take(ctx, op, p.ID, spotOf(p), p.Revision, 0, false, write)
	}
	if err == nil {
		a.events[p.Event.ID] = p.ID
	}
	return err
}

func (a *acceptor) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	tx, _ := a.Store.PendingTx(ctx, id, nonce) // zero: none
	drop := func() error { return a.Store.DeletePendingTx(ctx, id, nonce) }
	return a.take(ctx, model.Delete, tx.Payment, spot{id, nonce}, "", 0, false, drop)
}

// Claim shows the oracle the progress that it stores.
func (a *acceptor) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time, seen *wallet.Progress) (held bool, err error) {
	before, _ := a.Store.Wallet(ctx, id)
	if held, err = a.Store.Claim(ctx, id, by, now, until, seen); held {
		a.cluster.at(id.ChainID).oracle.Progressed(scheduler.ActorOf(ctx), before, seen)
	}
	return held, err
}

// Reconcile shows the oracle the progress that it stores.
func (a *acceptor) Reconcile(ctx context.Context, w wallet.Wallet, balance, gas token.Amount,
	perMerchant map[string]uint64, seen *wallet.Progress) error {
	before, _ := a.Store.Wallet(ctx, w.ID)
	err := a.Store.Reconcile(ctx, w, balance, gas, perMerchant, seen)
	if err == nil {
		a.cluster.at(w.ID.ChainID).oracle.Progressed(scheduler.ActorOf(ctx), before, seen)
	}
	return err
}

func (a *acceptor) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	if !strings.HasPrefix(from, wallet.Suspicion) || strings.HasPrefix(to, wallet.Suspicion) ||
		!strings.HasPrefix(scheduler.ActorOf(ctx), "recover") || a.cluster.accepted {
		return a.Store.Repause(ctx, id, from, to)
	}
	err := a.take(ctx, model.Resume, "", spot{id: id}, "", 0, false, func() error { return a.Store.Repause(ctx, id, from, to) })
	if w, _ := a.Store.Wallet(ctx, id); err == nil {
		a.resumed[id] = resumed{w.NextNonce, a.cluster.losses, time.Now()}
	}
	return err
}

// publish takes the step of an event that arrives, if it announces the end of a payment.
func (a *acceptor) publish(ctx context.Context, event string) {
	id, ended := a.events[event]
	p, err := a.Store.Payment(ctx, id)
	if !ended || err != nil {
		return
	}
	_ = a.take(ctx, model.Publish, id, spotOf(p), p.Revision, 0, false, func() error {
		a.published[id] = true
		return nil
	})
}

// send takes the step of bytes on their way to a node.
func (a *acceptor) send(ctx context.Context, tx fakechain.Tx, hash chain.Hash) {
	at := spot{wallet.ID{ChainID: tx.ChainID, Address: tx.From}, tx.Nonce}
	step := model.Step{Op: model.Send, Wallet: number(a.wallets, at.id), Nonce: uint16(at.nonce)}
	n, e := model.Nonce{}, effectDone{actor: scheduler.ActorOf(ctx), outcome: done}
	for _, s := range a.signed[at] {
		if s.hash == hash {
			step.Bytes, n.Out, e.payment = s.bytes, s.bytes, s.payment.ID
		}
	}
	e.step = step
	place := model.Place{Payment: &model.Payment{}, Nonce: &n, Holder: &model.Reservation{}}
	if refused := (model.World{}).Do(place, step); refused != model.None {
		a.refuse(e, "%s", refused)
	}
	a.past = append(a.past, e)
}
