package storetest

import (
	"fmt"
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
	"github.com/remit-payouts/remit/internal/proof/must"
)

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

var (
	mailboxes = []webhook.Owner{{Merchant: "mer_a", Mode: "test"}, {Merchant: "mer_a", Mode: "live"}}
	endpoints = []string{"we_a", "we_b", "we_c"}
)

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
