package settlement

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// absentFor is how long the nodes may lack the newest final block before payments are refused: nodes may lag.
const absentFor = 10 * time.Minute

// A standing is the nodes' verdict on the newest known final block.
type standing int

const (
	kept     standing = iota // most nodes have it, or no final block is known
	answered                 // enough nodes that are not silent have it: payments may confirm, none fails
	doubtful                 // some have it: no payment ends
	absent                   // no node is known to have it: the nodes may serve another chain
	gone                     // enough have another block, or none had it for absentFor: the chain is behind
)

// A finality is a round's comparison of the nodes with the newest known final block.
type finality struct {
	standing
	block   chain.Block // the newest final block now; zero: none is known
	moved   bool        // the last round knew an older block
	silent  int         // nodes that do not count towards a confirmation
	changed bool        // other nodes are silent than before
	overdue bool        // nodes have lacked the block for absentFor
}

// compareFinal compares the nodes with known, and updates it.
func (s *Settler) compareFinal(ctx context.Context, heads chain.Heads, known *store.Comparison) (f finality) {
	before := known.Final
	f.silent, f.changed = s.noteSilent(ctx, heads, known)
	f.standing, f.overdue = s.judgeFinal(ctx, heads, known, f.silent)
	f.block, f.moved = known.Final, known.Final != before
	return f
}

// judgeFinal compares the nodes with the known final block, and replaces it by a newer one. If none is known, it takes
// the newest block that most nodes call final. overdue reports that nodes have lacked the block for absentFor.
func (s *Settler) judgeFinal(ctx context.Context, heads chain.Heads, known *store.Comparison, silent int) (is standing, overdue bool) {
	found := heads.Standing(ctx, known.Final)
	most := known.Final.Hash.IsZero() || heads.Most(found.Have)
	if most || heads.Enough(found.Have, silent) {
		known.Seen = s.Now()
	}
	switch {
	case found.Newest.Hash.IsZero():
		return kept, false
	case most:
		known.Final = found.Newest
		return kept, false
	case heads.Enough(found.Have, silent):
		return answered, false
	}
	lack := found.Other + found.Lack
	overdue = lack > 0 && s.age(known.Seen) >= absentFor
	level, message, is := slog.LevelWarn, "nodes lack a block that was final", absent
	switch {
	case heads.Enough(found.Other, silent), overdue && found.Have == 0 && heads.Enough(lack, silent):
		level, message, is = slog.LevelError, "the chain is behind the tables: payments are refused", gone
	case found.Have > 0:
		is = doubtful
	}
	if lack > 0 {
		s.Log.Log(ctx, level, message, "block", known.Final.Number, "hash", known.Final.Hash,
			"nodes_with_another", found.Other, "nodes_below", found.Lack, "last_seen", known.Seen)
	}
	return is, overdue
}

// noteSilent records since when each node has given no valid answer. It returns how many have been silent for
// SilentAfter, and whether known.Silent changed. If no node answered, it changes nothing: the round's time is over, or
// our own network is down.
func (s *Settler) noteSilent(ctx context.Context, heads chain.Heads, known *store.Comparison) (silent int, changed bool) {
	names, ok := heads.Silent()
	if !ok || ctx.Err() != nil || len(names) > store.MaxNodes {
		return 0, false
	}
	now, since := s.Now(), map[string]time.Time{}
	for _, name := range names {
		since[name] = now
		if before, ok := known.Silent[name]; ok && before.Before(now) { // else a wrong clock wrote it
			since[name] = before
		}
		if s.SilentAfter > 0 && now.Sub(since[name]) >= s.SilentAfter {
			silent++
		}
	}
	changed = !maps.EqualFunc(since, known.Silent, time.Time.Equal)
	known.Silent = since
	return silent, changed
}

// waitForChain reports whether the wallet must wait because the chain is, or may be, behind the tables. The round then
// only finishes its reservations and sends its stored bytes again. Once the chain is certainly behind, waitForChain
// pauses the wallet until the nodes have the known block again.
func (p *pass) waitForChain(ctx context.Context) (bool, error) {
	is := p.final().standing
	if is <= answered || is == doubtful && !p.wallet.RolledBack() {
		return false, nil
	}
	if is == gone && p.registered.Opened && p.wallet.Passing() && !p.wallet.RolledBack() {
		if err := p.repause(ctx, wallet.RolledBack+": the nodes lack a block that was final"); err != nil {
			return true, err
		}
	}
	return true, p.resendAll(ctx, p.waiting(0))
}

// A secondLook has the nodes' answers about final blocks after the receipts were read.
type secondLook struct {
	same    bool     // enough still have the known final block
	receded []string // nodes whose final block went down in this round
}

// recedes reports whether the final block of the view's node went down in this round.
func (l secondLook) recedes(v chain.View) bool { return slices.Contains(l.receded, v.Name()) }

// lookAgain queries the nodes again, after the receipts: a node may change chains during a round. A patient round waits
// for slow ones if the others do not suffice.
func (r *round) lookAgain(ctx context.Context) secondLook {
	return r.checks.join(ctx, func() secondLook {
		look := r.look(ctx, r.Nodes)
		if !look.same && r.patient {
			look = r.look(ctx, r.Nodes.Patient())
		}
		return look
	})
}

func (r *round) look(ctx context.Context, nodes chain.Nodes) secondLook {
	f, heads := r.final(), nodes.Heads(ctx, r.ConfirmationRule)
	have := heads.Standing(ctx, f.block).Have
	return secondLook{f.block.Hash.IsZero() || heads.Most(have) || f.standing == answered && heads.Enough(have,
		f.silent), heads.Receded(r.heads())}
}

// steady reports whether enough nodes still have the final block that they had when the round began. If not, they may
// have changed chains, and a nonce that is final on one chain may be free on the other.
func (p *pass) steady(ctx context.Context) bool {
	look := p.lookAgain(ctx)
	stay := slices.DeleteFunc(slices.Clone(p.views), look.recedes)
	return look.same && p.heads().Enough(len(stay), p.final().silent)
}

// checks runs one check at a time. Callers that wait meanwhile share the next one.
type checks[T any] struct {
	mu            sync.Mutex
	running, next func() T
}

// join returns the result of a check that begins after the call.
func (c *checks[T]) join(ctx context.Context, check func() T) T {
	c.mu.Lock()
	if c.next == nil {
		before := c.running
		c.next = async(func() T {
			if before != nil {
				before()
			}
			Sleep(ctx, time.Microsecond) // one answer may wake several callers: they share the next check
			c.mu.Lock()
			c.running, c.next = c.next, nil
			c.mu.Unlock()
			return check()
		})
	}
	wait := c.next
	c.mu.Unlock()
	return wait()
}

// Accept trusts the nodes' chain: it forgets the final block that they lack. The next run adopts one of theirs, and
// resumes each wallet that has a reservation or a pending transaction for every nonce that is not final there; the
// others stay paused. If a run wrote at the same time, Accept returns ErrChanged: call it again.
func (s *Settler) Accept(ctx context.Context) error {
	known, err := s.Store.Compared(ctx, s.Coin())
	if err == nil {
		err = s.Store.SetCompared(ctx, s.Coin(), store.Comparison{Revision: known.Revision})
	}
	return err
}
