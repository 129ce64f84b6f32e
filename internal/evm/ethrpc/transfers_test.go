package ethrpc_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// filter is the argument of eth_getLogs as a node reads it.
type filter struct {
	FromBlock, ToBlock, Address string
	Topics                      [][]string
}

func (f filter) blocks() (first, last uint64) {
	_, _ = fmt.Sscanf(f.FromBlock+" "+f.ToBlock, "0x%x 0x%x", &first, &last)
	return first, last
}

// logAt is the log of a transfer of one unit by account, the i-th of a block.
func logAt(block, i uint64) string {
	return fmt.Sprintf(`{"address":%q,"topics":["0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef","0x%024x%x","0x%064x"],`+
		`"data":"0x%064x","blockNumber":"0x%x","blockHash":"0x%064x","transactionHash":"0x%064x","logIndex":"0x%x","removed":false}`,
		contract, 0, account[:], 0xaa, 1, block, block, block<<8|i+1, i)
}

// TestReadsTransfersFromAnyNode has a row for each way to refuse a range of blocks. Each third block has two.
func TestReadsTransfersFromAnyNode(t *testing.T) {
	refusal := func(most uint64, code, words string) func(first, last uint64) raw {
		return func(first, last uint64) raw {
			if last-first >= most {
				return failure(code, words)
			}
			return ""
		}
	}
	for _, row := range []struct {
		name   string
		refuse func(first, last uint64) raw // "": the node answers
	}{
		{"any range", func(uint64, uint64) raw { return "" }},
		{"Infura's words", refusal(2_000, "-32602", "range 1000000 exceeds limit of 10000")},
		{"Alchemy's words", refusal(10, "-32600", "You can make eth_getLogs requests with up to a 10 block range")},
		{"one block at a time", refusal(1, "-32000", "no")},
		{"no more than 100 logs", refusal(150, "-32005", "query returned more than 100 results")},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, map[string]func(request) raw{"eth_getLogs": func(r request) raw {
				var f filter
				must.OK(t, json.Unmarshal(r.Params[0], &f))
				first, last := f.blocks()
				if refused := row.refuse(first, last); refused != "" {
					return refused
				}
				if f.Address != contract.String() || len(f.Topics) != 2 || len(f.Topics[1]) != 1 ||
					!strings.EqualFold(f.Topics[1][0][26:], account.String()[2:]) {
					t.Errorf("asked for %+v", f)
				}
				var logs []string
				for b := first; b <= last; b++ {
					if b%3 == 0 {
						nothing := strings.Replace(logAt(b, 2), fmt.Sprintf(`"data":"0x%064x"`, 1), fmt.Sprintf(`"data":"0x%064x"`, 0), 1)
						logs = append(logs, logAt(b, 0), logAt(b, 1), logAt(b, 0), nothing) // one of them twice
					}
				}
				rand.New(rand.NewPCG(1, first)).Shuffle(len(logs), func(i, j int) { logs[i], logs[j] = logs[j], logs[i] })
				return result("[" + strings.Join(logs, ",") + "]")
			}})
			got := must.Get(open(t, s.URL).Transfers(t.Context(), contract, []token.Address{account}, 1, 3_000))(t)
			none := must.Get(open(t, s.URL).Transfers(t.Context(), contract, nil, 1, 3_000))(t) // of no wallet
			if len(got) != 2_000 || len(none) > 0 {
				t.Fatalf("%d transfers, want 2000; %d of no wallet", len(got), len(none))
			}
			for i, transfer := range got {
				block, index := uint64(i/2*3+3), uint64(i%2)
				if transfer.Block != block || transfer.Index != index || transfer.Amount != token.Units(1) || transfer.From != account {
					t.Fatalf("transfer %d is %+v, want the transfer of block %d, log %d", i, transfer, block, index)
				}
			}
		})
	}
}

// A history is the blocks in which a wallet's nonces were used, ascending, as a
// node tells it: state before oldest is gone, and there is nothing past head.
type history struct {
	used         []uint64
	head, oldest uint64
}

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

