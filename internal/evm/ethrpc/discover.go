package ethrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Selectors of EIP-20's optional methods: the first four bytes of
// keccak256("symbol()") and keccak256("decimals()").
var (
	symbolCall   = [4]byte{0x95, 0xd8, 0x9b, 0x41}
	decimalsCall = [4]byte{0x31, 0x3c, 0xe5, 0x67}
)

// ErrToken reports a contract that does not describe itself as EIP-20 allows.
var ErrToken = errors.New("no such token")

// Discover queries a node for its chain id and for the token contract's symbol and decimals. It
// serves stacks that are configured with an address alone; a deployed stack is configured with all
// of these. It returns ErrToken if the contract does not answer.
func Discover(ctx context.Context, rawURL string, contract token.Address) (chainID uint64, asset token.Token, err error) {
	node, err := Open(rawURL, Config{ChainID: 1})
	if err != nil {
		return 0, token.Token{}, err
	}
	var id hexutil.Uint64
	var symbol, decimals hexutil.Bytes
	batch := []query{
		call("eth_chainId", &id),
		call("eth_call", &symbol, callObject{To: contract.String(), Data: symbolCall[:]}, "latest"),
		call("eth_call", &decimals, callObject{To: contract.String(), Data: decimalsCall[:]}, "latest"),
	}
	if err := node.exchange(ctx, batch); err != nil {
		return 0, token.Token{}, err
	}
	for _, elem := range batch {
		if elem.Error != nil {
			return 0, token.Token{}, fmt.Errorf("asking %s: %s: %w", node, elem.Method, elem.Error)
		}
	}
	name, ok := abiString(symbol)
	if !ok || len(decimals) != 32 || !bytes.Equal(decimals[:31], make([]byte, 31)) {
		return 0, token.Token{}, fmt.Errorf("%w: %s has no symbol and decimals on chain %d", ErrToken, contract, id)
	}
	return uint64(id), token.Token{Symbol: name, Decimals: int(decimals[31]), Contract: contract}, nil
}

// abiString reads an ABI-encoded string of at most 64 bytes: offset, length, bytes.
func abiString(b []byte) (string, bool) {
	if len(b) < 96 || b[31] != 32 || b[63] > 64 || len(b) < 64+int(b[63]) {
		return "", false
	}
	return string(b[64 : 64+int(b[63])]), true
}
