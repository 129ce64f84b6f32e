package token

// A Token is one stablecoin on one chain. The same coin can have different
// decimals on different chains: USDC has 6 on Ethereum and 18 on BNB Chain.
type Token struct {
	Symbol   string  // "USDC"
	Decimals int     // digits after the point of one whole coin, 0 to 36
	Contract Address // the ERC-20 contract
}
