package store

import (
	"context"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// Settings keeps the rails, with the settings that their payments obey, and the recipients that are never paid.
type Settings interface {
	// Rules returns the deny list and the rails. No error is of a rail's settings.
	Rules(ctx context.Context) (Rules, error)

	// SetSettings stores s with the next version if s.Version is the current one of the rail of s.Coin(), otherwise
	// ErrChanged. If it is repeated after a lost answer it may be ErrChanged too. The version 0 adds a rail after the
	// others: ErrChanged if there is one of this coin, or another was added meanwhile, ErrTooLarge beyond MaxRails.
	// Another chain or token than the rail's is settings.ErrFixed. A current version that does not decode is replaced
	// under its number.
	SetSettings(ctx context.Context, s settings.Settings) error

	// SettingsHistory returns at most settings.Kept versions of a rail, newest first, without versions that do not
	// decode.
	SettingsHistory(ctx context.Context, c token.Coin) ([]settings.Settings, error)

	// Deny stores d over any other denial of its recipient. It takes MaxDenied of MaxReason each.
	Deny(ctx context.Context, d Denial) error

	// Allow removes the denial of a recipient, if there is one.
	Allow(ctx context.Context, to token.Address) error
}

// Rules decide about payments.
type Rules struct {
	Denied []Denial // sorted by recipient
	Rails  []Rail   // in the order in which they were added: the first is the default
}

// A Rail is a rail as it is stored.
type Rail struct {
	Coin     token.Coin
	Token    token.Token       // of the coin; like that, known also of unusable settings
	Settings settings.Settings // the version alone if they cannot be obeyed
	Unusable error             // why not: settings.ErrMissing, ErrDamaged or ErrNewer
	Added    time.Time         // when it was; zero: not known
	ClosedAt time.Time         // since when it is closed; zero: it is open
}

// ClosedBy returns ClosedAt once s are the rail's settings.
func (r Rail) ClosedBy(s settings.Settings) time.Time {
	switch {
	case !s.Closed:
		return time.Time{}
	case r.ClosedAt.IsZero():
		return s.At
	}
	return r.ClosedAt
}

// Assets returns the rails as merchants see them. A rail whose settings cannot be obeyed has no network.
func (r Rules) Assets() (all stack.Assets) {
	for _, rail := range r.Rails {
		all = append(all, stack.Asset{ChainID: rail.Coin.ChainID, Token: rail.Token, Network: rail.Settings.Network,
			Closed: rail.Settings.Closed})
	}
	return all
}

// Without returns those of chains that have no rail, none for a stack that has no rail yet.
func (r Rules) Without(chains []uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(chains), func(id uint64) bool {
		return len(r.Rails) == 0 || slices.ContainsFunc(r.Rails, func(r Rail) bool { return r.Coin.ChainID == id })
	})
}

// Terms returns the rail's own settings, or the strictest where they cannot be obeyed: its payments are settled then
// too.
func (r Rail) Terms() settings.Rail {
	if r.Unusable != nil {
		return settings.Rail{ChainID: r.Coin.ChainID, Token: r.Token, Confirmation: "finalized", Quorum: "strict"}
	}
	return r.Settings.Rail
}

// Rail returns the rail of a coin. One that is not stored is settings.ErrMissing.
func (r Rules) Rail(c token.Coin) Rail {
	i := slices.IndexFunc(r.Rails, func(r Rail) bool { return r.Coin == c })
	if i < 0 {
		return Rail{Coin: c, Unusable: settings.ErrMissing}
	}
	return r.Rails[i]
}

// A Denial is one recipient and why it is not paid.
type Denial struct {
	To     token.Address
	Reason string
	At     time.Time
}
