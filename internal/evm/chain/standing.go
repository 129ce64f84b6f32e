package chain

import (
	"cmp"
	"context"
	"slices"
)

// A Standing is what nodes make of a block that was final. A node that does not say
// counts for nothing.
type Standing struct {
	Have, Other, Lack int   // nodes that have it, have another in its place, and do not reach its height
	Newest            Block // that and all above it which most nodes call final
}

// Most reports whether so many nodes are more than half of those that are configured.
func (h Heads) Most(nodes int) bool { return h.Enough(nodes, 0) }

// Enough is Most of the nodes but silent ones. Where three or more are configured it takes two.
func (h Heads) Enough(nodes, silent int) bool { return enough(nodes, len(h.nodes), silent) }

// Standing asks the nodes that gave their heads for a block that was final, and for a
// newer one that more than half of the configured nodes, of those that have the first,
// call final: Newest, or the block itself where there is none. Of the zero Block
// it only finds the newest.
func (h Heads) Standing(ctx context.Context, of Block) Standing {
	s, next := Standing{Newest: of}, of.Number
	nodes, heads := h.answered()
	byFinal := slices.SortedFunc(slices.Values(heads), func(a, b Head) int { return cmp.Compare(b.Final, a.Final) })
	if most := len(h.nodes) / 2; len(heads) > most {
		next = max(next, byFinal[most].Final)
	}
	blocks, errs := all(ctx, nodes, func(_ int, node Node) ([]Hash, error) { return node.BlockHashes(ctx, []uint64{of.Number, next}) })
	agreed := map[Hash]int{}
	for i, hashes := range blocks {
		switch {
		case len(hashes) == 0:
			continue
		case of.Hash.IsZero():
		case hashes[0] == of.Hash:
			s.Have++
		case !hashes[0].IsZero():
			s.Other++
			continue
		default:
			if errs[i] == nil && heads[i].Number < of.Number {
				s.Lack++
			}
			continue
		}
		if newer := hashes[1]; !newer.IsZero() && next <= heads[i].Final {
			if agreed[newer]++; 2*agreed[newer] > len(h.nodes) {
				s.Newest = Block{next, newer}
			}
		}
	}
	return s
}
