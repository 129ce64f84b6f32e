// Package chainenv reads from a function's environment its part about the chain: the token, the rules of the stack,
// and the nodes. Nodes change while a function lives, whenever an operator changes the RPC secret.
package chainenv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
)

// SilentAfter returns stack.Config.SilentAfter, from QUORUM and MODE.
func SilentAfter(env *boot.Env) time.Duration {
	after, err := stack.ParseQuorum(env.Optional("QUORUM", ""), env.String("MODE"))
	if err != nil {
		env.Refuse(fmt.Errorf("QUORUM: %w", err))
	}
	return after
}

// Nodes returns the nodes of chain CHAIN_ID that the secret RPC_SECRET names, watched while it names them. It is not
// read yet: a function whose secret has no value starts, and fails when a node is needed.
func Nodes(env *boot.Env) chain.Provider {
	chainID := env.Uint64("CHAIN_ID")
	return provider{secrets.Open(env.AWS, env.String("RPC_SECRET"), env.Now, func(value []byte) (chain.Nodes, error) {
		nodes, err := open(value, chainID)
		return nodes.Watch(env.Now, time.After), err
	})}
}

type provider struct{ nodes *secrets.Secret[chain.Nodes] }

func (p provider) Nodes(ctx context.Context) (chain.Nodes, error) {
	nodes, err := p.nodes.Get(ctx)
	if errors.Is(err, secrets.ErrMissing) {
		err = fmt.Errorf("%w: %w", chain.ErrNoNodes, err)
	}
	return nodes, err
}

func open(value []byte, chainID uint64) (chain.Nodes, error) {
	urls, err := secrets.RPC(value)
	if err != nil {
		return nil, err
	}
	own, _ := chains.Of(chainID)
	transport := ethrpc.NewTransport()
	var nodes chain.Nodes
	for i, url := range urls {
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: chainID, L1Fee: own.L1Fee, Gas: own.Gas, Transport: transport})
		if err != nil {
			return nil, fmt.Errorf("opening urls[%d]: %w", i, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
