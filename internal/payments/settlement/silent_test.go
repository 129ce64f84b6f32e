package settlement_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
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

// TestNoteSilent: a round notes since when nodes are silent, unless none answers or too many are silent.
func TestNoteSilent(t *testing.T) {
	now := time.Date(2100, time.January, 2, 3, 4, 5, 0, time.UTC)
	a, b := speaker{name: "a"}, speaker{name: "b", err: errors.New("429")}
	several := func(n int) chain.Nodes {
		nodes := chain.Nodes{a}
		for i := range n {
			nodes = append(nodes, speaker{name: fmt.Sprint("b", i), err: b.err})
		}
		return nodes
	}
	for name, test := range map[string]struct {
		nodes  chain.Nodes
		ago    time.Duration
		silent int
		names  int
	}{
		"below its time":  {chain.Nodes{a, b}, minute - 1, 0, 1},
		"beyond it":       {chain.Nodes{a, b}, minute, 1, 1},
		"busy":            {chain.Nodes{a, speaker{name: "b", err: chain.ErrBusy}}, minute, 0, 0},
		"no node answers": {chain.Nodes{b}, minute, 0, 1},
		"as many as fit":  {several(store.MaxNodes), minute, 0, store.MaxNodes},
		"too many":        {several(store.MaxNodes + 1), minute, 0, 1},
	} {
		known := store.Comparison{Silent: map[string]time.Time{"b": now.Add(-test.ago)}}
		before := maps.Clone(known.Silent)
		s := settlement.New(stack.Config{SilentAfter: minute},
			settlement.Parts{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
		silent, changed := s.NoteSilent(t.Context(), test.nodes.Heads(t.Context(), chain.ConfirmationRule{}), &known)
		if silent != test.silent || len(known.Silent) != test.names || changed == maps.Equal(before, known.Silent) {
			t.Errorf("%s: %d silent, changed %t, %v", name, silent, changed, known.Silent)
		}
	}
}

// TestChecksBeginAfterTheCall: passes that wait while a check runs share the next one.
func TestChecksBeginAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks settlement.Checks
		var begun atomic.Int32
		for i := range 4 {
			go checks.Join(func() bool {
				begun.Add(1)
				time.Sleep(minute)
				return true
			})
			time.Sleep(minute / 5) // all four are there before the first check ends
			if begun.Load() != 1 {
				t.Errorf("pass %d does not wait: %d checks", i, begun.Load())
			}
		}
		time.Sleep(2 * minute)
		if begun.Load() != 2 {
			t.Errorf("%d checks", begun.Load())
		}
	})
}

// TestSilentNodesAreNamed in the log, where an alarm's page sends people.
func TestSilentNodesAreNamed(t *testing.T) {
	w := newWorld(t, breaks("Head#1"))
	w.second()
	var log bytes.Buffer
	w.settler.Log = slog.New(slog.NewTextHandler(&log, nil))
	must.Get(w.settler.Run(t.Context(), "run"))(t)
	if text := log.String(); !strings.Contains(text, `msg="node is silent" node=node `) && !strings.Contains(text, `msg="node is silent" node=peer `) {
		t.Error(text)
	}
}
