// Package storetest holds the suites that the adapters of the stores' ports pass: Alike compares two by random
// operations, Full fills them up to their bounds, and Races makes many writes at once.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Stores are all stores of a stack.
type Stores struct {
	Payments interface {
		store.Store
		store.AuditLog
		store.Places
	}
	Webhooks webhook.Store
	Keys     interface {
		apikey.Store
		apikey.Finder
		recipient.Store
	}
	Damage Damage
}

// A Damage makes stored items unreadable, as no port does.
type Damage interface {
	Spoil(id payment.ID)
	SpoilPendingTx(id wallet.ID, nonce uint64)
	SpoilWallet(id wallet.ID) // its spendable gas
	SpoilRegistration(id wallet.ID)
	SpoilSettings(c token.Coin, unusable error) // the current ones, but for their version
}

// A Pair is the store in memory, by which the simulation judges, and a database, both empty.
type Pair struct {
	Memory, Database Stores
	// Lose has the answers of the database's next n writes lost after they were applied.
	Lose func(n int)
	// Close ends the database.
	Close func()
}

// Alike makes random operations on both stores of a pair and compares every answer, the state of everything that an
// operation names after each, and the whole state after each run, then once more with damaged items. Some answers are
// lost, and some operations are repeated. Of a difference it prints the shortest run that shows it.
// -rapid.checks=700 -rapid.steps=25 are 105,000 operations, as many in each of six worlds.
func Alike(t *testing.T, open func(ctx context.Context) Pair) {
	for _, world := range []struct {
		name    string
		actions func(*run) (actions map[string]func(), whole func() []call)
		drawn   string // actions, each as often as it is named
	}{
		{"payments", payments, "advance advance advance advance adopt adopt create commit attempt end change change no-op release look look " +
			"reserve wallet"},
		{"proposals", payments, "propose propose amend amend amend advance advance change create look"},
		{"wallets", payments, "reserve reserve reserve return return return release wallet wallet register register register"},
		{"settings", limits, "set set deny compare charge charge charge act place"},
		{"webhooks", webhooks, "endpoint endpoint delivery delivery delivery delivery look"},
		{"keys", apiKeys, "key key terms entry"},
	} {
		t.Run(world.name, func(t *testing.T) {
			made := map[string]int{}
			rapid.Check(t, func(t *rapid.T) {
				r := &run{T: t, Pair: open(context.Background()), made: made}
				defer r.Close()
				actions, whole := world.actions(r)
				repeated := map[string]func(*rapid.T){}
				for i, name := range strings.Fields(world.drawn) {
					repeated[fmt.Sprint(name, i)] = func(*rapid.T) { actions[name]() }
				}
				t.Repeat(repeated)
				r.same(whole()...)
			})
			for _, of := range slices.Sorted(maps.Keys(made)) {
				t.Logf("%-40s %6d", of, made[of])
			}
		})
	}
}

// A run is a random sequence of operations on a new pair of stores.
type run struct {
	*rapid.T
	Pair
	made map[string]int // operations by the class of their answer
}

// A call is one call of a store.
type call struct {
	name string
	of   func(Stores) answer
	lags bool // its answer may lag behind writes
	// It may be two writes one after the other, the second of which is not made if the answer to the first is lost.
	twofold bool
}

// An answer is the result of a call. The values count unless the error is of no class.
type answer struct {
	class  string
	values []any
}

const unknown = "unknown outcome"

var sentinels = []error{
	store.ErrNotFound, store.ErrChanged, store.ErrUnreadable, store.ErrOtherRail, store.ErrNonceTaken,
	store.ErrDailyLimit, store.ErrTooLarge,
	store.ErrProposals, store.ErrFull, wallet.ErrUnknown, wallet.ErrOwner, wallet.ErrPaused, wallet.ErrHeld, wallet.ErrMerchantCap,
	wallet.ErrCeiling, wallet.ErrToken, wallet.ErrGas, settings.ErrFixed, settings.ErrMissing, settings.ErrDamaged, settings.ErrNewer,
	webhook.ErrLimit, webhook.ErrNotFound, webhook.ErrConflict, webhook.ErrDeliveryNotFound, webhook.ErrTooLarge,
	apikey.ErrNotFound, apikey.ErrLimit, apikey.ErrExists, apikey.ErrTerms, apikey.ErrAssetTerms, recipient.ErrNotFound,
	errOthers,
}

// class returns the sentinels that err is, "" for no error, unknown for any other.
func class(err error) string {
	if err == nil {
		return ""
	}
	var of []string
	for _, s := range sentinels {
		if errors.Is(err, s) {
			of = append(of, s.Error())
		}
	}
	if of == nil {
		return unknown
	}
	return strings.Join(of, " and ")
}

