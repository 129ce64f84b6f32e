// Package chainenv reads from a function's environment the nodes of its rails. Nodes change while a function lives,
// whenever an operator changes the RPC secret.
package chainenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
)

// Nodes are the nodes that the secret RPC_SECRET names, by chain, watched while it names them.
type Nodes struct{ secret *secrets.Secret[*lists] }

// Open returns the nodes. The secret is not read yet: a function whose secret has no value starts, and fails when a
// node is needed.
func Open(env *boot.Env) Nodes {
	return Nodes{secrets.Open(env.AWS, env.String("RPC_SECRET"), env.Now, func(value []byte) (*lists, error) {
		urls, err := secrets.RPC(value)
		return &lists{urls: urls, opened: map[uint64]chain.Nodes{}, now: env.Now}, err
	})}
}

// Of returns the nodes of a rail's chain. Rails of one chain share them.
func (n Nodes) Of(c stack.Config) chain.Provider { return provider{n, c.ChainID} }

// Chains returns the chains that the secret names, also those whose list is empty now: they may have had a rail that
// the tables lost. It returns none if the secret has no value.
func (n Nodes) Chains(ctx context.Context) ([]uint64, error) {
	l, err := n.secret.Get(ctx)
	if errors.Is(err, secrets.ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(l.urls)), nil
}

type provider struct {
	of      Nodes
	chainID uint64
}

func (p provider) Nodes(ctx context.Context) (chain.Nodes, error) {
	l, err := p.of.secret.Get(ctx)
	if err == nil && len(l.urls[p.chainID]) == 0 { // remit rails add may have put them there since
		l, err = p.of.secret.Within(ctx, secrets.RetryAfter)
	}
	if errors.Is(err, secrets.ErrMissing) {
		err = fmt.Errorf("%w: %w", chain.ErrNoNodes, err)
	}
	if err != nil {
		return nil, err
	}
	return l.open(p.chainID)
}

// lists are the nodes of one value of the secret, opened when they are needed first.
type lists struct {
	urls map[uint64][]string
	now  func() time.Time

	mu     sync.Mutex
	opened map[uint64]chain.Nodes
}

func (l *lists) open(chainID uint64) (chain.Nodes, error) {
	if len(l.urls[chainID]) == 0 {
		return nil, fmt.Errorf("%w: the secret names none of chain %d", chain.ErrNoNodes, chainID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if nodes, opened := l.opened[chainID]; opened {
		return nodes, nil
	}
	own, _ := chains.Of(chainID)
	transport := ethrpc.NewTransport()
	var nodes chain.Nodes
	for i, url := range l.urls[chainID] {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: chainID, L1Fee: own.L1Fee, Gas: own.Gas, Transport: transport})
		if err != nil {
			return nil, fmt.Errorf("opening urls[%d] of chain %d: %w", i, chainID, err)
		}
		nodes = append(nodes, node)
	}
	l.opened[chainID] = nodes.Watch(l.now, time.After)
	return l.opened[chainID], nil
}
