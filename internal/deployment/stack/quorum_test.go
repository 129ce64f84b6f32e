package stack_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/stack"
)

func TestParseQuorum(t *testing.T) {
	for _, test := range []struct {
		text, mode string
		want       time.Duration
		ok         bool
	}{
		{"", "live", 0, true},
		{"", "test", 5 * time.Minute, true},
		{"strict", "live", 0, true},
		{"strict", "test", 0, true},
		{"answering", "live", 5 * time.Minute, true},
		{"answering", "test", 5 * time.Minute, true},
		{"most", "test", 0, false},
	} {
		if got, err := stack.ParseQuorum(test.text, test.mode); got != test.want || (err == nil) != test.ok {
			t.Errorf("%q in mode %s: %v, %v; want %v, %t", test.text, test.mode, got, err, test.want, test.ok)
		}
	}
}
