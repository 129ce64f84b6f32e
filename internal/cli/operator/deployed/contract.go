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
	nodes, _, err := d.Nodes(ctx)
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

// TakesMemo tries a transfer of the token, without and with a payment's id after its arguments: of a unit from an
// account that holds one, or of nothing if none is named. It returns an error if the token makes the first one alone,
// as a precompile may, and reports false and why if it makes neither.
func (d *Deployment) TakesMemo(ctx context.Context, nodes chain.Nodes, holders ...token.Address) (tried bool, _ error) {
	from, amount := token.Address{0: 1}, token.Amount{}
	if len(holders) > 0 {
		from, amount = holders[0], token.Units(1)
	}
	call := chain.Call{From: from, To: d.Asset.Contract, Data: chain.TransferData(from, amount)}
	if _, err := nodes.Estimate(ctx, call); err != nil {
		return false, err
	}
	call.Data = append(call.Data, make([]byte, 20)...) // as long as a payment's id
	if _, err := nodes.Estimate(ctx, call); err != nil && !errors.Is(err, chain.ErrReverted) {
		return false, err
	} else if err != nil {
		return true, fmt.Errorf("the token takes no payment's id after the arguments of a transfer: %w", err)
	}
	return true, nil
}

// Allowance returns the least that a contract may take of a wallet by any node.
func (d *Deployment) Allowance(ctx context.Context, owner, contract token.Address) (token.Amount, error) {
	nodes, _, err := d.Nodes(ctx)
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
