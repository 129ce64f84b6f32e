package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A Keeper is a whole store of API keys.
type Keeper interface {
	apikey.Store
	apikey.Finder
}

// APIKeys checks that the store which open returns keeps the promises of
// apikey.Store and apikey.Finder. Every call of open may return the same store.
func APIKeys(t *testing.T, open func(t *testing.T) Keeper) {
	examine(t, keyPromises, func(c tester) keyCheck { return keyCheck{c, open(c.T)} })
}

// A keyCheck examines one promise of apikey.Store or apikey.Finder.
type keyCheck struct {
	tester
	Keeper
}

// fresh returns a new key of a new merchant. It is not stored.
func (c keyCheck) fresh() apikey.Key {
	c.Helper()
	return c.key("mer_"+rand.Text(), noon)
}

func (c keyCheck) key(merchantID string, at time.Time) apikey.Key {
	c.Helper()
	s := must.Get(apikey.Mint(rand.Reader, apikey.Test))(c)
	return apikey.Key{
		Hash: s.Hash(), ID: s.ID(), MerchantID: merchantID, MerchantName: "Crème & Søn 🧁",
		Mode: s.Mode(), Prefix: s.Prefix(), Last4: s.Last4(), CreatedAt: at,
	}
}

func (c keyCheck) create(keys ...apikey.Key) {
	c.Helper()
	for _, k := range keys {
		c.ok("creating "+k.ID, c.Create(c.Context(), k))
	}
}

// created returns a new key that is stored.
func (c keyCheck) created() apikey.Key {
	c.Helper()
	k := c.fresh()
	c.create(k)
	return k
}

// replace replaces old by next at the time at.
func (c keyCheck) replace(old apikey.Key, at time.Time, next apikey.Key) {
	c.Helper()
	c.ok("replacing", c.Replace(c.Context(), old.MerchantID, old.Hash, at, next))
}

// holds checks that each key is stored under its hash.
func (c keyCheck) holds(want ...apikey.Key) {
	c.Helper()
	for _, k := range want {
		got := must.Get(c.Find(c.Context(), k.Hash))(c)
		c.same("stored key", k, got)
	}
}

// absent checks that no key is stored under the hashes of these.
func (c keyCheck) absent(keys ...apikey.Key) {
	c.Helper()
	for _, k := range keys {
		c.refused("finding an absent key", must.Err(c.Find(c.Context(), k.Hash)), apikey.ErrNotFound)
	}
}

// listed checks the merchant's list. No keys are an empty slice, never nil. An index may lag.
func (c keyCheck) listed(merchantID string, want ...apikey.Key) {
	c.Helper()
	c.eventually("list of "+merchantID, func() string {
		got := must.Get(c.List(c.Context(), merchantID))(c)
		return cmp.Diff(append([]apikey.Key{}, want...), got, byEquality)
	})
	for _, k := range want {
		got := must.Get(c.Named(c.Context(), merchantID, k.ID))(c)
		c.same("key of that ID", k, got)
		_, err := c.Named(c.Context(), "mer_of_nobody", k.ID)
		c.refused("looking for another merchant's key", err, apikey.ErrNotFound)
	}
}

// Random returns a source of bytes that is the same for the same seed, for tests that mint keys.
func Random(seed byte) io.Reader {
	return mathrand.NewChaCha8([32]byte(bytes.Repeat([]byte{seed}, 32)))
}

// only returns the merchant's keys out of all.
func (c keyCheck) only(merchantID string) []apikey.Key {
	c.Helper()
	all := must.Get(c.All(c.Context()))(c)
	return slices.DeleteFunc(all, func(k apikey.Key) bool { return k.MerchantID != merchantID })
}

