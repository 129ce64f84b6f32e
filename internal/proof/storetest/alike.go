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
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
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
	// Copy stores for others too what the database stores for a key or a denied recipient; nil: one by one.
	Copy func(of string, others []string)
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
// once, inside the client, so that the client makes the operation twice, or for good, so the caller makes it again.
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

var rulesOf = calls("Payments.Rules")

func historyOf(c token.Coin) call  { return calls("Payments.SettingsHistory", c) }
func comparedOf(c token.Coin) call { return calls("Payments.Compared", c) }
func actsSince(at time.Time) call  { return calls("Payments.Acts", at) }

func chargedOf(key string, at time.Time) call {
	return calls("Payments.Charged", "mer_a", "test", key, at)
}

var chargedKeys = []string{"", "key_1", "key_2", coins[1].String()}

func (r *run) limits() []call {
	all := []call{rulesOf, historyOf(coins[0]), historyOf(coins[1]), comparedOf(coins[0]), comparedOf(coins[1]), actsSince(noon)}
	for _, key := range chargedKeys {
		all = append(all, chargedOf(key, noon), chargedOf(key, noon.Add(24*time.Hour)))
	}
	r.same(all...)
	rules, _ := r.Memory.Payments.Rules(ctx)
	if c := pick(r, "damaged", coins...); rules.Rail(c).Unusable == nil { // newer ones stay that
		r.Memory.Damage.SpoilSettings(c, settings.ErrDamaged)
		r.Database.Damage.SpoilSettings(c, settings.ErrDamaged)
		r.same(rulesOf, historyOf(c))
		r.sets()
	}
	return all
}

func (r *run) sets() {
	c := pick(r, "rail", coins...)
	rules, _ := r.Memory.Payments.Rules(ctx)
	now := rules.Rail(c).Settings
	v := settings.Default(settings.Rail{ChainID: c.ChainID, Token: usdc, Network: "devnet"})
	v.Version = often(r, 5, now.Version, func() uint64 { return pick[uint64](r, "version", 0, 1, 2, 99) })
	v.At, v.Who, v.Why, v.Closed = r.at(), "ada", pick(r, "why", "", "because «é»"), pick(r, "closed", false, true)
	v.Maximum, v.Confirmed = pick(r, "maximum", token.Amount{}, token.Units(7), token.MaxAmount()), pick(r,
		"confirmed", true, false)
	v.Token.Decimals = often(r, 20, 6, func() int { return 18 })
	v.Needs = often(r, 20, v.Needs, func() uint64 { return settings.Code + 1 })
	r.do(calls("Payments.SetSettings", v), rulesOf, historyOf(c))
}

func (r *run) denies() {
	to := token.Address{byte(pick(r, "to", 1, 2, 3))}
	denial := store.Denial{To: to, Reason: strings.Repeat("x", r.size(store.MaxReason)), At: r.at()}
	r.do(pick(r, "act", calls("Payments.Deny", denial), calls("Payments.Allow", to)), rulesOf)
}

func (r *run) compares() {
	c := pick(r, "rail", append(coins, token.Coin{ChainID: 1})...)
	next, _ := r.Memory.Payments.Compared(ctx, c)
	next.Revision = often(r, 5, next.Revision, func() uint64 { return pick[uint64](r, "revision", 0, 1, 2) })
	next.At, next.Seen, next.Ran, next.Since, next.Abreast = r.atOrNever(), r.atOrNever(), r.atOrNever(), r.atOrNever(), r.atOrNever()
	next.Final = pick(r, "final", chain.Block{}, chain.Block{Number: 1 << 40, Hash: chain.Hash{1, 31: 2}})
	next.Silent = map[string]time.Time{}
	for i := range r.size(store.MaxNodes) {
		next.Silent[fmt.Sprintf("%0259d", i)] = noon.Add(time.Duration(i)) // a host of 253 bytes, and a port
	}
	r.do(calls("Payments.SetCompared", c, next), comparedOf(c))
}

