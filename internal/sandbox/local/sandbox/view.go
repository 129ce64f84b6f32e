package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/recovery/onchain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// Bounds of the page's lists. All payments are counted.
const (
	logged  = 200 // lines of the log
	shown   = 30  // blocks and webhooks
	waiting = 5   // proposals
)

// A block is a block of the chain, or a replaced block.
type block struct {
	Number   uint64 `json:"number"`
	Paid     int    `json:"paid"` // transfers in it
	Replaced bool   `json:"replaced"`
}

// An arrival is a webhook that the built-in receiver got.
type arrival struct {
	N       int             `json:"n"`
	At      int64           `json:"at"`
	Type    remit.EventType `json:"type"`
	Genuine bool            `json:"genuine"` // by the Standard Webhooks library
	Times   int             `json:"times"`   // arrivals of the event so far
}

// A count is computed from the chains' Transfer logs alone, but for asked and failed.
type count struct {
	Asked   int `json:"asked"`
	Once    int `json:"once"`
	Twice   int `json:"twice"` // or more often
	Unpaid  int `json:"unpaid"`
	Failed  int `json:"failed"`  // unpaid payments that the API reports as failed
	Unasked int `json:"unasked"` // transfers that no payment asked for
}

// A view has the page's contents. Its lock is the sandbox's.
type view struct {
	rows      map[payment.ID]*Row
	order     []*Row // by Begun, once sorted
	sorted    bool
	changed   map[payment.ID]bool // to be read from the tables
	byHash    map[string]payment.ID
	proposed  map[string]bool   // the page's keys
	proposals []proposal.Public // the newest
	paid      map[payment.ID]int
	lineCount int // so far
	lines     []Line
	arrived   int // webhooks so far
	arrivals  []arrival
	seen      map[string]int // arrivals by event
}

func newView() view {
	return view{rows: map[payment.ID]*Row{}, changed: map[payment.ID]bool{}, paid: map[payment.ID]int{},
		seen: map[string]int{}, byHash: map[string]payment.ID{}, proposed: map[string]bool{}}
}

// A chainView is a chain as the page shows it.
type chainView struct {
	Asset   string   `json:"asset"`
	Number  uint64   `json:"number"`
	Final   uint64   `json:"final"`
	Logs    int      `json:"logs"`     // Transfer logs out of its wallets; those of a batch are one
	BaseFee string   `json:"base_fee"` // wei
	Blocks  []block  `json:"blocks"`
	Wallets []Wallet `json:"wallets"`
}

// logf adds a line to the log. The caller holds the lock.
func (s *Sandbox) logf(kind, format string, args ...any) {
	s.lineCount++
	s.lines = append(s.lines, Line{s.lineCount, s.now().UnixMilli(), kind, fmt.Sprintf(format, args...)})
	s.lines = s.lines[max(0, len(s.lines)-logged):]
}

// rowOf returns the row of a payment, a new one if it has none. The caller holds the lock.
func (s *Sandbox) rowOf(id payment.ID) *Row {
	r := s.rows[id]
	if r == nil {
		r = &Row{ID: id, Begun: s.now().UnixMilli()}
		s.rows[id], s.order = r, append(s.order, r)
		s.changed[id] = true
	}
	return r
}

var stepWords = [Steps]string{
	"is prepared: the payment is stored, and no money can move yet",
	"is committed: its signed bytes are stored at a nonce. Only these bytes, or a fee bump of them, can pay it",
	"is sent: a node holds its bytes",
	"is mined in block %d",
	"is final: %s, which never changes",
	"is published: its event is stored for every endpoint",
}

// reached notes that a payment has reached a step, -1 for none, and has it read from the tables.
func (s *Sandbox) reached(id payment.ID, at Step) {
	if id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rowOf(id)
	s.changed[id] = true
	if at >= 0 && r.At[at] == 0 {
		r.At[at] = s.now().UnixMilli()
		if at != Final { // which is logged once its end is read
			s.logf("step", "%s "+stepWords[at], name(r))
		}
	}
}

func name(r *Row) string {
	if r.Key != "" {
		return r.Key
	}
	return string(r.ID[:min(len(r.ID), 10)]) + "…"
}

func (s *Sandbox) follow(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := errors.Join(s.each(func(r *rail) error { return s.readChain(ctx, r) }), s.readPayments(ctx))
		if n%5 == 0 {
			err = errors.Join(err, s.each(func(r *rail) error { return s.readWallets(ctx, r) }), s.readProposals(ctx))
		}
		if err != nil && ctx.Err() == nil {
			s.log.Debug("the page looks again", "err", err) // the tables are away
		}
	}
}