// TestReadsTransactions in the order in which they were asked for.
func TestReadsTransactions(t *testing.T) {
	one, two := chain.Hash{1}, chain.Hash{2}
	s := serve(t, map[string]func(request) raw{"eth_getBlockByNumber": func(r request) raw {
		return result(fmt.Sprintf(`{"number":%q,"timestamp":%q}`, r.arg(0), r.arg(0)+"0"))
	}, "eth_getTransactionByHash": func(r request) raw {
		to, block := `"`+contract.String()+`"`, 5
		if r.arg(0) == two.String() {
			to, block = "null", 6
		}
		return result(fmt.Sprintf(`{"hash":%q,"from":%q,"to":%s,"nonce":"0x7","value":"0x10","input":"0xa905","blockNumber":"0x%d"}`,
			r.arg(0), account, to, block))
	}})
	created := chain.MinedTx{Hash: two, From: account, Nonce: 7, Value: token.Units(16), Data: "\xa9\x05", Block: 6,
		At: time.Unix(0x60, 0).UTC()}
	called := created
	called.Hash, called.To, called.Block, called.At = one, contract, 5, time.Unix(0x50, 0).UTC()
	got := must.Get(open(t, s.URL).Transactions(t.Context(), []chain.Hash{one, two}))(t)
	if diff := cmp.Diff([]chain.MinedTx{called, created}, got, exact); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestShowsSignatures: a transaction counts as signed if its sender's key has signed it for this chain.
func TestShowsSignatures(t *testing.T) {
	key := must.Get(crypto.GenerateKey())(t)
	from := crypto.PubkeyToAddress(key.PublicKey)
	for name, row := range map[string]struct {
		chain  uint64
		access types.AccessList
		change func(map[string]any)
		want   bool
	}{
		"by the key":           {chainID, nil, func(map[string]any) {}, true},
		"for another chain":    {chainID + 1, nil, func(map[string]any) {}, false},
		"of another sender":    {chainID, nil, func(tx map[string]any) { tx["from"] = account }, false},
		"at another nonce":     {chainID, nil, func(tx map[string]any) { tx["nonce"] = "0x6" }, false},
		"with an access list":  {chainID, types.AccessList{{}}, func(map[string]any) {}, false},
		"without a signature":  {chainID, nil, func(tx map[string]any) { delete(tx, "s") }, false},
		"of another type":      {chainID, nil, func(tx map[string]any) { tx["type"] = "0x0" }, false},
		"with a long parity":   {chainID, nil, func(tx map[string]any) { tx["v"] = "0x1b" }, false},
		"with an endless r":    {chainID, nil, func(tx map[string]any) { tx["r"] = "0x1" + strings.Repeat("0", 64) }, false},
		"creating a contract":  {chainID, nil, func(tx map[string]any) { tx["to"] = nil }, false},
		"without a fee":        {chainID, nil, func(tx map[string]any) { delete(tx, "maxFeePerGas") }, false},
		"moving another value": {chainID, nil, func(tx map[string]any) { tx["value"] = "0x1" }, false},
	} {
		to := common.Address(contract)
		id := new(big.Int).SetUint64(row.chain)
		tx := types.MustSignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{ChainID: id,
			Nonce: 5, GasTipCap: big.NewInt(1), GasFeeCap: big.NewInt(9), Gas: 60_000, To: &to, Data: []byte{1, 2}, AccessList: row.access})
		var fields map[string]any
		must.OK(t, json.Unmarshal(must.Get(tx.MarshalJSON())(t), &fields))
		fields["from"], fields["blockNumber"] = from, "0x5"
		row.change(fields)
		s := serve(t, map[string]func(request) raw{
			"eth_getTransactionByHash": func(request) raw { return result(string(must.Get(json.Marshal(fields))(t))) },
			"eth_getBlockByNumber":     func(request) raw { return result(`{"number":"0x5","timestamp":"0x1"}`) },
		})
		got, err := open(t, s.URL).Transactions(t.Context(), []chain.Hash{chain.Hash(tx.Hash())})
		if signed := err == nil && got[0].Signed; signed != row.want {
			t.Errorf("%s: signed: %t, %v", name, signed, err)
		}
	}
}

// recordedReceipt is the receipt of a USDC transfer on Base Sepolia, without the unread parts.
func recordedReceipt(tx chain.Hash) string {
	return `{"blockHash":"0x` + strings.Repeat("b1", 32) + `","blockNumber":"0x1e8480","contractAddress":null,"cumulativeGasUsed":"0x5208",` +
		`"effectiveGasPrice":"0xf4240","from":"0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f","gasUsed":"0xb4f2","l1Fee":"0x1","logs":[{` +
		`"address":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","blockHash":"0x` + strings.Repeat("b1", 32) + `","blockNumber":"0x1e8480",` +
		`"data":"0x00000000000000000000000000000000000000000000000000000000000f4240","logIndex":"0x2","removed":false,"topics":[` +
		`"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",` +
		`"0x0000000000000000000000009d8a62f656a8d1615c1294fd71e9cfb3e4855a4f",` +
		`"0x000000000000000000000000000000000000000000000000000000000000dead"],"transactionHash":"` + tx.String() +
		`","transactionIndex":"0x1"}],` +
		`"logsBloom":"0x00","status":"0x1","to":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","transactionHash":"` + tx.String() +
		`","transactionIndex":"0x1","type":"0x2"}`
}

