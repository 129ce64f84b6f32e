package chain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"remit/internal/chain"
	"remit/internal/token"
)

func TestEstimate(t *testing.T) {
	for _, test := range []struct {
		name  string
		nodes chain.Nodes
		gas   uint64
		want  error
	}{
		{"the first answer is enough", nodes(&stub{gas: 1}, &stub{gas: 2}), 1, nil},
		{"a node that is down is passed over", nodes(&stub{down: true}, &stub{gas: 2}), 2, nil},
		{"a revert on a node that lags is no refusal while another can pay", nodes(&stub{reverts: true}, &stub{gas: 2}), 2, nil},
		{"a revert counts when the others are down", nodes(&stub{down: true}, &stub{reverts: true}), 0, chain.ErrReverted},
		{"no answer is no revert", nodes(&stub{down: true}, &stub{down: true}), 0, chain.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			gas, err := test.nodes.Estimate(t.Context(), chain.Call{})
			if gas != test.gas || !errors.Is(err, test.want) {
				t.Errorf("Estimate() = %d, %v; want %d, %v", gas, err, test.gas, test.want)
			}
			if errors.Is(err, chain.ErrReverted) && errors.Is(err, chain.ErrUnavailable) {
				t.Errorf("%v is both a refusal and none", err)
			}
		})
	}
}

func TestLeading(t *testing.T) {
	view := func(mined, head uint64, steady bool) chain.View {
		return chain.View{Account: chain.Account{Mined: mined, Head: head, Steady: steady}}
	}
	for _, test := range []struct {
		name  string
		views chain.Views
		want  uint64 // Head of the one that leads
	}{
		{"a node that lags does not lead", chain.Views{view(1, 1, true), view(2, 2, true)}, 2},
		{"nor when it comes last", chain.Views{view(2, 1, true), view(1, 2, true)}, 1},
		{"of equals one whose answers belong to one block", chain.Views{view(2, 1, false), view(2, 2, true)}, 2},
		{"of equals that are steady the first", chain.Views{view(2, 1, true), view(2, 2, true)}, 1},
		{"of equals that are not the last", chain.Views{view(2, 1, false), view(2, 2, false)}, 2},
		{"a higher count leads even when unsteady", chain.Views{view(2, 1, true), view(3, 2, false)}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.views.Leading().Head; got != test.want {
				t.Errorf("head %d leads, want %d", got, test.want)
			}
		})
	}
}

func TestViews(t *testing.T) {
	all := nodes(&stub{down: true}, &stub{account: chain.Account{Mined: 3}})
	views, err := all.Views(t.Context(), token.Address{}, token.Address{}, chain.ConfirmationRule{})
	if err != nil || len(views) != 1 || views[0].Mined != 3 || views[0].Node != all[1] {
		t.Errorf("Views() = %v, %v; want that of the node that is up", views, err)
	}
	down := nodes(&stub{down: true}, &stub{down: true})
	_, errViews := down.Views(t.Context(), token.Address{}, token.Address{}, chain.ConfirmationRule{})
	_, errFees := down.Fees(t.Context())
	for _, err := range []error{errViews, errFees} {
		if !errors.Is(err, chain.ErrUnavailable) || !errors.Is(err, errDown) || !strings.Contains(err.Error(), "asking b") {
			t.Errorf("all down: %v, want ErrUnavailable, and what each node answered", err)
		}
	}
}

