package ethrpc_test

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// A history is the blocks in which a wallet's nonces were used, ascending, as a
// node tells it: state before oldest is gone, and there is nothing past head.
type history struct {
	used         []uint64
	head, oldest uint64
}

// count is how many nonces are used at a block.
func (h history) count(block uint64) int {
	return sort.Search(len(h.used), func(i int) bool { return h.used[i] > block })
}

// hashOfNonce returns the hash of the transaction at a nonce of a history.
func hashOfNonce(nonce int) string { return fmt.Sprintf("0x%062x%02x", nonce, 0xaa) }

func (h history) answers() map[string]func(request) raw {
	return map[string]func(request) raw{
		"eth_blockNumber": always(result(fmt.Sprintf("%q", fmt.Sprintf("0x%x", h.head)))),
		"eth_getTransactionCount": func(r request) raw {
			block := numberOf(r.arg(1))
			switch {
			case block > h.head:
				return failure("-32000", "header not found")
			case block < h.oldest:
				return failure("-32000", "missing trie node 0x00 (path ) state 0x00 is not available")
			}
			return result(fmt.Sprintf(`"0x%x"`, h.count(block)))
		},
		"eth_getBlockByNumber": func(r request) raw {
			number := numberOf(r.arg(0))
			txs := []string{`{"hash":"0x` + strings.Repeat("77", 32) + `","from":"0x` + strings.Repeat("01", 20) + `","nonce":"0x0"}`}
			for nonce, block := range h.used {
				if block == number {
					txs = append(txs, fmt.Sprintf(`{"hash":%q,"from":"0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f","nonce":"0x%x"}`, hashOfNonce(nonce),
						nonce))
				}
			}
			return result(fmt.Sprintf(`{"number":%q,"hash":"0x%064x","transactions":[%s]}`, r.arg(0), number, strings.Join(txs, ",")))
		},
	}
}

func numberOf(hex string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 64)
	return n
}

func TestFindsTheTransactionAtANonce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{head: rapid.Uint64Range(1, 5_000_000).Draw(t, "head")}
		for range rapid.IntRange(0, 30).Draw(t, "transactions") {
			h.used = append(h.used, rapid.Uint64Range(1, h.head).Draw(t, "block"))
		}
		slices.Sort(h.used)
		h.oldest = rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, h.head)).Draw(t, "oldest state")
		final := rapid.Uint64Range(0, h.head).Draw(t, "final")
		nonce := rapid.IntRange(0, 31).Draw(t, "nonce")

		s := serve(t, h.answers())
		got, err := open(t, s.URL).TxAtNonce(t.Context(), account, uint64(nonce), final)

		isUsed := nonce < h.count(final)
		switch {
		case final < h.oldest:
			if err == nil {
				t.Fatalf("found %v without the state at the final block", got)
			}
		case !isUsed:
			if err != nil || !got.IsZero() {
				t.Fatalf("found %v, %v, want nothing: the nonce is not used", got, err)
			}
		case err == nil:
			if got.String() != hashOfNonce(nonce) {
				t.Fatalf("found %v, want %s", got, hashOfNonce(nonce))
			}
		case h.oldest == 0:
			t.Fatalf("%v, with all of the history at hand", err)
		}
		if n := len(s.methods()); n > 8 {
			t.Errorf("%d requests for %d blocks", n, h.head)
		}
	})
}

func TestNeedsOnlyRecentStateForARecentNonce(t *testing.T) {
	// geth keeps the state of the last 128 blocks (core/state/pruner).
	h := history{used: []uint64{100, 19_999_930, 19_999_950, 19_999_951}, head: 20_000_000, oldest: 20_000_000 - 127}
	s := serve(t, h.answers())
	got, err := open(t, s.URL).TxAtNonce(t.Context(), account, 2, 19_999_960)
	if err != nil || got.String() != hashOfNonce(2) {
		t.Errorf("TxAtNonce = %v, %v, want %s", got, err, hashOfNonce(2))
	}
	if n := len(s.methods()); n > 3 {
		t.Errorf("%d requests, want at most 3", n)
	}
	if got, err := open(t, s.URL).TxAtNonce(t.Context(), account, 0, 19_999_960); err == nil {
		t.Errorf("TxAtNonce of an old nonce = %v, want an error: the state is gone", got)
	}
}

func TestATxAtNonceIsProvenOrAnError(t *testing.T) {
	good := history{used: []uint64{10, 20, 30}, head: 100}
	block := `{"number":"0x14","hash":"` + hashOfNonce(9) + `","transactions":[%s]}`
	tx := `{"hash":"` + hashOfNonce(1) + `","from":"0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f","nonce":"0x1"}`
	for _, row := range []struct {
		name, method string
		answer       func(request) raw
	}{
		{"the node is behind the final block", "eth_blockNumber", always(result(`"0x31"`))},
		{"the node does not know its head", "eth_blockNumber", always(failure("-32000", "starting"))},
		{"no count at all", "eth_getTransactionCount", always(failure("-32000", "missing trie node"))},
		{"a count that falls", "eth_getTransactionCount", func(r request) raw {
			if numberOf(r.arg(1)) == 50 {
				return result(`"0x0"`)
			}
			return result(`"0x3"`)
		}},
		{"a nonce used in the first block", "eth_getTransactionCount", always(result(`"0x3"`))},
		{"no block", "eth_getBlockByNumber", always(result(`null`))},
		{"another block", "eth_getBlockByNumber", always(result(strings.Replace(fmt.Sprintf(block, tx), "0x14", "0x15", 1)))},
		{"a block refused", "eth_getBlockByNumber", always(failure("-32000", "pruned history unavailable"))},
		{"a block without the transaction", "eth_getBlockByNumber", always(result(fmt.Sprintf(block, "")))},
		{"a block with the nonce of another account", "eth_getBlockByNumber",
			always(result(fmt.Sprintf(block, strings.Replace(tx, "9d8a62", "010101", 1))))},
		{"a block with another nonce of the wallet", "eth_getBlockByNumber",
			always(result(fmt.Sprintf(block, strings.Replace(tx, `"0x1"`, `"0x2"`, 1))))},
		{"a block of hashes only", "eth_getBlockByNumber", always(result(fmt.Sprintf(block, `"`+hashOfNonce(1)+`"`)))},
	} {
		t.Run(row.name, func(t *testing.T) {
			answers := good.answers()
			answers[row.method] = row.answer
			if got, err := open(t, serve(t, answers).URL).TxAtNonce(t.Context(), account, 1, 50); err == nil {
				t.Errorf("TxAtNonce = %v, want an error", got)
			}
		})
	}
	got, err := open(t, serve(t, good.answers()).URL).TxAtNonce(t.Context(), account, 1, 50)
	if want := hashOfNonce(1); err != nil || got.String() != want {
		t.Errorf("TxAtNonce = %v, %v, want %s", got, err, want)
	}
	if got, err := open(t, serve(t, good.answers()).URL).TxAtNonce(t.Context(), account, 2, 29); err != nil || got != (chain.Hash{}) {
		t.Errorf("a block before the nonce is used: %v, %v, want none", got, err)
	}
}
