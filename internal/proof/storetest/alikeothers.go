package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// A desk makes the operations of operators, and those of limits.
type desk struct {
	*ledger
	now time.Time // of the places
}

var rulesOf = view("Rules", func(s Stores) (store.Rules, error) { return s.Payments.Rules(ctx) })

func historyOf(c token.Coin) call {
	return view("SettingsHistory "+c.String(), func(s Stores) ([]settings.Settings, error) { return s.Payments.SettingsHistory(ctx, c) })
}

func comparedOf(c token.Coin) call {
	return view("Compared "+c.String(), func(s Stores) (store.Comparison, error) { return s.Payments.Compared(ctx, c) })
}

func chargedOf(key string, at time.Time) call {
	return call{name: fmt.Sprint("Charged ", key, at), of: func(s Stores) answer {
		amount, count, err := s.Payments.Charged(ctx, "mer_a", "test", key, at)
		return got(err, amount, count)
	}}
}

func actsSince(at time.Time) call {
	return view("Acts", func(s Stores) ([]store.Act, error) { return s.Payments.Acts(ctx, at) })
}

var chargedKeys = []string{"", "key_1", "key_2", coins[1].String()}

func limits(r *run) (map[string]func(), func() []call) {
	d := &desk{&ledger{run: r}, noon}
	return map[string]func(){"set": d.sets, "deny": d.denies, "compare": d.compares, "charge": d.charges, "act": d.acts,
		"place": d.places}, d.whole
}

// whole returns the reads of everything, and damages the settings of a rail.
func (d desk) whole() []call {
	all := []call{rulesOf, historyOf(coins[0]), historyOf(coins[1]), comparedOf(coins[0]), comparedOf(coins[1]), actsSince(noon)}
	for _, key := range chargedKeys {
		all = append(all, chargedOf(key, noon), chargedOf(key, noon.Add(24*time.Hour)))
	}
	d.same(all...)
	rules, _ := d.Memory.Payments.Rules(ctx)
	if c := pick(d.run, "damaged", coins...); rules.Rail(c).Unusable == nil { // newer ones stay that
		d.Memory.Damage.SpoilSettings(c, settings.ErrDamaged)
		d.Database.Damage.SpoilSettings(c, settings.ErrDamaged)
		d.same(rulesOf, historyOf(c))
		d.sets()
	}
	return all
}

func (d desk) sets() {
	c := pick(d.run, "rail", coins...)
	rules, _ := d.Memory.Payments.Rules(ctx)
	now := rules.Rail(c).Settings
	v := settings.Default(settings.Rail{ChainID: c.ChainID, Token: usdc, Network: "devnet"})
	v.Version = often(d.run, 5, now.Version, func() uint64 { return pick[uint64](d.run, "version", 0, 1, 2, 99) })
	v.At, v.Who, v.Why, v.Closed = d.at(), "ada", pick(d.run, "why", "", "because «é»"), pick(d.run, "closed", false, true)
	v.Maximum, v.Confirmed = pick(d.run, "maximum", token.Amount{}, token.Units(7), token.MaxAmount()), pick(d.run,
		"confirmed", true, false)
	v.Token.Decimals = often(d.run, 20, 6, func() int { return 18 })
	v.Needs = often(d.run, 20, v.Needs, func() uint64 { return settings.Code + 1 })
	d.write(fmt.Sprint("SetSettings ", c, " version ", v.Version),
		func(s Stores) error { return s.Payments.SetSettings(ctx, v) }, rulesOf, historyOf(c))
}

func (d desk) denies() {
	to := token.Address{byte(pick(d.run, "to", 1, 2, 3))}
	if pick(d.run, "allow", false, true) {
		d.write(fmt.Sprint("Allow ", to), func(s Stores) error { return s.Payments.Allow(ctx, to) }, rulesOf)
		return
	}
	denial := store.Denial{To: to, Reason: strings.Repeat("x", d.size(store.MaxReason)), At: d.at()}
	d.write(fmt.Sprint("Deny ", to), func(s Stores) error { return s.Payments.Deny(ctx, denial) }, rulesOf)
}

