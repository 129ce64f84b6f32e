package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestReceipts: when a receipt is agreed on. Block 5 is 0x05 on the chain that most nodes follow, 0xf5 on a fork.
func TestReceipts(t *testing.T) {
	tx, block, fork := chain.Hash{1}, chain.Hash{5}, chain.Hash{0xf5}
	log := chain.Log{Topics: []chain.Hash{{7}}}
	node := func(change func(*stub)) *stub {
		s := &stub{account: chain.Account{Head: chain.Head{Final: 5}}, blocks: map[uint64]chain.Hash{5: block},
			receipts: []chain.Receipt{{Tx: tx, Block: 5, BlockHash: block, Succeeded: true, GasUsed: 9,
				Logs: []chain.Log{log}}}}
		change(s)
		return s
	}
	good := func(*stub) {}
	young := func(s *stub) { s.account.Final = 4 }
	null := func(s *stub) { s.receipts = nil }
	empty := func(s *stub) { s.receipts, s.blocks = nil, nil }
	down := func(s *stub) { s.down = true }
	type receipt = chain.Receipt
	says := func(change func(*receipt)) func(*stub) {
		return func(s *stub) { change(&s.receipts[0]) }
	}
	type stubs = []func(*stub)
	for _, test := range []struct {
		name  string
		nodes stubs
		by    string // names of the nodes that stand by it
		seen  bool
		words string // of the dispute
	}{
		{"two nodes that agree", stubs{good, good}, "ab", true, ""},
		{"one node alone", stubs{good}, "a", true, ""},
		{"one node that could not read another receipt", stubs{func(s *stub) { s.half = true }}, "a", true, ""},
		{"not final yet", stubs{young}, "", true, ""},
		{"no node has it", stubs{null, null}, "", false, ""},
		{"null of a node that has the block", stubs{null, good}, "b", true, "a: no receipt"},
		{"null of a node that has not got the block", stubs{empty, good}, "b", true, ""},
		{"null of a node that could not read all", stubs{func(s *stub) { s.receipts, s.half = nil, true }, good}, "b", true, ""},
		{"not final on the first, final on the second", stubs{young, good}, "b", true, ""},
		{"final on two of three", stubs{good, young, good}, "ac", true, ""},
		{"a node that is down does not differ", stubs{good, down}, "a", true, ""},
		{"another block at that height on another node",
			stubs{good, func(s *stub) { s.receipts, s.blocks = nil, map[uint64]chain.Hash{5: fork} }}, "a", true, "b: another block"},
		{"re-organised between receipt and block hash", stubs{func(s *stub) { s.blocks = map[uint64]chain.Hash{5: fork} }}, "", true,
			"a: another block"},
		{"the node that gave it lost the block", stubs{func(s *stub) { s.blocks = nil }, good}, "b", true, ""},
		{"no logs on one", stubs{says(func(r *receipt) { r.Logs = nil }), good}, "a", true, "b: status 1, 1 logs"},
		{"more logs on one", stubs{good, says(func(r *receipt) { r.Logs = []chain.Log{log, {}} })}, "a", true, "b: status 1, 2 logs"},
		{"another log on one", stubs{good, says(func(r *receipt) { r.Logs = []chain.Log{{Topics: []chain.Hash{{8}}}} })}, "a", true,
			"b: status 1, 1 logs"},
		{"a log twice on one", stubs{good, says(func(r *receipt) { r.Logs = []chain.Log{log, log} })}, "ab", true, ""},
		{"another status", stubs{good, good, says(func(r *receipt) { r.Succeeded = false })}, "ab", true, "c: status 0"},
		{"another use of gas", stubs{good, says(func(r *receipt) { r.GasUsed++ })}, "a", true, "10 gas"},
		{"an unknown use of gas", stubs{good, says(func(r *receipt) { r.GasUsed = 0 })}, "ab", true, ""},
		{"another block in the receipt", stubs{good, says(func(r *receipt) { r.BlockHash = fork })}, "a", true, fork.String()},
		{"another number in the receipt", stubs{good, says(func(r *receipt) { r.Block = 4 })}, "a", true, "block 4"},
		{"another transaction's receipt", stubs{good, says(func(r *receipt) { r.Tx = chain.Hash{3} })}, "a", true, "b: no receipt"},
		{"no logs on the first of three", stubs{says(func(r *receipt) { r.Logs = nil }), good, good}, "bc", true, "a: status 1, 0 logs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := make([]*stub, len(test.nodes))
			for i, change := range test.nodes {
				all[i] = node(change)
			}
			got := must.Get(views(nodes(all...)).Receipts(t.Context(), []chain.Hash{tx, {2}}))(t)
			a := got.Agreed[tx]
			if by := strings.Join(a.By.Names(), ""); by != test.by || (got.Seen[tx] > 0) != test.seen || !strings.Contains(a.Dispute, test.words) {
				t.Errorf("by %q, seen %v, dispute %q; want %q, %v, %q", by, got.Seen[tx], a.Dispute, test.by, test.seen, test.words)
			}
			if (test.words == "") != (a.Dispute == "") || (test.words == "") != (len(a.Against) == 0) || len(got.Agreed) > 1 || len(got.Seen) > 1 {
				t.Errorf("%+v: more than was there", got)
			}
		})
	}
	if _, err := views(nodes(&stub{down: true}, &stub{down: true})).Receipts(t.Context(), []chain.Hash{tx}); !errors.Is(err,
		chain.ErrUnavailable) || !strings.Contains(err.Error(), "asking b") {
		t.Errorf("all down: %v, want ErrUnavailable, and what each node answered", err)
	}
	if got, err := views(nodes(&stub{down: true}, &stub{})).Receipts(t.Context(), []chain.Hash{tx}); err != nil || len(got.Seen) > 0 {
		t.Errorf("one down, one without it: %+v, %v", got, err)
	}
}

