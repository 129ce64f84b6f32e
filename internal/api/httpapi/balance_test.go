package httpapi_test

import (
	"testing"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

func TestBalances(t *testing.T) { answers(t, newAPI, "GET /balance/%s") }

// TestBalancesAreExact: to 2^256-1.
func TestBalancesAreExact(t *testing.T) {
	a := newAPI(t)
	a.node.account.Balance = token.MaxAmount()
	a.get("/balance/"+alice).want(t, 200, `"balance":`+maxAmount+`,`)
}

// TestNodesOfABalance: nodes are asked one after the other.
func TestNodesOfABalance(t *testing.T) {
	good := chain.Account{Head: chain.Head{Number: 9}, Balance: token.Units(5)}
	for _, test := range []struct {
		name   string
		nodes  []*node
		status int
		part   string
		asked  int // of the first node, for the account
	}{
		{"the first node answers", []*node{{account: good}, {err: errBroken}}, 200, `"block_number":9`, 1},
		{"the first node is down", []*node{{err: errBroken}, {account: good}}, 200, `"block_number":9`, 0},
		{"every node is down", []*node{{err: errBroken}, {err: errBroken}}, 503, `"code":"payment_rail_unavailable"`, 0},
		{"no node at all", nil, 503, `"code":"payment_rail_unavailable"`, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			var nodes chain.Nodes
			for _, n := range test.nodes {
				nodes = append(nodes, n)
			}
			a.only(httpapi.GetBalance(nodes, asset, "base-sepolia", chain.ConfirmationRule{}))
			a.get("/balance/"+alice).want(t, test.status, test.part, "!arn:")
			if len(test.nodes) > 0 && test.nodes[0].asked != test.asked {
				t.Errorf("the first node was asked %d times for it, want %d", test.nodes[0].asked, test.asked)
			}
		})
	}
}