// TestReceipts is what may be believed of a receipt. Block 5 is 0x05 on the
// chain everybody agrees on, 0xf5 on a fork.
func TestReceipts(t *testing.T) {
	tx, block, fork := chain.Hash{1}, chain.Hash{5}, chain.Hash{0xf5}
	mined := chain.Receipt{Tx: tx, Block: 5, BlockHash: block}
	final := chain.Account{Final: 5}
	main := func() *stub {
		return &stub{account: final, receipts: []chain.Receipt{mined}, blocks: map[uint64]chain.Hash{5: block}}
	}
	half, early, without := main(), main(), main()
	half.half, early.account.Final, without.receipts = true, 4, nil
	for _, test := range []struct {
		name        string
		nodes       chain.Nodes
		final, seen bool
		want        error
	}{
		{"two nodes that agree", nodes(main(), main()), true, true, nil},
		{"one node alone", nodes(main()), true, true, nil},
		{"one node that could not read another receipt", nodes(half), true, true, nil},
		{"not final yet", nodes(early), false, true, nil},
		{"nobody has it", nodes(&stub{account: final}, &stub{account: final}), false, false, nil},
		{"null on the first node is no answer", nodes(without, main()), true, true, nil},
		{"not final on the first, final on the second", nodes(early, main()), true, true, nil},
		{"a node that lags does not contradict", nodes(main(), &stub{account: chain.Account{Final: 2}}), true, true, nil},
		{"a node that is down for the block hash does not contradict", nodes(main(), &stub{account: final, down: true}), true, true, nil},
		{"another block at that height on another node", nodes(main(), &stub{account: final, blocks: map[uint64]chain.Hash{5: fork}}), false, true, nil},
		{"re-organised between receipt and block hash", nodes(&stub{account: final, receipts: []chain.Receipt{mined}, blocks: map[uint64]chain.Hash{5: fork}}), false, true, nil},
		{"the node that gave it has no such block any more", nodes(&stub{account: final, receipts: []chain.Receipt{mined}}, main()), false, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var views chain.Views
			for _, n := range test.nodes {
				views = append(views, chain.View{Node: n, Account: n.(*stub).account})
			}
			got, err := views.Receipts(t.Context(), []chain.Hash{tx, {2}})
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if _, final := got.Final[tx]; final != test.final || got.Seen[tx] != test.seen {
				t.Errorf("final %v, seen %v; want %v, %v", final, got.Seen[tx], test.final, test.seen)
			}
			if len(got.Final) > 1 || len(got.Seen) > 1 {
				t.Errorf("%+v: more than was there", got)
			}
		})
	}

	down := nodes(&stub{down: true}, &stub{down: true})
	if _, err := (chain.Views{{Node: down[0]}, {Node: down[1]}}).Receipts(t.Context(), []chain.Hash{tx}); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("all down: %v, want ErrUnavailable", err)
	}
	second := main()
	both := nodes(main(), second)
	if _, err := (chain.Views{{Node: both[0], Account: final}, {Node: both[1], Account: final}}).Receipts(t.Context(), []chain.Hash{tx}); err != nil || second.asked != 0 {
		t.Errorf("the second node was asked %d times for what the first had (%v)", second.asked, err)
	}
}

// TestReceiptsOfOneBlock: the hash of a block is asked for once, whatever number
// of transactions it has.
func TestReceiptsOfOneBlock(t *testing.T) {
	node := &stub{account: chain.Account{Final: 5}, blocks: map[uint64]chain.Hash{5: {5}}, receipts: []chain.Receipt{
		{Tx: chain.Hash{1}, Block: 5, BlockHash: chain.Hash{5}}, {Tx: chain.Hash{2}, Block: 5, BlockHash: chain.Hash{5}},
	}}
	views := chain.Views{{Node: node, Account: node.account}}
	got, err := views.Receipts(t.Context(), []chain.Hash{{1}, {2}})
	if err != nil || len(got.Final) != 2 || !slices.Equal(node.numbers, []uint64{5}) {
		t.Errorf("%v, %v, after it was asked for blocks %v", got, err, node.numbers)
	}
	node.generous = true
	if got, err := views.Receipts(t.Context(), []chain.Hash{{1}}); err != nil || len(got.Final) != 1 || got.Seen[chain.Hash{2}] {
		t.Errorf("asked for one receipt: %v, %v", got, err)
	}
}

