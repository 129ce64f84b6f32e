package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A RailStore is a store of which Rails is the only user.
type RailStore interface {
	store.Settings
	store.Denials
}

// Rails checks that an empty store keeps those promises of store.Settings that no run of Alike reaches. spoil makes the
// current settings of its first rail unreadable, but for their version.
func Rails(t *testing.T, s RailStore, spoil func()) {
	c, ctx := tester{t}, t.Context()
	of := func(chainID uint64) settings.Settings {
		return settings.Default(settings.Rail{ChainID: chainID, Token: usdc, Network: "devnet"})
	}
	v, want := of(1), []settings.Settings{}
	read := func() store.Rail { return must.Get(s.Rules(ctx))(c).Rail(v.Coin()) }
	c.refused("before", read().Unusable, settings.ErrMissing)
	for n := range uint64(settings.Kept + 2) {
		v.Stamp = settings.Stamp{Version: n, Needs: settings.Code, Confirmed: n%2 == 0, At: noon, Who: "ada", Why: fmt.Sprint("test ", n)}
		c.ok("setting", s.SetSettings(ctx, v))
		v.Version++
		want = append([]settings.Settings{v}, want...)
	}
	c.same("the history", want[:settings.Kept], must.Get(s.SettingsHistory(ctx, v.Coin()))(c))
	c.races(race{"changes", 4, 1, store.ErrChanged, func(ctx context.Context, i int) error {
		mine := v
		mine.Daily = token.Units(uint64(i) + 1)
		return s.SetSettings(ctx, mine)
	}})

	to := token.Address{1}
	c.ok("denying", s.Deny(ctx, store.Denial{To: to, At: noon}))
	spoil()
	rail := read()
	c.refused("obeying damaged settings", rail.Unusable, settings.ErrDamaged)
	c.same("the token of damaged settings", usdc, rail.Token)
	c.same("the deny list", to, must.Get(s.Rules(ctx))(c).Denied[0].To)
	fixed := v
	fixed.Version, fixed.Token.Decimals = rail.Settings.Version, 7
	c.refused("another token", s.SetSettings(ctx, fixed), settings.ErrFixed)
	fixed.Token = v.Token
	c.ok("setting over damaged settings", s.SetSettings(ctx, fixed))
	c.ok("obeying them", read().Unusable)

	c.races(race{"rails of one coin", 4, 1, store.ErrChanged, func(ctx context.Context, _ int) error { return s.SetSettings(ctx, of(2)) }})
	c.wins(4, store.ErrChanged, func(ctx context.Context, i int) error { return s.SetSettings(ctx, of(uint64(3+i))) })
	for id := uint64(3); len(must.Get(s.Rules(ctx))(c).Rails) < store.MaxRails; id++ {
		if err := s.SetSettings(ctx, of(id)); err != nil {
			c.refused("adding one of those at once", err, store.ErrChanged)
		}
	}
	c.refused("a rail more", s.SetSettings(ctx, of(99)), store.ErrTooLarge)
}

// Webhooks checks that the store which open returns keeps those promises of webhook.Store that no run of Alike reaches.
// Every call of open may return the same store. Due may lag: the suite repeats it until its answer is right.
func Webhooks(t *testing.T, open func(t *testing.T) webhook.Store) {
	examine(t, hookPromises, func(c tester) hookCheck { return hookCheck{c, open(c.T)} })
}

// A hookCheck examines one promise of webhook.Store.
type hookCheck struct {
	tester
	webhook.Store
}

// owner returns a new merchant's test mode.
func owner() webhook.Owner { return webhook.Owner{Merchant: "mer_" + rand.Text(), Mode: "test"} }

func (c hookCheck) endpoint(o webhook.Owner) webhook.Endpoint {
	secret := webhook.MintSecret(rand.Reader)
	return webhook.Endpoint{Owner: o, ID: "we_" + rand.Text(), URL: "https://example.com/hook", Status: webhook.Enabled,
		Secret: secret, CreatedAt: noon, EnabledAt: noon, Version: 1}
}