var keyPromises = []promise[keyCheck]{
	{"a key is found as it was stored", func(c keyCheck) {
		k := c.fresh()
		k.ExpiresAt, k.RevokedAt, k.LastUsedAt = noon.Add(time.Hour), noon.Add(time.Minute), noon.Add(time.Second)
		c.create(k)
		c.holds(k)
	}},
	{"a merchant's terms are replaced as they were read", func(c keyCheck) {
		m := c.created().MerchantID
		limited := apikey.Terms{AssetTerms: apikey.AssetTerms{Maximum: token.MaxAmount(), Daily: token.Units(7)}}
		suspended := apikey.Terms{Suspended: "stolen \"key\"", Assets: map[string]apikey.AssetTerms{"a": {Daily: token.Units(7)}}}
		for _, step := range []struct{ from, to, want apikey.Terms }{
			{limited, suspended, apikey.Terms{}}, // refused: none are stored
			{apikey.Terms{}, limited, limited},
			{apikey.Terms{}, limited, limited}, // again, after an answer that was lost
			{apikey.Terms{}, suspended, limited},
			{limited, suspended, suspended},
			{suspended, apikey.Terms{}, apikey.Terms{}},
			{apikey.Terms{}, suspended, suspended},
		} {
			if err := c.SetTerms(c.Context(), m, step.from, step.to); (err == nil) != (step.to.Text() == step.want.Text()) ||
				err != nil && !errors.Is(err, apikey.ErrTerms) {
				c.Errorf("%+v in place of %+v: %v", step.to, step.from, err)
			}
			got := must.Get(c.Terms(c.Context(), m))(c)
			c.same("terms", step.want, got)
		}
		full := apikey.Terms{Assets: map[string]apikey.AssetTerms{}}
		for i := range apikey.MaxAssetTerms {
			full.Assets[token.Coin{ChainID: math.MaxUint64, Contract: token.Address{byte(i)}}.String()] = limited.AssetTerms
		}
		c.ok("terms of every asset", c.SetTerms(c.Context(), m, suspended, full))
		more := full.With(token.Coin{ChainID: 1}, token.Coin{}, limited.AssetTerms)
		c.refused("terms of one more", c.SetTerms(c.Context(), m, full, more), apikey.ErrAssetTerms)
		c.same("full terms", full, must.Get(c.Terms(c.Context(), m))(c))
		other := must.Get(c.Terms(c.Context(), c.created().MerchantID))(c)
		c.same("another merchant's terms", apikey.Terms{}, other)
		c.listed(m, c.only(m)...)
	}},
	{"a restricted key is found as it was stored", func(c keyCheck) {
		k := c.fresh()
		k.Label, k.Term = "till 3", noon.Add(time.Hour)
		k.Grant = apikey.Grant{Scopes: apikey.ScopesOf(apikey.PaymentsWrite), Maximum: token.MaxAmount(), Book: true}
		k.Daily = apikey.Limit{Key: "key_a", Amount: token.Units(8), Count: 7}
		all := c.key(k.MerchantID, noon.Add(time.Second))
		all.Grant = apikey.Full()
		c.create(k, all)
		c.holds(k, all)
		c.listed(k.MerchantID, all, k)
	}},
	{"keys are issued up to the limit, the valid ones counted", func(c keyCheck) {
		first := c.created()
		m := first.MerchantID
		revoked, expired := c.key(m, noon), c.key(m, noon)
		revoked.RevokedAt, expired.ExpiresAt = noon, noon
		c.create(revoked, expired)
		second, third := c.key(m, noon.Add(time.Second)), c.key(m, noon.Add(2*time.Second))
		for range 2 { // the same key again is no further one
			c.ok("issuing the second", c.Issue(c.Context(), second, 2))
		}
		c.refused("issuing a third of two", c.Issue(c.Context(), third, 2), apikey.ErrLimit)
		c.absent(third)
		c.ok("issuing a third of three", c.Issue(c.Context(), third, 3))
		c.holds(first, second, third)
		must.Get(c.Revoke(c.Context(), m, second.Hash, noon))(c)
		c.eventually("a place that is free again", func() string {
			if err := c.Issue(c.Context(), c.key(m, noon.Add(time.Minute)), 3); err != nil {
				return err.Error()
			}
			return ""
		})
		c.ok("another merchant's", c.Issue(c.Context(), c.fresh(), 1))
	}},
	{"fifty racing callers issue as many keys as there is room for", func(c keyCheck) {
		first := c.created()
		c.wins(50, apikey.ErrLimit, func(ctx context.Context, i int) error {
			return c.Issue(ctx, c.key(first.MerchantID, noon.Add(time.Duration(i)*time.Second)), apikey.MaxLive)
		})
		c.eventually("the number of keys", func() string {
			keys := must.Get(c.List(c.Context(), first.MerchantID))(c)
			return cmp.Diff(apikey.MaxLive, len(keys))
		})
	}},
	{"a hash that is taken by another merchant is refused", func(c keyCheck) {
		k := c.created()
		other := c.fresh()
		other.Hash = k.Hash
		c.refused("creating", c.Create(c.Context(), other), apikey.ErrExists)
		c.refused("issuing", c.Issue(c.Context(), other, 5), apikey.ErrExists)
		c.holds(k)
		c.listed(other.MerchantID)
	}},
	{"a merchant's keys are listed newest first", func(c keyCheck) {
		first := c.fresh()
		m := first.MerchantID
		second, third := c.key(m, noon.Add(time.Microsecond)), c.key(m, noon.Add(time.Hour))
		a, b := c.key(m, noon.Add(time.Minute)), c.key(m, noon.Add(time.Minute))
		if a.ID > b.ID {
			a, b = b, a
		}
		c.create(second, a, third, first, b, c.fresh())
		c.listed(m, third, b, a, second, first)
		c.listed("mer_" + rand.Text())
	}},
	{"a replaced key expires and has a successor", func(c keyCheck) {
		old := c.created()
		next := c.key(old.MerchantID, noon.Add(time.Hour))
		old.ExpiresAt = noon.Add(25 * time.Hour)
		for range 2 { // again: the first answer may have been lost
			c.replace(old, old.ExpiresAt, next)
		}
		c.holds(old, next)
		c.listed(old.MerchantID, next, old)
	}},
	{"replacing another merchant's key changes nothing", func(c keyCheck) {
		old, thief := c.fresh(), c.fresh()
		c.create(old)
		c.refused("replacing", c.Replace(c.Context(), thief.MerchantID, old.Hash, noon, thief), apikey.ErrNotFound)
		c.holds(old)
		c.absent(thief)
		missing := c.fresh()
		c.refused("replacing", c.Replace(c.Context(), thief.MerchantID, missing.Hash, noon, thief), apikey.ErrNotFound)
		c.absent(thief, missing)
	}},
	{"revoking another merchant's key changes nothing", func(c keyCheck) {
		k := c.created()
		c.refused("revoking", must.Err(c.Revoke(c.Context(), "mer_other", k.Hash, noon)), apikey.ErrNotFound)
		c.holds(k)
		missing := c.fresh()
		c.refused("ending", must.Err(c.Revoke(c.Context(), missing.MerchantID, missing.Hash, noon)), apikey.ErrNotFound)
		c.absent(missing)
	}},
}