func (s *Sandbox) readPayments(ctx context.Context) error {
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.changed))
	clear(s.changed)
	s.mu.Unlock()
	for i, id := range ids {
		p, err := s.Store.Payment(ctx, id)
		held := p.State == payment.Proposed || p.State.UsedUp() // by a proposal that has no payment
		published := false                                      // the pending transaction goes once its event is stored for every endpoint
		if err == nil && p.State.Final() {
			_, pending := s.Store.PendingTx(ctx, wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}, p.Nonce)
			published = errors.Is(pending, wallet.ErrUnknown)
		}
		s.mu.Lock()
		switch {
		case err == nil && !held:
			s.learn(p, published)
		case err == nil || errors.Is(err, store.ErrNotFound):
			if r := s.rows[id]; r != nil && r.Hash == "" { // a proposal's again, discarded, or asked for and not stored
				r.At, r.State, r.Refused = [Steps]int64{}, "", r.Refused || !r.Ours
			}
		default:
			for _, id := range ids[i:] {
				s.changed[id] = true
			}
			s.mu.Unlock()
			return err
		}
		s.mu.Unlock()
	}
	return nil
}

// learn takes over a stored payment, and has a final one read again until it is published. The caller holds the lock.
func (s *Sandbox) learn(p payment.Payment, published bool) {
	r, now := s.rowOf(p.ID), s.now().UnixMilli()
	before := r.State
	r.learn(p)
	r.Refused = r.Refused && r.Ours
	reach := func(at Step) {
		if r.At[at] == 0 {
			r.At[at] = now
		}
	}
	if p.CreatedAt.Before(s.openedAt) { // the tables alone have its times
		r.Begun, now, s.sorted = p.CreatedAt.UnixMilli(), -1, false
		r.At[Prepared] = r.Begun
		if len(p.Attempts) > 0 {
			r.At[Committed] = p.Attempts[0].At.UnixMilli()
		}
		if p.State.Final() && p.UpdatedAt.Before(s.openedAt) {
			r.At[Final], r.At[Mined] = p.UpdatedAt.UnixMilli(), -1
		}
	}
	if reach(Prepared); !p.State.Signed() {
		r.At[Committed] = 0 // a commit that was refused
	} else {
		reach(Committed)
		s.byHash[r.Hash] = p.ID
	}
	if r.Paid = s.paid[p.ID]; r.Paid > 0 { // perhaps before it was known here
		reach(Mined)
		reach(Sent)
	}
	if p.State.Final() {
		reach(Final)
		if before != p.State {
			end := "confirmed"
			if p.Failure != nil {
				end = "failed (" + r.Failure + ")"
			}
			s.logf("end", "%s "+stepWords[Final], name(r), end)
		}
		if published {
			reach(Published)
		} else {
			s.changed[p.ID] = true
		}
	}
}

// readChain reads the blocks since the last ones that are known and still there, with the transfers in
// them. The call data of each transfer names its payment: nothing is taken from the tables.
func (s *Sandbox) readChain(ctx context.Context, r *rail) error {
	if latest := r.on.Head(); r.hashes[latest.Number] == latest.Hash {
		return nil
	}
	head, err := r.watch.Head(ctx, r.ConfirmationRule)
	fee, feeErr := r.on.BaseFee()
	if err = errors.Join(err, feeErr); err != nil {
		return err
	}
	fresh := r.on.Since(func(b chain.Block) bool { return r.hashes[b.Number] == b.Hash })
	if len(fresh) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first, replaced := fresh[0].Number, 0
	for n := first; r.hashes[n] != (chain.Hash{}); n++ {
		for _, id := range r.transfers[n] {
			s.count(id, n, -1)
		}
		r.Logs -= len(r.transfers[n])
		delete(r.transfers, n)
		delete(r.hashes, n)
		replaced++
	}
	blocks := slices.Clone(r.Blocks) // an update that is being written has the others
	if replaced > 0 {
		for i := range blocks {
			blocks[i].Replaced = blocks[i].Replaced || blocks[i].Number >= first
		}
		s.logf("fault", "%d blocks of %s were replaced. Their transactions are pending.", replaced, r.Token.Symbol)
	}
	for _, b := range fresh {
		ids := paidIn(b, r)
		r.hashes[b.Number], r.transfers[b.Number] = b.Hash, ids
		blocks = append(blocks, block{b.Number, len(ids), false})
		r.Logs += len(ids)
		for _, id := range ids {
			s.count(id, b.Number, 1)
		}
	}
	r.Blocks = blocks[max(0, len(blocks)-shown):]
	r.Number, r.Final, r.BaseFee = fresh[len(fresh)-1].Number, head.Final, fee.String()
	return nil
}

