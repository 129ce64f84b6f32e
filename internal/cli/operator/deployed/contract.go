package deployed

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/ethrpc/inspect"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// ErrNoCode reports an address at which a node has no contract.
var ErrNoCode = errors.New("there is no contract")

// EveryNodeHas returns nil if each configured node has the code at an address. A missing answer is
// an error, since that node may differ. It returns ErrNoCode if no node has a contract there.
func (d *Deployment) EveryNodeHas(ctx context.Context, at token.Address, code []byte) error {
	nodes, err := d.Nodes(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	for _, node := range nodes {
		switch err := HasCode(ctx, node, at, code); {
		case errors.Is(err, ErrNoCode):
			wrong = append(wrong, err)
		case err != nil:
			return err
		}
	}
	if len(wrong) > 0 && len(wrong) < len(nodes) {
		return fmt.Errorf("nodes disagree, or are behind; try again in a minute: %v", wrong)
	}
	return errors.Join(wrong...)
}

// HasCode returns nil if a node of Nodes has the code at an address.
func HasCode(ctx context.Context, node chain.Node, at token.Address, code []byte) error {
	got, err := inspect.Code(ctx, node.(*ethrpc.Node), at) // Nodes opens no others
	switch {
	case err != nil:
		return err
	case len(got) == 0:
		return fmt.Errorf("%s: %w at %s", node, ErrNoCode, at)
	case !bytes.Equal(got, code):
		return fmt.Errorf("%s has other code at %s; do not pay through it", node, at)
	}
	return nil
}

// Allowance returns the least that a contract may take of a wallet by any node.
func (d *Deployment) Allowance(ctx context.Context, owner, contract token.Address) (token.Amount, error) {
	nodes, err := d.Nodes(ctx)
	least := token.MaxAmount()
	for _, node := range nodes {
		got, nodeErr := inspect.Allowance(ctx, node.(*ethrpc.Node), d.Asset.Contract, owner, contract)
		if err = errors.Join(err, nodeErr); got.Less(least) {
			least = got
		}
	}
	return least, err
}

// Allowed writes an allowance. Tokens that count an unlimited one down never end it.
func (d *Deployment) Allowed(amount token.Amount) string {
	if token.MaxAmount().Over(2).Less(amount) {
		return "any amount of " + d.Asset.Symbol
	}
	return d.Coins(amount)
}
