package dispatch

import (
	"log/slog"
	"time"
)

// The phases of a payment, as its log line names them.
const (
	phaseSimulate  = iota // checked, quoted, screened and simulated
	phaseStore            // created, and charged to daily limits
	phaseReserve          // a nonce found and reserved
	phaseCommit           // signed, and its bytes stored
	phaseBroadcast        // taken by a node, or left to check-receipts
	phaseCount
)

// Phases are the durations of one request's phases.
type phases struct {
	now  func() time.Time
	last time.Time
	took [phaseCount]time.Duration
}

// end ends a phase that began when the previous one ended.
func (p *phases) end(phase int) {
	now := p.now()
	p.took[phase] += now.Sub(p.last)
	p.last = now
}

func (p *phases) attr() slog.Attr {
	var all []any
	for phase, name := range [phaseCount]string{"simulate", "store", "reserve", "commit", "broadcast"} {
		all = append(all, slog.Int64(name, p.took[phase].Milliseconds()))
	}
	return slog.Group("ms", all...)
}
