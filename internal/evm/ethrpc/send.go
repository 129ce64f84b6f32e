package ethrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto/keccak"

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
	if want := hashOf(raw); hash != want {
		return chain.Reply{Class: chain.Ambiguous, Detail: fmt.Sprintf("node accepted %v for %v", hash, want)}
	}
	return chain.Reply{Class: chain.Accepted, Detail: hash.String()}
}

// hashOf returns the hash of a signed typed transaction, EIP-2718.
func hashOf(raw []byte) (hash chain.Hash) {
	k := keccak.NewLegacyKeccak256()
	k.Write(raw)
	k.Sum(hash[:0])
	return hash
}
