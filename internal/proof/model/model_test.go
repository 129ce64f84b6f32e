package model_test

import (
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/model"
)

func TestTry(t *testing.T) {
	for _, w := range []model.World{
		{Wallets: 2, Nonces: 2, Revisions: 2},
		{Wallets: 2, Nonces: 3, Revisions: 3},
		{Wallets: 1, Nonces: 2, Revisions: 2, Reorgs: 1, Bumps: true, Cancels: true, Deadline: true},
		{Wallets: 1, Nonces: 2, Revisions: 2, Copies: 1, Losses: 1},
	} {
		began := time.Now()
		states, run := w.Search()
		t.Logf("%+v: %d states %s", w, states, time.Since(began))
		if run != nil {
			t.Errorf("%s", run.Violation)
			for _, s := range run.Steps {
				t.Log(s)
			}
		}
	}
}
