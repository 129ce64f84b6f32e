package ethrpc

import "remit/internal/chain"

// replies are the words by which nodes refuse eth_sendRawTransaction, in lower
// case and in the order to look for them: a rule whose words contain another's
// comes before it. They are looked for anywhere, since clients put prefixes
// before them and balances, nonces and limits behind. Codes say less: geth
// answers nearly everything with -32000. What matches none is
// chain.Ambiguous. replies_test.go has the clients' own texts.
var replies = []struct {
	words string
	class chain.Class
}{
	// It says the opposite of "known transaction", which it contains.
	{"unknown transaction", chain.Ambiguous},

	{"already known", chain.Known},
	{"alreadyknown", chain.Known},
	{"known transaction", chain.Known},
	{"transaction already imported", chain.Known},
	{"ownnoncealreadyused", chain.Known},

	// Before "transaction underpriced", which the first contains.
	{"replacement transaction underpriced", chain.Replacement},
	{"future transaction tries to replace pending", chain.Replacement},
	{"replacementnotallowed", chain.Replacement},

	// Before "nonce too high": geth refuses a gapped nonce of a delegated
	// account in these words.
	{"gapped-nonce", chain.Gap},
	{"noncegap", chain.Gap},
	{"nonce too high", chain.Gap},
	{"too distant from current sender nonce", chain.Gap},
	{"nonce too far in", chain.Gap},

	{"nonce too low", chain.NonceTooLow},
	{"nonce is too low", chain.NonceTooLow},
	{"oldnonce", chain.NonceTooLow},
	// Old Arbitrum says so of a nonce too low and of one too high.
	{"invalid transaction nonce", chain.NonceTooLow},

	{"insufficient funds", chain.Funds},
	{"insufficientfunds", chain.Funds},
	{"upfront cost exceeds account balance", chain.Funds},
	{"not enough funds for gas", chain.Funds},

	{"transaction underpriced", chain.FeeTooLow},
	{"max fee per gas less than block base fee", chain.FeeTooLow},
	{"feetoolow", chain.FeeTooLow},
	{"gas price below", chain.FeeTooLow},

	{"txpool is full", chain.Full},
	{"account limit exceeded", chain.Full},
	{"queue full", chain.Full},

	{"exceeds block gas limit", chain.Wrong},
	{"intrinsic gas too low", chain.Wrong},
	{"invalid sender", chain.Wrong},
	{"invalid chain id", chain.Wrong},
	{"oversized data", chain.Wrong},
}
