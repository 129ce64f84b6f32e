package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"remit/internal/payment"
)

// TestAnUpdateIsShort: of 10,000 payments the page is told no more than it lists, and
// counts all.
func TestAnUpdateIsShort(t *testing.T) {
	s := &Sandbox{now: time.Now, view: newView()}
	id := func(i int) payment.ID { return payment.KeyID("mer_1", "test", fmt.Sprint(i)) }
	for i := range 10_000 {
		s.reached(id(i), prepared)
		s.count(id(i), 1, 1)
	}
	var u struct {
		Payments, Lines []struct{}
		Count           count
		Steps           [steps]int
	}
	text, err := s.update()
	if err = errors.Join(err, json.Unmarshal(text, &u)); err != nil || len(u.Payments) != listed || len(u.Lines) != told || u.Count.Asked != 10_000 || u.Count.Once != 10_000 || u.Steps[mined] != 10_000 {
		t.Errorf("an update has %d payments, %d lines, %+v, %v: %v", len(u.Payments), len(u.Lines), u.Count, u.Steps, err)
	}
	if len(text) > 100_000 {
		t.Errorf("an update has %d bytes", len(text))
	}
	s.count("", 2, 1) // a transfer without a payment's id
	s.count(id(1), 2, 1)
	s.count(id(2), 1, -1)
	if text, err = s.update(); errors.Join(err, json.Unmarshal(text, &u)) != nil || u.Count.Twice != 1 || u.Count.Unpaid != 1 || u.Count.Unasked != 1 || u.Count.Once != 9_998 {
		t.Errorf("one transfer too many, one taken back, one of nobody: %+v", u.Count)
	}
}
