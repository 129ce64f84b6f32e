package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/httpapi"
	"remit/internal/token"
)

func TestBalances(t *testing.T) {
	lower := strings.ToLower(alice)
	for _, test := range []struct {
		name, address string
		status        int
		part          string
	}{
		{"with its checksum", alice, 200, `"address":"` + alice + `"`},
		{"all lower case is answered with its checksum", lower, 200, `"address":"` + alice + `"`},
		{"all upper case", "0x" + strings.ToUpper(lower[2:]), 200, `"address":"` + alice + `"`},
		{"the zero address", "0x0000000000000000000000000000000000000000", 200, `"balance":2500000,`},
		{"a wrong checksum", "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", 422, `"type":"address_checksum","loc":["path","address"]`},
		{"a prefix in capitals", "0X" + lower[2:], 422, `"type":"address_invalid","loc":["path","address"]`},
		{"no prefix", lower[2:], 422, `"address_invalid"`},
		{"39 digits", lower[:41], 422, `"address_invalid"`},
		{"41 digits", lower + "0", 422, `"address_invalid"`},
		{"an ENS name", "vitalik.eth", 422, `"address_invalid"`},
		{"an escaped digit", "%30" + lower[1:], 422, `"address_invalid"`},
		{"an escaped blank behind", lower + "%20", 422, `"address_invalid"`},
		{"a byte that is not UTF-8", "%ff", 422, `"address_invalid"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			newAPI(t).get("/balance/"+test.address).want(t, test.status, test.part)
		})
	}
}

// TestBalancesAreExact: to 2^256-1.
func TestBalancesAreExact(t *testing.T) {
	a := newAPI(t)
	a.node.account.Balance = token.MaxAmount()
	a.get("/balance/"+alice).want(t, 200, `"balance":`+maxAmount+`,`)
}

// TestNodesOfABalance: nodes are asked one after the other, and each again while
// its head moves during the read.
func TestNodesOfABalance(t *testing.T) {
	good := chain.Account{Head: 9, Balance: token.Units(5), Steady: true}
	moving := chain.Account{Head: 8, Balance: token.Units(4)}
	for _, test := range []struct {
		name   string
		nodes  []*node
		status int
		part   string
		asked  int // of the first node
	}{
		{"the first node answers", []*node{{account: good}, {err: errBroken}}, 200, `"block_number":9`, 1},
		{"the first node is down", []*node{{err: errBroken}, {account: good}}, 200, `"block_number":9`, 1},
		{"every node is down", []*node{{err: errBroken}, {err: errBroken}}, 503, `"code":"payment_rail_unavailable"`, 1},
		{"no node at all", nil, 503, `"code":"payment_rail_unavailable"`, 0},
		{"a node whose chain keeps moving", []*node{{account: moving}}, 200, `"balance":4,`, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			var nodes chain.Nodes
			for _, n := range test.nodes {
				nodes = append(nodes, n)
			}
			a.router = httpapi.NewRouter(anyKey{a.merchant}, time.Now, func() string { return "req-1" },
				httpapi.GetBalance(nil, nodes, asset, "base-sepolia", chain.ConfirmationRule{}))
			got := a.get("/balance/" + alice)
			got.want(t, test.status, test.part)
			if len(test.nodes) > 0 && test.nodes[0].asked != test.asked {
				t.Errorf("the first node was asked %d times, want %d", test.nodes[0].asked, test.asked)
			}
			if strings.Contains(got.body, "arn:") {
				t.Errorf("tells why: %s", got.body)
			}
		})
	}
}
