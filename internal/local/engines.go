package local

import (
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"remit/internal/dispatch"
	"remit/internal/settlement"
	"remit/internal/store"
)

const (
	// reservationAge is how long a reservation is left to its handler. There is
	// one process here: after a crash every reservation is an orphan.
	reservationAge = 5 * time.Second
	bumpAfter      = 3 * time.Minute
)

// newEngines makes the two engines that share the payments of a stack.
func newEngines(s *Settings, l limits, on *chainAccess, payments store.Store, events settlement.Events, hints dispatch.Hinter, log *slog.Logger) (*dispatch.Dispatcher, *settlement.Settler) {
	return dispatch.New(dispatch.Config{
			ChainID: on.chainID, Token: on.asset, Network: s.Network, Window: s.Window,
			Minimum: l.minimum, Maximum: l.maximum, Daily: l.daily,
			FeeLimit: l.feeCap, BlockTime: s.BlockTime, ConfirmationRule: l.rule,
		}, dispatch.Parts{
			Store: payments, Keys: on.keys, Nodes: on.nodes, Hints: hints,
			Log: log, Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
		}), settlement.New(settlement.Config{
			ChainID: on.chainID, Token: on.asset, Window: s.Window, FeeLimit: l.feeCap, ConfirmationRule: l.rule,
			BlockTime: s.BlockTime, ReservationAge: reservationAge, BumpAfter: bumpAfter,
		}, settlement.Parts{
			Store: payments, Keys: on.keys, Nodes: on.nodes, Events: events, Log: log, Now: time.Now, Wait: wait,
		})
}
