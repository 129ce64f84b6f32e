package ethrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// knownErrors are tokens' custom errors: of ERC-6093 for EIP-20, and of OpenZeppelin's Pausable.
var knownErrors = []string{
	"ERC20InsufficientBalance(address,uint256,uint256)", "ERC20InsufficientAllowance(address,uint256,uint256)",
	"ERC20InvalidSender(address)", "ERC20InvalidReceiver(address)", "ERC20InvalidSpender(address)", "EnforcedPause()",
}

// reason executes a call on the states before and after the block c.At: another transaction of the
// block may have paused the token. It returns a *chain.RevertError with the contract's reason.
func (n *Node) reason(ctx context.Context, c chain.Call) error {
	var returned hexutil.Bytes
	calls, err := n.batch(ctx, execution(c, &returned, hexOf(c.At-1)), execution(c, &returned, hexOf(c.At)))
	if err != nil {
		return fmt.Errorf("executing a call of %v again: %w", c.To, err)
	}
	for _, call := range calls {
		if rejection, ok := errors.AsType[*Rejection](call.Error); ok && rejection.reverted() {
			why := reasonOf(rejection.data)
			if len(rejection.data) == 0 {
				_, why, _ = strings.Cut(rejection.Words, "execution reverted: ")
			}
			return &chain.RevertError{Reason: n.secrets.hide(why)}
		}
	}
	return nil
}

// reasonOf describes the data with which a contract reverted: its text, a panic's code (Solidity,
// "Panic via assert and Error via require"), a custom error's name, or its selector.
func reasonOf(data []byte) string {
	if len(data) < 4 {
		return ""
	}
	selector, arguments := data[:4], data[4:]
	if i, ok := disburser.Index(data); ok {
		if inner, ok := abiBytes(arguments, 1); ok && len(inner) < len(data) {
			return strings.TrimSuffix(fmt.Sprintf("payment %d: %s", i, reasonOf(inner)), ": ")
		}
	}
	switch {
	case bytes.Equal(selector, token.Selector("Error(string)")):
		text, _ := abiBytes(arguments, 0)
		return string(text)
	case bytes.Equal(selector, token.Selector("Panic(uint256)")) && len(arguments) == 32:
		return fmt.Sprintf("panic 0x%x", arguments[31])
	}
	for _, signature := range knownErrors {
		if bytes.Equal(selector, token.Selector(signature)) {
			name, _, _ := strings.Cut(signature, "(")
			return name
		}
	}
	return fmt.Sprintf("error 0x%x", selector)
}

// abiBytes reads argument i of ABI-encoded arguments, bytes or a string: it is the offset of their length.
func abiBytes(arguments []byte, i int) ([]byte, bool) {
	at, _, ok := abiWord(arguments, 32*i)
	if !ok {
		return nil, false
	}
	size, rest, ok := abiWord(arguments, at)
	if !ok || size > len(rest) {
		return nil, false
	}
	return rest[:size], true
}

// abiWord reads the word at a place as a length of the arguments, with the bytes behind it.
func abiWord(arguments []byte, at int) (n int, rest []byte, ok bool) {
	if len(arguments)-at < 32 {
		return 0, nil, false
	}
	word, rest := arguments[at:at+32], arguments[at+32:]
	n = int(binary.BigEndian.Uint32(word[28:]))
	return n, rest, n <= len(arguments) && bytes.Equal(word[:28], make([]byte, 28))
}
