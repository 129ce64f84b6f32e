package storetest

import (
	"bytes"
	"context"
	"errors"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// named seals a secret by putting the endpoint's id in front; a store writes base64 of it.
func named(_ context.Context, endpoint string, b []byte) ([]byte, error) {
	return append([]byte(endpoint), b...), nil
}

// unnamed opens secrets that named sealed.
func unnamed(_ context.Context, endpoint string, b []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(b, []byte(endpoint))
	if !ok {
		return nil, errors.New("another endpoint's")
	}
	return rest, nil
}

// sealedPromises are of a store behind webhook.Sealed: it never has a secret in clear that
// was sealed, and keeps the text as it is.
var sealedPromises = []promise[hookCheck]{
	{"a sealed secret is never stored in clear, and opens when a delivery is loaded", func(c hookCheck) {
		sealing, opening := webhook.Sealed{Store: c.Store, Seal: named}, webhook.Sealed{Store: c.Store, Open: unnamed}
		e := c.endpoint(owner(), noon)
		c.ok("adding", sealing.AddEndpoint(c.Context(), e, 1))
		d := deliveryOf(e.Owner, e.ID, noon)
		c.add(d)
		hidden := must.Get(c.Endpoint(c.Context(), e.Owner, e.ID))(c)
		if hidden.Secret.Reveal() != "" || hidden.PreviousSecret.Reveal() != "" || hidden.Secret.IsZero() {
			c.Errorf("the store has the secrets %q and %q", hidden.Secret.Stored(), hidden.PreviousSecret.Stored())
		}
		signs := func(want ...webhook.Secret) {
			c.Helper()
			got, _, err := opening.Load(c.Context(), d.Ref)
			c.ok("loading", err)
			if got.Secret.Reveal() != want[0].Reveal() || got.PreviousSecret.Reveal() != want[1].Reveal() {
				c.Errorf("loaded were other secrets than were added")
			}
			hidden = got
		}
		signs(e.Secret, e.PreviousSecret)

		// A process that opens, and one without the key, write the sealed text as it was.
		before := hidden.Secret.Stored()
		hidden = must.Get(opening.SaveEndpoint(c.Context(), hidden))(c)
		hidden = must.Get(c.Endpoint(c.Context(), e.Owner, e.ID))(c)
		hidden.Description = "changed"
		hidden = c.saved(hidden)
		if hidden.Secret.Stored() != before || hidden.Secret.Reveal() != "" {
			c.Errorf("%q became %q", before, hidden.Secret.Stored())
		}

		// A rotation returns the new secret once; the old one stays sealed beside it.
		fresh := c.secret()
		hidden.PreviousSecret, hidden.Secret = hidden.Secret, fresh
		rotated := must.Get(sealing.SaveEndpoint(c.Context(), hidden))(c)
		if rotated.Secret.Reveal() != fresh.Reveal() {
			c.Errorf("the merchant is shown %q", rotated.Secret.Reveal())
		}
		signs(fresh, e.Secret)
	}},
	{"a secret from before there was a key is read as it is", func(c hookCheck) {
		e := c.added(owner(), 1)
		d := deliveryOf(e.Owner, e.ID, noon)
		c.add(d)
		got, _, err := webhook.Sealed{Store: c.Store, Open: unnamed}.Load(c.Context(), d.Ref)
		c.ok("loading", err)
		if got.Secret.Reveal() != e.Secret.Reveal() {
			c.Errorf("loaded was %q", got.Secret.Stored())
		}
	}},
}