func (r *run) charges() {
	east, day := time.FixedZone("east", 14*3600), noon.Truncate(24*time.Hour)
	at := pick(r, "at", noon, day, day.Add(24*time.Hour-1), day.Add(24*time.Hour), noon.In(east))
	c := store.Charge{Merchant: "mer_a", Mode: "test", At: at, Count: pick[uint64](r, "count", 1, 2),
		Amount: pick(r, "amount", token.Units(10), token.Units(50), token.Units(101), token.MaxAmount())}
	limit := func(key string) payment.DailyLimit {
		return payment.DailyLimit{Key: key, Count: pick[uint64](r, "most", 0, 3),
			Amount: pick(r, "limit", token.Units(100), token.Units(30), token.MaxAmount())}
	}
	key := pick(r, "key", chargedKeys[1:3]...)
	c.Limits = pick(r, "limits",
		[]payment.DailyLimit{limit("")},
		[]payment.DailyLimit{limit(key), limit("")},
		[]payment.DailyLimit{limit(key), limit(chargedKeys[3])},
		[]payment.DailyLimit{{Key: key, Count: 2}})
	if r.seldom(20) {
		c.Limits = slices.Repeat(c.Limits, store.MaxLimits+1)
	}
	var views []call
	for _, l := range c.Limits {
		views = append(views, chargedOf(l.Key, c.At))
	}
	r.do(calls(pick(r, "what", "Payments.Charge", "Payments.Refund"), c), views...)
}

func (r *run) acts() {
	n := pick(r, "entry", 0, 1, 2, 3) // entries of one instant have no order
	a := store.Act{ID: []string{"a", "b"}[n/2], At: r.at().Add(time.Duration(n)), Who: "ada", Command: "wallet pause --all",
		Effect: []string{"", "«é»"}[n/2], Outcome: []store.Outcome{store.Begun, store.Done}[n%2]}
	r.do(calls("Payments.Append", a), actsSince(noon), actsSince(r.at()))
}

func (r *run) places() {
	r.now = r.now.Add(pick(r, "later", 0, time.Second, time.Minute))
	p := store.Place{Merchant: pick(r, "merchant", owners[1:]...), ID: pick(r, "id", "a", "b", strings.Repeat("c", 26)),
		Until: r.now.Add(pick(r, "for", time.Minute, time.Second))}
	most := pick(r, "most", 2, 1, store.MaxPlaces, store.MaxPlaces+1)
	take, leave := calls("Payments.Take", p, r.now, most), calls("Payments.Leave", p)
	r.same(slices.Repeat(pick(r, "what", []call{take}, []call{leave}, []call{take, leave}), pick(r, "times", 1, 2))...)
}

func endpointOf(o webhook.Owner, id string) []call {
	return []call{calls("Webhooks.Endpoint", o, id), calls("Webhooks.Endpoints", o)}
}

func deliveryAt(r webhook.Ref) call {
	return call{method: "Webhooks.Load", args: []any{r}, of: func(s Stores) answer {
		e, d, err := s.Webhooks.Load(ctx, r)
		if e.Status == webhook.Deleted { // a missing endpoint comes back as Deleted
			e = webhook.Endpoint{Status: e.Status}
		}
		return answer{class(err), []any{e, d}}
	}}
}

func logOf(o webhook.Owner, from, to time.Time, limit int) call {
	return calls("Webhooks.Deliveries", o, "we_a", from, to, limit)
}

// dueBy compares the times alone of a few: the stores order those of one instant differently.
func dueBy(at time.Time, limit int) call {
	return call{method: "Webhooks.Due", args: []any{at, limit}, lags: true, of: func(s Stores) answer {
		due, err := s.Webhooks.Due(ctx, at, limit)
		for i := range due {
			if limit < 100 {
				due[i].Ref = webhook.Ref{}
			}
		}
		slices.SortStableFunc(due, func(a, b webhook.Due) int { return strings.Compare(a.String(), b.String()) })
		return got(err, due)
	}}
}

func (r *run) webhooks() (all []call) {
	for _, o := range mailboxes {
		for _, id := range endpoints {
			all = append(all, endpointOf(o, id)...)
		}
		all = append(all, logOf(o, time.Time{}, time.Time{}, 100))
	}
	return append(all, dueBy(noon.Add(1000*time.Hour), 100))
}

func (r *run) finds() {
	r.same(logOf(pick(r, "owner", mailboxes...), r.atOrNever(), r.atOrNever(), pick(r, "limit", 1, 2, 100)),
		dueBy(r.at(), pick(r, "most", 100, 0, 1, 3)))
}