// done is the answer of a call that returns nothing but an error, and got of one whose values count without an error.
func done(err error) answer { return answer{class: class(err)} }

func got(err error, values ...any) answer {
	if err != nil {
		values = nil
	}
	return answer{class(err), values}
}

// view is the call of a read, and pages one that follows a list through its pages.
func view[V any](name string, read func(Stores) (V, error)) call {
	return call{name: name, of: func(s Stores) answer {
		v, err := read(s)
		return got(err, v)
	}}
}

func pages[V any](name string, limit int, read func(Stores, store.Position) ([]V, store.Position, error)) call {
	return call{name: name, lags: true, of: func(s Stores) answer {
		all, from, err := []V{}, store.Position{}, error(nil)
		for more := true; more && err == nil; more = !from.IsZero() {
			var page []V
			if page, from, err = read(s, from); len(page) > limit && limit > 0 || len(page) > 100 {
				return answer{class: fmt.Sprintf("a page of %d", len(page))}
			}
			all = append(all, page...)
		}
		return got(err, all)
	}}
}

// write makes an operation that answers with an error alone.
func (r *run) write(name string, of func(Stores) error, views ...call) {
	r.do(call{name: name, of: func(s Stores) answer { return done(of(s)) }}, views...)
}

// do makes an operation on both stores and compares its answers, and those of views. The database's answer may be lost
// once, inside the client, so that the client makes the operation twice, or for good, so that the caller makes it again.
func (r *run) do(c call, views ...call) {
	fate := pick(r, "fate", "", "", "", "", "repeated", "lost once", "lost")
	lost := map[string]int{"lost once": 1, "lost": 1000}[fate]
	r.Lose(lost)
	there := c.of(r.Database)
	r.Lose(0)
	r.made[c.name[:strings.IndexAny(c.name+" ", " ")]+": "+there.class]++
	r.Logf("%s: %q %s", c.name, there.class, fate)
	diff := "not compared"
	if lost > 0 && c.twofold && there.class == unknown {
		diff = r.differs(views...)
	}
	for range 1 + min(lost, 5) { // the client makes it so often at most
		if diff == "" {
			break
		}
		here := c.of(r.Memory)
		if diff = r.differs(views...); diff == "" && (lost == 0 || there.class != unknown) {
			diff = compare(c.name, here, there)
		}
	}
	if diff != "" {
		r.Fatalf("%s", diff)
	}
	if fate != "" {
		r.same(append([]call{c}, views...)...)
	}
}

func (r *run) same(calls ...call) {
	if diff := r.differs(calls...); diff != "" {
		r.Fatalf("%s", diff)
	}
}

func (p Pair) differs(calls ...call) (diff string) {
	for _, c := range calls {
		for range 50 {
			if diff = compare(c.name, c.of(p.Memory), c.of(p.Database)); diff == "" || !c.lags {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if diff != "" {
			return diff
		}
	}
	return ""
}

func compare(name string, memory, database answer) string {
	if memory.class != database.class {
		return fmt.Sprintf("%s: %q in memory, %q of the database", name, memory.class, database.class)
	}
	if reflect.DeepEqual(memory.values, database.values) { // ten times as quick as a diff of nothing
		return ""
	}
	if diff := cmp.Diff(memory.values, database.values, byEquality, wholeBytes, sameErrors, sameDamage, bare,
		cmpopts.EquateEmpty()); diff != "" {
		return fmt.Sprintf("%s (-memory +database):\n%s", name, diff)
	}
	return ""
}

var sameErrors = cmp.Comparer(func(a, b error) bool { return class(a) == class(b) })

// sameDamage compares whether wallets are damaged, not the words.
var sameDamage = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Damaged" },
	cmp.Comparer(func(a, b string) bool { return (a == "") == (b == "") }))

// bare leaves out the parts of a payment that a store may forget: the bytes of its attempts, which the pending transaction has,
// and the revision of a signed payment.
var bare = cmp.Transformer("payment", func(p payment.Payment) struct{ P bared } {
	p.Attempts = slices.Clone(p.Attempts)
	for i := range p.Attempts {
		p.Attempts[i].Raw = nil
	}
	if p.State.Signed() {
		p.Revision = ""
	}
	return struct{ P bared }{bared(p)}
})

type bared payment.Payment

// pick draws one of some values; a run is shortened towards the first.
func pick[V any](r *run, label string, from ...V) V {
	return from[rapid.IntRange(0, len(from)-1).Draw(r.T, label)]
}

// often returns v, and seldom, in one of n draws, another value.
func often[V any](r *run, n int, v V, other func() V) V {
	if rapid.IntRange(0, n-1).Draw(r.T, "odd") < n-1 {
		return v
	}
	return other()
}
