package settlement

import (
	"context"
	"time"

	"remit/internal/chain"
	"remit/internal/store"
	"remit/internal/wallet"
)

// absentFor is how long no node may reach the newest final block before payments are
// refused: nodes that lag catch up.
const absentFor = 10 * time.Minute

// A standing is what a round's nodes make of the newest final block that is known.
type standing int

const (
	kept     standing = iota // enough have it, or none is known
	doubtful                 // some have it: they are believed in what one node may say, and no payment ends
	absent                   // none is known to have it: what they say may be of another chain
	gone                     // enough have another in its place, or none has had it for long: the chain is behind the tables
)

// weigh compares the nodes with what is known of the chain, and notes a newer final block.
// Without a known one, the first that most nodes call final is taken.
func (s *Settler) weigh(ctx context.Context, heads chain.Heads, known *store.Comparison) standing {
	found := heads.Standing(ctx, known.Final)
	another := heads.Most(found.Other)
	switch {
	case known.Final.Hash.IsZero() && found.Newest.Hash.IsZero():
		return kept
	case known.Final.Hash.IsZero(), heads.Most(found.Have):
		known.Final, known.Seen = found.Newest, s.Now()
		return kept
	case !another && found.Have > 0:
		return doubtful
	case !another && (!heads.Most(found.Other+found.Lack) || s.age(known.Seen) < absentFor):
		return absent
	}
	s.Log.ErrorContext(ctx, "the chain is behind the tables: payments are refused", "block", known.Final.Number, "hash", known.Final.Hash,
		"nodes_with_another", found.Other, "nodes_below", found.Lack, "last_seen", known.Seen)
	return gone
}

// rolledBack reports whether the wallet must wait for the chain, which is behind the tables
// or may be: then nothing is judged, bumped or reconciled, and stored bytes are sent. Once
// it is certain, the wallet is paused until the nodes have the known block again.
func (p *pass) rolledBack(ctx context.Context) (bool, error) {
	stands := p.stands()
	if stands == kept || stands == doubtful && !p.wallet.RolledBack() {
		return false, nil
	}
	if stands == gone && p.wallet.Passing() && !p.wallet.RolledBack() {
		if err := p.repause(ctx, wallet.RolledBack+": the nodes lack a block that was final"); err != nil {
			return true, err
		}
	}
	return true, p.resendAll(ctx, p.waiting(0))
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
