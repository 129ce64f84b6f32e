// Package chainenv reads from a function's environment the nodes of its rails. Nodes change while a function lives,
// whenever an operator changes the RPC secret.
package chainenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
)

// Nodes are the nodes that the secret RPC_SECRET names, by chain, watched while it names them.
type Nodes struct {
	secret *secrets.Secret[map[uint64]list]
}

// A list has the nodes of a chain, or why there are none.
type list struct {
	nodes chain.Nodes
	err   error
}

func (l list) empty() bool { return l.err == nil && len(l.nodes) == 0 }

// Open returns the nodes. The secret is not read yet: a function whose secret has no value starts, and fails when a
// node is needed.
func Open(env *boot.Env) Nodes {
	return Nodes{secrets.Open(env.AWS, env.String("RPC_SECRET"), env.Now, func(value []byte) (map[uint64]list, error) {
		urls, err := secrets.RPC(value)
		lists := map[uint64]list{}
		for chainID := range urls {
			lists[chainID] = open(chainID, urls[chainID], env.Now)
		}
		return lists, err
	})}
}

// Of returns the nodes of a rail's chain. Rails of one chain share them.
func (n Nodes) Of(c stack.Config) chain.Provider { return provider{n, c.ChainID} }

// Chains returns the chains that the secret names, also those whose list is empty now: they may have had a rail that
// the tables lost. It returns none if the secret has no value.
func (n Nodes) Chains(ctx context.Context) ([]uint64, error) {
	lists, err := n.secret.Get(ctx)
	if errors.Is(err, secrets.ErrMissing) {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(lists)), err
}

type provider struct {
	of      Nodes
	chainID uint64
}

func (p provider) Nodes(ctx context.Context) (chain.Nodes, error) {
	lists, err := p.of.secret.Get(ctx)
	if err == nil && lists[p.chainID].empty() { // remit rails add may have put them there since
		lists, err = p.of.secret.Within(ctx, secrets.RetryAfter)
	}
	l := lists[p.chainID]
	switch {
	case errors.Is(err, secrets.ErrMissing):
		return nil, fmt.Errorf("%w: %w", chain.ErrNoNodes, err)
	case err == nil && l.empty():
		return nil, fmt.Errorf("%w: the secret names none of chain %d", chain.ErrNoNodes, p.chainID)
	}
	return l.nodes, errors.Join(err, l.err)
}

// open opens the nodes of a chain, which makes no request.
func open(chainID uint64, urls []string, now func() time.Time) list {
	own, _ := chains.Of(chainID)
	transport := ethrpc.NewTransport()
	var nodes chain.Nodes
	for i, url := range urls {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: chainID, L1Fee: own.L1Fee, Gas: own.Gas, Transport: transport})
		if err != nil {
			return list{err: fmt.Errorf("opening urls[%d] of chain %d: %w", i, chainID, err)}
		}
		nodes = append(nodes, node)
	}
	return list{nodes: nodes.Watch(now, time.After)}
}