// TestBlocksAreAskedForOnce: the wallets of a round share a node's block hashes, also if they ask at once. An answer
// that fails is asked for again, and another round asks again.
func TestBlocksAreAskedForOnce(t *testing.T) {
	tx := chain.Hash{1}
	node := &stub{receipts: []chain.Receipt{{Tx: tx, Block: 5, BlockHash: chain.Hash{5}}},
		blocks: map[uint64]chain.Hash{5: {5}}, account: chain.Account{Head: chain.Head{Number: 9, Final: 5}}}
	agreed := func(heads chain.Heads) (agreed bool) {
		views := must.Get(heads.Views(t.Context(), nobody, nobody))(t)
		return len(must.Get(views.Receipts(t.Context(), []chain.Hash{tx}))(t).Agreed) == 1
	}
	heads := nodes(node).Heads(t.Context(), latest)
	node.lost = 1
	if agreed(heads) || !agreed(heads) {
		t.Error("an answer that fails is kept, or it is not asked for again")
	}
	var wallets sync.WaitGroup
	for range 8 {
		wallets.Go(func() {
			if !agreed(heads) {
				t.Error("a wallet does not get the shared answer")
			}
		})
	}
	wallets.Wait()
	if agreed(nodes(node).Heads(t.Context(), latest)); !slices.Equal(node.numbers, []uint64{5, 5, 5}) {
		t.Errorf("it is asked for blocks %v", node.numbers)
	}
}

// TestFeesThatDiffer: nodes that differ on a transaction's fee delay no payment, and the cost is then not known.
func TestFeesThatDiffer(t *testing.T) {
	one, same, other := token.Units(1), token.Units(1), token.Units(2)
	for _, test := range []struct {
		name string
		fees []*token.Amount
		want *token.Amount
	}{
		{"the same", []*token.Amount{&one, &same}, &one},
		{"another", []*token.Amount{&one, &same, &other}, nil},
		{"another first", []*token.Amount{&other, &one}, nil},
		{"none on one", []*token.Amount{&one, nil, &one}, nil},
		{"none on the first", []*token.Amount{nil, &one, &one}, nil},
	} {
		var all chain.Nodes
		for _, fee := range test.fees {
			all = append(all, &stub{account: chain.Account{Head: chain.Head{Final: 5}}, blocks: map[uint64]chain.Hash{5: {5}},
				receipts: []chain.Receipt{{Tx: chain.Hash{1}, Block: 5, BlockHash: chain.Hash{5}, Fee: fee}}})
		}
		got, err := views(all).Receipts(t.Context(), []chain.Hash{{1}})
		a := got.Agreed[chain.Hash{1}]
		if err != nil || len(a.By) != len(all) || (a.Fee == nil) != (test.want == nil) || a.Fee != nil && *a.Fee != *test.want {
			t.Errorf("%s: %+v, %v, want the fee %v by all", test.name, a, err, test.want)
		}
	}
}

