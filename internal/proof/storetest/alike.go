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
	"github.com/remit-payouts/remit/internal/payments/proposal"
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
		name  string
		whole func(*run) []call // the reads of everything, after which it damages some of it
		drawn string            // actions, each as often as it is named
	}{
		{"payments", (*run).ledger, "advance advance advance advance adopt adopt create commit attempt end change change no-op " +
			"release look look reserve wallet"},
		{"proposals", (*run).ledger, "propose propose amend amend amend advance advance change create look"},
		{"wallets", (*run).ledger, "reserve reserve reserve return return return release wallet wallet register register register"},
		{"settings", (*run).limits, "set set deny compare charge charge charge act place"},
		{"webhooks", (*run).webhooks, "endpoint endpoint delivery delivery delivery delivery find"},
		{"keys", (*run).apiKeys, "key key terms entry"},
	} {
		t.Run(world.name, func(t *testing.T) {
			made := map[string]int{}
			rapid.Check(t, func(t *rapid.T) {
				r := &run{T: t, Pair: open(ctx), made: made, read: map[payment.ID][]proposal.Proposal{},
					wallets: map[wallet.ID][]wallet.Wallet{}, now: noon}
				defer r.Close()
				r.opens()
				actions, repeated := r.actions(), map[string]func(*rapid.T){}
				for i, name := range strings.Fields(world.drawn) {
					repeated[fmt.Sprint(name, i)] = func(*rapid.T) { actions[name]() }
				}
				t.Repeat(repeated)
				r.same(world.whole(r)...)
			})
			for _, of := range slices.Sorted(maps.Keys(made)) {
				t.Logf("%-40s %6d", of, made[of])
			}
		})
	}
}

// A run is a random sequence of operations on a new pair of stores. It draws their arguments from the state in memory
// and, as other processes would, from older states.
type run struct {
	*rapid.T
	Pair
	made    map[string]int                     // operations by the class of their answer
	read    map[payment.ID][]proposal.Proposal // as they were read so far
	wallets map[wallet.ID][]wallet.Wallet      // as they were read so far
	tip     uint64                             // of the newest draft: none has another's revision
	now     time.Time                          // of the places
}

// actions are all operations.
func (r *run) actions() map[string]func() {
	return map[string]func(){
		"advance": func() { r.step(r.aDraft()) }, "adopt": r.adopts, "create": r.creates, "return": r.returns,
		"reserve": func() { r.reserve(r.payment(), r.id()) }, "commit": func() { r.commits(r.payment()) },
		"attempt": func() { r.bumps(r.payment()) }, "end": func() { r.ends(r.payment()) }, "no-op": r.noops,
		"release": r.releases, "change": r.changes, "wallet": r.wallet, "register": r.registers,
		"propose": r.proposes, "amend": r.amends, "look": r.looks,
		"set": r.sets, "deny": r.denies, "compare": r.compares, "charge": r.charges, "act": r.acts, "place": r.places,
		"endpoint": r.endpoints, "delivery": r.deliveries, "find": r.finds,
		"key": r.keys, "terms": r.terms, "entry": r.entries,
	}
}

// A call is one call of a method of a port, as Payments.Create, with its arguments behind the context.
type call struct {
	method string
	args   []any
	of     func(Stores) answer // makes the call, where it is more than that
	lags   bool                // its answer may lag behind writes
	beside bool                // its other results count beside an error too
	// It may be two writes one after the other, the second of which is not made if the answer to the first is lost.
	twofold bool
}

func calls(method string, args ...any) call { return call{method: method, args: args} }

func (c call) String() string { return fmt.Sprintf("%s %.500s", c.method, fmt.Sprintf("%+v", c.args)) }

// An answer is the results of a call: the class of its error, and the others where they count.
type answer struct {
	class  string
	values []any
}

