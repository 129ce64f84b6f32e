package chain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Estimate returns the gas that the call needs, or ErrUnavailable if no node could simulate it. Of one or two nodes,
// the first estimate or ErrListed counts. Of three or more, Estimate waits for two estimates that are alike, or for one
// that equals Within; if neither comes, believe chooses. Refusals (ErrReverted, ErrListed) need more than half, or one
// if no node gives an estimate: a refusal moves no money. A node's list may be some blocks old: lists change days after
// decrees anyway (docs/decisions/0012-screening.md).
//
// Estimate queries the next node when one answers badly or takes long. Once it has queried all and could decide, it
// waits at most the duration share for the others. One revert does not decide: a node that lags may not have seen the
// wallet's funds yet.
func (n Nodes) Estimate(ctx context.Context, call Call) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, unavailable([]error{err})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		of  int
		gas uint64
		err error
	}
	nodes := n.inOrder()
	e := estimates{of: n, within: call.Within, errs: make([]error, len(nodes))}
	answers, waiting := make(chan answer, len(nodes)), map[int]bool{}
	asked, late := 0, (<-chan time.Time)(nil)
	next := func() {
		if late = nodes.late(share); asked == len(nodes) || ctx.Err() != nil {
			return
		}
		i := asked
		if asked, waiting[i] = i+1, true; asked < len(nodes) {
			late = nodes.late(patience)
		}
		go func() {
			gas, err := timed(ctx, nodes[i], func() (uint64, error) { return nodes[i].Estimate(ctx, call) })
			answers <- answer{i, gas, err}
		}()
	}
	next()
	if len(n) > 2 && call.Within == 0 {
		next()
	}
	for slowest := 0; len(waiting) > 0; {
		select {
		case <-late:
			if asked < len(nodes) || len(e.said) == 0 && (len(n) <= 2 || !n.Suffice(e.refusals)) {
				next()
				continue
			}
			slowest = len(nodes)
		case a := <-answers:
			delete(waiting, a.of)
			breakerOf(nodes[a.of]).note(a.err)
			if !e.add(a.of, nodes[a.of], a.gas, a.err) {
				if a.err != nil || len(waiting) == 0 || asked == len(nodes) {
					next()
				}
				continue
			}
			slowest = a.of
		}
		for i := range waiting {
			if i < slowest { // slower nodes that were queried earlier
				breakerOf(nodes[i]).note(errLate)
			}
		}
		break
	}
	return e.result()
}

type estimates struct {
	of               Nodes // the configured ones
	within           uint64
	said             []uint64
	reverted, listed error
	refusals, list   int     // nodes with either error; those with ErrListed
	errs             []error // other errors, in the order of the nodes
}

// add adds an answer, and reports whether no other can change the result. Of three or more nodes, two estimates must be
// alike: a payment with too little gas fails, and still costs its fee.
func (e *estimates) add(of int, node Node, gas uint64, err error) bool {
	switch {
	case err == nil && (gas == e.within || len(e.of) <= 2):
		e.said = []uint64{gas}
		return true
	case err == nil:
		e.said = append(e.said, gas)
		return slices.ContainsFunc(e.said[:len(e.said)-1], func(other uint64) bool { return max(gas, other)/alike <= min(gas, other) })
	case errors.Is(err, ErrListed):
		e.listed, e.list, e.refusals = err, e.list+1, e.refusals+1
		if e.of.Suffice(e.list) {
			e.said, e.reverted = nil, nil
			return true
		}
	case errors.Is(err, ErrReverted):
		e.reverted, e.refusals = err, e.refusals+1
	default:
		e.errs[of] = asking(node, err)
	}
	return false
}

// result returns Estimate's results. An estimate goes before refusals, unless more than half of three or more nodes
// refuse; ErrReverted goes before ErrListed.
func (e *estimates) result() (uint64, error) {
	if outvoted := len(e.of) > 2 && e.of.Suffice(e.refusals); len(e.said) > 0 && !outvoted {
		return believe(len(e.of), e.said, func(a, b uint64) int { return cmp.Compare(b, a) }), nil
	}
	if err := cmp.Or(e.reverted, e.listed); err != nil {
		return 0, err
	}
	return 0, unavailable(e.errs)
}

// nonZero is the extra gas of a non-zero byte of call data (EIP-2028).
const nonZero = 12

// WorstCase estimates the gas of a transfer as if no byte of its call data were zero. The recipient must never have
// held the token. While the token and the chain stay as they are, a transfer needs at most that much unless the token
// treats its recipient differently. last is the previous result. Of two nodes, the higher prompt answer counts unless
// it is over twice last or, if last is zero, over twice the lower answer: then the lower counts.
func (n Nodes) WorstCase(ctx context.Context, transfer Call, last uint64) (uint64, error) {
	more := nonZero * uint64(bytes.Count(transfer.Data, []byte{0}))
	if len(n) != 2 {
		gas, err := n.Estimate(ctx, transfer)
		return gas + more, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gases, errs := gather(ctx, n, n.hurry(), patience, func(_ int, node Node) (uint64, error) { return node.Estimate(ctx, transfer) })
	for i, err := range errs {
		if err != nil {
			gases[i] = 0
		}
	}
	low, high := min(gases[0], gases[1]), max(gases[0], gases[1])
	if high/2 > cmp.Or(last, low, high) {
		high = low
	}
	if high == 0 {
		return 0, unavailable(errs)
	}
	return high + more, nil
}
