package model_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/model"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestWorlds visits every state of small worlds, each with any number of handlers and runs.
func TestWorlds(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		t.Parallel()
		states, run := world(t, c.Want).Search()
		if t.Attr("states", strconv.Itoa(states)); run != nil {
			t.Errorf("%s", run)
		}
	})
}

// world reads a world of a table: its numbers, and what happens in it.
func world(t *testing.T, text string) (w model.World) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	must.OK(t, d.Decode(&w))
	return w
}

// TestGuards removes one guard at a time: a shortest run then ends in a violation. A row has both, the world and
// the number of steps.
func TestGuards(t *testing.T) {
	worlds := map[string]string{
		"two":    `{"Wallets": 2, "Nonces": 2, "Revisions": 2}`,
		"one":    `{"Wallets": 1, "Nonces": 2, "Revisions": 2, "Reorgs": 1, "Bumps": true, "Cancels": true, "Deadline": true}`,
		"copied": `{"Wallets": 1, "Nonces": 2, "Revisions": 2, "Copies": 1, "Losses": 1}`,
		"rails":  `{"Wallets": 2, "Nonces": 1, "Revisions": 2, "Copies": 1, "Losses": 1, "Rails": true}`,
		"added":  `{"Wallets": 2, "Nonces": 1, "Revisions": 2, "Losses": 1, "Rails": true, "Adds": true}`,
		"closed": `{"Wallets": 2, "Nonces": 1, "Revisions": 2, "Copies": 1, "Losses": 1, "Rails": true, "Closes": true}`,
	}
	tabletest.Run(t, worlds, func(t *testing.T, c tabletest.Case) {
		guard, violation, _ := strings.Cut(c.Name, ": ")
		w := world(t, c.In[0])
		for w.Only = model.Violation(violation); w.Without.String() != guard; w.Without++ {
		}
		_, run := w.Search()
		if run == nil || fmt.Sprint(len(run.Steps)) != c.Want {
			t.Fatalf("%s, want one of %s steps that %s", run, c.Want, violation)
		}
		t.Log(run)
	})
}
