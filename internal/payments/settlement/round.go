package settlement

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A round is the state that its passes share.
type round struct {
	*Settler
	Nodes       chain.Nodes
	stack.Rules                    // zero if they are unusable
	uncompared  func() bool        // the tables may have been restored without payments of a rail
	unusable    error              // why there are no rules: then no fee is bumped, no nonce used up, no ceiling moved
	heads       func() chain.Heads // waits for the nodes' heads
	final       func() finality    // waits for the nodes' comparison with the newest known final block
	checks      checks[secondLook] // of lookAgain
	patient     bool               // it waits for slow nodes
	held        atomic.Bool        // the tables may lack payments of the rail
	dissent     atomic.Bool        // a node contradicts a receipt that enough others have
	since       time.Time          // the tables may lack attempts made earlier

	suspecting sync.Once
	suspected  func() error // waits until every wallet is paused
}

// Round makes a pass over every wallet, or only the busy ones if idle is false.
func (s *Settler) Round(ctx context.Context, by string, idle bool) (Report, error) {
	r := &run{by: by, began: s.Now()}
	if idle {
		r.compared = new(sync.Map)
	}
	report, _, err := s.round(ctx, r)
	return report, err
}

// round makes a pass over every wallet. It skips idle wallets that the run has compared with the chain, or all idle
// wallets if r.compared is nil. all reports whether this round completed the run's comparison of every wallet.
func (s *Settler) round(ctx context.Context, r *run) (report Report, all bool, err error) {
	nodes, err := s.Nodes.Nodes(ctx)
	if err != nil {
		return report, false, fmt.Errorf("finding nodes: %w", err)
	}
	ctx, waited := chain.Yielding(ctx) // payments go first
	defer func() { r.waited = waited() }()
	wallets, err := s.Store.Wallets(ctx, s.Coin())
	if err != nil {
		return report, false, fmt.Errorf("listing wallets: %w", err)
	}
	if r.known == nil {
		if err := s.know(ctx, r); err != nil {
			return report, false, err
		}
		r.memories.Clear()
	}
	asked := nodes
	if r.patient {
		asked = nodes.Patient()
	}
	known := *r.known
	uncompared := sync.OnceValue(func() func() bool { return async(func() bool { return s.uncompared(ctx, known) }) })
	shared := &round{Settler: s, Nodes: nodes, patient: r.patient, since: known.Since}
	shared.uncompared = func() bool { return uncompared()() }
	shared.Rules, shared.unusable = s.rules(ctx)
	if shared.unusable != nil || s.Refused(shared.Settings) != nil {
		report.Unruled = 1
	}
	shared.heads = async(func() chain.Heads { return asked.Heads(ctx, s.ConfirmationRule) }) // beside the reads
	shared.final = async(func() finality { return s.compareFinal(ctx, shared.heads(), r.known) })
	working := wallets.Working(true)
	if r.compared != nil {
		if !s.Ephemeral {
			working = append(working, wallets.Working(false)...) // the tables may have lost their records
		}
		var watching sync.WaitGroup
		watching.Go(func() { s.watch(ctx, nodes, r.by, wallets) })
		defer watching.Wait()
	}
	all, err = s.passes(ctx, r, shared, working, &report)
	for _, view := range shared.heads().Late() {
		view.Doubt(ctx, s.Log, "it answers late")
	}
	r.held = r.held || len(working) == 0 || shared.held.Load() // the tables may have lost every wallet
	s.undecided.Store(report.Undecided > 0)
	r.patient = r.patient && shared.dissent.Load() // a contradicted receipt must hold for another round: that waits too
	f := shared.final()
	r.changed = r.changed || f.changed
	if f.overdue {
		report.Paused++
	}
	for _, w := range wallets {
		if w.State == wallet.Damaged {
			report.Unreadable++
			s.Log.ErrorContext(ctx, "registration of a wallet cannot be read", "wallet", w.Address)
		}
	}
	return report, all, err
}

// uncompared reports whether new or restored tables may lack payments: no run has compared every wallet with the chain
// since then, or an Idempotency-Key may have paid on another rail, one that Uncleared returns or that the tables lost.
func (s *Settler) uncompared(ctx context.Context, known store.Comparison) bool {
	if yet := known.At.Before(known.Since); yet || s.Ephemeral {
		return yet
	}
	all, err := s.stored(ctx)
	var others []store.Rail
	var chains []uint64
	if err == nil && s.Chains != nil {
		chains, err = s.Chains(ctx)
	}
	if err == nil {
		others, err = all.Uncleared(ctx, s.Store, s.Coin(), s.Now())
	}
	lost := all.Without(chains)
	if err == nil && len(others)+len(lost) == 0 {
		return false
	}
	s.Log.WarnContext(ctx, "payments wait for another rail", "rails", len(others), "lost", lost, "err", err)
	return true
}

// passes makes the passes of a round, adds their reports, and reports whether the round completed the run's comparison.
func (s *Settler) passes(ctx context.Context, r *run, shared *round, wallets wallet.Registry, report *Report) (bool, error) {
	var mu sync.Mutex
	all := r.compared != nil
	err := abreast(wallets, func(registered wallet.Registration) error {
		p := &pass{round: shared, registered: registered}
		if m, ok := r.memories.LoadAndDelete(registered.ID); ok {
			p.recall(m.(memory))
		}
		missing := false
		if r.compared != nil {
			_, done := r.compared.Load(registered.ID)
			missing = !done
		}
		err := p.handle(ctx, r.by, missing, r.resting)
		if err == nil || p.seen != nil {
			r.memories.Store(registered.ID, p.remember(err))
		}
		if missing && p.compared {
			r.compared.Store(registered.ID, nil)
		}
		mu.Lock()
		defer mu.Unlock()
		all = all && (!missing || p.compared)
		report.add(p.report)
		if err != nil {
			return fmt.Errorf("settling wallet %s: %w", registered.Address, err)
		}
		return nil
	})
	return all, err
}
