package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// A policy chooses the next effect of a Cluster, and its outcome.
type policy interface {
	// pick chooses among the effects that wait, which are at least one. It returns nil to let time elapse first.
	pick(ready []*scheduler.Effect) *scheduler.Effect
	// outcome is the fate of an effect.
	outcome(e *scheduler.Effect) scheduler.Outcome
	// freeze is how long an effect stays frozen, or late.
	freeze() time.Duration
	// nap is how long time elapses while no effect happens.
	nap() time.Duration
	// miner is the node whose pool fills the next block of a rail's chain; nil: no block.
	miner(r *rail) *fakechain.Node
	// runs reports whether a run starts when one is due.
	runs() bool
}

// A timetable has the times when the next block and the next run are due.
type timetable struct{ block, run time.Time }

func newTimetable() *timetable {
	return &timetable{block: time.Now().Add(blockTime), run: time.Now().Add(runEvery)}
}

// step lets one effect happen, or time elapse.
func (c *Cluster) step(p policy, due *timetable) {
	synctest.Wait()
	if ready := c.scheduler.Ready(time.Now()); len(ready) > 0 {
		if e := p.pick(ready); e != nil {
			outcome := scheduler.Apply
			if !e.Applied {
				outcome = p.outcome(e)
			}
			if c.Trace != nil {
				c.trace(e.Actor.Name, "%s %s: %s", e.Call.Op, e.Call.Args, outcome)
			}
			c.model.effect = e
			c.scheduler.Perform(e, outcome, time.Now().Add(p.freeze()))
			// No two effects happen at one instant: timers that they start would end at one instant too, in any order.
			time.Sleep(time.Microsecond)
			return
		}
	}
	c.elapse(p, due, p.nap())
}

// elapse lets time go by, with the blocks and runs that fall due in it.
func (c *Cluster) elapse(p policy, due *timetable, span time.Duration) {
	end := time.Now().Add(span)
	for {
		if soon := time.Now().Add(blockTime); c.takeHint() && due.run.After(soon) {
			due.run = soon
		}
		next := end
		for _, t := range []time.Time{due.block, due.run} {
			if t.Before(next) {
				next = t
			}
		}
		if gap := time.Until(next); gap > 0 {
			time.Sleep(gap)
			synctest.Wait()
		}
		switch now := time.Now(); {
		case !due.block.After(now):
			due.block = now.Add(blockTime)
			for _, r := range c.rails {
				if n := p.miner(r); n != nil {
					r.Chain.Mine(n)
					c.trace("chain", "block")
				}
			}
		case !due.run.After(now):
			due.run = now.Add(runEvery)
			if p.runs() {
				c.StartRun()
				if c.proposes {
					c.StartReleases()
				}
				if c.Refills != (settings.Refills{}) {
					c.StartRefill()
				}
			}
		}
		c.deliver()
		synctest.Wait()
		if !time.Now().Before(end) {
			return
		}
	}
}

// takeHint reports whether a handler has asked for a run since the last call.
func (c *Cluster) takeHint() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	hinted := c.hinted
	c.hinted = false
	return hinted
}

// faultless is the policy without faults: every effect is applied, in order.
type faultless struct {
	Idle   bool // no runs start by themselves
	Halted bool // no blocks are made
	blocks int
}

func (f *faultless) pick(ready []*scheduler.Effect) *scheduler.Effect { return ready[0] }
func (f *faultless) outcome(*scheduler.Effect) scheduler.Outcome      { return scheduler.Apply }
func (f *faultless) freeze() time.Duration                            { return 0 }
func (f *faultless) nap() time.Duration                               { return time.Second }
func (f *faultless) runs() bool                                       { return !f.Idle }

func (f *faultless) miner(r *rail) *fakechain.Node {
	if f.Halted {
		return nil
	}
	f.blocks++
	return r.Chain.Nodes[f.blocks%len(r.Chain.Nodes)]
}

// drainSteps bounds the steps of drain. More of them are a livelock: 500 merchants need some 40,000.
const drainSteps = 150_000

// drain lets effects happen until no actor is busy.
func (c *Cluster) drain(p policy, due *timetable) {
	for range drainSteps {
		synctest.Wait()
		if c.scheduler.Busy("") == 0 && len(c.scheduler.Ready(time.Now())) == 0 {
			return
		}
		c.step(p, due)
	}
	c.oracle.Violate(oracle.Settles, "no end after %d steps", drainSteps)
}