// TestTxAtNonce: only every configured node together may say that a nonce was
// used by somebody else. Relayers that believed one of them paid twice.
func TestTxAtNonce(t *testing.T) {
	stranger := chain.Hash{9}
	used := func() *stub { return &stub{account: chain.Account{Mined: 8, Final: 5}, atNonce: stranger} }
	for _, test := range []struct {
		name    string
		nodes   []*stub
		views   int // how many of them answered before
		want    chain.Hash
		failing bool
	}{
		{"all nodes name the same transaction", []*stub{used(), used()}, 2, stranger, false},
		{"a node did not answer before", []*stub{used(), used()}, 1, chain.Hash{}, false},
		{"a node has not got that far", []*stub{used(), {account: chain.Account{Mined: 7, Final: 5}, atNonce: stranger}}, 2, chain.Hash{}, false},
		{"a node says it is not final", []*stub{used(), {account: chain.Account{Mined: 8, Final: 4}}}, 2, chain.Hash{}, false},
		{"the nodes name different ones", []*stub{used(), {account: chain.Account{Mined: 8, Final: 5}, atNonce: chain.Hash{8}}}, 2, chain.Hash{}, false},
		{"a node cannot tell", []*stub{used(), {account: chain.Account{Mined: 8, Final: 5}, atNonce: stranger, down: true}}, 2, chain.Hash{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := nodes(test.nodes...)
			var views chain.Views
			for i := range test.views {
				views = append(views, chain.View{Node: all[i], Account: test.nodes[i].account})
			}
			got, err := all.TxAtNonce(t.Context(), views, token.Address{}, 7)
			if got != test.want || (err != nil) != test.failing {
				t.Errorf("TxAtNonce() = %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestDeliver(t *testing.T) {
	gap := map[string]chain.Reply{"n2": {Class: chain.Gap}}
	fetch := func(context.Context) ([][]byte, error) { return [][]byte{[]byte("n0"), []byte("n1")}, nil }
	for _, test := range []struct {
		name  string
		nodes []*stub
		want  chain.Class
		sent  []string // to the first node
	}{
		{"every node gets the bytes", []*stub{{}, {}}, chain.Accepted, []string{"n2"}},
		{"what one node holds counts", []*stub{{down: true}, {}}, chain.Accepted, []string{"n2"}},
		{"one that is down proves nothing", []*stub{{down: true}}, chain.Ambiguous, []string{"n2"}},
		{"predecessors first, in nonce order, then again", []*stub{{replies: gap}, {}}, chain.Accepted, []string{"n2", "n0", "n1", "n2"}},
		{"maybe accepted is better than refused", []*stub{{replies: map[string]chain.Reply{"n2": {Class: chain.Wrong}}}, {down: true}}, chain.Ambiguous, []string{"n2"}},
		{"a stranger's transaction in the way is no success", []*stub{{replies: map[string]chain.Reply{"n2": {Class: chain.Replacement}}}}, chain.Replacement, []string{"n2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			reply := nodes(test.nodes...).Deliver(t.Context(), []byte("n2"), fetch)
			if reply.Class != test.want || !slices.Equal(test.nodes[0].sent, test.sent) {
				t.Errorf("%s after %q; want %s after %q", reply.Class, test.nodes[0].sent, test.want, test.sent)
			}
			for _, n := range test.nodes {
				if len(n.sent) == 0 {
					t.Errorf("node %s got nothing", n)
				}
			}
		})
	}

	unknown := &stub{replies: gap}
	reply := nodes(unknown).Deliver(t.Context(), []byte("n2"), func(context.Context) ([][]byte, error) { return nil, errDown })
	if reply.Class != chain.Gap || len(unknown.sent) != 1 {
		t.Errorf("without predecessors: %s after %q", reply.Class, unknown.sent)
	}
}

func TestClasses(t *testing.T) {
	classes := chain.Classes()
	if len(classes) != 10 {
		t.Errorf("%d classes, want the 10 of eth_sendRawTransaction's replies", len(classes))
	}
	for _, c := range classes {
		if c.Held() != (c == chain.Accepted || c == chain.Known) {
			t.Errorf("%s: held %v", c, c.Held())
		}
		// The best reply wins, and each has its own rank: two nodes, either order.
		for _, other := range classes {
			reply := func(first, second chain.Class) chain.Class {
				return nodes(&stub{replies: map[string]chain.Reply{"x": {Class: first}}}, &stub{replies: map[string]chain.Reply{"x": {Class: second}}}).
					Deliver(t.Context(), []byte("x"), func(context.Context) ([][]byte, error) { return nil, errDown }).Class
			}
			if a, b := reply(c, other), reply(other, c); a != b {
				t.Errorf("%s and %s give %s or %s", c, other, a, b)
			}
		}
	}
}

func TestFinalCount(t *testing.T) {
	a, b := &stub{name: "a", settled: 7}, &stub{name: "b", settled: 5}
	a.account.Final, b.account.Final = 20, 18
	views := chain.Views{{Node: a, Account: a.account}, {Node: b, Account: b.account}}
	if got, err := views.FinalCount(t.Context(), token.Address{}); got != 5 || err != nil {
		t.Errorf("FinalCount() = %d, %v; want 5, what every node calls final", got, err)
	}
	b.down = true
	if got, err := views.FinalCount(t.Context(), token.Address{}); !errors.Is(err, errDown) {
		t.Errorf("with a node that does not say: %d, %v", got, err)
	}
}