func (d desk) compares() {
	c := pick(d.run, "rail", append(coins, token.Coin{ChainID: 1})...)
	next, _ := d.Memory.Payments.Compared(ctx, c)
	next.Revision = often(d.run, 5, next.Revision, func() uint64 { return pick[uint64](d.run, "revision", 0, 1, 2) })
	next.At, next.Seen, next.Ran, next.Since, next.Abreast = d.atOrNever(), d.atOrNever(), d.atOrNever(), d.atOrNever(), d.atOrNever()
	next.Final = pick(d.run, "final", chain.Block{}, chain.Block{Number: 1 << 40, Hash: chain.Hash{1, 31: 2}})
	next.Silent = map[string]time.Time{}
	for i := range d.size(store.MaxNodes) {
		next.Silent[fmt.Sprintf("%0259d", i)] = noon.Add(time.Duration(i)) // a host of 253 bytes, and a port
	}
	d.write(fmt.Sprint("SetCompared ", c, " revision ", next.Revision),
		func(s Stores) error { return s.Payments.SetCompared(ctx, c, next) }, comparedOf(c))
}

func (d desk) charges() {
	east, day := time.FixedZone("east", 14*3600), noon.Truncate(24*time.Hour)
	at := pick(d.run, "at", noon, day, day.Add(24*time.Hour-1), day.Add(24*time.Hour), noon.In(east))
	c := store.Charge{Merchant: "mer_a", Mode: "test", At: at, Count: pick[uint64](d.run, "count", 1, 2),
		Amount: pick(d.run, "amount", token.Units(10), token.Units(50), token.Units(101), token.MaxAmount())}
	limit := func(key string) payment.DailyLimit {
		return payment.DailyLimit{Key: key, Count: pick[uint64](d.run, "most", 0, 3),
			Amount: pick(d.run, "limit", token.Units(100), token.Units(30), token.MaxAmount())}
	}
	key := pick(d.run, "key", chargedKeys[1:3]...)
	switch pick(d.run, "limits", 0, 1, 2, 3) {
	case 0:
		c.Limits = []payment.DailyLimit{limit("")}
	case 1:
		c.Limits = []payment.DailyLimit{limit(key), limit("")}
	case 2:
		c.Limits = []payment.DailyLimit{limit(key), limit(chargedKeys[3])}
	case 3:
		c.Limits = []payment.DailyLimit{{Key: key, Count: 2}}
	}
	if often(d.run, 20, false, func() bool { return true }) {
		c.Limits = slices.Repeat(c.Limits, store.MaxLimits+1)
	}
	var views []call
	for _, l := range c.Limits {
		views = append(views, chargedOf(l.Key, c.At))
	}
	if pick(d.run, "refund", false, true) {
		d.write(fmt.Sprintf("Refund %+v", c), func(s Stores) error { return s.Payments.Refund(ctx, c) }, views...)
		return
	}
	d.write(fmt.Sprintf("Charge %+v", c), func(s Stores) error { return s.Payments.Charge(ctx, c) }, views...)
}

func (d desk) acts() {
	n := pick(d.run, "entry", 0, 1, 2, 3) // entries of one instant have no order
	a := store.Act{ID: []string{"a", "b"}[n/2], At: d.at().Add(time.Duration(n)), Who: "ada", Command: "wallet pause --all",
		Effect: []string{"", "«é»"}[n/2], Outcome: []store.Outcome{store.Begun, store.Done}[n%2]}
	d.write("Append "+a.ID,
		func(s Stores) error { return s.Payments.Append(ctx, a) }, actsSince(noon), actsSince(d.at()))
}

func (d *desk) places() {
	d.now = d.now.Add(pick(d.run, "later", 0, time.Second, time.Minute))
	p := store.Place{Merchant: pick(d.run, "merchant", owners[1:]...), ID: pick(d.run, "id", "a", "b", strings.Repeat("c", 26)),
		Until: d.now.Add(pick(d.run, "for", time.Minute, time.Second))}
	most := pick(d.run, "most", 2, 1, store.MaxPlaces, store.MaxPlaces+1)
	leave := call{name: fmt.Sprint("Leave ", p), of: func(s Stores) answer { return done(s.Payments.Leave(ctx, p)) }}
	take := call{name: fmt.Sprint("Take ", p, " of ", most, " at ", d.now), of: func(s Stores) answer {
		return done(s.Payments.Take(ctx, p, d.now, most))
	}}
	d.same(slices.Repeat(pick(d.run, "what", []call{take}, []call{leave}, []call{take, leave}), pick(d.run, "times", 1, 2))...)
}