// Finish ends a simulation and returns the violated invariants: faults end, two runs settle everything that is left,
// and strangers send every transaction again of which they could have a copy. settled reports whether every payment
// must have ended by then.
func (c *Cluster) Finish(settled bool) []string {
	c.heal()
	if c.losses > 0 || c.accepted {
		c.recoverAll()
	}
	c.settle()
	c.releaseAll()
	c.askRivals()
	if p, due := (&faultless{Idle: true}), newTimetable(); c.Bus {
		time.Sleep(webhook.QueueLimit) // then the queue has shown every job
		c.elapse(p, due, 0)
		c.drain(p, due)
	}
	times, all := map[string]int{}, []string(nil) // by key
	for _, r := range c.rails {
		r.Chain.Replay()
		for range c.Depth + 2 {
			r.Chain.Mine(r.Chain.Nodes[0])
		}
		if len(c.rails) > 1 {
			r.oracle.Paid(times)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(times)) {
		if times[key] > 1 {
			c.oracle.Violate(oracle.PaidOnce, "%s was paid %d times on all chains together", key, times[key])
		}
	}
	for _, r := range c.rails {
		all = append(all, r.oracle.Violations(settled)...)
	}
	return all
}

// stolen reports whether a thief has ever used a key.
func (c *Cluster) stolen() bool {
	return slices.ContainsFunc(c.rails, func(r *rail) bool { return r.oracle.Stolen() })
}

func (c *Cluster) orders() (all []oracle.Order) {
	for _, r := range c.rails {
		all = append(all, r.oracle.Orders()...)
	}
	return all
}

// recoverAll recovers from a loss of the tables, if that has not been done. Strangers
// send all that they have, and every payment is requested again.
func (c *Cluster) recoverAll() {
	p := &faultless{Idle: true}
	due, beyond := newTimetable(), slices.ContainsFunc(c.rails, c.beyond)
	for tries := 0; c.lost() && tries < 3 && c.scheduler.Busy("recover") == 0; tries++ {
		c.StartRecovery()
		c.drain(p, due)
	}
	if c.lost() && !c.stolen() {
		c.oracle.Violate(oracle.Settles, "the tables were not recovered")
	}
	for _, r := range c.rails {
		r.Chain.Replay()
	}
	c.settle()
	if beyond && slices.ContainsFunc(c.rails, c.suspects) && !c.stolen() {
		c.StartRecovery()
		c.drain(p, due)
	}
	for i, o := range c.orders() {
		c.StartClient(fmt.Sprint("client-again", i), o, 3, false)
	}
	c.drain(p, due)
}

// beyond reports whether a recovery that starts now may miss a signed nonce: reorgs in a row have taken back more
// nonces of a wallet than it uses up. When it is mined, every wallet is paused, and the operator recovers again.
func (c *Cluster) beyond(r *rail) bool {
	for w := range r.Chain.Funded() {
		if r.Chain.MostMined(w)+c.Window > r.Chain.Account(w, 0).Nonce+c.Spare {
			return true
		}
	}
	return false
}

// suspects reports whether a wallet of a rail is paused for a suspicion.
func (c *Cluster) suspects(on *rail) bool {
	wallets, _ := c.Store.Wallets(context.Background(), on.Coin())
	return slices.ContainsFunc(wallets, func(r wallet.Registration) bool {
		w, err := c.Store.Wallet(context.Background(), r.ID)
		return err == nil && w.Suspect()
	})
}

// heal ends every fault: nodes are honest, frozen effects happen, requests that
// were under way arrive, and handlers and clients come to their ends.
func (c *Cluster) heal() {
	c.trace("cluster", "heals")
	for _, r := range c.rails {
		r.Chain.BaseFee, r.Chain.L1Gas, r.Chain.Epoch = quietFee, 0, 0
		r.Chain.Return()
		r.Chain.Each((*fakechain.Node).Heal)
		r.oracle.Goal = oracle.Goal{}
		r.liar.SetHabit(fakechain.Habit{})
		r.Chain.Mute = false
	}
	c.Latency = 0
	c.sends = c.losses > 0 || c.accepted || c.mispriced
	c.send()
	c.Keys.Down(false)
	c.keys.down.Store(false)
	c.Refills = settings.Refills{} // or the last runs would leave some under way
	c.Set(token.Amount{})
	c.skewed = c.Skews != nil
	c.Skews = nil
	synctest.Wait()
	c.scheduler.Thaw()
	c.drain(&faultless{Idle: true}, newTimetable())
	if c.mispriced { // again, or the last sweep takes it
		c.send()
	}
}

// send has the operator of a chain whose gas is the token send coins to every wallet once faults
// end, for a recovery and after sweeps at an absurd price.
func (c *Cluster) send() {
	for _, r := range c.rails {
		for w := range r.Chain.Funded() {
			if c.sends && c.Gas.Unit > 0 {
				r.Chain.Fund(w, token.Units(2_000), token.Amount{})
			}
		}
	}
}

// hear has that operator send a wallet the coins that a recovery asks for, and remember the wallets that no table knew.
func (c *Cluster) hear(of *rail, format string, args []any) {
	if c.sends && c.Gas.Unit > 0 && strings.HasPrefix(format, "waiting for %s: send") {
		coins, _ := token.ParseTokens(args[1].(string), of.Token.Decimals)
		of.Chain.Fund(args[3].(token.Address), coins, token.Amount{})
	}
	if strings.HasPrefix(format, "%s was in no table") {
		c.mu.Lock()
		c.unlisted = append(c.unlisted, wallet.ID{ChainID: of.ChainID, Address: args[0].(token.Address)})
		c.mu.Unlock()
	}
}

// settle is invariant I6: once reservations have aged, two runs of check-receipts settle all, while blocks are made.
func (c *Cluster) settle() {
	p := &faultless{Idle: true}
	due := newTimetable()
	c.elapse(p, due, runEvery)
	runs := 2
	if c.skewed || c.mispriced {
		// A time that a wrong clock wrote may still be believed for a moment. A payment that the
		// first run commits at an absurd price gets its fees in the second.
		runs++
	}
	if c.Pause == blockTime { // a run has four rounds
		runs++
	}
	for i := range runs {
		began := time.Now()
		c.trace("cluster", "run %d of %d", i+1, runs)
		c.StartRun()
		c.drain(p, due)
		if left := runEvery - time.Since(began); left > 0 {
			c.elapse(p, due, left)
		}
	}
}
