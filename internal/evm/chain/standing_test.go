package chain_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// TestStanding counts nodes' answers about block 5, which was final: 0x05 on the chain that is
// known, 0xf5 on another.
func TestStanding(t *testing.T) {
	known := chain.Block{Number: 5, Hash: chain.Hash{5}}
	node := func(number, final uint64, chainOf byte) *stub {
		s := &stub{account: chain.Account{Head: chain.Head{Number: number, Final: final}}, blocks: map[uint64]chain.Hash{}}
		for n := range number + 1 {
			s.blocks[n] = chain.Hash{byte(n) | chainOf}
		}
		return s
	}
	ours := func(final uint64) *stub { return node(9, final, 0) }
	other, below, down := node(9, 9, 0xf0), node(4, 2, 0xf0), &stub{down: true}
	pruned, atHeight := node(9, 9, 0), node(5, 2, 0)
	delete(pruned.blocks, 5)
	delete(atHeight.blocks, 5)
	for _, test := range []struct {
		of    chain.Block
		nodes []*stub
		want  chain.Standing
	}{
		{known, []*stub{ours(7)}, chain.Standing{Have: 1, Newest: chain.Block{Number: 7, Hash: chain.Hash{7}}}},
		{known, []*stub{ours(4)}, chain.Standing{Have: 1, Newest: known}},
		{known, []*stub{other}, chain.Standing{Other: 1, Newest: known}},
		{known, []*stub{below, down}, chain.Standing{Lack: 1, Newest: known}},
		{known, []*stub{atHeight, down}, chain.Standing{Newest: known}},
		{known, []*stub{pruned}, chain.Standing{Newest: known}},
		{known, []*stub{pruned, down}, chain.Standing{Newest: known}},
		{known, []*stub{ours(7), other}, chain.Standing{Have: 1, Other: 1, Newest: known}},
		{known, []*stub{ours(7), ours(6)}, chain.Standing{Have: 2, Newest: chain.Block{Number: 6, Hash: chain.Hash{6}}}},
		{known, []*stub{ours(7), down}, chain.Standing{Have: 1, Newest: known}},
		{known, []*stub{ours(7), other, ours(8)}, chain.Standing{Have: 2, Other: 1, Newest: known}},
		{known, []*stub{ours(7), other, ours(7)}, chain.Standing{Have: 2, Other: 1, Newest: chain.Block{Number: 7, Hash: chain.Hash{7}}}},
		{chain.Block{}, []*stub{ours(7), other, ours(7)}, chain.Standing{Newest: chain.Block{Number: 7, Hash: chain.Hash{7}}}},
		{known, []*stub{down}, chain.Standing{Newest: known}},
		{chain.Block{}, []*stub{ours(7), node(9, 7, 0xf0)}, chain.Standing{}},
	} {
		t.Run(fmt.Sprint(len(test.nodes)), func(t *testing.T) {
			heads := nodes(test.nodes...).Heads(t.Context(), chain.ConfirmationRule{})
			if got := heads.Standing(t.Context(), test.of); got != test.want {
				t.Errorf("of %v: %+v, want %+v", test.of, got, test.want)
			}
			if _, ok := heads.Silent(); ok != slices.ContainsFunc(test.nodes, func(s *stub) bool { return !s.down }) {
				t.Errorf("somebody answered: %t", ok)
			}
		})
	}
}
