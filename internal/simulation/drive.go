package simulation

import (
	"testing/synctest"
	"time"
)

// A decider says what happens next in a World.
type decider interface {
	// pick chooses among the calls that wait, which are at least one. It
	// returns nil to let time pass first.
	pick(ready []*call) *call
	// outcome says what becomes of a call.
	outcome(c *call) Outcome
	// freeze says how long something frozen stays so.
	freeze() time.Duration
	// nap says how long nothing happens when time passes.
	nap() time.Duration
	// miner says whose pool the next block is made of; nil makes none.
	miner() *Node
	// runs says whether a run starts when one is due.
	runs() bool
}

// A clock is what happens by itself as time passes.
type clock struct {
	block, run time.Time // when the next is due
}

// step lets one thing happen. It reports false when nobody waits for anything
// but time.
func (w *World) step(d decider, c *clock) bool {
	synctest.Wait()
	ready := w.desk.ready(time.Now())
	if len(ready) > 0 {
		if chosen := d.pick(ready); chosen != nil {
			o := Apply
			if !chosen.applied {
				o = d.outcome(chosen)
			}
			if w.Trace != nil {
				w.trace(chosen.actor.name, chosen.op+" "+chosen.args+": "+o.String())
			}
			w.desk.perform(chosen, o, time.Now().Add(d.freeze()))
			// No two effects at one instant: what they start would end at
			// one instant too, in any order.
			time.Sleep(time.Microsecond)
			return true
		}
	}
	w.pass(d, c, d.nap())
	return len(ready) > 0
}

// pass lets time go by, with the blocks and runs that fall due in it.
func (w *World) pass(d decider, c *clock, span time.Duration) {
	end := time.Now().Add(span)
	for {
		if w.takeHint() && c.run.After(time.Now().Add(blockTime)) {
			c.run = time.Now().Add(blockTime)
		}
		next := end
		if c.block.Before(next) {
			next = c.block
		}
		if c.run.Before(next) {
			next = c.run
		}
		if gap := time.Until(next); gap > 0 {
			time.Sleep(gap)
			synctest.Wait()
		}
		switch now := time.Now(); {
		case !c.block.After(now):
			c.block = now.Add(blockTime)
			if n := d.miner(); n != nil {
				w.Chain.Mine(n)
				if w.Trace != nil {
					w.trace("chain", "block")
				}
			}
		case !c.run.After(now):
			c.run = now.Add(minute)
			if d.runs() {
				w.StartRun()
			}
		}
		synctest.Wait()
		if !time.Now().Before(end) {
			return
		}
	}
}

// takeHint reports whether somebody asked for a run since it was last called.
func (w *World) takeHint() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	hinted := w.hinted
	w.hinted = false
	return hinted
}

// living reports whether anybody who is not dead has something to do.
func (w *World) living() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.actors {
		if !a.dead.Load() && !a.ended.Load() {
			return true
		}
	}
	return false
}
