package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// worstAge is the age at which a worst case is estimated again. Forks change the gas of transfers, and no node
// announces them. If the estimate fails, the old value serves for as long again; then each payment is estimated.
const worstAge = 15 * time.Second

// A worstCase is the most gas that a transfer of the token needs, to a recipient who has never held
// it. The zero value is unknown.
type worstCase struct {
	mu    sync.Mutex
	gas   uint64
	known time.Time // when gas was estimated
	tried time.Time // when an estimate last began
	used  time.Time // when take was last called
}

// take returns the gas within which to execute a transfer, or zero to estimate it. due tells one caller to estimate
// the worst case beside its payment; nobody does in a process that pays less often than a value lasts.
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

// learn estimates the worst case of transfers like call. After an error the old value stays.
func (d sending) learn(ctx context.Context, call chain.Call) {
	w := &d.worst
	w.mu.Lock()
	last, began := w.gas, w.tried
	w.mu.Unlock()
	var stranger token.Address // secret: coins sent to it would make transfers look cheaper
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
