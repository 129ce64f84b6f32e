package ethrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

func addressCall(method string, account token.Address) []byte {
	return slices.Concat(token.Selector(method), make([]byte, 12), account[:])
}

// Head implements chain.Node.
func (n *Node) Head(ctx context.Context, rule chain.ConfirmationRule) (chain.Head, error) {
	var number count
	var tagged *header
	calls := []query{call("eth_blockNumber", &number)}
	if rule.Tag != "" {
		calls = append(calls, call("eth_getBlockByNumber", &tagged, rule.Tag, false))
	}
	calls, err := n.batch(ctx, calls...)
	if err == nil {
		if tag := &calls[len(calls)-1]; rule.Tag != "" && (tag.Error != nil || tagged == nil) {
			n.warn(ctx, "node has no final block: payments wait", "tag", rule.Tag, "err", tag.Error)
			if unknownBlock(tag.Error) {
				tag.Error = nil
			}
		}
		err = firstError(calls)
	}
	if err != nil {
		return chain.Head{}, fmt.Errorf("reading the head: %w", err)
	}
	return chain.Head{Number: uint64(number), Final: finalBlock(rule, uint64(number), tagged)}, nil
}

// Account implements chain.Node. It queries count and balances at the head's number, since a server
// may make the calls of a batch in any order (JSON-RPC 2.0 section 6), and Erigon makes some at
// once. If a node does not know "pending", its pool counts as empty.
func (n *Node) Account(ctx context.Context, wallet, contract token.Address, head chain.Head) (chain.Account, error) {
	var mined, pending count
	var gas quantity
	var held hexutil.Bytes
	at := hexOf(head.Number)
	if head == (chain.Head{}) {
		at = "latest"
	}
	calls := []query{
		call("eth_getTransactionCount", &pending, wallet.String(), "pending"),
		call("eth_getTransactionCount", &mined, wallet.String(), at),
		call("eth_call", &held, callObject{To: contract.String(), Data: addressCall("balanceOf(address)", wallet)}, at),
	}
	if !n.config.Gas.NoEther {
		calls = append(calls, call("eth_getBalance", &gas, wallet.String(), at))
	}
	calls, err := n.batch(ctx, calls...)
	if err == nil {
		if _, refused := errors.AsType[*Rejection](calls[0].Error); refused {
			calls[0].Error = nil
		}
		err = firstError(calls)
	}
	if err == nil && len(held) != 32 {
		err = fmt.Errorf("eth_call: %w: balanceOf returned %d bytes: no token at %v", errAnswer, len(held), contract)
	}
	account := chain.Account{Head: head, Mined: uint64(mined), Pending: uint64(max(mined, pending)), Gas: gas.Amount}
	if err == nil {
		account.Balance, err = token.AmountFromBytes(held)
	}
	if err != nil {
		return chain.Account{}, fmt.Errorf("reading account %v: %w", wallet, err)
	}
	return account, nil
}

// Count implements chain.Node.
func (n *Node) Count(ctx context.Context, wallet token.Address, block uint64) (uint64, error) {
	var mined count
	if err := n.each(ctx, call("eth_getTransactionCount", &mined, wallet.String(), hexOf(block))); err != nil {
		return 0, fmt.Errorf("counting the transactions of %v at block %d: %w", wallet, block, err)
	}
	return uint64(mined), nil
}

// finalBlock returns the highest final block, or zero for none: the genesis block holds no transactions.
func finalBlock(rule chain.ConfirmationRule, head uint64, tagged *header) uint64 {
	switch {
	case rule.Tag == "":
		return head - min(rule.Depth, head)
	case tagged == nil || tagged.Number == nil:
		return 0
	}
	return min(uint64(*tagged.Number), head)
}

// unknownBlock reports whether err means that the chain has no safe or finalized block yet: geth
// sends "finalized block not found", and code -39001 of the execution APIs is "Unknown block".
func unknownBlock(err error) bool {
	rejection, ok := errors.AsType[*Rejection](err)
	return ok && (rejection.Code == -39001 || strings.Contains(strings.ToLower(rejection.Words), "block not found"))
}