func (r *run) endpoints() {
	o, id := pick(r, "owner", mailboxes...), pick(r, "id", endpoints...)
	sealed := must.Get(webhook.ParseStored("sealed_eA=="))(r)
	e := newEndpoint(o, id)
	e.Secret, e.CreatedAt = pick(r, "secret", e.Secret, sealed), r.at()
	now, err := r.Memory.Webhooks.Endpoint(ctx, o, id)
	add := err != nil || now.Status != webhook.Deleted && pick(r, "again", false, true)
	if err == nil {
		e = now
	}
	limit := pick(r, "limit", 2, 1, 3)
	if add {
		r.do(calls("Webhooks.AddEndpoint", e, limit), endpointOf(o, id)...)
		return
	}
	e.Status = pick(r, "status", webhook.Enabled, webhook.Disabled, webhook.Deleted)
	if e.DeletedAt = (time.Time{}); e.Status == webhook.Deleted {
		e.DeletedAt = r.at()
	}
	e.EventTypes = slices.Repeat([]string{webhook.PaymentFailed}, r.size(webhook.MaxEventTypes))
	e.Description, e.Exhausted, e.Slow = pick(r, "words", "", "Crème 🧁"), pick(r, "exhausted", "", "evt_0"),
		pick(r, "slow", 0, 4)
	e.RetryAt, e.QuietSince, e.PreviousExpiresAt = r.atOrNever(), r.atOrNever(), r.atOrNever()
	e.PreviousSecret = pick(r, "previous", webhook.Secret{}, sealed)
	e.Version = often(r, 5, e.Version, func() int64 { return pick[int64](r, "version", 1, 2) })
	r.do(calls("Webhooks.SaveEndpoint", e), endpointOf(o, id)...)
}

func (r *run) deliveries() {
	o, at := pick(r, "owner", mailboxes...), r.at()
	d := newDelivery(o, at)
	now := d
	if _, there, err := r.Memory.Webhooks.Load(ctx, d.Ref); err == nil {
		now = there
	}
	switch pick(r, "act", "add", "record", "record", "unpark") {
	case "add":
		d.Event.Body = often(r, 30, d.Event.Body, func() []byte { return make([]byte, r.size(webhook.MaxBody)) })
		d.Parked = pick(r, "parked", false, true)
		r.do(calls("Webhooks.AddDelivery", d), deliveryAt(d.Ref))
	case "unpark":
		due := webhook.Due{Ref: d.Ref, At: often(r, 4, now.NextAttemptAt, r.at)}
		r.do(calls("Webhooks.Unpark", due), deliveryAt(d.Ref))
	default:
		attempts := often(r, 5, len(now.Attempts), func() int { return pick(r, "attempts", 0, 1, 2) })
		for range pick(r, "tries", 1, 0, 2) {
			now = tried(now, r.at(), pick(r, "parked", false, true))
		}
		if extra := r.size(webhook.MaxAttempts); extra >= webhook.MaxAttempts {
			now.Attempts = append(now.Attempts, make([]webhook.Attempt, extra)...)
		}
		now.Status = pick(r, "status", webhook.Pending, webhook.Delivered, webhook.Exhausted, webhook.Cancelled)
		if now.EndedAt = (time.Time{}); now.Status != webhook.Pending {
			now.NextAttemptAt, now.Parked, now.EndedAt = time.Time{}, false, noon.Add(time.Hour)
		}
		r.do(call{method: "Webhooks.Record", args: []any{now, attempts}, beside: len(now.Attempts) <= webhook.MaxAttempts},
			deliveryAt(d.Ref))
	}
}

const mints = 8 // keys, four of each merchant

func keysOf(m string) []call {
	return []call{{method: "Keys.List", args: []any{m}, lags: true}, calls("Keys.Terms", m)}
}

func keyOf(k apikey.Key) []call {
	return []call{calls("Keys.Find", k.Hash), calls("Keys.Named", k.MerchantID, k.ID)}
}

