package ethrpc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// maxWords is the most bytes of a node's message in an error.
const maxWords = 300

// A Rejection is the JSON-RPC error with which a node answered one call.
type Rejection struct {
	Code  int    // JSON-RPC error code
	Words string // the node's message and textual data, cut to 300 bytes, without the URL's secrets
	data  []byte // the revert data; nil: unknown
}

func (r *Rejection) Error() string {
	return fmt.Sprintf("%v: %s (%d)", chain.ErrRejected, r.Words, r.Code)
}

// Is implements the interface of errors.Is: every Rejection is a chain.ErrRejected.
func (r *Rejection) Is(target error) bool { return target == chain.ErrRejected }

func isRejection(err error) bool {
	_, ok := errors.AsType[*Rejection](err)
	return ok
}

// rejection turns a call's error into a *Rejection if the node sent it.
func (n *Node) rejection(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*rpcError](err)
	if !ok {
		return n.secrets.clean(err)
	}
	words := answer.Error()
	if data, ok := answer.Data.(string); ok && data != "" {
		words += ": " + data
	}
	return &Rejection{Code: answer.Code, Words: n.secrets.cut(words), data: revertedWith(answer.Data)}
}

// revertedWith reads revert data: "0x…", {"data": "0x…"} of Hardhat, "Reverted 0x…" of Nethermind.
func revertedWith(data any) []byte {
	if object, ok := data.(map[string]any); ok {
		data = object["data"]
	}
	words, _ := data.(string)
	_, digits, _ := strings.Cut(words, "0x")
	b, _ := hex.DecodeString(digits) // nil is none
	return b
}

// unanswered returns a failed request's error without the URL's secrets: net/http and gateways quote it.
func (n *Node) unanswered(err error) error {
	if status, ok := errors.AsType[*httpError](err); ok {
		return fmt.Errorf("HTTP %d: %s", status.Status, n.secrets.cut(string(status.Body)))
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return n.secrets.clean(err)
}

// secrets are the parts of a node's URL that may be a provider's key, longest first.
type secrets []string

// secretsOf returns the parts of u, except scheme and host, that are long enough to be a key.
func secretsOf(u *url.URL) secrets {
	parts := []string{u.String(), u.RequestURI(), u.Path, u.EscapedPath(), u.RawQuery, u.Fragment}
	parts = append(parts, strings.Split(u.Path, "/")...)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	if password, ok := u.User.Password(); ok {
		parts = append(parts, password)
	}
	parts = append(parts, u.User.String(), u.User.Username())
	parts = slices.DeleteFunc(parts, func(p string) bool { return len(p) < 8 })
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	return parts
}

func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "…")
	}
	return text
}

func (s secrets) cut(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(s.hide(text), "?")), " ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}

// clean returns err, or only its text if that contains a secret.
func (s secrets) clean(err error) error {
	if text := err.Error(); s.hide(text) != text {
		return errors.New(s.cut(text))
	}
	return err
}

// A reply maps words with which nodes reject eth_sendRawTransaction, in lower case, to a class.
type reply struct {
	Words string
	Class chain.Class
}

// replies are in search order: words that contain another reply's words come first. They match anywhere in a node's
// message, since clients add prefixes, balances, nonces and limits. Codes say less: geth answers nearly everything
// with -32000. A message without a match is chain.Ambiguous. No reply may be chain.Wrong if any node sends it for
// bytes that another node would accept. testdata/replies.tsv has the clients' own messages.
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