// A post makes operations of webhook.Store.
type post struct{ *ledger }

var mailboxes = []webhook.Owner{{Merchant: "mer_a", Mode: "test"}, {Merchant: "mer_a", Mode: "live"}}

func endpointOf(o webhook.Owner, id string) call {
	return call{name: "Endpoint " + id, of: func(s Stores) answer {
		e, err := s.Webhooks.Endpoint(ctx, o, id)
		all, also := s.Webhooks.Endpoints(ctx, o)
		return answer{class(errors.Join(err, also)), []any{e, all}}
	}}
}

func deliveryAt(r webhook.Ref) call {
	return call{name: "Load " + r.String(), of: func(s Stores) answer {
		e, d, err := s.Webhooks.Load(ctx, r)
		if e.Status == webhook.Deleted { // a missing endpoint comes back as Deleted
			e = webhook.Endpoint{Status: e.Status}
		}
		return answer{class(err), []any{e, d}}
	}}
}

func logOf(o webhook.Owner, from, to time.Time, limit int) call {
	return view(fmt.Sprint("Deliveries ", o, from, to, limit), func(s Stores) ([]webhook.Delivery, error) {
		return s.Webhooks.Deliveries(ctx, o, "we_a", from, to, limit)
	})
}

// dueBy compares the times alone of a few: the stores order those of one instant differently.
func dueBy(at time.Time, limit int) call {
	return call{name: fmt.Sprint("Due ", at, limit), lags: true, of: func(s Stores) answer {
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

func webhooks(r *run) (map[string]func(), func() []call) {
	p := post{&ledger{run: r}}
	return map[string]func(){"endpoint": p.endpoints, "delivery": p.deliveries, "look": p.looks}, func() (all []call) {
		for _, o := range mailboxes {
			all = append(all, endpointOf(o, "we_a"), endpointOf(o, "we_b"), endpointOf(o, "we_c"),
				logOf(o, time.Time{}, time.Time{}, 100))
		}
		return append(all, dueBy(noon.Add(1000*time.Hour), 100))
	}
}

func (p post) looks() {
	p.same(logOf(pick(p.run, "owner", mailboxes...), p.atOrNever(), p.atOrNever(), pick(p.run, "limit", 1, 2, 100)),
		dueBy(p.at(), pick(p.run, "most", 100, 0, 1, 3)))
}

func (p post) endpoints() {
	o, id := pick(p.run, "owner", mailboxes...), pick(p.run, "id", "we_a", "we_b", "we_c")
	sealed, err := webhook.ParseStored("sealed_eA==")
	if err != nil {
		p.Fatal(err)
	}
	e := newEndpoint(o, id)
	e.Secret, e.CreatedAt = pick(p.run, "secret", e.Secret, sealed), p.at()
	now, err := p.Memory.Webhooks.Endpoint(ctx, o, id)
	add := err != nil || now.Status != webhook.Deleted && pick(p.run, "again", false, true)
	if err == nil {
		e = now
	}
	limit := pick(p.run, "limit", 2, 1, 3)
	if add {
		d := fmt.Sprintf("AddEndpoint %v %s of %d", o, id, limit)
		p.write(d, func(s Stores) error { return s.Webhooks.AddEndpoint(ctx, e, limit) }, endpointOf(o, id))
		return
	}
	e.Status = pick(p.run, "status", webhook.Enabled, webhook.Disabled, webhook.Deleted)
	if e.DeletedAt = (time.Time{}); e.Status == webhook.Deleted {
		e.DeletedAt = p.at()
	}
	e.EventTypes = slices.Repeat([]string{webhook.PaymentFailed}, p.size(webhook.MaxEventTypes))
	e.Description, e.Exhausted, e.Slow = pick(p.run, "words", "", "Crème 🧁"), pick(p.run, "exhausted", "", "evt_0"),
		pick(p.run, "slow", 0, 4)
	e.RetryAt, e.QuietSince, e.PreviousExpiresAt = p.atOrNever(), p.atOrNever(), p.atOrNever()
	e.PreviousSecret = pick(p.run, "previous", webhook.Secret{}, sealed)
	e.Version = often(p.run, 5, e.Version, func() int64 { return pick[int64](p.run, "version", 1, 2) })
	p.do(view(fmt.Sprintf("SaveEndpoint %v %s %s, version %d", o, id, e.Status, e.Version),
		func(s Stores) (webhook.Endpoint, error) { return s.Webhooks.SaveEndpoint(ctx, e) }), endpointOf(o, id))
}

func (p post) deliveries() {
	o, at := pick(p.run, "owner", mailboxes...), p.at()
	d := newDelivery(o, at)
	add := pick(p.run, "act", "add", "record", "record", "unpark")
	now := d
	if _, there, err := p.Memory.Webhooks.Load(ctx, d.Ref); err == nil {
		now = there
	}
	switch add {
	case "add":
		d.Event.Body = often(p.run, 30, d.Event.Body, func() []byte { return make([]byte, p.size(webhook.MaxBody)) })
		d.Parked = pick(p.run, "parked", false, true)
		p.write(fmt.Sprint("AddDelivery ", d.Ref),
			func(s Stores) error { return s.Webhooks.AddDelivery(ctx, d) }, deliveryAt(d.Ref))
	case "unpark":
		due := webhook.Due{Ref: d.Ref, At: often(p.run, 4, now.NextAttemptAt, p.at)}
		p.write(fmt.Sprint("Unpark ", due),
			func(s Stores) error { return s.Webhooks.Unpark(ctx, due) }, deliveryAt(d.Ref))
	default:
		attempts := often(p.run, 5, len(now.Attempts), func() int { return pick(p.run, "attempts", 0, 1, 2) })
		for range pick(p.run, "tries", 1, 0, 2) {
			now = tried(now, p.at(), pick(p.run, "parked", false, true))
		}
		if extra := p.size(webhook.MaxAttempts); extra >= webhook.MaxAttempts {
			now.Attempts = append(now.Attempts, make([]webhook.Attempt, extra)...)
		}
		if s := pick(p.run, "status", webhook.Pending, webhook.Delivered, webhook.Exhausted,
			webhook.Cancelled); s != webhook.Pending {
			now = ended(now, s)
		} else {
			now.Status, now.EndedAt = s, time.Time{}
		}
		p.do(call{name: fmt.Sprintf("Record %v %s, %d over %d", now.Ref, now.Status, len(now.Attempts), attempts),
			of: func(s Stores) answer {
				stored, err := s.Webhooks.Record(ctx, now, attempts)
				if class(err) == unknown || errors.Is(err, webhook.ErrTooLarge) {
					return done(err)
				}
				return answer{class(err), []any{stored}} // a conflict comes with the delivery
			}}, deliveryAt(d.Ref))
	}
}

const mints = 8 // keys, four of each merchant

// A porter makes operations of the stores of API keys and address books.
type porter struct{ *ledger }

func keysOf(m string) call {
	return call{name: "List " + m, lags: true, of: func(s Stores) answer {
		all, err := s.Keys.List(ctx, m)
		terms, also := s.Keys.Terms(ctx, m)
		return got(errors.Join(err, also), all, terms)
	}}
}

func keyOf(k apikey.Key) call {
	return call{name: "Find " + k.ID, of: func(s Stores) answer {
		found, err := s.Keys.Find(ctx, k.Hash)
		named, also := s.Keys.Named(ctx, k.MerchantID, k.ID)
		return answer{class(err) + class(also), []any{found, named}}
	}}
}

// bookOf sorts by address: the stores order entries of one instant differently.
func bookOf(m string, limit int) call {
	return call{name: "Entries " + m, lags: true, of: func(s Stores) answer {
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

func apiKeys(r *run) (map[string]func(), func() []call) {
	p := porter{&ledger{run: r}}
	return map[string]func(){"key": p.keys, "terms": p.terms, "entry": p.entries}, func() (all []call) {
		for n := range mints {
			all = append(all, keyOf(newKey(n)))
		}
		for _, m := range owners[1:] {
			all = append(all, keysOf(m), bookOf(m, 1))
		}
		return append(all, call{name: "All", of: func(s Stores) answer {
			all, err := s.Keys.All(ctx)
			slices.SortFunc(all, func(a, b apikey.Key) int { return strings.Compare(a.ID, b.ID) })
			return got(err, all)
		}})
	}
}

func (p porter) keys() {
	k, other := newKey(rapid.IntRange(0, mints-1).Draw(p.T, "key")), newKey(0)
	if stored, _ := p.Memory.Keys.List(ctx, k.MerchantID); len(stored) > 0 {
		other = pick(p.run, "other", stored...)
	}
	k.CreatedAt, k.ExpiresAt, k.Term, k.LastUsedAt = p.at(), p.atOrNever(), p.atOrNever(), p.atOrNever()
	k.Label = pick(p.run, "label", "", "till 3")
	k.Grant = pick(p.run, "grant", apikey.Full(), apikey.Grant{Scopes: apikey.ScopesOf(apikey.PaymentsWrite),
		Maximum: token.MaxAmount(), Book: true,
		Daily: apikey.Limit{Key: "key_a", Amount: token.Units(8), Count: 7}, Root: "key_a"})
	m := often(p.run, 5, k.MerchantID, func() string { return pick(p.run, "merchant", owners[1:]...) })
	at, since, most := p.at(), p.at(), pick(p.run, "most", 2, 1, 3)
	revoked := apikey.Key{}
	acts := map[string]func(Stores) error{
		"Create":  func(s Stores) error { return s.Keys.Create(ctx, k) },
		"Issue":   func(s Stores) error { return s.Keys.Issue(ctx, k, most) },
		"Touch":   func(s Stores) error { return s.Keys.Touch(ctx, k.Hash, at, since) },
		"Replace": func(s Stores) error { return s.Keys.Replace(ctx, m, other.Hash, at, k) },
		"Revoke": func(s Stores) (err error) {
			revoked, err = s.Keys.Revoke(ctx, m, k.Hash, at)
			return err
		},
	}
	act := pick(p.run, "act", slices.Sorted(maps.Keys(acts))...)
	p.do(call{name: fmt.Sprintf("%s %s of %s created %v expires %v, by %s %v, most %d, other %s", act, k.ID, k.MerchantID, k.CreatedAt,
		k.ExpiresAt, m, at, most, other.ID), twofold: act == "Replace",
		of: func(s Stores) answer { return got(acts[act](s), revoked) }}, keyOf(k), keyOf(other), keysOf(k.MerchantID))
}

func (p porter) terms() {
	m := pick(p.run, "merchant", owners[1:]...)
	now, err := p.Memory.Keys.Terms(ctx, m)
	if err != nil {
		p.Fatal(err)
	}
	some := apikey.AssetTerms{Maximum: token.MaxAmount(), Daily: token.Units(7)}
	full := apikey.Terms{Suspended: "stolen \"key\"", Assets: map[string]apikey.AssetTerms{}}
	for i := range p.size(apikey.MaxAssetTerms) {
		full.Assets[token.Coin{ChainID: 1<<64 - 1, Contract: token.Address{byte(i)}}.String()] = some
	}
	from := often(p.run, 4, now, func() apikey.Terms { return apikey.Terms{AssetTerms: some} })
	to := pick(p.run, "to", apikey.Terms{AssetTerms: some}, full, apikey.Terms{})
	p.write("SetTerms "+m, func(s Stores) error { return s.Keys.SetTerms(ctx, m, from, to) }, keysOf(m))
}

func (p porter) entries() {
	m, a := pick(p.run, "merchant", owners[1:]...), token.Address{byte(pick(p.run, "address", 1, 2, 3))}
	e := recipient.Entry{Merchant: m, Mode: "test", Address: a, Label: pick(p.run, "label", "", "Søn 🧁"),
		CreatedAt: p.at(), ActiveAt: p.at()}
	one := view("Entry "+a.String(), func(s Stores) (recipient.Entry, error) { return s.Keys.Entry(ctx, m, "test", a) })
	if pick(p.run, "delete", false, true) {
		p.write("DeleteEntry "+a.String(), func(s Stores) error { return s.Keys.DeleteEntry(ctx, m, "test", a) }, one)
		return
	}
	p.do(call{name: fmt.Sprintf("AddEntry %+v", e), of: func(s Stores) answer {
		stored, added, err := s.Keys.AddEntry(ctx, e)
		return got(err, stored, added)
	}}, one, bookOf(m, pick(p.run, "limit", 1, 2, 100)))
}