// bookOf sorts by address: the stores order entries of one instant differently.
func bookOf(m string, limit int) call {
	return call{method: "Keys.Entries", args: []any{m, "test", limit}, lags: true, of: func(s Stores) answer {
		all, from, err := []recipient.Entry{}, recipient.Position{}, error(nil)
		for more := true; more && err == nil; {
			var page []recipient.Entry
			if page, more, err = s.Keys.Entries(ctx, m, "test", from, limit); len(page) > 0 {
				from = recipient.Position{CreatedAt: page[len(page)-1].CreatedAt, Address: page[len(page)-1].Address}
			}
			all = append(all, page...)
		}
		slices.SortStableFunc(all, func(a, b recipient.Entry) int { return strings.Compare(a.Address.String(), b.Address.String()) })
		return got(err, all)
	}}
}

func (r *run) apiKeys() (all []call) {
	for n := range mints {
		all = append(all, keyOf(newKey(n))...)
	}
	for _, m := range owners[1:] {
		all = append(append(all, bookOf(m, 1)), keysOf(m)...)
	}
	return append(all, call{method: "Keys.All", of: func(s Stores) answer {
		all, err := s.Keys.All(ctx)
		slices.SortFunc(all, func(a, b apikey.Key) int { return strings.Compare(a.ID, b.ID) })
		return got(err, all)
	}})
}

func (r *run) keys() {
	k, other := newKey(rapid.IntRange(0, mints-1).Draw(r.T, "key")), newKey(0)
	if stored, _ := r.Memory.Keys.List(ctx, k.MerchantID); len(stored) > 0 {
		other = pick(r, "other", stored...)
	}
	k.CreatedAt, k.ExpiresAt, k.Term, k.LastUsedAt = r.at(), r.atOrNever(), r.atOrNever(), r.atOrNever()
	k.Label = pick(r, "label", "", "till 3")
	k.Grant = pick(r, "grant", apikey.Full(), apikey.Grant{Scopes: apikey.ScopesOf(apikey.PaymentsWrite),
		Maximum: token.MaxAmount(), Book: true,
		Daily: apikey.Limit{Key: "key_a", Amount: token.Units(8), Count: 7}, Root: "key_a"})
	m := often(r, 5, k.MerchantID, func() string { return pick(r, "merchant", owners[1:]...) })
	at, since, most := r.at(), r.at(), pick(r, "most", 2, 1, 3)
	r.do(pick(r, "act",
		calls("Keys.Create", k),
		calls("Keys.Issue", k, most),
		calls("Keys.Touch", k.Hash, at, since),
		call{method: "Keys.Replace", args: []any{m, other.Hash, at, k}, twofold: true},
		calls("Keys.Revoke", m, k.Hash, at)), slices.Concat(keyOf(k), keyOf(other), keysOf(k.MerchantID))...)
}

func (r *run) terms() {
	m := pick(r, "merchant", owners[1:]...)
	now := must.Get(r.Memory.Keys.Terms(ctx, m))(r)
	some := apikey.AssetTerms{Maximum: token.MaxAmount(), Daily: token.Units(7)}
	full := apikey.Terms{Suspended: "stolen \"key\"", Assets: map[string]apikey.AssetTerms{}}
	for i := range r.size(apikey.MaxAssetTerms) {
		full.Assets[token.Coin{ChainID: 1<<64 - 1, Contract: token.Address{byte(i)}}.String()] = some
	}
	from := often(r, 4, now, func() apikey.Terms { return apikey.Terms{AssetTerms: some} })
	to := pick(r, "to", apikey.Terms{AssetTerms: some}, full, apikey.Terms{})
	r.do(calls("Keys.SetTerms", m, from, to), keysOf(m)...)
}

func (r *run) entries() {
	m, a := pick(r, "merchant", owners[1:]...), token.Address{byte(pick(r, "address", 1, 2, 3))}
	e := recipient.Entry{Merchant: m, Mode: "test", Address: a, Label: pick(r, "label", "", "Søn 🧁"),
		CreatedAt: r.at(), ActiveAt: r.at()}
	r.do(pick(r, "act", calls("Keys.AddEntry", e), calls("Keys.DeleteEntry", m, "test", a)),
		calls("Keys.Entry", m, "test", a), bookOf(m, pick(r, "limit", 1, 2, 100)))
}

var (
	mailboxes = []webhook.Owner{{Merchant: "mer_a", Mode: "test"}, {Merchant: "mer_a", Mode: "live"}}
	endpoints = []string{"we_a", "we_b", "we_c"}
)
