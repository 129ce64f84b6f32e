package chain

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Deliver sends stored bytes to every node and returns the best reply, because the network can mine bytes that one node
// holds. Once a node holds them, Deliver waits at most the duration patience for the others. If a node lacks the
// nonce's predecessors, Deliver sends them in nonce order, and then the bytes again. The func before fetches them, at
// most once per node; if nil, none is sent.
func (n Nodes) Deliver(ctx context.Context, raw []byte, before func(context.Context) ([][]byte, error)) Reply {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		of int
		Reply
	}
	answers, missing, ranked := make(chan answer, len(n)), slices.Clone(n), Classes()
	for i, closed := range n.closed() {
		if !closed {
			answers <- answer{i, Reply{Class: Ambiguous, Detail: ErrOpen.Error()}}
			continue
		}
		go func() {
			r := deliver(ctx, n[i], raw, before)
			if r.Class != Ambiguous {
				breakerOf(n[i]).note(nil)
			}
			answers <- answer{i, r}
		}()
	}
	var best Reply
	counts := map[Class]int{}
	var late <-chan time.Time
	for count := range n {
		select {
		case r := <-answers:
			missing[r.of] = nil
			if counts[r.Class]++; len(n) > 2 && n.Suffice(counts[r.Class]) {
				best.Most = r.Class
			}
			if count == 0 || slices.Index(ranked, r.Class) < slices.Index(ranked, best.Class) {
				r.Reply.Most = best.Most
				best = r.Reply
			}
			if late == nil && best.Class.Held() {
				late = n.late(patience)
			}
		case <-late:
			for _, node := range missing {
				if n.Suffice(count - counts[Ambiguous]) { // of three or more, one fast node makes no other late
					breakerOf(node).note(errLate)
				}
			}
			return best
		}
	}
	return best
}

// Send sends stored bytes to one node. It returns Ambiguous, unsent, if the node's circuit breaker
// is open and another node's is closed. An ambiguous reply counts against the node.
func (n Nodes) Send(ctx context.Context, to Node, raw []byte) Reply {
	b := breakerOf(to)
	if b.open() && slices.ContainsFunc(n, func(other Node) bool { return !breakerOf(other).open() }) {
		return Reply{Class: Ambiguous, Detail: ErrOpen.Error()}
	}
	if len(n) > 2 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	reply := to.Send(ctx, raw)
	switch {
	case reply.Unasked:
	case reply.Class == Ambiguous:
		b.note(cmp.Or(ctx.Err(), ErrUnavailable))
	default:
		b.note(nil)
	}
	return reply
}

func deliver(ctx context.Context, node Node, raw []byte, before func(context.Context) ([][]byte, error)) Reply {
	reply := node.Send(ctx, raw)
	if reply.Class != Gap || before == nil {
		return reply
	}
	predecessors, err := before(ctx)
	if err != nil {
		return reply // still missing: the next check-receipts run sends them
	}
	for _, p := range predecessors {
		node.Send(ctx, p) // its reply decides nothing: the bytes stay stored
	}
	return node.Send(ctx, raw)
}
