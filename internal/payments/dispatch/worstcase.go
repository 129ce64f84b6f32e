package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// worstAge is how old a worst case becomes before it is estimated again. Forks change what
// transfers cost, and no node announces them. If that fails, payments go by the old one for
// as long again, and are estimated one by one from then on.
const worstAge = 15 * time.Second

// A worstCase is the gas that a transfer of the token needs at most, to somebody who has
// never held it. The zero value is unknown.
type worstCase struct {
	mu    sync.Mutex
	gas   uint64
	known time.Time // when gas was estimated
	tried time.Time // when somebody last began to
	used  time.Time // when it was last asked for
}

// take returns the gas within which a transfer is executed, zero if it is to be estimated,
// and whether the caller should estimate the worst case beside its payment: one of all, and
// none for a process that pays less often than a value lasts.
func (w *worstCase) take(now time.Time) (within uint64, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy := now.Sub(w.used) < worstAge
	w.used = now
	if due = busy && now.Sub(w.tried) >= worstAge; due {
		w.tried = now
	}
	if now.Sub(w.known) >= 2*worstAge {
		return 0, due
	}
	return w.gas, due
}

// learn estimates the worst case of transfers like call. If it cannot, the old one stays.
func (d sending) learn(ctx context.Context, call chain.Call) {
	w := &d.worst
	w.mu.Lock()
	last, began := w.gas, w.tried
	w.mu.Unlock()
	var stranger token.Address // whoever knew it could give it coins, so that transfers pass for cheaper than they are
	for i := range stranger {
		stranger[i] = byte(d.Draw(256))
	}
	call = call.PaidTo(stranger)
	call.Within, call.Screening = 0, chain.Screening{}
	gas, err := d.Nodes.WorstCase(ctx, call, last)
	if err != nil {
		d.Log.InfoContext(ctx, "worst case of a transfer unknown", "last", last, "err", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gas, w.known = gas, began
}