// deliveryOf returns a new pending delivery that is created at at.
func deliveryOf(o webhook.Owner, endpoint string, at time.Time) webhook.Delivery {
	salt := make([]byte, 10)
	_, _ = rand.Read(salt) // never fails
	id := webhook.FirstID(at)
	id = id[:len(id)-2*len(salt)] + hex.EncodeToString(salt)
	return webhook.Delivery{
		Ref: webhook.Ref{Owner: o, Endpoint: endpoint, Delivery: id},
		Event: webhook.Event{Merchant: o.Merchant, Mode: o.Mode, ID: "evt_" + rand.Text(),
			Type: webhook.PaymentConfirmed, At: at,
			Body: []byte("{\"id\":\"evt_1\" , \"data\":\"Söđ 🧁 \\u0000\u2028\"}")},
		Status: webhook.Pending, NextAttemptAt: at, CreatedAt: at,
	}
}

func attemptAt(at time.Time, status int) webhook.Attempt {
	at = at.Add(123456789) // to the nanosecond
	return webhook.Attempt{At: at, StatusCode: status, Duration: 1234 * time.Millisecond,
		Error: "the endpoint answered", Response: "nö\x00\n"}
}

// tried returns d after another failed attempt, due an hour later.
func tried(d webhook.Delivery, at time.Time, parked bool) webhook.Delivery {
	d.Attempts = append(d.Attempts[:len(d.Attempts):len(d.Attempts)], attemptAt(at, 500))
	d.NextAttemptAt, d.Parked = at.Add(time.Hour), parked
	return d
}

func ended(d webhook.Delivery, s webhook.DeliveryStatus) webhook.Delivery {
	d.Status, d.NextAttemptAt, d.Parked, d.EndedAt = s, time.Time{}, false, noon.Add(time.Hour)
	return d
}

var hookPromises = []promise[hookCheck]{
	{"of many racing writes as many get in as would one after the other", func(c hookCheck) {
		e, d := c.endpoint(owner()), deliveryOf(owner(), "we_1", noon)
		c.ok("adding an endpoint and a delivery", errors.Join(c.AddEndpoint(c.Context(), e, 1), c.AddDelivery(c.Context(), d)))
		many := owner()
		c.races(
			race{"new endpoints", 20, 10, webhook.ErrLimit, func(ctx context.Context, _ int) error {
				return c.AddEndpoint(ctx, c.endpoint(many), 10)
			}},
			race{"saves", 10, 1, webhook.ErrConflict, func(ctx context.Context, i int) error {
				mine := e
				mine.QuietSince = noon.Add(time.Duration(i) * time.Minute)
				return must.Err(c.SaveEndpoint(ctx, mine))
			}},
			race{"records", 10, 1, webhook.ErrConflict, func(ctx context.Context, i int) error {
				return must.Err(c.Record(ctx, tried(d, noon.Add(time.Duration(i)*time.Second), i%2 == 0), 0))
			}},
		)
	}},
	{"a success may follow the end of a delivery, nothing else may", func(c hookCheck) {
		for _, end := range []webhook.DeliveryStatus{webhook.Delivered, webhook.Exhausted, webhook.Cancelled} {
			d := deliveryOf(owner(), "we_1", noon)
			final := ended(tried(d, noon, false), end)
			c.ok("an end", errors.Join(c.AddDelivery(c.Context(), d), must.Err(c.Record(c.Context(), final, 0))))
			late := tried(final, noon.Add(time.Minute), false)
			for _, late.Status = range []webhook.DeliveryStatus{webhook.Pending, webhook.Exhausted, webhook.Cancelled, webhook.Delivered} {
				want := webhook.ErrConflict
				if late.Status == webhook.Delivered && end != webhook.Delivered {
					want = nil
				}
				c.refused(string(late.Status)+" after "+string(end), must.Err(c.Record(c.Context(), late, 1)), want)
			}
		}
	}},
	{"deliveries at all of their bounds are stored, and take no more of anything", func(c hookCheck) {
		o := owner()
		ds := make([]webhook.Delivery, webhook.EndpointLimit)
		for i := range ds {
			ds[i] = deliveryOf(o, fmt.Sprint("we_", i), noon)
			ds[i].Event.Body = make([]byte, webhook.MaxBody)
			_, _ = rand.Read(ds[i].Event.Body) // never fails; no store makes it shorter
			c.ok("adding a delivery", c.AddDelivery(c.Context(), ds[i]))
		}
		d := ds[0]
		for i := range webhook.MaxAttempts {
			d = tried(d, noon, false)
			d.Attempts[i].Error, d.Attempts[i].Response = strings.Repeat("e", 2048), strings.Repeat("\uFFFD", webhook.ResponseLimit)
			c.same("the answer to a record", d, must.Get(c.Record(c.Context(), d, i))(c))
		}
		c.refused("an attempt more", must.Err(c.Record(c.Context(), tried(d, noon, false), webhook.MaxAttempts)), webhook.ErrTooLarge)
		_, got, err := c.Load(c.Context(), d.Ref)
		c.ok("loading it", err)
		c.same("the delivery", d, got)
	}},
	{"of more than may be returned, those are due that wait longest and shortest", func(c hookCheck) {
		long := noon.AddDate(-20, 0, 0) // before any other promise's
		var want []webhook.Due
		for minute := range 9 {
			d := tried(deliveryOf(owner(), "we_1", long), long.Add(time.Duration(minute)*time.Minute), true)
			d.Delivery = d.Delivery[:len(d.Delivery)-1] + "0" // a store may spread them by the ends of their ids
			c.ok("adding a delivery", c.AddDelivery(c.Context(), d))
			if minute < 2 || minute > 7 {
				want = append(want, webhook.Due{Ref: d.Ref, At: d.NextAttemptAt})
			}
		}
		for most, want := range map[int][]webhook.Due{0: {}, 1: want[:1], 3: want} {
			c.eventually(fmt.Sprint("due deliveries, at most ", most), func() string {
				few := must.Get(c.Due(c.Context(), long.AddDate(1, 0, 0), most))(c)
				return cmp.Diff(want, few, cmpopts.EquateEmpty())
			})
		}
	}},
}

