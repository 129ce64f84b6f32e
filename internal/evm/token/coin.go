package token

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// A Token is a stablecoin on one chain; on another it can have other decimals: USDC 6 on Ethereum, 18 on BNB Chain.
type Token struct {
	Symbol   string  // "USDC"
	Decimals int     // digits after the decimal point, 0 to 36
	Contract Address // the ERC-20 contract
}

// A Coin is a token's contract on a chain. The zero Coin is none.
type Coin struct {
	ChainID  uint64
	Contract Address
}

// String returns the coin's CAIP-19 name, such as eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913, its
// address with the checksum.
func (c Coin) String() string {
	return "eip155:" + strconv.FormatUint(c.ChainID, 10) + "/erc20:" + c.Contract.String()
}

// ParseCoin reads a CAIP-19 name. The digits of the address may be in any case, and no checksum is asked for. All else
// is exact, so that one coin has one name but for these digits.
func ParseCoin(name string) (c Coin, ok bool) {
	chain, digits, _ := strings.Cut(strings.TrimPrefix(name, "eip155:"), "/erc20:0x")
	c.ChainID, _ = strconv.ParseUint(chain, 10, 64)
	if b, err := hex.DecodeString(digits); err == nil && len(b) == len(c.Contract) {
		c.Contract = Address(b)
	}
	return c, strings.EqualFold(c.String(), name) && strings.HasPrefix(name, "eip155:"+chain+"/erc20:0x")
}
