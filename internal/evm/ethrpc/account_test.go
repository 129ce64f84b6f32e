package ethrpc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// ten is the head at which accounts are read, with 3 mined, 5 pending, 7 USDC
// and 2^70 wei.
func ten() map[string]func(request) raw {
	return map[string]func(request) raw{
		"eth_blockNumber": always(result(`"0xa"`)),
		"eth_getTransactionCount": func(r request) raw {
			if r.arg(1) == "pending" {
				return result(`"0x5"`)
			}
			return result(`"0x3"`)
		},
		"eth_call":       always(result(`"0x` + strings.Repeat("0", 58) + `6acfc0"`)),
		"eth_getBalance": always(result(`"0x400000000000000000"`)),
	}
}

// TestReadsAnAccountAtOneBlock: all of it belongs to the head's block, though the
// chain goes on meanwhile and the node makes the calls of a batch in any order.
func TestReadsAnAccountAtOneBlock(t *testing.T) {
	answers := ten()
	asked := map[string]string{}
	for method, answer := range answers {
		answers[method] = func(r request) raw {
			if at := r.arg(1); method != "eth_blockNumber" && at != "pending" {
				asked[method] = at
			}
			return answer(r)
		}
	}
	s := serve(t, answers)
	node := open(t, s.URL)
	want := chain.Account{
		Head: chain.Head{Number: 10, Final: 8}, Mined: 3, Pending: 5, Balance: token.Units(7_000_000), Gas: token.Units(1<<35).ScaleUp(1<<35, 1),
	}
	head := must.Get(node.Head(t.Context(), chain.ConfirmationRule{Depth: 2}))(t)
	got := must.Get(node.Account(t.Context(), account, contract, head))(t)
	if diff := cmp.Diff(want, got, exact); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	reads := []string{"eth_getTransactionCount", "eth_getTransactionCount", "eth_call", "eth_getBalance"}
	if diff := cmp.Diff([][]string{{"eth_chainId", "eth_blockNumber"}, reads}, s.methods()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"eth_getTransactionCount": "0xa", "eth_call": "0xa", "eth_getBalance": "0xa"}, asked); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

// TestPendingMayBeUnknown: a node without the "pending" tag counts its pool as empty, and so does a
// node that answers "latest" with a block that it does not have yet.
func TestPendingMayBeUnknown(t *testing.T) {
	for name, answer := range map[string]raw{
		"refused":         failure("-32602", "invalid argument 1: hex string without 0x prefix"),
		"an older latest": result(`"0x2"`),
	} {
		answers := ten()
		count := answers["eth_getTransactionCount"]
		answers["eth_getTransactionCount"] = func(r request) raw {
			if r.arg(1) == "pending" {
				return answer
			}
			return count(r)
		}
		got, err := open(t, serve(t, answers).URL).Account(t.Context(), account, contract, chain.Head{Number: 10})
		if err != nil || got.Mined != 3 || got.Pending != 3 {
			t.Errorf("%s: %d mined, %d pending, %v; want 3 and 3", name, got.Mined, got.Pending, err)
		}
	}
}

func TestTellsWhichBlockIsFinal(t *testing.T) {
	block := func(number string) raw {
		return result(`{"number":"` + number + `","hash":"0x` + strings.Repeat("ab", 32) + `"}`)
	}
	for _, row := range []struct {
		name   string
		rule   chain.ConfirmationRule
		tagged raw
		want   uint64
	}{
		{"depth 0 is the head", chain.ConfirmationRule{}, "", 10},
		{"depth 4 is four blocks below it", chain.ConfirmationRule{Depth: 4}, "", 6},
		{"a depth of the whole chain leaves its first block", chain.ConfirmationRule{Depth: 10}, "", 0},
		{"a depth beyond the chain leaves nothing", chain.ConfirmationRule{Depth: 11}, "", 0},
		{"a huge depth does not wrap around", chain.ConfirmationRule{Depth: 1<<64 - 1}, "", 0},
		{"finalized is the node's word", chain.ConfirmationRule{Tag: "finalized"}, block("0x7"), 7},
		{"safe is too", chain.ConfirmationRule{Tag: "safe"}, block("0x9"), 9},
		{"a tag beyond the head is of another moment", chain.ConfirmationRule{Tag: "safe"}, block("0xb"), 10},
		{"no finalized block yet, by the specification", chain.ConfirmationRule{Tag: "finalized"}, result("null"), 0},
		{"no finalized block yet, geth", chain.ConfirmationRule{Tag: "finalized"}, failure("-39001", "finalized block not found"), 0},
		{"no safe block yet, older geth", chain.ConfirmationRule{Tag: "safe"}, failure("-32000", "safe block not found"), 0},
		{"no finalized block yet, Besu", chain.ConfirmationRule{Tag: "finalized"}, failure("-39001", "Unknown block"), 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			answers := ten()
			answers["eth_getBlockByNumber"] = func(r request) raw {
				if r.arg(0) != row.rule.Tag || string(r.Params[1]) != "false" {
					t.Errorf("asked for block %s", r.Params)
				}
				return row.tagged
			}
			got := must.Get(open(t, serve(t, answers).URL).Head(t.Context(), row.rule))(t)
			if got.Final != row.want {
				t.Errorf("final block %d, want %d", got.Final, row.want)
			}
		})
	}
}

func TestAnAccountIsReadWholeOrNotAtAll(t *testing.T) {
	for _, row := range []struct {
		name, method string
		answer       raw
	}{
		{"no head", "eth_blockNumber", failure("-32000", "out of memory")},
		{"no count", "eth_getTransactionCount", failure("-32000", "missing trie node")},
		{"a count beyond 64 bits", "eth_getTransactionCount", result(`"0x10000000000000000"`)},
		{"a count that is a number", "eth_getTransactionCount", result(`3`)},
		{"a count that is not hex", "eth_getTransactionCount", result(`"0xg"`)},
		{"a count of no digits", "eth_getTransactionCount", result(`"0x"`)},
		{"no balance", "eth_getBalance", failure("-32005", "limit exceeded")},
		{"a balance of null", "eth_getBalance", result(`null`)},
		{"a balance beyond 256 bits", "eth_getBalance", result(`"0x1` + strings.Repeat("0", 64) + `"`)},
		{"no contract at the token's address", "eth_call", result(`"0x"`)},
		{"a contract that returns something else", "eth_call", result(`"0x` + strings.Repeat("0", 128) + `"`)},
		{"an answer left out", "eth_getBalance", ""},
		{"no tag, for another reason than its absence", "eth_getBlockByNumber", failure("-32005", "limit exceeded")},
	} {
		t.Run(row.name, func(t *testing.T) {
			answers := ten()
			answers["eth_getBlockByNumber"] = always(result(`{"number":"0x9"}`))
			answers[row.method] = always(row.answer)
			node := open(t, serve(t, answers).URL)
			head, err := node.Head(t.Context(), chain.ConfirmationRule{Tag: "safe"})
			if err == nil {
				_, err = node.Account(t.Context(), account, contract, head)
			}
			if err == nil {
				t.Fatal("no error")
			}
		})
	}
}