// A Keeper is a whole store of API keys.
type Keeper interface {
	apikey.Store
	apikey.Finder
}

// Random returns a source of bytes that is the same for the same seed, for tests that mint keys.
func Random(seed byte) io.Reader {
	return mathrand.NewChaCha8([32]byte(bytes.Repeat([]byte{seed}, 32)))
}

// APIKeys checks that fifty racing callers get as many keys as there is room for, of which a revoked one takes none,
// and twenty one entry.
func APIKeys(t *testing.T, keys Keeper, book recipient.Store) {
	c, merchant := tester{t}, "mer_"+rand.Text()
	issue := func(ctx context.Context, i int) error {
		s := apikey.Mint(rand.Reader, apikey.Test)
		return keys.Issue(ctx, apikey.Key{Hash: s.Hash(), ID: s.ID(), MerchantID: merchant, Mode: s.Mode(),
			CreatedAt: noon.Add(time.Duration(i) * time.Second)}, apikey.MaxLive)
	}
	enter := func(ctx context.Context, i int) error {
		_, added, err := book.AddEntry(ctx, recipient.Entry{Merchant: merchant, Mode: "test", Address: token.Address{1},
			CreatedAt: noon.Add(time.Duration(i) * time.Second), ActiveAt: noon})
		return othersUnless(added, err)
	}
	c.races(race{"issued keys", 50, apikey.MaxLive, apikey.ErrLimit, issue}, race{"entries of one address", 20, 1, errOthers, enter})
	c.eventually("the list of keys", func() string {
		return cmp.Diff(apikey.MaxLive, len(must.Get(keys.List(t.Context(), merchant))(c)))
	})
	one := must.Get(keys.List(t.Context(), merchant))(c)[0]
	must.Get(keys.Revoke(t.Context(), merchant, one.Hash, noon))(c)
	c.eventually("a place that is free again", func() string { return class(issue(t.Context(), 60)) })
	c.refused("one more", issue(t.Context(), 61), apikey.ErrLimit)
	theirs := apikey.Key{Hash: apikey.Hash{1}, ID: "key_1", MerchantID: "mer_other", Mode: apikey.Test, CreatedAt: noon}
	for what, err := range map[string]error{
		"replacing another merchant's key": keys.Replace(t.Context(), theirs.MerchantID, one.Hash, noon, theirs),
		"revoking it":                      must.Err(keys.Revoke(t.Context(), theirs.MerchantID, one.Hash, noon)),
	} {
		c.refused(what, err, apikey.ErrNotFound)
	}
	read, to := apikey.Terms{Suspended: "once"}, apikey.Terms{Suspended: "now"}
	c.refused("terms over others than were read", keys.SetTerms(t.Context(), merchant, read, to), apikey.ErrTerms)
}
