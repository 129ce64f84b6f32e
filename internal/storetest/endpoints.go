package storetest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/internal/webhook"
)

func endpointAsStored(t *testing.T, s webhook.Store) {
	full := endpointOf(t, owner(), noon)
	bare := webhook.Endpoint{
		Owner: full.Owner, ID: full.ID + "b", URL: full.URL, Status: webhook.Disabled, Secret: secret(t),
		CreatedAt: noon, EnabledAt: noon, Version: 1,
	}
	for _, e := range []webhook.Endpoint{full, bare} {
		ok(t, s.AddEndpoint(t.Context(), e, 10))
		got, err := s.Endpoint(t.Context(), e.Owner, e.ID)
		ok(t, err)
		same(t, "endpoint", got, e)
	}
}

func endpointUnknown(t *testing.T, s webhook.Store) {
	e := endpointOf(t, owner(), noon)
	if _, err := s.Endpoint(t.Context(), e.Owner, e.ID); !errors.Is(err, webhook.ErrNotFound) {
		t.Errorf("Endpoint: %v", err)
	}
	if _, err := s.SaveEndpoint(t.Context(), e); !errors.Is(err, webhook.ErrNotFound) {
		t.Errorf("SaveEndpoint: %v", err)
	}
	e.Status = webhook.Deleted
	if _, err := s.SaveEndpoint(t.Context(), e); !errors.Is(err, webhook.ErrNotFound) {
		t.Errorf("SaveEndpoint, deleting: %v", err)
	}
	list, err := s.Endpoints(t.Context(), e.Owner)
	if err != nil || len(list) != 0 {
		t.Errorf("Endpoints: %v, %v", list, err)
	}
}

func endpointTwice(t *testing.T, s webhook.Store) {
	e := endpointOf(t, owner(), noon)
	for range 3 {
		ok(t, s.AddEndpoint(t.Context(), e, 2))
	}
	ok(t, s.AddEndpoint(t.Context(), endpointOf(t, e.Owner, noon), 2))
	if err := s.AddEndpoint(t.Context(), endpointOf(t, e.Owner, noon), 2); !errors.Is(err, webhook.ErrLimit) {
		t.Errorf("a third endpoint: %v", err)
	}
}