// paidIn returns the payments of the transfers in a block, "" for a transfer without an id. The
// transfers of a batch are one payment.
func paidIn(b devnet.Block, r *rail) (ids []payment.ID) {
	last := chain.Hash{}
	for _, t := range b.Transfers {
		if t.Tx.Hash == last {
			continue
		}
		p, ok := onchain.Payment(t.Tx, r.ChainID, r.Token, "")
		if !ok {
			p.ID = ""
		}
		ids, last = append(ids, p.ID), t.Tx.Hash
	}
	return ids
}

// count adds a transfer of a payment in a block, or takes it away. The caller holds the lock.
func (s *Sandbox) count(id payment.ID, number uint64, by int) {
	s.paid[id] += by
	r := s.rows[id]
	if r == nil {
		s.changed[id] = true // one of the time before the page, if the tables know it
		return
	}
	if r.At[Mined], r.Paid = 0, s.paid[id]; r.Paid > 0 {
		r.At[Mined] = s.now().UnixMilli()
		s.logf("step", "%s "+stepWords[Mined], name(r), number)
	}
	if s.paid[id] > 1 {
		s.logf("bad", "%s is on the chain %d times", name(r), s.paid[id])
	}
}

func (s *Sandbox) readWallets(ctx context.Context, r *rail) error {
	var all []Wallet
	for _, w := range r.on.Wallets()[:min(len(r.on.Wallets()), 12)] {
		onChain, err := r.watch.Account(ctx, w.Address, r.Token.Contract, chain.Head{})
		if err != nil {
			return err
		}
		a := Wallet{Address: w.Address, Tokens: onChain.Balance.String(), Wei: onChain.Gas.String(),
			Next: onChain.Mined, Mined: onChain.Mined}
		id := wallet.ID{ChainID: r.ChainID, Address: w.Address}
		if record, err := s.Store.Wallet(ctx, id); err == nil {
			txs, _, err := s.Store.PendingTxs(ctx, id, 0)
			if err != nil {
				return err
			}
			a.Next, a.Reserved, a.Sent, a.Paused = record.NextNonce, len(record.Reservations), len(txs), record.Paused
		}
		all = append(all, a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Wallets = all
	return nil
}

func (s *Sandbox) readProposals(ctx context.Context) error {
	page, _, err := s.Store.ListProposals(ctx, store.ProposalFilter{Merchant: s.merchant, Mode: "test", Limit: waiting})
	var all []proposal.Public
	for _, p := range page {
		all = append(all, p.Public())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proposals = all
	return err
}

type update struct {
	Chains    []chainView       `json:"chains"`
	Count     count             `json:"count"`
	Steps     [Steps]int        `json:"steps"`    // payments that have reached each
	Payments  []Row             `json:"payments"` // the newest
	Proposals []proposal.Public `json:"proposals"`
	Arrivals  []arrival         `json:"arrivals"`
	Lines     []Line            `json:"lines"`
	Broken    map[string]int64  `json:"broken"`
}

// update returns the page's present contents. They are read without the lock.
func (s *Sandbox) update() update {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := update{Proposals: s.proposals, Arrivals: s.arrivals, Lines: s.lines, Broken: map[string]int64{}}
	for _, r := range s.rails {
		u.Chains = append(u.Chains, r.chainView)
	}
	if !s.sorted {
		slices.SortStableFunc(s.order, func(a, b *Row) int { return cmp.Compare(a.Begun, b.Begun) })
		s.sorted = true
	}
	for _, r := range s.order[max(0, len(s.order)-Listed):] {
		u.Payments = append(u.Payments, *r)
	}
	for id, at := range s.broken {
		u.Broken[id] = at.UnixMilli()
	}
	for id, n := range s.paid {
		if s.rows[id] == nil {
			u.Count.Unasked += n
		}
	}
	for _, r := range s.order {
		for i, at := range r.At {
			if at != 0 {
				u.Steps[i]++
			}
		}
		switch {
		case r.Refused && r.Paid == 0:
			continue
		case r.Paid > 1:
			u.Count.Twice++
		case r.Paid == 1:
			u.Count.Once++
		default:
			u.Count.Unpaid++
			if r.Failure != "" {
				u.Count.Failed++
			}
		}
		u.Count.Asked++
	}
	return u
}
