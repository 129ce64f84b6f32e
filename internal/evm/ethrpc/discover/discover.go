// Package discover asks a node which chain it serves and how a token describes itself, for a stack
// that is configured with an address alone and for checks of a configuration.
package discover

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// Calls of EIP-20's optional methods: the first four bytes of keccak256("symbol()") and
// keccak256("decimals()").
const symbolCall, decimalsCall = "0x95d89b41", "0x313ce567"

// ErrToken reports a contract that does not describe itself as EIP-20 allows.
var ErrToken = errors.New("no such token")

// Token queries a node for its chain id and for the token contract's symbol and decimals. It
// returns ErrToken if the contract does not answer.
func Token(ctx context.Context, url string, contract token.Address) (chainID uint64, asset token.Token, err error) {
	node, err := ethrpc.Open(url, ethrpc.Config{ChainID: 1}) // any: Ask compares none
	if err != nil {
		return 0, token.Token{}, err
	}
	var answers [2][]byte // of the two calls
	var id string
	if err = node.Ask(ctx, "eth_chainId", &id); err == nil {
		chainID, err = strconv.ParseUint(strings.TrimPrefix(id, "0x"), 16, 64)
	}
	for i, method := range []string{symbolCall, decimalsCall} {
		var text string
		call := map[string]string{"to": contract.String(), "data": method}
		if err == nil {
			err = node.Ask(ctx, "eth_call", &text, call, "latest")
		}
		if err == nil {
			answers[i], err = hex.DecodeString(strings.TrimPrefix(text, "0x"))
		}
	}
	if err != nil {
		return 0, token.Token{}, fmt.Errorf("asking %s: %w", node, err)
	}
	name, ok := abiString(answers[0])
	decimals := answers[1]
	if !ok || len(decimals) != 32 || !bytes.Equal(decimals[:31], make([]byte, 31)) {
		return 0, token.Token{}, fmt.Errorf("%w: %s has no symbol and decimals on chain %d", ErrToken, contract, chainID)
	}
	return chainID, token.Token{Symbol: name, Decimals: int(decimals[31]), Contract: contract}, nil
}

// abiString reads an ABI-encoded string of at most 64 bytes: offset, length, bytes.
func abiString(b []byte) (string, bool) {
	if len(b) < 96 || b[31] != 32 || b[63] > 64 || len(b) < 64+int(b[63]) {
		return "", false
	}
	return string(b[64 : 64+int(b[63])]), true
}
