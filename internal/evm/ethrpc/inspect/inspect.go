// Package inspect reads contracts for commands and for the sandbox. No function of a deployed stack links it.
package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// ErrToken reports a contract that does not describe itself as EIP-20 allows.
var ErrToken = errors.New("no such token")

// Discover queries the node at a URL for its chain id, and for the token of a contract as Token does.
func Discover(ctx context.Context, url string, contract token.Address) (chainID uint64, asset token.Token, err error) {
	var node *ethrpc.Node
	if chainID, err = ethrpc.ChainOf(ctx, url); err == nil {
		node, err = ethrpc.Open(url, ethrpc.Config{ChainID: chainID})
	}
	if err == nil {
		asset, err = Token(ctx, node, contract)
	}
	return chainID, asset, err
}

// Token queries a node for a token's symbol and decimals, or ErrToken if the contract does not answer.
func Token(ctx context.Context, node *ethrpc.Node, contract token.Address) (token.Token, error) {
	symbol, symbolErr := read(ctx, node, contract, token.Selector("symbol()"))
	decimals, decimalsErr := read(ctx, node, contract, token.Selector("decimals()"))
	if err := cmp.Or(symbolErr, decimalsErr); err != nil {
		return token.Token{}, fmt.Errorf("asking %s: %w", node, err)
	}
	name, ok := abiString(symbol)
	if !ok || len(decimals) != 32 || !bytes.Equal(decimals[:31], make([]byte, 31)) {
		return token.Token{}, fmt.Errorf("%w: %s has no symbol or decimals", ErrToken, contract)
	}
	return token.Token{Symbol: name, Decimals: int(decimals[31]), Contract: contract}, nil
}

// abiString reads an ABI-encoded string of at most 64 bytes: offset, length, bytes.
func abiString(b []byte) (string, bool) {
	if len(b) < 96 || b[31] != 32 || b[63] > 64 || len(b) < 64+int(b[63]) {
		return "", false
	}
	return string(b[64 : 64+int(b[63])]), true
}

// Code returns the code of the contract at an address in the latest block, empty if there is none.
func Code(ctx context.Context, node *ethrpc.Node, at token.Address) ([]byte, error) {
	return ask(ctx, node, "eth_getCode", at.String())
}

// Screens returns nil if a list answers whether an address is on it, as payments ask it.
func Screens(ctx context.Context, node *ethrpc.Node, list token.Address) error {
	word, err := read(ctx, node, list, append(token.Selector("isSanctioned(address)"), make([]byte, 32)...))
	if err == nil && len(word) != 32 {
		err = fmt.Errorf("no list is there: it answers with %d bytes", len(word))
	}
	return err
}

// Allowance returns how many of owner's coins spender may move, in the latest block.
func Allowance(ctx context.Context, node *ethrpc.Node, contract, owner, spender token.Address) (token.Amount, error) {
	var twelve [12]byte // zeros before each address
	units, err := read(ctx, node, contract,
		slices.Concat(token.Selector("allowance(address,address)"), twelve[:], owner[:], twelve[:], spender[:]))
	if err == nil && len(units) != 32 {
		err = fmt.Errorf("%w: allowance returned %d bytes at %v", ErrToken, len(units), contract)
	}
	if err != nil {
		return token.Amount{}, fmt.Errorf("reading what %v may take of %v: %w", spender, owner, err)
	}
	return token.AmountFromBytes(units)
}

func read(ctx context.Context, node *ethrpc.Node, contract token.Address, data []byte) ([]byte, error) {
	return ask(ctx, node, "eth_call", map[string]string{"to": contract.String(), "data": fmt.Sprintf("0x%x", data)})
}

func ask(ctx context.Context, node *ethrpc.Node, method string, of any) ([]byte, error) {
	var digits string
	if err := node.Query(ctx, &digits, method, of, "latest"); err != nil {
		return nil, err
	}
	return hex.DecodeString(strings.TrimPrefix(digits, "0x"))
}
