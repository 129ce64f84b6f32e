package chain

import (
	"cmp"
	"context"
	"slices"
)

// A Standing counts the nodes' answers about a block that was final, without missing answers.
type Standing struct {
	Have, Other, Lack int   // nodes that have it, have another block in its place, or are below its height
	Newest            Block // the newest block, on top of it or itself, that most nodes call final
}

// Most reports whether nodes is more than half of the configured nodes.
func (h Heads) Most(nodes int) bool { return h.Enough(nodes, 0) }

// Enough is Most without the silent nodes; of three or more configured nodes it needs at least two.
func (h Heads) Enough(nodes, silent int) bool { return enough(nodes, len(h.nodes), silent) }

// Standing asks every node that gave its head whether it has a block that was final. Newest is the newest block that
// more than half of the configured nodes call final on top of that block, or the block itself. For the zero Block,
// Standing only finds Newest.
func (h Heads) Standing(ctx context.Context, of Block) Standing {
	s, next := Standing{Newest: of}, of.Number
	views := h.answered()
	byFinal := slices.SortedFunc(slices.Values(views), func(a, b View) int { return cmp.Compare(b.Final, a.Final) })
	if most := len(h.nodes) / 2; len(views) > most {
		next = max(next, byFinal[most].Final)
	}
	numbers := slices.Compact([]uint64{of.Number, next})
	blocks, errs := all(ctx, views.nodes(), func(_ int, node Node) ([]Hash, error) { return node.BlockHashes(ctx, numbers) })
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
			if errs[i] == nil && views[i].Number < of.Number {
				s.Lack++
			}
			continue
		}
		if newer := hashes[len(hashes)-1]; !newer.IsZero() && next <= views[i].Final {
			if agreed[newer]++; 2*agreed[newer] > len(h.nodes) {
				s.Newest = Block{next, newer}
			}
		}
	}
	return s
}