// views are those of nodes that have all answered.
func views(all chain.Nodes) chain.Views {
	views := make(chain.Views, len(all))
	for i, n := range all {
		views[i] = chain.View{Node: n, Account: n.(*stub).account}
	}
	return views
}

// TestDecide: more than half of the nodes that are not silent, and at least two of three or more, may decide that the
// amount has moved or that a no-op is mined. Only all nodes may decide that the amount has not moved.
func TestDecide(t *testing.T) {
	for _, test := range []struct {
		configured, silent, by int
		paid, unpaid           bool
	}{
		{1, 0, 0, false, false}, {1, 0, 1, true, true}, {2, 0, 1, false, false}, {2, 0, 2, true, true},
		{3, 0, 1, false, false}, {3, 0, 2, true, false}, {3, 0, 3, true, true}, {4, 0, 2, false, false}, {4, 0, 3, true, false},
		{1, 1, 0, false, false}, {2, 1, 0, false, false}, {2, 1, 1, true, false}, {3, 1, 1, false, false}, {3, 1, 2, true, false},
		{3, 2, 1, false, false}, {4, 1, 2, true, false}, {4, 2, 1, false, false}, {5, 1, 2, false, false},
		{5, 2, 2, true, false}, {5, 4, 1, false, false},
	} {
		all, a := make(chain.Nodes, test.configured), chain.Agreement{By: make(chain.Views, test.by)}
		for v, want := range map[chain.Verdict]bool{
			chain.Transferred: test.paid, chain.Used: test.paid,
			chain.Reverted: test.unpaid, chain.Missing: test.unpaid, chain.AmountDiffers: test.unpaid,
		} {
			if got := all.Decide(v, a, test.silent); got != want {
				t.Errorf("%s by %d of %d, %d silent: %v, want %v", v, test.by, test.configured, test.silent, got, want)
			}
		}
	}
}

// TestDecideAgainst: a node that contradicts a moved amount is outvoted by more than half of three
// or more configured nodes, silent ones included, on two hosts. It holds up every other verdict.
func TestDecideAgainst(t *testing.T) {
	for _, test := range []struct {
		configured, silent int
		by                 string // hosts
		want               bool
	}{
		{2, 1, "a", false}, {3, 0, "ab", true}, {3, 0, "aa", false}, {3, 0, "a", false}, {3, 1, "ab", true},
		{4, 1, "ab", false}, {4, 0, "aab", true}, {5, 2, "ab", false}, {5, 0, "abb", true},
	} {
		a := chain.Agreement{Against: make(chain.Views, 1)}
		for _, host := range test.by {
			a.By = append(a.By, chain.View{Node: &stub{name: string(host)}})
		}
		for _, v := range []chain.Verdict{chain.Transferred, chain.Used, chain.Reverted, chain.Missing, chain.AmountDiffers} {
			want := test.want && (v == chain.Transferred || v == chain.Used)
			if got := make(chain.Nodes, test.configured).Decide(v, a, test.silent); got != want {
				t.Errorf("%s by %q of %d, %d silent: %v", v, test.by, test.configured, test.silent, got)
			}
		}
	}
}