func endpointLimit(t *testing.T, s webhook.Store) {
	o := owner()
	var added, refused atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		e := endpointOf(t, o, noon)
		wg.Go(func() {
			switch err := s.AddEndpoint(t.Context(), e, 10); {
			case err == nil:
				added.Add(1)
			case errors.Is(err, webhook.ErrLimit):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, err := s.Endpoints(t.Context(), o)
	ok(t, err)
	if added.Load() != 10 || refused.Load() != 10 || len(list) != 10 {
		t.Errorf("%d added, %d refused, %d listed; want 10 each", added.Load(), refused.Load(), len(list))
	}
}

func endpointOwners(t *testing.T, s webhook.Store) {
	mine := endpointOf(t, owner(), noon)
	ok(t, s.AddEndpoint(t.Context(), mine, 1))
	for name, o := range map[string]webhook.Owner{
		"another merchant": owner(),
		"the other mode":   {Merchant: mine.Merchant, Mode: "live"},
	} {
		if _, err := s.Endpoint(t.Context(), o, mine.ID); !errors.Is(err, webhook.ErrNotFound) {
			t.Errorf("%s sees it: %v", name, err)
		}
		theirs := endpointOf(t, o, noon)
		ok(t, s.AddEndpoint(t.Context(), theirs, 1))
		list, err := s.Endpoints(t.Context(), o)
		ok(t, err)
		same(t, name+"'s list", list, []webhook.Endpoint{theirs})
	}
}

func endpointOrder(t *testing.T, s webhook.Store) {
	o := owner()
	var want []webhook.Endpoint
	for _, minute := range []int{3, 1, 2, 1} {
		e := endpointOf(t, o, noon.Add(time.Duration(minute)*time.Minute))
		ok(t, s.AddEndpoint(t.Context(), e, 10))
		want = append(want, e)
	}
	slices.SortFunc(want, func(a, b webhook.Endpoint) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	got, err := s.Endpoints(t.Context(), o)
	ok(t, err)
	same(t, "list", got, want)
}

func endpointEmptied(t *testing.T, s webhook.Store) {
	e := endpointOf(t, owner(), noon)
	ok(t, s.AddEndpoint(t.Context(), e, 10))
	e.URL, e.Status, e.Secret = "https://example.org", webhook.Disabled, secret(t)
	e.EventTypes, e.Description, e.Exhausted = nil, "", ""
	e.PreviousSecret, e.PreviousExpiresAt, e.QuietSince = webhook.Secret{}, time.Time{}, time.Time{}
	saved, err := s.SaveEndpoint(t.Context(), e)
	ok(t, err)
	e.Version = 2
	same(t, "saved", saved, e)
	got, err := s.Endpoint(t.Context(), e.Owner, e.ID)
	ok(t, err)
	same(t, "stored", got, e)
}

func endpointStale(t *testing.T, s webhook.Store) {
	e := endpointOf(t, owner(), noon)
	ok(t, s.AddEndpoint(t.Context(), e, 10))
	newer, err := s.SaveEndpoint(t.Context(), e)
	ok(t, err)
	for _, status := range []webhook.Status{webhook.Disabled, webhook.Deleted} {
		stale := e
		stale.Status = status
		if _, err := s.SaveEndpoint(t.Context(), stale); !errors.Is(err, webhook.ErrConflict) {
			t.Errorf("saving version 1 over 2 as %s: %v", status, err)
		}
	}
	got, err := s.Endpoint(t.Context(), e.Owner, e.ID)
	ok(t, err)
	same(t, "stored", got, newer)
}

func endpointRace(t *testing.T, s webhook.Store) {
	e := endpointOf(t, owner(), noon)
	ok(t, s.AddEndpoint(t.Context(), e, 10))
	var saved atomic.Int32
	var wg sync.WaitGroup
	for i := range 10 {
		mine := e
		mine.QuietSince = noon.Add(time.Duration(i) * time.Minute)
		wg.Go(func() {
			switch _, err := s.SaveEndpoint(t.Context(), mine); {
			case err == nil:
				saved.Add(1)
			case !errors.Is(err, webhook.ErrConflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if saved.Load() != 1 {
		t.Errorf("%d saves of version 1 got in", saved.Load())
	}
}

func endpointDeleted(t *testing.T, s webhook.Store) {
	e := endpointOf(t, owner(), noon)
	ok(t, s.AddEndpoint(t.Context(), e, 1))
	gone := e
	gone.Status = webhook.Deleted
	gone, err := s.SaveEndpoint(t.Context(), gone)
	ok(t, err)
	got, err := s.Endpoint(t.Context(), e.Owner, e.ID)
	ok(t, err)
	same(t, "deleted", got, gone)
	if list, err := s.Endpoints(t.Context(), e.Owner); err != nil || len(list) != 0 {
		t.Errorf("listed: %v, %v", list, err)
	}
	for _, status := range []webhook.Status{webhook.Enabled, webhook.Deleted} {
		again := gone
		again.Status = status
		if _, err := s.SaveEndpoint(t.Context(), again); !errors.Is(err, webhook.ErrNotFound) {
			t.Errorf("saving a deleted endpoint as %s: %v", status, err)
		}
	}
	ok(t, s.AddEndpoint(t.Context(), endpointOf(t, e.Owner, noon), 1))
	if err := s.AddEndpoint(t.Context(), endpointOf(t, e.Owner, noon), 1); !errors.Is(err, webhook.ErrLimit) {
		t.Errorf("one too many: %v", err)
	}
}
