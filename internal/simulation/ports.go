package simulation

import (
	"context"
	"fmt"

	"remit/internal/chain"
	"remit/internal/interpose"
	"remit/internal/token"
	"remit/internal/wallet"
)

// around makes every call an effect.
func (d *desk) around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	_, err := effect(ctx, d, c.Op, c.Args, func(ctx context.Context) (struct{}, error) {
		apply(ctx)
		return struct{}{}, nil
	})
	return err
}

func at(id wallet.ID, nonce uint64) string { return fmt.Sprintf("%v#%d", short(id.Address), nonce) }

// short names an address in traces: fake ones differ in their last bytes.
func short(a token.Address) string { return fmt.Sprintf("%x", a[18:]) }

// rpc is a Node as handlers and runs reach it: every request is an effect.
type rpc struct {
	interpose.Node
	desk  *desk
	node  *Node
	judge *judge
}

func newRPC(d *desk, n *Node, j *judge) rpc {
	return rpc{interpose.Node{Node: n, Around: d.around}, d, n, j}
}

// Send implements chain.Node.
func (r rpc) Send(ctx context.Context, raw []byte) chain.Reply {
	tx, _ := decode(raw)
	args := fmt.Sprint(r.node.name, " ", at(wallet.ID{Address: tx.From}, tx.Nonce), " ", tx.Fees.Cap)
	answer, err := effect(ctx, r.desk, "Send", args, func(ctx context.Context) (chain.Reply, error) {
		r.judge.sending(tx.sign().Hash)
		reply := r.node.Send(ctx, raw)
		if reply.Class == chain.Wrong {
			r.judge.refused(r.node.name, tx.sign().Hash)
		}
		return reply, nil
	})
	if err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error()}
	}
	return answer
}
