package token

// A Token is one stablecoin on one chain. It can have other decimals on another
// chain: USDC has 6 on Ethereum and 18 on BNB Chain.
type Token struct {
	Symbol   string  // "USDC"
	Decimals int     // digits after the decimal point, 0 to 36
	Contract Address // the ERC-20 contract
}