// TestTxAtNonce: only every configured node together may say that a nonce was
// used by somebody else. Relayers that believed one of them paid twice.
func TestTxAtNonce(t *testing.T) {
	stranger := chain.Hash{9}
	used := func() *stub {
		return &stub{account: chain.Account{Mined: 8, Head: chain.Head{Final: 5}}, atNonce: stranger}
	}
	for _, test := range []struct {
		name    string
		nodes   []*stub
		views   int // how many of them answered before
		want    chain.Hash
		failing bool
	}{
		{"all nodes name the same transaction", []*stub{used(), used()}, 2, stranger, false},
		{"a node did not answer before", []*stub{used(), used()}, 1, chain.Hash{}, false},
		{"a node has not got that far", []*stub{used(), {account: chain.Account{Mined: 7, Head: chain.Head{Final: 5}}, atNonce: stranger}}, 2,
			chain.Hash{}, false},
		{"a node says it is not final", []*stub{used(), {account: chain.Account{Mined: 8, Head: chain.Head{Final: 4}}}}, 2, chain.Hash{}, false},
		{"the nodes name different ones", []*stub{used(),
			{account: chain.Account{Mined: 8, Head: chain.Head{Final: 5}}, atNonce: chain.Hash{8}}}, 2, chain.Hash{}, false},
		{"a node cannot tell", []*stub{used(), {account: chain.Account{Mined: 8, Head: chain.Head{Final: 5}}, atNonce: stranger, down: true}},
			2, chain.Hash{}, true},
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
		{"a node that is down proves nothing", []*stub{{down: true}}, chain.Ambiguous, []string{"n2"}},
		{"predecessors first, in nonce order, then again", []*stub{{replies: gap}, {}}, chain.Accepted, []string{"n2", "n0", "n1", "n2"}},
		{"maybe accepted is better than refused", []*stub{{replies: map[string]chain.Reply{"n2": {Class: chain.Wrong}}}, {down: true}},
			chain.Ambiguous, []string{"n2"}},
		{"mined, maybe, is better than refused", []*stub{{replies: map[string]chain.Reply{"n2": {Class: chain.Wrong}}},
			{replies: map[string]chain.Reply{"n2": {Class: chain.NonceTooLow}}}}, chain.NonceTooLow, []string{"n2"}},
		{"a stranger's transaction in the way is no success", []*stub{{replies: map[string]chain.Reply{"n2": {Class: chain.Replacement}}}},
			chain.Replacement, []string{"n2"}},
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
	if len(classes) != 11 {
		t.Errorf("%d classes, want the 11 of eth_sendRawTransaction's replies", len(classes))
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

// TestReceded: a node that calls less final than before is named by its position, also beside another node of its host.
func TestReceded(t *testing.T) {
	a, b := &stub{name: "a"}, &stub{name: "a"}
	a.account.Final, b.account.Final = 20, 18
	nodes := chain.Nodes{a, b}
	earlier := nodes.Heads(t.Context(), latest)
	receded := func(want ...string) {
		t.Helper()
		if got := nodes.Heads(t.Context(), latest).Receded(earlier); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	receded()
	b.account.Final = 17
	receded("a#2")
	b.account.Final, a.account.Final = 19, 19
	receded("a")
	a.down = true
	receded()
	if names, ok := nodes.Heads(t.Context(), latest).Silent(); !ok || !slices.Equal(names, []string{"a"}) {
		t.Errorf("silent are %v", names)
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

// TestUsed: a nonce counts as used for good once enough nodes say so; silent ones do not count.
func TestUsed(t *testing.T) {
	const down = 99
	for _, test := range []struct {
		why    string
		counts []uint64
		silent int
		want   uint64
	}{
		{"one alone", []uint64{7}, 0, 7},
		{"both of two", []uint64{7, 5}, 0, 5},
		{"two of three", []uint64{7, 0, 5}, 0, 5},
		{"one of two that answers", []uint64{7, down}, 0, 0},
		{"the other is silent for long", []uint64{7, down}, 1, 7},
		{"one of three is not enough", []uint64{7, down, down}, 2, 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			var nodes chain.Nodes
			var views chain.Views
			for i, count := range test.counts {
				node := &stub{settled: count, down: count == down}
				node.account.Final = uint64(20 + i)
				nodes, views = append(nodes, node), append(views, chain.View{Node: node, Account: node.account})
			}
			if got, ok := nodes.Used(t.Context(), views, token.Address{}, test.silent); got != test.want || ok != (test.want > 0) {
				t.Errorf("Used() = %d, %t; want %d", got, ok, test.want)
			}
		})
	}
}

// TestStanding is what nodes make of block 5, which was final: 0x05 on the chain that is known, 0xf5 on another. A row
// has the block that is known, and each node's final block on that chain, or how it differs.
func TestStanding(t *testing.T) {
	known := chain.Block{Number: 5, Hash: chain.Hash{5}}
	node := func(number, final uint64, chainOf byte) *stub {
		s := &stub{account: chain.Account{Head: chain.Head{Number: number, Final: final}}, blocks: map[uint64]chain.Hash{}}
		for n := range number + 1 {
			s.blocks[n] = chain.Hash{byte(n) | chainOf}
		}
		return s
	}
	words := map[string]*stub{"other": node(9, 9, 0xf0), "other 7": node(9, 7, 0xf0), "below": node(4, 2, 0xf0), "down": {down: true},
		"pruned": node(9, 9, 0), "at it": node(5, 2, 0)}
	for _, final := range []uint64{4, 6, 7, 8} {
		words[fmt.Sprint(final)] = node(9, final, 0)
	}
	delete(words["pruned"].blocks, 5)
	delete(words["at it"].blocks, 5)
	for _, c := range tabletest.Read(t, nil) {
		of, all := known, []*stub{}
		if c.In[0] == "none" {
			of = chain.Block{}
		}
		for word := range strings.SplitSeq(c.In[1], ", ") {
			all = append(all, new(*words[word])) // a row can have two of a kind
		}
		heads := nodes(all...).Heads(t.Context(), latest)
		got := heads.Standing(t.Context(), of)
		if text := fmt.Sprintf("have %d, other %d, lack %d, newest %d %x", got.Have, got.Other, got.Lack, got.Newest.Number,
			got.Newest.Hash[:1]); text != c.Want {
			t.Errorf("%s: %s, want %s", c.Name, text, c.Want)
		}
		if _, ok := heads.Silent(); ok != slices.ContainsFunc(all, func(s *stub) bool { return !s.down }) {
			t.Errorf("%s: somebody answered: %t", c.Name, ok)
		}
	}
}

// reverting is a node that gives err, of block 7.
type reverting struct {
	chain.Node
	err error
}

func (r reverting) Estimate(_ context.Context, c chain.Call) (uint64, error) {
	if c.At != 7 {
		return 0, &chain.RevertError{Reason: "of another block"}
	}
	return 0, r.err
}

// TestReason gives the first reason that a node has, as text.
func TestReason(t *testing.T) {
	long := strings.Repeat("x", 300)
	for want, errs := range map[string][]error{
		"":            {errDown, chain.ErrReverted, &chain.RevertError{}},
		" is ~ ?not?": {errDown, &chain.RevertError{}, &chain.RevertError{Reason: " is ~ \x1fnot\x7f"}, &chain.RevertError{Reason: "later"}},
		long[:200]:    {&chain.RevertError{Reason: long}},
	} {
		var all chain.Nodes
		for _, err := range errs {
			all = append(all, reverting{err: err})
			if _, is := errors.AsType[*chain.RevertError](err); is && (!errors.Is(err, chain.ErrReverted) || errors.Is(err, chain.ErrListed)) {
				t.Errorf("%v is not a revert alone", err)
			}
		}
		if got := all.Reason(t.Context(), chain.Call{}, 7); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestYielding: the longest wait of a context's calls counts.
func TestYielding(t *testing.T) {
	ctx, longest := chain.Yielding(t.Context())
	for _, d := range []time.Duration{3, 5, 4} {
		chain.Waited(ctx, d)
		chain.Waited(t.Context(), 9)
	}
	if longest() != 5 || !chain.Yields(ctx) || chain.Yields(t.Context()) {
		t.Errorf("%d, yields: %t and %t", longest(), chain.Yields(ctx), chain.Yields(t.Context()))
	}
}

// TestTransactionsUntil: nodes agree on what they give up to a block, whether they checked its signature or not.
func TestTransactionsUntil(t *testing.T) {
	tx := chain.MinedTx{Hash: chain.Hash{1}, Block: 7, Signed: true}
	unchecked, later := tx, chain.MinedTx{Hash: chain.Hash{2}, Block: 8}
	unchecked.Signed = false
	both := nodes(&stub{name: "a", txs: []chain.MinedTx{tx, later}}, &stub{name: "b", txs: []chain.MinedTx{unchecked}})
	if got, err := both.TransactionsUntil(t.Context(), nil, 7); err != nil || len(got) != 1 || got[0] != unchecked {
		t.Errorf("%v, %v", got, err)
	}
	if views, err := nodes(&stub{name: "a"}, &stub{name: "b", down: true}).AllViews(t.Context(), nobody, nobody, latest); !errors.Is(err,
		chain.ErrUnavailable) || len(views) != 1 {
		t.Errorf("views of all: %d, %v", len(views), err)
	}
}

var (
	errDown = errors.New("connection refused")
	nobody  token.Address          // of whom a node is asked
	latest  chain.ConfirmationRule // whose blocks are final at once
)

type stub struct {
	name     string
	down     bool
	half     bool // receipts come with an error
	reverts  bool
	listed   bool
	gas      uint64
	greed    uint64 // its tip by its other prices; 9: none
	account  chain.Account
	receipts []chain.Receipt
	blocks   map[uint64]chain.Hash
	atNonce  chain.Hash
	settled  uint64                 // the count at the final block
	replies  map[string]chain.Reply // by the raw bytes; all others are accepted
	generous bool                   // it gives receipts that nobody asked for
	numbers  []uint64               // of the blocks whose hashes it was asked for
	sent     []string

	transfers []chain.LoggedTransfer
	txs       []chain.MinedTx
	lost      int // requests for transactions, or block hashes, that get no answer

	takes func(request int) time.Duration // for fees, estimates, accounts and bytes; request: from 1 on
	asked int64                           // such requests
	deaf  bool                            // it takes so long whatever the caller's time
}

func (s *stub) String() string { return s.name }

func (s *stub) err() error {
	if s.down {
		return errDown
	}
	return nil
}

// wait waits for the answer to a request, for ten seconds at most, as ethrpc does.
func (s *stub) wait(ctx context.Context) error {
	if s.takes == nil {
		return s.err()
	}
	if s.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case <-time.After(s.takes(int(atomic.AddInt64(&s.asked, 1)))):
		return s.err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stub) Fees(ctx context.Context) (chain.Market, error) {
	err := s.wait(ctx)
	price := token.Units(s.gas)
	return chain.Market{BaseFee: price, Tip: price.ScaleUp(max(s.greed, 1)%9, 1), L1Fee: price}, err
}

func (s *stub) Estimate(ctx context.Context, _ chain.Call) (uint64, error) {
	switch err := s.wait(ctx); {
	case err != nil:
		return 0, err
	case s.listed:
		return 0, chain.ErrListed
	case s.reverts:
		return 0, chain.ErrReverted
	}
	return s.gas, nil
}

func (s *stub) Head(context.Context, chain.ConfirmationRule) (chain.Head, error) {
	return s.account.Head, s.err()
}

func (s *stub) Account(ctx context.Context, _, _ token.Address, head chain.Head) (chain.Account, error) {
	err := s.wait(ctx)
	if head != s.account.Head {
		return chain.Account{}, errors.New("asked at another node's head")
	}
	return s.account, err
}

func (s *stub) Receipts(_ context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	var found []chain.Receipt
	for _, r := range s.receipts {
		if s.generous || slices.Contains(hashes, r.Tx) {
			found = append(found, r)
		}
	}
	if s.half {
		return found, errors.New("one element failed")
	}
	return found, s.err()
}

func (s *stub) BlockHashes(_ context.Context, numbers []uint64) ([]chain.Hash, error) {
	s.numbers = append(s.numbers, numbers...)
	if s.lost > 0 {
		s.lost--
		return nil, errDown
	}
	if s.down {
		return nil, errDown
	}
	hashes := make([]chain.Hash, len(numbers))
	for i, n := range numbers {
		hashes[i] = s.blocks[n]
	}
	return hashes, nil
}

// BlockTime gives two blocks of a second: 10 for the blocks 0 and 1, 11 for the next.
func (s *stub) BlockTime(_ context.Context, number uint64) (time.Time, error) {
	return time.Unix(10+int64(number+s.gas)/2, 0).UTC(), s.err()
}

func (s *stub) Count(_ context.Context, _ token.Address, block uint64) (uint64, error) {
	if block != s.account.Final {
		return 0, errors.New("asked for a block that the node does not call final")
	}
	return s.settled, s.err()
}

func (s *stub) TxAtNonce(_ context.Context, _ token.Address, _, final uint64) (chain.Hash, error) {
	if final != s.account.Final {
		return chain.Hash{}, errors.New("asked with another node's final block")
	}
	return s.atNonce, s.err()
}

func (s *stub) Transfers(context.Context, token.Address, []token.Address, uint64, uint64) ([]chain.LoggedTransfer, error) {
	return s.transfers, s.err()
}

func (s *stub) Transactions(context.Context, []chain.Hash) ([]chain.MinedTx, error) {
	if s.lost > 0 {
		s.lost--
		return nil, errDown
	}
	return s.txs, s.err()
}

func (s *stub) Send(ctx context.Context, raw []byte) chain.Reply {
	s.sent = append(s.sent, string(raw))
	if err := s.wait(ctx); err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error()}
	}
	if r, ok := s.replies[string(raw)]; ok {
		return r
	}
	return chain.Reply{Class: chain.Accepted}
}

func nodes(stubs ...*stub) chain.Nodes {
	all := make(chain.Nodes, len(stubs))
	for i, s := range stubs {
		s.name = string(rune('a' + i))
		all[i] = s
	}
	return all
}
