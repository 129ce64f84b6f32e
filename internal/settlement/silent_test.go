package settlement_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/settlement"
	"remit/internal/stack"
	"remit/internal/store"
)

// A speaker is a node that gives its head, or an error.
type speaker struct {
	chain.Node
	name string
	err  error
}

func (s speaker) String() string { return s.name }
func (s speaker) Head(context.Context, chain.ConfirmationRule) (chain.Head, error) {
	return chain.Head{}, s.err
}

// TestListen: since when a node is silent, by what was known of it and what it answers now.
func TestListen(t *testing.T) {
	now := time.Date(2100, time.January, 2, 3, 4, 5, 0, time.UTC)
	down, b := errors.New("429"), speaker{name: "b", err: errors.New("timeout")}
	ago := func(d time.Duration) map[string]time.Time { return map[string]time.Time{"b": now.Add(-d)} }
	a := speaker{name: "a"}
	for name, test := range map[string]struct {
		known  map[string]time.Time
		nodes  chain.Nodes
		after  time.Duration
		want   map[string]time.Time
		silent int
		news   bool
	}{
		"a node that was never seen": {nil, chain.Nodes{a, b}, minute, ago(0), 0, true},
		"one below its time":         {ago(minute - 1), chain.Nodes{a, b}, minute, ago(minute - 1), 0, false},
		"one beyond it":              {ago(minute), chain.Nodes{a, b}, minute, ago(minute), 1, false},
		"the quorum strict":          {ago(time.Hour), chain.Nodes{a, b}, 0, ago(time.Hour), 0, false},
		"a time of the future":       {ago(-time.Hour), chain.Nodes{a, b}, minute, ago(0), 0, true},
		"it answers":                 {ago(time.Hour), chain.Nodes{a, speaker{name: "b"}}, minute, nil, 0, true},
		"it is of another chain":     {ago(time.Hour), chain.Nodes{a, speaker{name: "b", err: chain.ErrWrongChain}}, minute, nil, 0, true},
		"it answers other calls":     {ago(time.Hour), chain.Nodes{a, speaker{name: "b", err: chain.ErrBusy}}, minute, nil, 0, true},
		"one of its host answers":    {ago(time.Hour), chain.Nodes{a, b, speaker{name: "b"}}, minute, nil, 0, true},
		"it is not configured":       {ago(time.Hour), chain.Nodes{a}, minute, nil, 0, true},
		"no node answers":            {ago(time.Hour), chain.Nodes{b, speaker{name: "a", err: down}}, minute, ago(time.Hour), 0, false},
		"two of one host":            {ago(time.Hour), chain.Nodes{a, b, b}, minute, ago(time.Hour), 2, false},
	} {
		known := store.Comparison{Silent: test.known}
		s := settlement.New(stack.Config{SilentAfter: test.after},
			settlement.Parts{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
		silent, news := s.Listen(t.Context(), test.nodes.Heads(t.Context(), chain.ConfirmationRule{}), &known)
		if silent != test.silent || news != test.news || !maps.Equal(known.Silent, test.want) {
			t.Errorf("%s: %d silent, news %t, %v; want %d, %t, %v", name, silent, news, known.Silent, test.silent, test.news, test.want)
		}
	}
}
