package settlement

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// absentFor is how long no node may reach the newest final block before payments are
// refused: nodes that lag catch up.
const absentFor = 10 * time.Minute

// A standing is a round's verdict on the newest known final block, from the nodes' answers.
type standing int

const (
	kept     standing = iota // most have it, or none is known
	answered                 // enough nodes that are not silent have it: moved amounts are confirmed, nothing else
	doubtful                 // some have it: one node's word counts where one is enough, and no payment ends
	absent                   // no node is known to have it: their answers may be about another chain
	gone                     // enough have another block instead, or none has had it for long: the chain is behind
)

// weigh compares the nodes with the known final block, and notes a newer one. If none is known, it
// takes the first block that most nodes call final. long reports that nodes have lacked the block
// for absentFor, whatever the standing.
func (s *Settler) weigh(ctx context.Context, heads chain.Heads, known *store.Comparison, silent int) (stands standing, long bool) {
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
	long = lack > 0 && s.age(known.Seen) >= absentFor
	level, says := slog.LevelWarn, "nodes lack a block that was final"
	switch {
	case heads.Enough(found.Other, silent), long && found.Have == 0 && heads.Enough(lack, silent):
		level, says, stands = slog.LevelError, "the chain is behind the tables: payments are refused", gone
	case found.Have > 0:
		stands = doubtful
	default:
		stands = absent
	}
	if lack > 0 {
		s.Log.Log(ctx, level, says, "block", known.Final.Number, "hash", known.Final.Hash,
			"nodes_with_another", found.Other, "nodes_below", found.Lack, "last_seen", known.Seen)
	}
	return stands, long
}

// listen notes since when each node has given no valid answer, and reports whether that is news. It
// returns how many nodes do not count towards a confirmation, having been silent for SilentAfter.
// It changes nothing in a round that no node could answer: its time is over, or no node has
// answered, as while our own network is down.
func (s *Settler) listen(ctx context.Context, heads chain.Heads, known *store.Comparison) (silent int, news bool) {
	names, ok := heads.Silent()
	if !ok || ctx.Err() != nil || len(names) > store.MaxNodes {
		return 0, false
	}
	now, since := s.Now(), map[string]time.Time{}
	for _, name := range names {
		since[name] = now
		if before, ok := known.Silent[name]; ok && before.Before(now) { // or a wrong clock wrote it
			since[name] = before
		}
		if s.SilentAfter > 0 && now.Sub(since[name]) >= s.SilentAfter {
			silent++
		}
	}
	news = !maps.EqualFunc(since, known.Silent, time.Time.Equal)
	known.Silent = since
	return silent, news
}

// rolledBack reports whether the wallet must wait for the chain, which is behind the tables
// or may be: then nothing is judged, bumped or reconciled, and stored bytes are sent. Once
// it is certain, the wallet is paused until the nodes have the known block again.
func (p *pass) rolledBack(ctx context.Context) (bool, error) {
	stands := p.stands()
	if stands <= answered || stands == doubtful && !p.wallet.RolledBack() {
		return false, nil
	}
	if stands == gone && p.wallet.Passing() && !p.wallet.RolledBack() {
		if err := p.repause(ctx, wallet.RolledBack+": the nodes lack a block that was final"); err != nil {
			return true, err
		}
	}
	return true, p.resendAll(ctx, p.waiting(0))
}

// still reports whether the nodes, asked once more behind the receipts, have the known block
// and call no less final than when the round began. A node that changes to another chain, or
// back, in the middle of a round has given heads of the one and receipts of the other.
func (p *pass) still(ctx context.Context) bool {
	known, heads := p.known(), p.Nodes.Heads(ctx, p.ConfirmationRule)
	if heads.Receded(p.views) {
		return false
	}
	have := heads.Standing(ctx, known).Have
	return known.Hash.IsZero() || heads.Most(have) || p.stands() == answered && heads.Enough(have, p.silent())
}

// Accept takes the nodes' chain for the right one, by forgetting the final block that they
// lack: the next run takes one of theirs, and resumes the wallets that fit it. Those whose
// transactions are gone stay paused. It may be repeated; ErrChanged means that a run wrote
// at the same time: try again.
func (s *Settler) Accept(ctx context.Context) error {
	known, err := s.Store.Compared(ctx, s.ChainID)
	if err == nil {
		err = s.Store.SetCompared(ctx, s.ChainID, store.Comparison{Revision: known.Revision})
	}
	return err
}