func (c call) make(s Stores) answer {
	if c.of != nil {
		return c.of(s)
	}
	in, values := []reflect.Value{reflect.ValueOf(ctx)}, []any{}
	for _, arg := range c.args {
		in = append(in, reflect.ValueOf(arg))
	}
	port, method, _ := strings.Cut(c.method, ".")
	for _, out := range reflect.ValueOf(s).FieldByName(port).MethodByName(method).Call(in) {
		values = append(values, out.Interface())
	}
	err, _ := values[len(values)-1].(error)
	if values = values[:len(values)-1]; c.beside {
		return answer{class(err), values}
	}
	return got(err, values...)
}

const unknown = "unknown outcome"

var sentinels = []error{
	store.ErrNotFound, store.ErrChanged, store.ErrUnreadable, store.ErrOtherRail, store.ErrNonceTaken,
	store.ErrDailyLimit, store.ErrTooLarge,
	store.ErrProposals, store.ErrFull, wallet.ErrUnknown, wallet.ErrOwner, wallet.ErrPaused, wallet.ErrHeld, wallet.ErrMerchantCap,
	wallet.ErrCeiling, wallet.ErrToken, wallet.ErrGas, settings.ErrFixed, settings.ErrMissing, settings.ErrDamaged, settings.ErrNewer,
	webhook.ErrLimit, webhook.ErrNotFound, webhook.ErrConflict, webhook.ErrDeliveryNotFound, webhook.ErrTooLarge,
	apikey.ErrNotFound, apikey.ErrLimit, apikey.ErrExists, apikey.ErrTerms, apikey.ErrAssetTerms, recipient.ErrNotFound,
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

// got is the answer of a call whose values count without an error.
func got(err error, values ...any) answer {
	if err != nil {
		values = nil
	}
	return answer{class(err), values}
}

// pages follows a list through its pages, each from a position.
func pages[V any](c call, limit int, from *store.Position, read func(Stores) ([]V, store.Position, error)) call {
	c.lags, c.of = true, func(s Stores) answer {
		all, err := []V{}, error(nil)
		for more := true; more && err == nil; more = !from.IsZero() {
			var page []V
			if page, *from, err = read(s); len(page) > limit && limit > 0 || len(page) > 100 {
				return answer{class: fmt.Sprintf("a page of %d", len(page))}
			}
			all = append(all, page...)
		}
		return got(err, all)
	}
	return c
}

// do makes an operation on both stores and compares its answers, and those of views. The database's answer may be lost
// once, inside the client, so that the client makes the operation twice, or for good, so that the caller makes it again.
func (r *run) do(c call, views ...call) {
	fate := pick(r, "fate", "", "", "", "", "repeated", "lost once", "lost")
	lost := map[string]int{"lost once": 1, "lost": 1000}[fate]
	r.Lose(lost)
	there := c.make(r.Database)
	r.Lose(0)
	r.made[c.method+": "+there.class]++
	r.Logf("%v: %q %s", c, there.class, fate)
	diff := "not compared"
	if lost > 0 && c.twofold && there.class == unknown {
		diff = r.differs(views...)
	}
	for range 1 + min(lost, 5) { // the client makes it so often at most
		if diff == "" {
			break
		}
		here := c.make(r.Memory)
		if diff = r.differs(views...); diff == "" && (lost == 0 || there.class != unknown) {
			diff = compare(c, here, there)
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
			if diff = compare(c, c.make(p.Memory), c.make(p.Database)); diff == "" || !c.lags {
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

func compare(c call, memory, database answer) string {
	if memory.class != database.class {
		return fmt.Sprintf("%v: %q in memory, %q of the database", c, memory.class, database.class)
	}
	if reflect.DeepEqual(memory.values, database.values) { // ten times as quick as a diff of nothing
		return ""
	}
	if diff := cmp.Diff(memory.values, database.values, byEquality, wholeBytes, sameErrors, sameDamage, bare,
		cmpopts.EquateEmpty()); diff != "" {
		return fmt.Sprintf("%v (-memory +database):\n%s", c, diff)
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

// often returns v, and seldom another value.
func often[V any](r *run, n int, v V, other func() V) V {
	if r.seldom(n) {
		return other()
	}
	return v
}

// seldom is true in one of n draws.
func (r *run) seldom(n int) bool { return rapid.IntRange(0, n-1).Draw(r.T, "odd") == n-1 }
