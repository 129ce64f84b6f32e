package simulation

import (
	"fmt"
	"testing/synctest"
	"time"
)

// calm is the decider after the last fault: everything works, in order.
type calm struct {
	w      *World
	noRuns bool // runs start only by hand
	blocks int
}

func (c *calm) pick(ready []*call) *call { return ready[0] }
func (c *calm) outcome(*call) Outcome    { return Apply }
func (c *calm) freeze() time.Duration    { return 0 }
func (c *calm) nap() time.Duration       { return time.Second }
func (c *calm) runs() bool               { return !c.noRuns }

func (c *calm) miner() *Node {
	c.blocks++
	return c.w.Chain.Nodes[c.blocks%len(c.w.Chain.Nodes)]
}

// limit bounds how many effects any phase may take. More is a livelock.
const limit = 30_000

// drain lets things happen until nobody has anything to do any more.
func (w *World) drain(d decider, c *clock) {
	for range limit {
		synctest.Wait()
		if !w.living() && len(w.desk.ready(time.Now())) == 0 {
			return
		}
		w.step(d, c)
	}
	w.judge.breach("nobody comes to an end")
}

// Heal ends every fault: nodes are honest, what was frozen goes on, requests
// that were under way arrive, and handlers and clients finish.
func (w *World) Heal() {
	w.trace("world", "heals")
	w.Chain.BaseFee = baseFee
	for _, n := range w.Chain.Nodes {
		n.Heal()
	}
	w.Keys.Down(false)
	w.wrong = w.Skews != nil
	w.Skews = nil
	synctest.Wait()
	w.desk.thaw()
	w.drain(&calm{w: w, noRuns: true}, w.clock())
}

// Settle is invariant I6: once reservations have aged, two runs of check-receipts
// settle everything, while blocks are made.
func (w *World) Settle() {
	d := &calm{w: w, noRuns: true}
	c := w.clock()
	w.pass(d, c, minute)
	runs := 2
	if w.wrong {
		runs++ // what a wrong clock wrote may still be believed for a moment
	}
	for i := range runs {
		began := time.Now()
		w.trace("world", fmt.Sprintf("run %d of %d", i+1, runs))
		w.StartRun()
		w.drain(d, c)
		if left := minute - time.Since(began); left > 0 {
			w.pass(d, c, left)
		}
	}
}

// Replay is the last trial: whoever kept a copy of anything sends it again.
func (w *World) Replay() {
	w.Chain.Replay()
	for range w.Depth + 2 {
		w.Chain.Mine(w.Chain.Nodes[0])
	}
}

// Verdict returns every broken promise. settled says that Settle went by.
func (w *World) Verdict(settled bool) []string { return w.judge.verdict(settled) }

func (w *World) clock() *clock {
	return &clock{block: time.Now().Add(blockTime), run: time.Now().Add(minute)}
}
