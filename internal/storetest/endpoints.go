package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"remit/internal/webhook"
)

func endpointAsStored(c hookCheck) {
	full := c.endpoint(owner(), noon)
	bare := webhook.Endpoint{
		Owner: full.Owner, ID: full.ID + "b", URL: full.URL, Status: webhook.Disabled, Secret: c.secret(),
		CreatedAt: noon, EnabledAt: noon, Version: 1,
	}
	for _, e := range []webhook.Endpoint{full, bare} {
		c.ok("adding an endpoint", c.AddEndpoint(c.Context(), e, 10))
		c.holds(e)
	}
}

func endpointUnknown(c hookCheck) {
	e := c.endpoint(owner(), noon)
	_, err := c.Endpoint(c.Context(), e.Owner, e.ID)
	c.refused("reading", err, webhook.ErrNotFound)
	for _, e.Status = range []webhook.Status{webhook.Enabled, webhook.Deleted} {
		c.saveRefused(e, webhook.ErrNotFound)
	}
	c.lists(e.Owner)
}

// saveRefused checks that saving e is refused.
func (c hookCheck) saveRefused(e webhook.Endpoint, want error) {
	c.Helper()
	_, err := c.SaveEndpoint(c.Context(), e)
	c.refused("saving an endpoint as "+string(e.Status), err, want)
}

// full checks that o cannot add an endpoint to limit others.
func (c hookCheck) full(o webhook.Owner, limit int) {
	c.Helper()
	c.refused("adding one endpoint too many", c.AddEndpoint(c.Context(), c.endpoint(o, noon), limit), webhook.ErrLimit)
}

func endpointTwice(c hookCheck) {
	e := c.added(owner(), 2)
	for range 2 {
		c.ok("adding it again", c.AddEndpoint(c.Context(), e, 2))
	}
	c.added(e.Owner, 2)
	c.full(e.Owner, 2)
}

func endpointLimit(c hookCheck) {
	o := owner()
	added := c.wins(20, webhook.ErrLimit, func(ctx context.Context, _ int) error {
		return c.AddEndpoint(ctx, c.endpoint(o, noon), 10)
	})
	list, err := c.Endpoints(c.Context(), o)
	c.ok("listing endpoints", err)
	if len(added) != 10 || len(list) != 10 {
		c.Errorf("%d added, %d listed; want 10 each", len(added), len(list))
	}
}

func endpointOwners(c hookCheck) {
	mine := c.added(owner(), 1)
	for _, o := range []webhook.Owner{owner(), {Merchant: mine.Merchant, Mode: "live"}} {
		_, err := c.Endpoint(c.Context(), o, mine.ID)
		c.refused("reading another owner's endpoint", err, webhook.ErrNotFound)
		c.lists(o, c.added(o, 1))
	}
}

func endpointOrder(c hookCheck) {
	o := owner()
	var want []webhook.Endpoint
	for _, minute := range []int{3, 1, 2, 1} {
		e := c.endpoint(o, noon.Add(time.Duration(minute)*time.Minute))
		c.ok("adding an endpoint", c.AddEndpoint(c.Context(), e, 10))
		want = append(want, e)
	}
	slices.SortFunc(want, func(a, b webhook.Endpoint) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	c.lists(o, want...)
}

func endpointEmptied(c hookCheck) {
	e := c.added(owner(), 10)
	e.URL, e.Status, e.Secret = "https://example.org", webhook.Disabled, c.secret()
	e.EventTypes, e.Description, e.Exhausted = nil, "", ""
	e.PreviousSecret, e.PreviousExpiresAt, e.QuietSince = webhook.Secret{}, time.Time{}, time.Time{}
	saved := c.saved(e)
	e.Version = 2
	c.same("saved endpoint", e, saved)
	c.holds(e)
}

func endpointStale(c hookCheck) {
	e := c.added(owner(), 10)
	newer := c.saved(e)
	for _, e.Status = range []webhook.Status{webhook.Disabled, webhook.Deleted} {
		c.saveRefused(e, webhook.ErrConflict)
	}
	c.holds(newer)
}

func endpointRace(c hookCheck) {
	e := c.added(owner(), 10)
	c.winner(10, webhook.ErrConflict, func(ctx context.Context, i int) error {
		mine := e
		mine.QuietSince = noon.Add(time.Duration(i) * time.Minute)
		_, err := c.SaveEndpoint(ctx, mine)
		return err
	})
}

func endpointDeleted(c hookCheck) {
	gone := c.added(owner(), 1)
	gone.Status = webhook.Deleted
	gone = c.saved(gone)
	c.holds(gone)
	c.lists(gone.Owner)
	for _, status := range []webhook.Status{webhook.Enabled, webhook.Deleted} {
		again := gone
		again.Status = status
		c.saveRefused(again, webhook.ErrNotFound)
	}
	c.added(gone.Owner, 1)
	c.full(gone.Owner, 1)
}
