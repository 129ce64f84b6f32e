package token_test

import (
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/token"
)

func TestParseCoin(t *testing.T) {
	const name = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	digits := strings.TrimPrefix(name, "eip155:8453/erc20:0x")
	for text, good := range map[string]bool{
		name: true, "eip155:8453/erc20:0x" + strings.ToLower(digits): true, "eip155:8453/erc20:0x" + strings.ToUpper(digits): true,
		strings.ToUpper(name): false, "eip155:8453/erc20:0X" + digits: false, "eip155:08453/erc20:0x" + digits: false,
		"EIP155:8453/erc20:0x" + digits: false, "eip155:8453/ERC20:0x" + digits: false, "8453/erc20:0x" + digits: false,
		"eip155:8453/erc20:0x" + digits[1:]: false, name + "0": false, " " + name: false, name + "\n": false, "": false,
		"eip155:18446744073709551616/erc20:0x" + digits: false, "eip155:eip155:8453/erc20:0x" + digits: false,
		"eip155:+8453/erc20:0x" + digits: false, "eip155:8453/erc20:0x" + strings.Repeat("g", 40): false,
	} {
		c, ok := token.ParseCoin(text)
		if ok != good || good && (c.String() != name || c.ChainID != 8453) {
			t.Errorf("%q: %v, %t; want %t", text, c, ok, good)
		}
	}
}
