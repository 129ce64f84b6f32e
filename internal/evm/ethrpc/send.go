package ethrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// Send implements chain.Node. Every reply is chain.Ambiguous unless the node itself answered for these bytes: a
// gateway's HTTP error is ambiguous, and so is any answer before the node gave its chain id.
func (n *Node) Send(ctx context.Context, raw []byte) chain.Reply {
	var hash chain.Hash
	calls, err := n.batch(ctx, call("eth_sendRawTransaction", &hash, hexutil.Bytes(raw)))
	if err == nil {
		err = calls[0].Error
	}
	if rejection, ok := errors.AsType[*Rejection](err); ok && len(calls) > 0 {
		return chain.Reply{Class: classOf(rejection.Words, replies), Detail: rejection.Error()}
	}
	if err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error(), Unasked: errors.Is(err, chain.ErrBusy)}
	}
	if want := chain.Hash(crypto.Keccak256(raw)); hash != want { // of a typed transaction, EIP-2718
		return chain.Reply{Class: chain.Ambiguous, Detail: fmt.Sprintf("node accepted %v for %v", hash, want)}
	}
	return chain.Reply{Class: chain.Accepted, Detail: hash.String()}
}
