package model_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/model"
)

// TestWorlds visits every state of small worlds, each with any number of handlers and runs.
func TestWorlds(t *testing.T) {
	for name, w := range map[string]model.World{
		"one wallet, three nonces, a reorg, a deadline": {Wallets: 1, Nonces: 3, Revisions: 2, Reorgs: 1, Deadline: true},
		"two wallets, a reorg":                          {Wallets: 2, Nonces: 2, Revisions: 2, Reorgs: 1},
		"two wallets, bumps, no-ops instead":            {Wallets: 2, Nonces: 2, Revisions: 2, Bumps: true, Cancels: true},
		"two wallets, three revisions":                  {Wallets: 2, Nonces: 2, Revisions: 3},
		"two wallets, three nonces":                     {Wallets: 2, Nonces: 3, Revisions: 2},
		"two wallets, emptied tables":                   {Wallets: 2, Nonces: 3, Revisions: 1, Losses: 1},
		"one wallet, emptied tables, a reorg":           {Wallets: 1, Nonces: 3, Revisions: 2, Losses: 1, Reorgs: 1},
		"one wallet, restored tables, a bump":           {Wallets: 1, Nonces: 2, Revisions: 2, Copies: 1, Losses: 1, Reorgs: 1, Bumps: true},
		"two wallets, restored tables":                  {Wallets: 2, Nonces: 2, Revisions: 2, Copies: 1, Losses: 1},
		"two rails, emptied tables":                     {Wallets: 2, Nonces: 2, Revisions: 2, Losses: 1, Rails: true},
		"two rails, a restored one is found ahead":      {Wallets: 2, Nonces: 1, Revisions: 2, Copies: 1, Losses: 1, Rails: true},
		"two rails, one is added":                       {Wallets: 2, Nonces: 1, Revisions: 2, Copies: 1, Losses: 1, Rails: true, Adds: true},
		"two rails, one is closed":                      {Wallets: 2, Nonces: 1, Revisions: 2, Copies: 1, Losses: 1, Rails: true, Closes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, run := w.Search()
			if t.Attr("states", strconv.Itoa(states)); run != nil {
				t.Errorf("%s", run)
			}
		})
	}
}

// TestGuards removes one guard at a time: a shortest run then ends in a violation.
func TestGuards(t *testing.T) {
	var (
		two    = model.World{Wallets: 2, Nonces: 2, Revisions: 2}
		one    = model.World{Wallets: 1, Nonces: 2, Revisions: 2, Reorgs: 1, Bumps: true, Cancels: true, Deadline: true}
		copied = model.World{Wallets: 1, Nonces: 2, Revisions: 2, Copies: 1, Losses: 1}
		rails  = model.World{Wallets: 2, Nonces: 1, Revisions: 2, Copies: 1, Losses: 1, Rails: true}
		added  = model.World{Wallets: 2, Nonces: 1, Revisions: 2, Losses: 1, Rails: true, Adds: true}
		closed = model.World{Wallets: 2, Nonces: 1, Revisions: 2, Copies: 1, Losses: 1, Rails: true, Closes: true}
	)
	for _, test := range []struct {
		without model.Guard
		world   model.World
		want    model.Violation
		steps   int
	}{
		{model.IfAbsent, two, model.PaidTwice, 8},
		{model.IfPrepared, two, model.PaidTwice, 8},
		{model.OneWrite, two, model.PaidTwice, 8},
		{model.StillPrepared, two, model.PaidTwice, 9},
		{model.StoredFirst, two, model.PaidTwice, 8},
		{model.SameNonce, one, model.PaidTwice, 6},
		{model.SameRevision, copied, model.PaidTwice, 13},
		{model.NotRestored, copied, model.PaidTwice, 13},
		{model.Abreast, copied, model.PaidTwice, 12},
		{model.NotSuspect, copied, model.PaidTwice, 14},
		{model.UnusedHolder, copied, model.PaidTwice, 11},
		{model.OrphanFirst, copied, model.PaidTwice, 11},
		{model.StoredNonce, copied, model.PaidTwice, 10},
		{model.ReturnUnused, copied, model.PaidTwice, 15},
		{model.WaitForFinality, copied, model.PaidTwice, 11},
		{model.UseUpFirst, copied, model.PaidTwice, 13},
		{model.PutBackFirst, copied, model.PaidTwice, 11},
		{model.HoldFirst, copied, model.PaidTwice, 12},
		{model.NewProcesses, copied, model.PaidTwice, 10},
		{model.EveryRail, rails, model.PaidTwice, 10},
		{model.AbreastOnce, rails, model.PaidTwice, 12},
		{model.ThisSeries, rails, model.PaidTwice, 12},
		{model.HeldToo, rails, model.PaidTwice, 14},
		{model.NotHeld, rails, model.PaidTwice, 13},
		{model.ClosedSince, closed, model.PaidTwice, 13},
		{model.RailsInSecret, added, model.PaidTwice, 10},
		{model.AddedSince, added, model.PaidTwice, 11},
		{model.SameRevision, two, model.PaidRefused, 6},
		{model.OrphanFirst, two, model.TwoOwners, 6},
		{model.FinalFirst, one, model.WrongEnd, 5},
		{model.EveryAttempt, one, model.WrongEnd, 6},
		{model.InTime, one, model.BeganLate, 3},
	} {
		t.Run(fmt.Sprintf("%s: %s", test.want, test.without), func(t *testing.T) {
			w := test.world
			w.Without, w.Only = test.without, test.want
			_, run := w.Search()
			if run == nil || len(run.Steps) != test.steps {
				t.Fatalf("%s, want one of %d steps that %s", run, test.steps, test.want)
			}
			t.Log(run)
		})
	}
}