// Recipients checks that the store which open returns keeps the promises of
// recipient.Store. Every call of open may return the same store.
func Recipients(t *testing.T, open func(t *testing.T) recipient.Store) {
	examine(t, entryPromises, func(c tester) entryCheck { return entryCheck{c, open(c.T), "mer_" + rand.Text()} })
}

// An entryCheck examines one promise of recipient.Store.
type entryCheck struct {
	tester
	recipient.Store
	merchant string
}

// entry returns the n-th entry of the check's merchant, which is not stored.
func (c entryCheck) entry(n byte) recipient.Entry {
	at := noon.Add(time.Duration(n) * time.Millisecond)
	return recipient.Entry{Merchant: c.merchant, Mode: "test", Address: token.Address{n, 0xab}, Label: "Søn 🧁",
		CreatedAt: at, ActiveAt: at.Add(time.Hour)}
}

func (c entryCheck) add(entries ...recipient.Entry) {
	c.Helper()
	for _, e := range entries {
		if stored, added, err := c.AddEntry(c.Context(), e); err != nil || !added || stored != e {
			c.Fatalf("adding %+v: %+v, %v, %v", e, stored, added, err)
		}
	}
}

var entryPromises = []promise[entryCheck]{
	{"an entry is found as it was stored", func(c entryCheck) {
		e, bare := c.entry(1), c.entry(2)
		bare.Label = ""
		c.add(e, bare, e) // once more: the answer may have been lost
		for _, want := range []recipient.Entry{e, bare} {
			got := must.Get(c.Entry(c.Context(), c.merchant, "test", want.Address))(c)
			c.same("entry", want, got)
		}
	}},
	{"one of many that add an address adds it", func(c entryCheck) {
		c.winner(20, errOthers, func(ctx context.Context, i int) error {
			e := c.entry(1)
			e.CreatedAt = e.CreatedAt.Add(time.Duration(i) * time.Second)
			_, added, err := c.AddEntry(ctx, e)
			return othersUnless(added, err)
		})
	}},
	{"entries are listed newest first, page by page", func(c entryCheck) {
		var want []recipient.Entry
		for n := byte(7); n > 0; n-- {
			want = append(want, c.entry(n))
			c.add(c.entry(n))
		}
		c.eventually("all pages", func() string {
			got := []recipient.Entry{}
			for from, more := (recipient.Position{}), true; more; {
				var page []recipient.Entry
				var err error
				page, more, err = c.Entries(c.Context(), c.merchant, "test", from, 3)
				c.ok("listing", err)
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
				from = recipient.Position{CreatedAt: page[len(page)-1].CreatedAt, Address: page[len(page)-1].Address}
			}
			return cmp.Diff(want, got)
		})
	}},
}
