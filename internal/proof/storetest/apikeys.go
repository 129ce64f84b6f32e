package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	mathrand "math/rand/v2"
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

// Random returns a source of bytes that is the same for the same seed, for tests that mint keys.
func Random(seed byte) io.Reader {
	return mathrand.NewChaCha8([32]byte(bytes.Repeat([]byte{seed}, 32)))
}

// APIKeys checks that fifty racing callers get as many keys as there is room for, and twenty one entry.
func APIKeys(t *testing.T, keys Keeper, book recipient.Store) {
	c, merchant := tester{t}, "mer_"+rand.Text()
	issued := c.wins(50, apikey.ErrLimit, func(ctx context.Context, i int) error {
		s := must.Get(apikey.Mint(rand.Reader, apikey.Test))(c)
		return keys.Issue(ctx, apikey.Key{Hash: s.Hash(), ID: s.ID(), MerchantID: merchant, Mode: s.Mode(),
			CreatedAt: noon.Add(time.Duration(i) * time.Second)}, apikey.MaxLive)
	})
	c.same("issued keys", apikey.MaxLive, len(issued))
	c.eventually("the list of keys", func() string {
		return cmp.Diff(len(issued), len(must.Get(keys.List(t.Context(), merchant))(c)))
	})
	added := c.wins(20, errOthers, func(ctx context.Context, i int) error {
		_, added, err := book.AddEntry(ctx, recipient.Entry{Merchant: merchant, Mode: "test", Address: token.Address{1},
			CreatedAt: noon.Add(time.Duration(i) * time.Second), ActiveAt: noon})
		return othersUnless(added, err)
	})
	c.same("added entries", 1, len(added))
}
