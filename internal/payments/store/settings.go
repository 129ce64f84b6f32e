package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// Settings keeps the settings that payments obey.
type Settings interface {
	// Rules returns the deny list, the settings in force and the payments' coin. No error is of the settings.
	Rules(ctx context.Context) (Rules, error)

	// SetSettings stores s with the next version if s.Version is the current one, which is 0 while none is stored;
	// otherwise ErrChanged. If it is repeated after a lost answer it may be ErrChanged too. A current version that
	// does not decode is replaced under its number.
	SetSettings(ctx context.Context, s settings.Settings) error

	// Bind stores that this table's payments are of c. It returns ErrOtherCoin if the table is bound to another coin.
	Bind(ctx context.Context, c Coin, at time.Time) error

	// SettingsHistory returns at most settings.Kept versions, newest first, without versions that do not decode.
	SettingsHistory(ctx context.Context) ([]settings.Settings, error)
}

// Rules decide about payments.
type Rules struct {
	Denied   []Denial // sorted by recipient
	Settings settings.Settings
	// Unusable is why Settings, then the version alone, cannot be obeyed: settings.ErrMissing, ErrDamaged or ErrNewer.
	Unusable error
	Coin     Coin // of the table's payments; zero: none was made
}

// A Coin is a token on a chain.
type Coin struct {
	ChainID uint64
	Token   token.Address
}

// ErrOtherCoin reports tables whose payments are of another token, or on another chain.
var ErrOtherCoin = errors.New("the payments of these tables are of another coin")

// Are returns ErrOtherCoin if these tables have payments of another coin than c.
func (r Rules) Are(c Coin) error {
	if r.Coin == (Coin{}) || r.Coin == c {
		return nil
	}
	return fmt.Errorf("%w: token %s on chain %d, and ChainId and TokenAddress say %s on chain %d; set them back, or deploy a new "+
		"stack for that",
		ErrOtherCoin, r.Coin.Token, r.Coin.ChainID, c.Token, c.ChainID)
}

// Denials keeps the recipients that the stack's operator never pays. Rules has them, sorted by recipient.
type Denials interface {
	// Deny stores d over any other denial of its recipient. It takes MaxDenied of MaxReason each.
	Deny(ctx context.Context, d Denial) error

	// Allow removes the denial of a recipient, if there is one.
	Allow(ctx context.Context, to token.Address) error
}

// A Denial is one recipient and why it is not paid.
type Denial struct {
	To     token.Address
	Reason string
	At     time.Time
}
