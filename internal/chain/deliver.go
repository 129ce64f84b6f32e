package chain

import "context"

// Deliver sends stored bytes to every node and returns the best reply: the
// network can mine the bytes that one node holds. To a node that misses predecessors it
// first sends those, in nonce order, then the bytes again. before fetches them
// and is called at most once per node that asks for them; nil when the nonce
// has none.
func (n Nodes) Deliver(ctx context.Context, raw []byte, before func(context.Context) ([][]byte, error)) Reply {
	replies, _ := all(n, func(_ int, node Node) (Reply, error) { return deliver(ctx, node, raw, before), nil })
	best := replies[0]
	for _, r := range replies[1:] {
		if ranks[r.Class] < ranks[best.Class] {
			best = r
		}
	}
	return best
}

func deliver(ctx context.Context, node Node, raw []byte, before func(context.Context) ([][]byte, error)) Reply {
	reply := node.Send(ctx, raw)
	if reply.Class != Gap {
		return reply
	}
	if before == nil {
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
