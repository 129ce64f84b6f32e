package store

import (
	"context"

	"remit/internal/settings"
)

// Settings keeps the settings that payments obey.
type Settings interface {
	// Rules returns the deny list and the settings in force, as they are at one moment.
	// An error is of the deny list, or of the request.
	Rules(ctx context.Context) (Rules, error)

	// SetSettings stores s with the next version if s.Version is the current one, which
	// is 0 while none is stored; otherwise ErrChanged. If it is repeated after a lost
	// answer it may be ErrChanged too. A current version that does not decode is
	// replaced under its number.
	SetSettings(ctx context.Context, s settings.Settings) error

	// SettingsHistory returns at most settings.Kept versions, newest first, without
	// those that do not decode.
	SettingsHistory(ctx context.Context) ([]settings.Settings, error)
}

// Rules are what a payment is judged by.
type Rules struct {
	Denied   []Denial // sorted by recipient
	Settings settings.Settings
	// Unusable is why Settings, which have the version at most, cannot be obeyed:
	// settings.ErrMissing, ErrDamaged or ErrNewer. Nil if they can.
	Unusable error
}