func hashes(n int) []chain.Hash {
	all := make([]chain.Hash, n)
	for i := range all {
		all[i] = chain.Hash{byte(i >> 8), byte(i), 1}
	}
	return all
}

func TestReadsBlockHashesInOrder(t *testing.T) {
	s := serve(t, map[string]func(request) raw{"eth_getBlockByNumber": func(r request) raw {
		if r.arg(0) == "0x1388" || string(r.Params[1]) != "false" {
			return result("null")
		}
		return result(fmt.Sprintf(`{"number":%q,"hash":"0x%064s","transactions":["0x00"]}`, r.arg(0), r.arg(0)[2:]))
	}})
	got := must.Get(open(t, s.URL).BlockHashes(t.Context(), []uint64{300, 7, 5000, 255}))(t)
	want := []chain.Hash{{30: 0x01, 31: 0x2c}, {31: 7}, {}, {31: 0xff}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(s.methods()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestTokenGas: a chain without a coin is not asked for a balance of it, and its token's logs of fees are left out
// of receipts and of transfers. A chain whose coin is the token gives its balance to the wei.
func TestTokenGas(t *testing.T) {
	tx := hash(t, signedHash)
	answers := ten()
	answers["eth_getTransactionReceipt"] = always(result(recordedReceipt(tx)))
	answers["eth_getLogs"] = always(result("[" + logAt(1, 0) + "]"))
	for _, row := range []struct {
		name           string
		rule           chain.GasRule
		logs, balances int
	}{
		{"ether", chain.GasRule{}, 1, 1},
		{"the coin is a token", chain.GasRule{InToken: true, Account: token.Address{1}}, 1, 1},
		{"no coin", chain.GasRule{InToken: true, NoEther: true}, 1, 0},
		{"fees are logged", chain.GasRule{InToken: true, Account: token.Address{18: 0xde, 19: 0xad}}, 0, 1},
		{"fractions come from", chain.GasRule{InToken: true, Account: account}, 0, 1},
	} {
		s := serve(t, answers)
		node := must.Get(ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Gas: row.rule}))(t)
		got := must.Get(node.Account(t.Context(), account, contract, chain.Head{Number: 10}))(t)
		asked := 0
		for _, methods := range s.methods() {
			if slices.Contains(methods, "eth_getBalance") {
				asked++
			}
		}
		if asked != row.balances || got.Gas.IsZero() != (row.balances == 0) || got.Balance.IsZero() || got.Mined != 3 {
			t.Errorf("%s: %+v, asked for ether %d times", row.name, got, asked)
		}
		receipts := must.Get(node.Receipts(t.Context(), []chain.Hash{tx}))(t)
		if len(receipts) != 1 || len(receipts[0].Logs) != row.logs {
			t.Errorf("%s: %+v", row.name, receipts)
		}
	}
	s := serve(t, answers)
	node := must.Get(ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Gas: chain.GasRule{Account: token.Address{19: 0xaa}}}))(t)
	if moved, err := node.Transfers(t.Context(), contract, []token.Address{account}, 1, 1); err != nil || len(moved) > 0 {
		t.Errorf("%+v, %v", moved, err)
	}
}

func TestOneBadReceiptHidesNoOther(t *testing.T) {
	asked := hashes(5)
	s := serve(t, map[string]func(request) raw{"eth_getTransactionReceipt": func(r request) raw {
		tx, _ := chain.ParseHash(r.arg(0))
		text := recordedReceipt(tx)
		if tx == asked[2] {
			text = strings.Replace(text, `"status":"0x1"`, `"status":"0x2"`, 1)
		}
		return result(text)
	}})
	got, err := open(t, s.URL).Receipts(t.Context(), asked)
	if err == nil || len(got) != 4 || slices.ContainsFunc(got, func(r chain.Receipt) bool { return r.Tx == asked[2] }) {
		t.Fatalf("%d receipts, %v, want the 4 good ones and an error", len(got), err)
	}
	if first := got[0]; first.Tx != asked[0] || first.Block != 2_000_000 || first.Logs[0].Index != 2 ||
		first.BlockHash != hash(t, strings.Repeat("b1", 32)) {
		t.Errorf("%+v", first)
	}
}
