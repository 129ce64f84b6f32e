// Package porttest serves the unit tests of both engines: a recorder of the calls to an engine's
// ports, and scripts that make some of them fail.
package porttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// ErrBroken is the error of a call without effect.
var ErrBroken = errors.New("broken")

// ErrLost is the error of a call that had its effect.
var ErrLost = errors.New("answer was lost")

// A Script maps a call, named by its operation and number ("Reserve#1"), to an act that precedes
// it. The call returns the act's error, if any.
type Script[P any] map[string]func(P) error

// Breaks returns a script in which some calls fail and have no effect.
func Breaks[P any](calls ...string) Script[P] {
	s := Script[P]{}
	for _, call := range calls {
		s[call] = func(P) error { return ErrBroken }
	}
	return s
}

// With returns a script with one more act.
func (s Script[P]) With(call string, act func(P) error) Script[P] {
	s[call] = act
	return s
}

// A Recorder runs a script around the calls of one engine. It is also the engine's clock and keys.
type Recorder[P any] struct {
	T      *testing.T
	Tables *memory.Payments
	Script Script[P]
	Delays map[string]time.Duration // of operations
	Calls  []string                 // in order
	Times  map[string]int           // each operation was called
	Mu     sync.Mutex               // guards Script, Calls and Times

	test   P
	passed atomic.Int64 // nanoseconds since New
}

// New returns a recorder whose acts receive test.
func New[P any](t *testing.T, tables *memory.Payments, s Script[P], test P) *Recorder[P] {
	return &Recorder[P]{T: t, Tables: tables, Script: s, Times: map[string]int{}, test: test}
}

// Now returns a time in 2100, so that no deadline after it passes during a test.
func (r *Recorder[P]) Now() time.Time {
	return time.Date(2100, time.January, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(r.passed.Load()))
}

// Pass lets time go by.
func (r *Recorder[P]) Pass(d time.Duration) { r.passed.Add(int64(d)) }

// Around is the Around of interpose's ports.
func (r *Recorder[P]) Around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	r.Mu.Lock()
	r.Times[c.Op]++
	call := fmt.Sprint(c.Op, "#", r.Times[c.Op])
	r.Calls = append(r.Calls, call)
	act := r.Script[call]
	delete(r.Script, call)
	r.Mu.Unlock()
	time.Sleep(r.Delays[c.Op])
	if act != nil {
		if err := act(r.test); err != nil {
			if errors.Is(err, ErrLost) {
				apply(ctx)
			}
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	apply(ctx)
	return nil
}

// Call records a call without an effect of its own.
func (r *Recorder[P]) Call(op string) error {
	return r.Around(context.Background(), interpose.Call{Op: op}, func(context.Context) {})
}

// Did reports whether a call was made.
func (r *Recorder[P]) Did(call string) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return slices.Contains(r.Calls, call)
}

// Must fails the test if err is not nil, and lets it go on: scripts run in the engine's goroutines.
func (r *Recorder[P]) Must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Error(err)
	}
}

// Record returns a wallet as it is stored.
func (r *Recorder[P]) Record(id wallet.ID) wallet.Wallet {
	w, err := r.Tables.Wallet(context.Background(), id)
	r.Must(err)
	return w
}

// Rail is the rail of both engines' tests.
var Rail = settings.Rail{ChainID: 1, Token: token.Token{Contract: token.Address{0xc0}, Symbol: "USDC", Decimals: 6}, Network: "devnet"}

// Set changes the stored settings of Rail, or the default ones if those cannot be used.
func (r *Recorder[P]) Set(change func(*settings.Settings)) {
	r.T.Helper()
	rules, err := r.Tables.Rules(context.Background())
	rail := rules.Rail(Rail.Coin())
	s := rail.Settings
	if r.Must(err); rail.Unusable != nil {
		s = settings.Default(Rail)
		s.Version = rail.Settings.Version
	}
	change(&s)
	r.Must(r.Tables.SetSettings(context.Background(), s))
}

// Quiet returns keys that sign outside of the script.
func (r *Recorder[P]) Quiet() *Recorder[P] { return New(r.T, nil, nil, r.test) }

// Signer implements the engines' keys.
func (r *Recorder[P]) Signer(context.Context, wallet.Registration) (wallet.Signer, error) {
	return r, r.Call("Signer")
}

// Ready implements wallet.Signer.
func (r *Recorder[P]) Ready(context.Context) error { return r.Call("Ready") }

// Sign never signs alike, as a key in another service does.
func (r *Recorder[P]) Sign(_ context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	err := r.Call("Sign")
	r.Mu.Lock()
	raw := fmt.Append(nil, tx, nonce, r.Times["Sign"])
	r.Mu.Unlock()
	return chain.Signed{Nonce: nonce, Hash: sha256.Sum256(raw), Raw: raw}, err
}

// Unheard starts no run at a hint, and publishes no event: no merchant has an endpoint.
type Unheard struct{}

// Hint starts nothing.
func (Unheard) Hint(context.Context) error { return nil }

// Named returns false.
func (Unheard) Named(context.Context, webhook.Owner, string) (bool, error) { return false, nil }

// Publish drops the event.
func (Unheard) Publish(context.Context, webhook.Event) error { return nil }
