package sandbox

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"remit/internal/payment"
)

// TestAnUpdateIsShort: of 10,000 payments the page is told no more than it lists, and
// counts all; when nothing changes it is told nothing.
func TestAnUpdateIsShort(t *testing.T) {
	s := &Sandbox{now: time.Now, view: newView()}
	for i := range 10_000 {
		id := payment.KeyID("mer_1", "test", fmt.Sprint(i))
		s.reached(id, prepared)
		s.mu.Lock()
		s.count(id, 1, 1)
		s.mu.Unlock()
	}
	begin := time.Now()
	u, seq := s.since(0)
	text, err := json.Marshal(u)
	if err != nil || len(u.Payments) != listed || len(u.Lines) != told || u.Count.Asked != 10_000 || u.Count.Once != 10_000 || u.Steps[mined] != 10_000 {
		t.Errorf("an update has %d payments, %d lines, %+v, %v: %v", len(u.Payments), len(u.Lines), u.Count, u.Steps, err)
	}
	if len(text) > 100_000 {
		t.Errorf("an update has %d bytes", len(text))
	}
	t.Logf("%d bytes in %s", len(text), time.Since(begin))
	if u, _ := s.since(seq); u != nil {
		t.Errorf("an update without a change: %+v", u)
	}
	s.reached(payment.KeyID("mer_1", "test", "9999"), committed)
	if u, _ := s.since(seq); u == nil || len(u.Payments) != 1 || len(u.Lines) != 1 {
		t.Errorf("an update after one change: %+v", u)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count("", 2, 1) // a transfer without a payment's id
	s.count(payment.KeyID("mer_1", "test", "1"), 2, 1)
	s.count(payment.KeyID("mer_1", "test", "2"), 1, -1)
	if c := s.tally(); c.Twice != 1 || c.Unpaid != 1 || c.Unasked != 1 || c.Once != 9_998 {
		t.Errorf("one transfer too many, one taken back, one of nobody: %+v", c)
	}
}
