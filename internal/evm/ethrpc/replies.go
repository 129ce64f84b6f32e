package ethrpc

import (
	"strings"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// A reply maps words with which nodes reject eth_sendRawTransaction, in lower case, to a class.
type reply struct {
	Words string
	Class chain.Class
}

// replies are in search order: words that contain another reply's words come first. They match anywhere in a node's
// message, since clients add prefixes, balances, nonces and limits. Codes say less: geth answers nearly everything
// with -32000. A message without a match is chain.Ambiguous. No reply may be chain.Wrong if any node sends it for
// bytes that another node would accept. replies_test.go has the clients' own messages.
var replies = []reply{
	// The opposite of "known transaction", which it contains.
	{"unknown transaction", chain.Ambiguous},
	{"already known", chain.Known},
	{"alreadyknown", chain.Known},
	{"known transaction", chain.Known},
	{"transaction already imported", chain.Known},
	{"existing txn with same hash", chain.Known},
	{"ownnoncealreadyused", chain.Known},
	{"replacement transaction underpriced", chain.Replacement},
	{"future transaction tries to replace pending", chain.Replacement},
	{"replacementnotallowed", chain.Replacement},
	{"could not replace existing tx", chain.Replacement},
	{"there is another tx which has the same nonce", chain.Replacement},
	{"nonce too high", chain.Gap},
	{"noncegap", chain.Gap},
	{"too distant from current sender nonce", chain.Gap},
	{"nonce too far in", chain.Gap},
	{"invalid transaction with a lower nonce exists", chain.Gap},
	{"gapped-nonce", chain.Gap},
	{"delegation nonce gap", chain.Gap},
	{"nonce too low", chain.NonceTooLow},
	{"nonce is too low", chain.NonceTooLow},
	{"oldnonce", chain.NonceTooLow},
	// Arbitrum Classic sends this for a nonce too low and for one too high.
	{"invalid transaction nonce", chain.NonceTooLow},
	{"insufficient funds", chain.Funds},
	{"insufficientfunds", chain.Funds},
	{"insufficient balance for transfer", chain.Funds},
	{"would cause overdraft", chain.Funds},
	{"upfront cost exceeds account balance", chain.Funds},
	{"not enough funds for gas", chain.Funds},
	{"underpriced", chain.FeeTooLow},
	{"max fee per gas less than block base fee", chain.FeeTooLow},
	{"feetoolow", chain.FeeTooLow},
	{"fee too low", chain.FeeTooLow},
	{"gas price below", chain.FeeTooLow},
	{"gas price too low", chain.FeeTooLow},
	{"priority fee below minimum", chain.FeeTooLow},
	{"txpool is full", chain.Full},
	{"sub-pool is full", chain.Full},
	{"pending tx pool full", chain.Full},
	{"queue full", chain.Full},
	{"account limit exceeded", chain.Full},
	{"in-flight transaction limit reached", chain.Full},
	{"intrinsic gas too low", chain.GasTooLow},
	{"insufficient gas for floor data gas cost", chain.GasTooLow},
	{"exceeds block gas limit", chain.Wrong},
	{"invalid sender", chain.Wrong},
	{"invalid chain id", chain.Wrong},
	{"oversized data", chain.Wrong},
}

func classOf(words string, replies []reply) chain.Class {
	words = strings.ToLower(words)
	for _, r := range replies {
		if strings.Contains(words, r.Words) {
			return r.Class
		}
	}
	return chain.Ambiguous
}
